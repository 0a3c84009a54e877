"""The text of a robots.txt file: bytes made into lines, lines into groups (RFC 9309 section 2.2).

Protego reads what this module has prepared (DESIGN.md section 6 lists what it stumbles over). Nothing here
raises, whatever the bytes are, and nothing takes longer than the size limit allows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

MAX_BYTES = 512_000
"""RFC 9309 section 2.5: at least 500 kibibytes are read; what lies beyond is not."""

MAX_LINE_CHARS = 16_663
"""A line is cut here: eight times the longest URL that browsers of 2000 took, as Google's parser does."""

MAX_SITEMAPS = 1_000
"""More sitemap lines than this are not kept; the 4,230 real files that we know stay below."""

MAX_DELAY_MS = 10**12
"""A crawl-delay is cut here (about 32 years), so that no clock overflows; it is honoured, not judged."""


class Line(NamedTuple):
    """A line that means something: where it stands (1 = first), its field, its value, and how it was spelled."""

    number: int
    field: str
    value: str
    text: str


@dataclass(slots=True)
class Group:
    """What the file says to one product token.

    blocks, waits: rule lines, and pauses in ms, as lists that it shares with the tokens named beside it: a file
    that names thousands of tokens before thousands of rules costs the sum of both, not the product.
    """

    agent: str
    blocks: list[list[Line]] = field(default_factory=list)
    waits: list[list[int]] = field(default_factory=list)

    @property
    def rules(self) -> list[Line]:
        """The rule lines, in file order."""
        return [line for block in self.blocks for line in block]

    @property
    def delay_ms(self) -> int | None:
        """The longest pause that is asked for, None if none is."""
        return max((wait for shared in self.waits for wait in shared), default=None)


@dataclass(slots=True)
class Prepared:
    """A file's groups by lower-case product token, and its sitemap lines, each once and in order."""

    groups: dict[str, Group] = field(default_factory=dict)
    sitemaps: tuple[str, ...] = ()


_FIELDS = {
    "user-agent": "agent", "useragent": "agent", "user agent": "agent", "useg-agent": "agent",
    "allow": "allow",
    "disallow": "disallow", "dissallow": "disallow", "dissalow": "disallow", "disalow": "disallow",
    "diasllow": "disallow", "disallaw": "disallow", "desallow": "disallow",
    "crawl-delay": "delay", "crawl delay": "delay", "crawldelay": "delay",
    "request-rate": "rate", "request rate": "rate",
    "sitemap": "sitemap", "sitemaps": "sitemap", "site-map": "sitemap", "site map": "sitemap",
}  # fmt: skip
"""The spellings of a field that are understood; typos as found in the wild (after the lists of Google, Protego, crawler-commons)."""

_LINE_END = re.compile("\r\n|\n|\r")
_NAMES = "|".join(sorted(map(re.escape, _FIELDS), key=len, reverse=True))
_NO_COLON = re.compile(rf"({_NAMES})[ \t]+(.*)", re.IGNORECASE)
_BARE_SITEMAP = re.compile(r"https?://\S*sitemap\S*$", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]*>")
_RATE = re.compile(r"(\d{1,9})/(\d{1,9})([smhd]?)(?:\s|$)", re.IGNORECASE | re.ASCII)
_TOKEN = re.compile(r"[^\s/;,()<>]+")
_PRODUCT = re.compile(r"[A-Za-z_-]+").fullmatch
_BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
_BROKEN_BOMS = (b"\xef\xbb", b"\xef")
_SPACE = " \t\f\v\0\u00a0"


def decoded(body: bytes, max_bytes: int = MAX_BYTES) -> str:
    """Return the text of a robots.txt body, without its byte order mark and not longer than `max_bytes`.

    A body that is too long is cut at its last whole line. Octets that are not UTF-8 come back as lone
    surrogates (U+DC80 to U+DCFF), so that they spoil nothing but can still be compared; a UTF-16 mark is obeyed.
    """
    body = _cut(body, max_bytes)
    for mark, codec in _BOMS:
        if body.startswith(mark):
            errors = "surrogateescape" if codec == "utf-8" else "replace"
            return body[len(mark) :].decode(codec, errors)
    for mark in _BROKEN_BOMS:
        if body.startswith(mark) and body[len(mark) : len(mark) + 1].isalpha():
            body = body[len(mark) :]
    return body.decode("utf-8", "surrogateescape")


def _cut(body: bytes, max_bytes: int) -> bytes:
    if len(body) <= max_bytes:
        return body
    end = max(body.rfind(b"\n", 0, max_bytes), body.rfind(b"\r", 0, max_bytes))
    return body[: end + 1]


def read_lines(text: str) -> Iterator[Line]:
    """Yield the lines that carry a known field; comments, unknown fields and noise are passed over.

    Lines end with LF, CR or both, nothing else. A field may lack its colon (`disallow /x`), HTML tags around
    a line are taken off, and NUL counts as white space. Only the values of rules keep octets that are not UTF-8.
    """
    for number, raw in enumerate(_LINE_END.split(text), 1):
        line = raw[:MAX_LINE_CHARS]
        found = _read_line(line.partition("#")[0].strip(_SPACE))
        if found is not None:
            name, value = found
            value = value if name in ("allow", "disallow") else _printable(value)
            yield Line(number, name, value, _printable(line.strip(_SPACE)))


