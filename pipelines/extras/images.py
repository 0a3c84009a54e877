"""The image downloader: PNG and JPEG pictures are fetched and stored beside the pages that show them.

noria cycle --set plugins.enabled=images
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from pipelines.plugins import Answer
from pipelines.rules.filters import Refusal
from pipelines.rules.links import Link

ENDINGS = (".png", ".jpg", ".jpeg")


class Images:
    """Admits what ends as a picture does, and reads img and srcset; other pictures stay out.

    Option `endings`: those that are wanted, with blanks between.
    """

    switches = ("images", "srcset")

    def __init__(self, options: Mapping[str, str]) -> None:
        self._endings = tuple(options.get("endings", " ".join(ENDINGS)).lower().split())

    def judge(self, url: str, said: Refusal | None, *, depth: int, meta: str | None) -> Refusal | None:
        """Overrule the one rule that keeps pictures out, and no other."""
        return None if said is not None and said.rule == "extension" and self._wanted(url) else said

    def extract(self, answer: Answer, links: list[Link]) -> Iterable[Link]:
        """Drop the pictures of other kinds: what tells a picture is the ending of its path."""
        return (link for link in links if link.kind not in ("img", "srcset") or self._wanted(link.url))

    def _wanted(self, url: str) -> bool:
        return urlsplit(url).path.lower().endswith(self._endings)
