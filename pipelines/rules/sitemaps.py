"""What sitemaps and feeds list: a stream of entries out of a stream of bytes, bounded in memory, time and size.

Read are XML sitemaps and indexes, RSS 1.0 and 2.0, Atom 0.3 and 1.0, and text lists, plain or gzipped; what a
file is, is told by its bytes, never by its name or type. sitemaps.org is the protocol.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import NamedTuple

from pipelines.rules.dates import http_date_ms, utc_of, w3c_date_ms
from pipelines.rules.sitemap_xml import RawEntry, SitemapError, XmlReader
from pipelines.rules.urls import parse, resolve

__all__ = [
    "WELL_KNOWN_PATHS",
    "Alternate",
    "Entry",
    "News",
    "SitemapError",
    "SitemapPolicy",
    "interval_seconds",
    "may_list",
    "stream",
]

WELL_KNOWN_PATHS = ("/sitemap.xml", "/sitemap_index.xml")
"""Where a site without a sitemap line in its robots.txt may have one; each costs a request, so there are two."""

PIECE_BYTES = 65_536
"""Decoded bytes that are looked at together: what a file costs in memory, whatever its size."""

DECLARATION_BYTES = 1_024
"""What is looked at to tell what a file is; an XML declaration lies within."""

_GZIP = b"\x1f\x8b"
_SPACE = b" \t\r\n\f\v\0"


@dataclass(frozen=True)
class SitemapPolicy:
    """How much of a sitemap is read, and what is believed."""

    max_bytes: int = 52_428_800  # decoded; sitemaps.org: 50 MiB
    max_entries: int = 50_000  # sitemaps.org
    max_url_chars: int = 2_048  # sitemaps.org
    future_ms: int = 86_400_000  # a lastmod further ahead than this is not believed
    min_interval_seconds: int = 3_600  # what changefreq "always" comes to
    max_interval_seconds: int = 31_536_000  # what changefreq "never" comes to


class Alternate(NamedTuple):
    """Another language's version of a page (`xhtml:link rel="alternate" hreflang=…`)."""

    url: str
    hreflang: str


class News(NamedTuple):
    """What the news extension says of a page; published is UTC, None where it is not a date."""

    title: str
    name: str
    language: str
    published: datetime | None


class Entry(NamedTuple):
    """A page or a further sitemap that a sitemap lists.

    url: absolute, as it will be requested. lastmod: UTC, None if absent, no date, or in the future.
    changefreq: one of the protocol's seven words or None. priority: 0.0 to 1.0; 0.5 where absent or absurd.
    kind: "url" or "sitemap". images, videos: addresses of the extensions.
    """

    url: str
    lastmod: datetime | None = None
    changefreq: str | None = None
    priority: float = 0.5
    kind: str = "url"
    alternates: tuple[Alternate, ...] = ()
    images: tuple[str, ...] = ()
    videos: tuple[str, ...] = ()
    news: News | None = None


_INTERVALS = {
    "always": 0, "hourly": 3_600, "daily": 86_400, "weekly": 604_800, "monthly": 2_592_000, "yearly": 31_536_000,
    "never": 1 << 62,
}  # fmt: skip


def interval_seconds(policy: SitemapPolicy, *, changefreq: str | None) -> int | None:
    """Return the pause between visits that a changefreq suggests, within the policy's bounds; None = no hint.

    >>> interval_seconds(SitemapPolicy(), changefreq="never")
    31536000
    """
    wish = _INTERVALS.get((changefreq or "").strip().lower())
    if wish is None:
        return None
    return max(policy.min_interval_seconds, min(wish, policy.max_interval_seconds))


def may_list(sitemap_url: str, entry_url: str, robots_listed: bool) -> bool:
    """Return whether a sitemap may speak for a URL (sitemaps.org, "location" and cross submission).

    It may for URLs of its own scheme, host and port that lie in its folder or below. One that a host's
    robots.txt lists may speak for all of that host: pass robots_listed=True when the robots.txt *of the entry's
    host* names this sitemap.
    """
    if robots_listed:
        return True
    sitemap, entry = parse(sitemap_url), parse(entry_url)
    if sitemap is None or entry is None:
        return False
    if (sitemap.scheme, sitemap.host, sitemap.port) != (entry.scheme, entry.host, entry.port):
        return False
    return entry.path.startswith(sitemap.path.rpartition("/")[0] + "/")


def stream(
    chunks: Iterable[bytes], *, url: str, policy: SitemapPolicy | None = None, now_ms: int | None = None
) -> Iterator[Entry]:
    """Yield the entries of a sitemap whose bytes arrive in `chunks` and whose address is `url`.

    The order is the file's; the same address may come twice. Reading stops without an error at `max_entries`
    and at `max_bytes`, and a file that is cut off yields what is whole. Entries without a usable http(s)
    address are passed over. now_ms: epoch ms; with it, a lastmod that lies ahead is not believed.
    Raises SitemapError when the bytes are no sitemap, or XML that declares entities.
    """
    policy = policy or SitemapPolicy()
    limit_ms = None if now_ms is None else now_ms + policy.future_ms
    left = policy.max_entries
    once = _bounded(_unzipped(chunks), policy.max_bytes)
    for raw in _raw_entries(_bounded(_unzipped(once), policy.max_bytes)):
        entry = _entry(raw, url, policy, limit_ms)
        if entry is not None:
            yield entry
            left -= 1
        if left <= 0:
            return