def _printable(text: str) -> str:
    """Return text that can be encoded: octets that were not UTF-8 become U+FFFD."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _read_line(line: str) -> tuple[str, str] | None:
    if not line:
        return None
    if line[-1] == ">" or line[0] == "<":
        line = _TAG.sub("", line).strip(_SPACE)
    name, colon, value = line.partition(":")
    known = _FIELDS.get(name.strip(_SPACE).lower())
    if colon and known:
        return known, value.strip(_SPACE)
    if _BARE_SITEMAP.match(line):
        return "sitemap", line
    spaced = _NO_COLON.fullmatch(line)
    return (_FIELDS[spaced[1].lower()], spaced[2].lstrip(": \t")) if spaced else None


def product_token(value: str) -> str:
    """Return the product token that a user-agent value or a User-Agent header begins with, in lower case.

    It ends at white space, a slash (the version) or other separators; "*" is itself, "" is no token.

    >>> product_token("FooBot/1.2 (+http://foo.example)")
    'foobot'
    """
    found = _TOKEN.match(value.strip(_SPACE))
    if found is None:
        return ""
    token = found[0].lower()
    return token if token == "*" else token.replace("*", "")


def is_product_token(text: str) -> bool:
    """Return whether `text` is a product token as RFC 9309 2.2.1 defines it: ASCII letters, `-` and `_`."""
    return _PRODUCT(text) is not None


def delay_ms(value: str) -> int | None:
    """Return a crawl-delay in whole milliseconds, rounded up; None for text, negative and endless values.

    >>> delay_ms("0.5"), delay_ms("-3"), delay_ms("nan"), delay_ms("ten")
    (500, None, None, None)
    """
    try:
        seconds = float(value.partition(" ")[0])
    except ValueError:
        return None
    if not math.isfinite(seconds) or seconds < 0:
        return None
    return min(math.ceil(round(seconds * 1000, 6)), MAX_DELAY_MS)


def rate_ms(value: str) -> int | None:
    """Return the pause that a request-rate comes to (whole ms, rounded up); None where it makes no sense.

    A time of day behind it is passed over: what is asked for some hours is kept at all hours.

    >>> rate_ms("10/1m"), rate_ms("1/10s 1820-1940"), rate_ms("0/5")
    (6000, 10000, None)
    """
    found = _RATE.match(value)
    if found is None or not int(found[1]) or not int(found[2]):
        return None
    period_ms = int(found[2]) * {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}[found[3].lower()] * 1000
    return min(-(-period_ms // int(found[1])), MAX_DELAY_MS)


_WAITS = {"delay": delay_ms, "rate": rate_ms}


def prepare(lines: Iterable[Line]) -> Prepared:
    """Gather lines into groups by product token.

    A run of user-agent lines ends at the first rule line and at nothing else (sections 2.2.1 and 2.2.4): an
    unknown line, a sitemap or a crawl-delay between two of them does not part them. A crawl-delay (or a
    request-rate, as a pause; the longest holds) is for the user-agent lines right above it. Groups of one token are one group; lines before any group are dropped.
    """
    reader = _Grouping()
    for line in lines:
        if line.field == "agent":
            reader.agent(line.value)
        elif line.field == "sitemap":
            reader.sitemap(line.value)
        elif line.field in _WAITS:
            reader.delay(_WAITS[line.field](line.value))
        else:
            reader.rule(line)
    return Prepared(reader.groups, tuple(reader.sitemaps))


class _Grouping:
    """Which groups the next rule and the next crawl-delay belong to."""

    def __init__(self) -> None:
        self.groups: dict[str, Group] = {}
        self.sitemaps: dict[str, None] = {}
        self._named: set[str] = set()
        self._block: list[Line] = []
        self._waiting: set[str] = set()
        self._waits: list[int] = []
        self._after_rule = self._after_delay = False

    def agent(self, value: str) -> None:
        if self._after_rule:
            self._named, self._block = set(), []
        if self._after_rule or self._after_delay:
            self._waiting, self._waits = set(), []
        self._after_rule = self._after_delay = False
        names = [value] if "(" in value else value.split(",")
        for token in filter(None, map(product_token, names)):
            self._name(token, self.groups.setdefault(token, Group(token)))

    def _name(self, token: str, group: Group) -> None:
        if token not in self._named:
            self._named.add(token)
            group.blocks.append(self._block)
        if token not in self._waiting:
            self._waiting.add(token)
            group.waits.append(self._waits)

    def rule(self, line: Line) -> None:
        self._after_rule = True
        if line.value:
            self._block.append(line)

    def delay(self, wait_ms: int | None) -> None:
        self._after_delay = True
        if wait_ms is not None:
            self._waits.append(wait_ms)

    def sitemap(self, value: str) -> None:
        if value and len(self.sitemaps) < MAX_SITEMAPS:
            self.sitemaps.setdefault(value)
