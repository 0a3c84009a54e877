"""What a page says of itself to crawlers: X-Robots-Tag headers and meta robots."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pipelines.rules.dates import http_date_ms, w3c_date_ms

MAX_CHARS = 8_192
"""A value is read to here; what follows is not."""


class RobotsTags(NamedTuple):
    """What a page forbids: to be found in search, its links to be followed, its bytes to be kept.

    unavailable_after_ms: the epoch ms after which `noindex` holds as well, None if it names no date.
    """

    noindex: bool = False
    nofollow: bool = False
    noarchive: bool = False
    unavailable_after_ms: int | None = None


_MEANS = {
    "noindex": (True, False, False),
    "nofollow": (False, True, False),
    "noarchive": (False, False, True),
    "nocache": (False, False, True),
    "none": (True, True, False),
}
"""What a word forbids, as (noindex, nofollow, noarchive); every other word forbids nothing."""

_WITH_VALUE = {"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"}
_WORDS = re.compile(r"[a-z][a-z_-]*")
_PARTS = re.compile(r"[,;\r\n]")


def page_tags(values: Iterable[str], product: str) -> RobotsTags:
    """Return what header values and meta robots contents, taken together, forbid to `product`.

    Case and separators do not matter. A value that begins with `name:` holds for that product only, and in
    one header line until another name follows; the strictest of all words that concern us holds, so `all`
    and `index` lift nothing.

    >>> page_tags(["otherbot: none, noria: noarchive", "NoFollow"], "Noria")
    RobotsTags(noindex=False, nofollow=True, noarchive=True, unavailable_after_ms=None)
    """
    forbidden = [False, False, False]
    until: list[int] = []
    for value in values:
        for word, detail in _directives(value[:MAX_CHARS], product.strip().lower()):
            forbidden = [a or b for a, b in zip(forbidden, _MEANS.get(word, (False,) * 3), strict=True)]
            date_ms = _date_ms(detail) if word == "unavailable_after" else None
            until += [] if date_ms is None else [date_ms]
    noindex, nofollow, noarchive = forbidden
    return RobotsTags(noindex, nofollow, noarchive, min(until, default=None))


def _directives(value: str, product: str) -> Iterator[tuple[str, str]]:
    """Yield (word, detail) for what concerns `product`; agent names are those before a colon."""
    ours = True
    for part in _joined_dates(_PARTS.split(value)):
        name, colon, rest = part.partition(":")
        name = name.strip().lower()
        if colon and name not in _WITH_VALUE:
            ours = name in (product, "robots", "*")
            name, _, rest = (piece.strip() for piece in rest.lower().partition(":"))
            rest = part.partition(":")[2].partition(":")[2] if rest else ""
        if not ours:
            continue
        if name in _WITH_VALUE:
            yield name, rest
        else:
            yield from ((word, "") for word in _WORDS.findall(name))


def _joined_dates(parts: list[str]) -> Iterator[str]:
    """Put `unavailable_after: Friday, 25-Jun-10 …` together again, which the comma has parted."""
    held = ""
    for part in parts:
        if held:
            yield f"{held},{part}"
            held = ""
        elif re.search(r"unavailable_after\s*:\s*[a-z]+\s*$", part, re.IGNORECASE):
            held = part
        else:
            yield part
    if held:
        yield held


def _date_ms(text: str) -> int | None:
    date_ms = http_date_ms(text)
    return w3c_date_ms(text) if date_ms is None else date_ms