def _unzipped(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield plain bytes in pieces; gzip is recognised by its first bytes, a damaged end is left off."""
    pieces = iter(chunks)
    head = b""
    while len(head) < 2 and (piece := next(pieces, None)) is not None:
        head += piece
    source = chain([head], pieces)
    yield from _gunzip(source) if head.startswith(_GZIP) else _cut_up(source)


def _cut_up(chunks: Iterable[bytes]) -> Iterator[bytes]:
    for chunk in chunks:
        for start in range(0, len(chunk), PIECE_BYTES):
            yield bytes(chunk[start : start + PIECE_BYTES])


def _gunzip(chunks: Iterable[bytes]) -> Iterator[bytes]:
    decoder = zlib.decompressobj(31)
    for data in _cut_up(chunks):
        while data:
            try:
                plain = decoder.decompress(data, PIECE_BYTES)
            except zlib.error:
                return
            if plain:
                yield plain
            data = decoder.unconsumed_tail
            if decoder.eof:
                data = decoder.unused_data.lstrip(b"\0")
                decoder = zlib.decompressobj(31)


def _bounded(pieces: Iterable[bytes], max_bytes: int) -> Iterator[bytes]:
    for piece in pieces:
        yield piece[:max_bytes]
        max_bytes -= len(piece)
        if max_bytes <= 0:
            return


def _raw_entries(pieces: Iterator[bytes]) -> Iterator[RawEntry]:
    """Yield entries of XML if the first character says so, else of text."""
    head, mark = b"", b""
    for piece in pieces:
        head += piece
        mark = next((bom for bom in (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff") if head.startswith(bom)), b"")
        head = head[: len(mark)] + head[len(mark) :].lstrip(_SPACE if len(mark) != 2 else b"")
        if len(head) >= DECLARATION_BYTES:
            break
    if len(mark) == 2:
        is_xml = b"<" in head[2:4]
    else:
        head = head[len(mark) :].lstrip(_SPACE)
        is_xml = head.startswith(b"<")
    whole = chain([head], pieces)
    yield from _xml_entries(whole, wide=b"\0" in head[:4]) if is_xml else _text_entries(whole)


def _xml_entries(pieces: Iterable[bytes], *, wide: bool) -> Iterator[RawEntry]:
    reader = XmlReader(wide=wide)
    for piece in pieces:
        yield from reader.feed(piece)
    yield from reader.finish()


def _text_entries(pieces: Iterable[bytes]) -> Iterator[RawEntry]:
    """Yield a line's address each; a file without one (but with something else) is no sitemap."""
    rest = b""
    found = filled = False
    for piece in chain(pieces, [b"\n"]):
        lines = (rest + piece.replace(b"\0", b"").replace(b"\r", b"\n")).split(b"\n")
        rest = lines.pop()[:PIECE_BYTES]
        for line in lines:
            text = line.removeprefix(b"\xff\xfe").removeprefix(b"\xfe\xff").decode("utf-8", "replace").strip()
            filled = filled or bool(text)
            if text[:8].lower().startswith(("http://", "https://")):
                found = True
                yield RawEntry("url", {"loc": text})
    if filled and not found:
        raise SitemapError("neither XML nor a list of addresses")


def _entry(raw: RawEntry, base: str, policy: SitemapPolicy, limit_ms: int | None) -> Entry | None:
    texts = raw.texts
    for said in raw.bases:
        base = resolve(base, said) or base
    url = (
        _feed_address(texts, base, policy) if raw.kind == "item" else _address(texts.get("loc"), base, policy)
    )
    if url is None:
        return None
    dates = ("lastmod", "updated", "modified", "pubdate", "date", "published", "issued")
    date = next((texts[name] for name in dates if name in texts), None)
    word = texts.get("changefreq", "").lower()
    return Entry(
        url,
        _date(date, limit_ms),
        word if word in _INTERVALS else None,
        _priority(texts.get("priority")),
        "sitemap" if raw.kind == "sitemap" else "url",
        tuple(Alternate(to, lang) for link, lang in raw.alternates if (to := _address(link, base, policy))),
        tuple(to for link in raw.images if (to := _address(link, base, policy))),
        tuple(to for link in raw.videos if (to := _address(link, base, policy))),
        _news(raw.news, limit_ms) if raw.news else None,
    )


def _feed_address(texts: dict[str, str], base: str, policy: SitemapPolicy) -> str | None:
    """Return a feed item's address: its link, else an id that is one. RSS's own link goes before Atom's in it."""
    link = _address(texts.get("link"), base, policy) or _address(texts.get("link_href"), base, policy)
    ids = (text for name in ("guid", "id") if (text := texts.get(name, "")).lower().startswith("http"))
    return link or next((url for text in ids if (url := _address(text, base, policy))), None)


def _address(text: str | None, base: str, policy: SitemapPolicy) -> str | None:
    if not text or len(text) > policy.max_url_chars:
        return None
    return resolve(base, text)


def _date(text: str | None, limit_ms: int | None) -> datetime | None:
    if text is None:
        return None
    date_ms = w3c_date_ms(text)
    date_ms = http_date_ms(text) if date_ms is None else date_ms
    if date_ms is None or (limit_ms is not None and date_ms > limit_ms):
        return None
    return utc_of(date_ms)


def _priority(text: str | None) -> float:
    try:
        priority = float(text or "0.5")
    except ValueError:
        return 0.5
    return priority if 0.0 <= priority <= 1.0 else 0.5


def _news(texts: dict[str, str], limit_ms: int | None) -> News:
    published = _date(texts.get("publication_date"), limit_ms)
    return News(texts.get("title", ""), texts.get("name", ""), texts.get("language", ""), published)
