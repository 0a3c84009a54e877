"""The XML of sitemaps, sitemap indexes, RSS and Atom, read as a stream: no tree is built, nothing is resolved."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lxml import etree

MAX_TEXT_CHARS = 8_192
"""The text of one element is kept to here; a longer one counts as empty."""

MAX_LISTED = 1_000
"""Images, videos and alternates kept for one page (the image extension allows 1,000)."""

MAX_PROLOG_BYTES = 65_536
"""An XML file whose root does not begin within this is refused."""


class SitemapError(ValueError):
    """The bytes are no sitemap, or one that is refused; the message says why. Entries read before it stand."""


@dataclass(slots=True)
class RawEntry:
    """An entry's texts as found, white space taken off; `kind` is url, sitemap or item (of a feed).

    bases: the xml:base that its link stands under, the outermost first, each relative to the one before.
    """

    kind: str
    texts: dict[str, str] = field(default_factory=dict)
    alternates: list[tuple[str, str]] = field(default_factory=list)
    images: list[str] = field(default_factory=list)
    videos: list[str] = field(default_factory=list)
    news: dict[str, str] = field(default_factory=dict)
    bases: tuple[str, ...] = ()


_ENTRIES = {
    "urlset": {"url": "url", "sitemap": "sitemap"},
    "sitemapindex": {"sitemap": "sitemap", "url": "sitemap"},
    "rss": {"item": "item"},
    "rdf": {"item": "item"},
    "feed": {"entry": "item"},
}
"""By root element: which elements are entries, and of what kind. Roots are told by local name in any namespace."""

_FIELDS = {
    "loc", "lastmod", "changefreq", "priority", "link", "guid", "id", "pubdate", "date", "updated", "modified",
    "published", "issued",
}  # fmt: skip
_LISTS = {("image", "loc"): "images", ("video", "content_loc"): "videos", ("video", "player_loc"): "videos"}
_BASE = "{http://www.w3.org/XML/1998/namespace}base"
_DEEPEST_BASE = 8
_NEWS = {"title", "publication_date", "language", "name", "keywords"}


_BARE_AMPERSAND = re.compile(rb"&(?!(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|amp|lt|gt|quot|apos);)")
_NUMBERED = re.compile(rb"&#(?:(\d{1,7})|[xX]([0-9a-fA-F]{1,6}));")
_CDATA, _CDATA_END = b"<![CDATA[", b"]]>"
_HELD_BYTES = 12
"""Longer than any mark that the end of a chunk may part: `<![CDATA[` or `&#x10FFFF;`."""

_DECLARATION = re.compile(rb"""\s*<\?xml\b[^>]{0,200}?\bencoding\s*=\s*["']([^"'>]*)["'][^>]{0,200}\?>""")
_ENCODINGS = re.compile(
    rb"utf-?8|utf-?16(le|be)?|(us-)?ascii|iso[-_]?8859[-_]?\d+|latin-?\d|(windows-|cp)125\d|koi8-[ru]|"
    rb"shift[-_]?jis|euc-(jp|kr|cn|tw)|gb(2312|k|18030)|big5",
    re.IGNORECASE,
)
"""Encodings in which markup is spelled as in ASCII (or UTF-16), so that nothing hides from `_watch_prolog`."""

_COMMENT = re.compile(rb"<!--.*?(?:-->|$)|<\?.*?(?:\?>|$)", re.DOTALL)
_PROLOG = re.compile(rb"(?:[^<]|<(?![A-Za-z_:\x80-\xff]))*")
"""What stands before the root element, once comments and processing instructions are gone."""

_OPEN_END_TAG = re.compile(rb"</[A-Za-z:]*\s*$")


def _local(tag: str) -> str:
    return tag.rpartition("}")[2].rpartition(":")[2].lower()


class _Target:
    """Takes the parser's events and gathers entries; an open element's text is gathered where it matters."""

    def __init__(self) -> None:
        self.entries: list[RawEntry] = []
        self.root: str | None = None
        self._kinds: Mapping[str, str] = {}
        self._path: list[str] = []
        self._entry: RawEntry | None = None
        self._entry_depth = 0
        self._field_depth = 0
        self._text: list[str] = []
        self._own: list[str] = []
        self._bases: list[tuple[int, str]] = []  # of the open elements: depth, xml:base

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        name = _local(tag)
        self._path.append(name)
        if _BASE in attributes and len(self._bases) < _DEEPEST_BASE:
            self._bases.append((len(self._path), attributes[_BASE].strip()[:MAX_TEXT_CHARS]))
        if self.root is None:
            self._open_root(name)
        elif self._entry is None:
            if name in self._kinds and len(self._path) <= 3:
                self._entry, self._entry_depth = RawEntry(self._kinds[name]), len(self._path)
                self._own.clear()
        elif not self._field_depth:
            self._field_depth = len(self._path) if self._gathers(name) else 0
            if name == "link" and "href" in attributes:
                self._link(attributes)

    def _open_root(self, name: str) -> None:
        self.root = name
        if name not in _ENTRIES:
            raise SitemapError(f"the root element is <{name[:40]}>: neither sitemap, index nor feed")
        self._kinds = _ENTRIES[name]

    def _gathers(self, name: str) -> bool:
        if len(self._path) == self._entry_depth + 1:
            return name in _FIELDS
        return (self._path[-2], name) in _LISTS or ("news" in self._path and name in _NEWS)

    def _link(self, attributes: Mapping[str, str]) -> None:
        assert self._entry is not None
        href, rel = attributes["href"].strip()[:MAX_TEXT_CHARS], attributes.get("rel", "alternate").lower()
        rel = rel.removeprefix("http://www.iana.org/assignments/relation/")  # RFC 4287 4.2.7.2
        if self._entry.kind == "item":
            if (
                rel == "alternate" and len(self._path) == self._entry_depth + 1
            ):  # not of <source> or the content
                self._set_link("link" if self.root == "feed" else "link_href", href)
        elif rel == "alternate" and len(self._entry.alternates) < MAX_LISTED:
            self._entry.alternates.append((href, attributes.get("hreflang", "").strip()[:64]))

    def _set_link(self, name: str, href: str) -> None:
        assert self._entry is not None
        if name not in self._entry.texts:
            if "link" not in self._entry.texts:  # which goes before link_href
                self._entry.bases = tuple(base for _, base in self._bases)
            self._entry.texts[name] = href

    def data(self, text: str) -> None:
        if self._field_depth and len(self._text) <= MAX_TEXT_CHARS:
            self._text.append(text[: MAX_TEXT_CHARS + 1])
        elif self._entry is not None and len(self._path) == self._entry_depth and len(self._own) < 16:
            self._own.append(text[:MAX_TEXT_CHARS])

    def end(self, tag: str) -> None:
        name = self._path.pop() if self._path else ""
        depth = len(self._path) + 1
        if self._entry is not None:
            self._end_in_entry(name, depth)
        while self._bases and self._bases[-1][0] >= depth:
            self._bases.pop()

    def _end_in_entry(self, name: str, depth: int) -> None:
        assert self._entry is not None
        if depth == self._field_depth:
            self._close_field(name)
        elif depth == self._entry_depth:
            own = "".join(self._own).strip()
            if own and "loc" not in self._entry.texts and self._entry.kind != "item":
                self._entry.texts["loc"] = own  # an index that forgets <loc>
            self.entries.append(self._entry)
            self._entry = None

    def _close_field(self, name: str) -> None:
        assert self._entry is not None
        text = "".join(self._text).strip()
        text = "" if len(text) > MAX_TEXT_CHARS else text
        self._text.clear()
        nested, self._field_depth = self._field_depth > self._entry_depth + 1, 0
        if not text:
            return
        if not nested:
            self._put(name, text)
        elif (self._path[-1], name) in _LISTS:
            listed: list[str] = getattr(self._entry, _LISTS[self._path[-1], name])
            listed += [text] if len(listed) < MAX_LISTED else []
        else:
            self._entry.news.setdefault(name, text)

    def _put(self, name: str, text: str) -> None:
        """Set a field; a second `loc` begins an entry of its own (as in indexes that forget closing tags)."""
        assert self._entry is not None
        if name == "loc" and "loc" in self._entry.texts:
            self.entries.append(self._entry)
            self._entry = RawEntry(self._entry.kind)
        if name == "link":
            self._set_link(name, text)
        else:
            self._entry.texts.setdefault(name, text)

    def finish(self, *, whole_field: bool) -> None:
        """Take over an entry that was cut off after its address; whole_field: an end tag had begun."""
        if self._field_depth and whole_field and len(self._path) == self._field_depth:
            self._close_field(self._path.pop())
        if self._entry is not None and "loc" in self._entry.texts:
            self.entries.append(self._entry)
        self._entry = None

    def close(self) -> None:
        """Return nothing: the parser asks for a result."""


class _Mender:
    """Escapes ampersands that begin no predefined entity, as so many sitemaps forget to; CDATA stays as it is.

    What is left of entities are the five that XML predefines, so the parser has nothing to resolve.
    """

    def __init__(self) -> None:
        self._held = b""
        self._in_cdata = False

    def feed(self, chunk: bytes, *, last: bool = False) -> bytes:
        data, out = self._held + chunk, []
        while True:
            mark = _CDATA_END if self._in_cdata else _CDATA
            at = data.find(mark)
            if at < 0:
                break
            out.append(self._mended(data[:at]) + mark)
            data = data[at + len(mark) :]
            self._in_cdata = not self._in_cdata
        cut = len(data) if last else self._cut(data)
        self._held = data[cut:]
        return b"".join(out) + self._mended(data[:cut])

    def _mended(self, data: bytes) -> bytes:
        return data if self._in_cdata else _NUMBERED.sub(_sayable, _BARE_AMPERSAND.sub(b"&amp;", data))

    def _cut(self, data: bytes) -> int:
        """Return where `data` may be cut so that no mark is parted."""
        start = max(len(data) - _HELD_BYTES, 0)
        found = [at for at in (data.find(mark, start) for mark in (b"&", b"<", b"]")) if at >= 0]
        return min(found, default=len(data))


def _sayable(found: re.Match[bytes]) -> bytes:
    """Return a numeric reference, or that of U+FFFD where it names half a UTF-16 pair or no character at all."""
    number = int(found[1]) if found[1] else int(found[2], 16)
    return b"&#xFFFD;" if 0xD800 <= number <= 0xDFFF or number > 0x10FFFF or not number else found[0]


class XmlReader:
    """Feed it bytes, take entries. Refuses files that declare entities; never fetches, never expands.

    Malformed XML is read as far as it makes sense (bare ampersands, a missing end tag, an early end).
    """

    def __init__(self, *, wide: bool = False) -> None:
        """`wide` says that the encoding has more than one byte a character (UTF-16): nothing is mended then."""
        self._target = _Target()
        self._parser: Any = etree.XMLParser(
            target=self._target, recover=True, resolve_entities=False, no_network=True, load_dtd=False,
            dtd_validation=False, huge_tree=False, remove_comments=True, remove_pis=True,
        )  # fmt: skip
        self._mender = None if wide else _Mender()
        self._prolog = self._tail = b""

    def feed(self, chunk: bytes) -> list[RawEntry]:
        """Return the entries that end in `chunk`; raise SitemapError when the file is refused.

        The first chunk holds the whole XML declaration; one that names another encoding than we know, or UTF-16 in
        bytes that are not (as .NET writes), is ignored.
        """
        declared = None if self._prolog else _DECLARATION.match(chunk)
        if declared and not self._believes(declared[1].strip()):
            chunk = chunk[declared.end() :]
        if self._target.root is None:
            self._watch_prolog(chunk)
        self._tail = (self._tail + chunk)[-32:]
        return self._parse(chunk if self._mender is None else self._mender.feed(chunk))

    def _believes(self, encoding: bytes) -> bool:
        wide = encoding.lower().replace(b"-", b"").startswith(b"utf16")
        return _ENCODINGS.fullmatch(encoding) is not None and (not wide or self._mender is None)

    def finish(self) -> list[RawEntry]:
        """Return what was still open when the bytes ended; raise SitemapError if no root was ever found."""
        rest = self._parse(b"" if self._mender is None else self._mender.feed(b"", last=True))
        self._target.finish(whole_field=_OPEN_END_TAG.search(self._tail) is not None)
        if self._target.root is None:
            raise SitemapError("XML without a root element")
        return rest + self._take()

    def _parse(self, data: bytes) -> list[RawEntry]:
        try:
            if data:
                self._parser.feed(data)
        except SitemapError:  # by the target: no sitemap
            raise
        except (etree.XMLSyntaxError, ValueError) as error:  # ValueError: text that is no Unicode
            raise SitemapError(f"XML cannot be read: {error}") from None
        return self._take()

    def _take(self) -> list[RawEntry]:
        taken, self._target.entries = self._target.entries, []
        return taken

    def _watch_prolog(self, chunk: bytes) -> None:
        """Refuse entity declarations before the parser sees them, also those in UTF-16."""
        self._prolog += chunk[:MAX_PROLOG_BYTES]
        if b"E\0N\0T" in self._prolog or b"<!ENTITY" in self._prolog:
            before_root = _PROLOG.match(_COMMENT.sub(b"", self._prolog.replace(b"\0", b"")))
            if before_root and b"<!DOCTYPE" in before_root[0]:
                raise SitemapError("declares XML entities: refused")
        if len(self._prolog) > 2 * MAX_PROLOG_BYTES:
            raise SitemapError(f"no root element within {MAX_PROLOG_BYTES} bytes")
