"""The web monitor: which pages contain a given text?

    noria cycle --set plugins.enabled=monitor --set 'plugins.options={"monitor.text" = "noria"}'

Its finds are lines of JSON under reports/ in the lake, and counted in the cycle's ledger row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pipelines.plugins import Answer

AROUND = 60
"""Characters shown on each side of the text."""


class Monitor:
    """Reports pages that contain the text of the option `text`, whatever its case; several with | between.

    The page's own bytes are searched, as text and with its tags: what a reader sees may be cut up by them.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._texts = [text.strip().casefold() for text in options.get("text", "").split("|") if text.strip()]
        if not self._texts:
            raise ValueError("it needs the option monitor.text: what to look for")

    def page(self, answer: Answer) -> Iterator[str]:
        """Yield a line for each text that the page contains: the text, how often, and the first place."""
        page = answer.text()
        folded = page.casefold()
        for text in self._texts:
            if count := folded.count(text):
                at = folded.index(text)
                near = " ".join(page[max(at - AROUND, 0) : at + len(text) + AROUND].split())
                yield f"'{text}' {count} times, first: … {near} …"
