"""What bytes are: the media type told from header and content, and junk that is not worth a parse.

Rules: WHATWG MIME Sniffing (patterns of sections 6 and 7). One thing differs on purpose: the signature of a
binary format wins over a header that says text/html, because a crawler has no user to look at the rubbish.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

HTML_TYPES: Final = frozenset({"text/html", "application/xhtml+xml"})
"""The types that are read as pages."""

_SPACE: Final = "\t\n\r "
_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_QUOTED_TEXT: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


@lru_cache(maxsize=4096)
def media_type(content_type: str | None) -> tuple[str, dict[str, str]] | None:
    """Return (type/subtype in lower case, parameters) of a Content-Type value; None if it is not a media type.

    Parameter names are lower case, values as written, the first of a name wins; what breaks the syntax of
    one parameter drops that parameter only (WHATWG MIME Sniffing 4.4).

    >>> media_type('Text/HTML;Charset="gbk"')
    ('text/html', {'charset': 'gbk'})
    """
    head, _, rest = (content_type or "").strip(_SPACE).partition(";")
    main, slash, sub = head.partition(",")[0].rstrip(_SPACE).partition("/")
    if not (slash and _TOKEN.fullmatch(main) and _TOKEN.fullmatch(sub)):
        return None
    return f"{main}/{sub}".lower(), dict(reversed(_parameters(rest)))


def _parameters(text: str) -> list[tuple[str, str]]:
    """Return the valid name and value pairs of the part behind the first semicolon, in order."""
    found: list[tuple[str, str]] = []
    at = 0
    while at < len(text):
        name, at = _until(text, at, ";=")
        name = name.lstrip(_SPACE).lower()
        if at >= len(text) or text[at] == ";":
            at += 1
            continue
        value, at = _value(text, at + 1)
        if value is not None and _TOKEN.fullmatch(name) and _QUOTED_TEXT.fullmatch(value):
            found.append((name, value))
    return found


def _until(text: str, at: int, stops: str) -> tuple[str, int]:
    end = min((place for stop in stops if (place := text.find(stop, at)) >= 0), default=len(text))
    return text[at:end], end


def _value(text: str, at: int) -> tuple[str | None, int]:
    """Return a parameter's value (None: an empty unquoted one) and the place behind its semicolon."""
    if not text.startswith('"', at):
        value, end = _until(text, at, ";")
        return value.rstrip(_SPACE) or None, end + 1
    quoted = re.compile(r'"((?:[^"\\]|\\.)*)(\\?)"?', re.S).match(text, at)
    assert quoted is not None
    value = re.sub(r"\\(.)", r"\1", quoted[1], flags=re.S) + quoted[2]
    return value, _until(text, quoted.end(), ";")[1] + 1


# (offset, signature, type): MIME Sniffing 6.1 to 6.4, and formats that crawls meet beside them.
_SIGNATURES: Final[tuple[tuple[int, bytes, str], ...]] = (
    (0, b"%PDF-", "application/pdf"),
    (0, b"%!PS-Adobe-", "application/postscript"),
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"GIF87a", "image/gif"),
    (0, b"GIF89a", "image/gif"),
    (0, b"\x00\x00\x01\x00", "image/x-icon"),
    (0, b"\x00\x00\x02\x00", "image/x-icon"),
    (8, b"WEBPVP", "image/webp"),
    (0, b"II*\x00", "image/tiff"),
    (0, b"MM\x00*", "image/tiff"),
    (4, b"ftypavif", "image/avif"),
    (4, b"ftyp", "video/mp4"),
    (0, b"\x1aE\xdf\xa3", "video/webm"),
    (8, b"AVI ", "video/avi"),
    (8, b"WAVE", "audio/wave"),
    (8, b"AIFF", "audio/aiff"),
    (0, b"ID3", "audio/mpeg"),
    (0, b"OggS\x00", "application/ogg"),
    (0, b"fLaC", "audio/flac"),
    (0, b"MThd\x00\x00\x00\x06", "audio/midi"),
    (0, b"FLV\x01", "video/x-flv"),
    (0, b"wOFF", "font/woff"),
    (0, b"wOF2", "font/woff2"),
    (0, b"OTTO", "font/otf"),
    (0, b"\x00\x01\x00\x00", "font/ttf"),
    (0, b"\x1f\x8b\x08", "application/gzip"),
    (0, b"PK\x03\x04", "application/zip"),
    (0, b"Rar!\x1a\x07", "application/x-rar-compressed"),
    (0, b"7z\xbc\xaf'\x1c", "application/x-7z-compressed"),
    (0, b"BZh", "application/x-bzip2"),
    (0, b"\xfd7zXZ\x00", "application/x-xz"),
    (0, b"(\xb5/\xfd", "application/zstd"),
    (0, b"\x7fELF", "application/x-executable"),
    (0, b"\xca\xfe\xba\xbe", "application/java-vm"),
    (0, b"\x00asm", "application/wasm"),
    (0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "application/x-ole-storage"),
)  # fmt: skip
_FIRST_BYTES: Final = frozenset(sign[0] for offset, sign, _ in _SIGNATURES if not offset)
_RIFF_LIKE: Final = (b"RIFF", b"FORM")

_HTML_START: Final = re.compile(
    rb"[\t\n\x0c\r ]*<(?:!DOCTYPE HTML|HTML|HEAD|SCRIPT|IFRAME|H1|DIV|FONT|TABLE|A|STYLE|TITLE|B|BODY|BR|P"
    rb"|META|LINK|BASE|FRAMESET|CENTER)[ >\t\n\r/]|[\t\n\x0c\r ]*<!--",
    re.I,
)
_XML_START: Final = re.compile(rb"[\t\n\x0c\r ]*<\?xml")
_XML_KINDS: Final = (
    (re.compile(rb"<rss[\s>]|<rdf:RDF[\s>]", re.I), "application/rss+xml"),
    (re.compile(rb"<feed[\s>]", re.I), "application/atom+xml"),
    (re.compile(rb"<html[\s>]|<!DOCTYPE\s+html", re.I), "application/xhtml+xml"),
    (re.compile(rb"<svg[\s>]", re.I), "image/svg+xml"),
)
_BOMS: Final = (b"\xef\xbb\xbf", b"\xfe\xff", b"\xff\xfe")
_CONTROL: Final = bytes({*range(0x09), 0x0B, *range(0x0E, 0x1B), *range(0x1C, 0x20)})
_UNSURE: Final = frozenset({"unknown/unknown", "application/unknown", "*/*", "application/octet-stream"})
_HTML_IN_DISGUISE: Final = ("image/", "video/", "audio/", "font/", "application/pdf", "application/zip")


def sniff_type(body: bytes, content_type: str | None) -> str:
    """Return the media type of a body (content coding removed), from its bytes and its Content-Type.

    A binary signature wins over any header but an XML or text/plain one that is not contradicted; no header,
    or one that says nothing, is decided by the bytes; media types of pictures, sound and archives that come
    with an HTML start are text/html. No bytes: the header's type, or "application/x-empty".
    """
    said = media_type(content_type)
    header = said[0] if said else ""
    if not body:
        return header or "application/x-empty"
    if body[0] in _FIRST_BYTES or body[4:8] == b"ftyp" or body[:4] in _RIFF_LIKE:
        found = _signature(body)
        if found:
            return header if found == "application/zip" and _zip_based(header) else found
    if not header or header in _UNSURE:
        return _unlabelled(body)
    if header == "text/plain" and _is_binary(body):
        return "application/octet-stream"
    if header.startswith(_HTML_IN_DISGUISE) and header != "image/svg+xml" and _HTML_START.match(body[:512]):
        return "text/html"
    return header


def _signature(body: bytes) -> str | None:
    for offset, sign, name in _SIGNATURES:
        if body.startswith(sign, offset) and (offset != 8 or body[:4] in _RIFF_LIKE):
            return name
    return None


def _zip_based(header: str) -> bool:
    """Tell whether a type is one of the formats that are ZIP files with a name of their own."""
    return header.startswith("application/") and header not in HTML_TYPES | {"application/octet-stream"}


def _is_binary(body: bytes) -> bool:
    """Tell whether the first 1,445 bytes hold a byte that no text has (MIME Sniffing 3 and 7.2)."""
    head = body[:1445]
    return not head.startswith(_BOMS) and len(head.translate(None, _CONTROL)) != len(head)


def _unlabelled(body: bytes) -> str:
    """Return the type of a body without a usable Content-Type."""
    head = body[:1445]
    text = head[3:] if head.startswith(_BOMS[0]) else head
    if _HTML_START.match(text):
        return "text/html"
    if _XML_START.match(text):
        return next((name for pattern, name in _XML_KINDS if pattern.search(text)), "text/xml")
    return "application/octet-stream" if _is_binary(body) else "text/plain"


# --- junk: bodies that claim to be pages and are not worth a parse -------------------------------------

# elements without content, and those that a following sibling closes: neither can nest by itself
_LIMITED_NAMES: Final = """
area base basefont bgsound br col embed frame hr img input keygen link meta param source track wbr image
p li dt dd td th tr tbody thead tfoot option optgroup rp rt rb rtc colgroup caption body html head
path circle rect use polygon polyline line ellipse stop
"""
_FORMATTING_NAMES: Final = "a b big code em font i nobr s small strike strong tt u"


_PLACES: Final = np.zeros(256, dtype=np.uint16)
"""Of a byte of a tag name: 1 to 26 for a letter of any case, 27 to 36 for a digit, 0 where the name has ended."""
for _place, _letter in enumerate(b"abcdefghijklmnopqrstuvwxyz0123456789", start=1):
    _PLACES[[_letter, ord(chr(_letter).upper())]] = _place
_BASE: Final = 37


def _name_code(name: str) -> int:
    """Return the code of a tag name: its first three letters as digits to the base 37, 0 where it has ended."""
    a, b, c = (int(_PLACES[letter]) for letter in name.ljust(3, "\0").encode()[:3])
    return (a * _BASE + b) * _BASE + c


def _table(names: str) -> npt.NDArray[np.bool_]:
    """Return a table by code: whether it is one of the names."""
    table = np.zeros(_BASE**3, dtype=bool)
    table[[_name_code(name) for name in names.split()]] = True
    return table


_NESTING: Final = ~_table(_LIMITED_NAMES)
_NESTING[: _BASE**2] = False  # a name begins with a letter ...
_NESTING[27 * _BASE**2 :] = False  # ... not with a digit
_FORMATTING: Final = _table(_FORMATTING_NAMES)

TREE_WORK: Final = 400_000_000
"""Steps of the tree builder that a page may cost in the worst case: about half a second in lexbor."""
TREE_NODES: Final = 500_000
"""Elements that unclosed formatting may multiply into: about 0.4 s and 200 MB in lexbor when all are made."""
TAG_ATTRIBUTES: Final = 5_000
"""Attributes of one tag: their comparison is quadratic, 30,000 take 1.5 s in lexbor."""
_LONG_TAG: Final = 65_536


def junk_of(body: bytes) -> str | None:
    """Return why a body that claims to be HTML is not parsed; None if it may be parsed.

    "binary": more than a tenth of the first KB are bytes that no text has. "nesting", "formatting",
    "attributes": elements so deep, so many unclosed formatting elements, a tag with so many attributes
    that building the tree would take seconds or gigabytes. The cost is a few µs on ordinary pages.
    """
    head = body[:1024]
    if len(head) - len(head.translate(None, _CONTROL)) > len(head) // 10 and not _looks_utf16(head):
        return "binary"
    data = np.frombuffer(body, dtype=np.uint8)
    if len(body) > _LONG_TAG:
        opens = np.flatnonzero(data == 0x3C)
        tags = len(opens)
        if _attribute_flood(body, data) or _root_flood(body, data, opens):
            return "attributes"
    else:
        tags = int(np.count_nonzero(data == 0x3C))
    if tags * tags <= 4 * TREE_NODES:  # half of them open, the other half multiplied by those
        return None
    if tags <= 4_000 and (tags - 2 * _ends(data)) * tags <= 2 * TREE_NODES:
        return None
    depth, formatting = _pressure(body)
    if formatting * tags > TREE_NODES and formatting > 500:
        return "formatting"
    return "nesting" if depth * tags > TREE_WORK else None


def _ends(data: npt.NDArray[np.uint8]) -> int:
    """Count the end tags: a quarter of the cost of `bytes.count` with two letters."""
    return int(np.count_nonzero(data[1:][data[:-1] == 0x3C] == 0x2F))


def _looks_utf16(head: bytes) -> bool:
    return head.startswith(_BOMS[1:]) or head[:40].count(b"\0") in (20, 19)


def _attribute_flood(body: bytes, data: npt.NDArray[np.uint8]) -> bool:
    """Tell whether a tag longer than 64 KB has too many attributes."""
    blocks = range(0, len(body) - _LONG_TAG // 2 + 1, _LONG_TAG // 2)
    if all(
        body.find(b">", at, at + _LONG_TAG // 2) >= 0 for at in blocks
    ):  # so long a tag would fill a block
        return False
    edges = np.concatenate(([-1], np.flatnonzero(data == 0x3E), [len(body)]))
    for gap in np.flatnonzero(np.diff(edges) > _LONG_TAG):
        piece = body[edges[gap] + 1 : edges[gap + 1]]
        if b"<" in piece and _attributes_in(piece[piece.find(b"<") :]) > TAG_ATTRIBUTES:
            return True
    return False


def _attributes_in(tag: bytes) -> int:
    bare = re.sub(rb"\"[^\"]*\"|'[^']*'", b"", tag)
    return len(re.findall(rb"[\s/]+[^\s/]", bare))


_ROOT_TAG: Final = re.compile(rb"<(?:html|body)[\s/][^>]*", re.I)


def _root_flood(body: bytes, data: npt.NDArray[np.uint8], opens: npt.NDArray[np.intp]) -> bool:
    """Tell whether html and body tags, which all add to one element, have too many attributes together."""
    at = opens[opens < len(body) - 2]
    first, second = data[at + 1] | 0x20, data[at + 2] | 0x20
    like = ((first == 0x68) & (second == 0x74)) | ((first == 0x62) & (second == 0x6F))
    if np.count_nonzero(like) <= 2:
        return False
    return sum(_attributes_in(tag) for tag in _ROOT_TAG.findall(body)) > TAG_ATTRIBUTES


def _pressure(body: bytes) -> tuple[int, int]:
    """Return bounds of (open elements, open formatting elements) at any place of a page.

    Counted by the first three letters of tag names: for each, the most starts without an end so far.
    Ends without a start count for nothing, so they cannot hide what is open.
    """
    codes, change = _tag_codes(body)
    order = np.argsort(codes, kind="stable")
    codes, change = codes[order], change[order]
    if not len(codes):
        return 0, 0
    first = np.flatnonzero(np.concatenate(([True], codes[1:] != codes[:-1])))
    total = np.cumsum(change)
    # each name starts lower than any other can reach, so one running minimum serves all
    floor = np.repeat(np.arange(len(first)) * (2 * len(codes) + 2), np.diff(np.append(first, len(codes))))
    level = total - floor
    before = np.minimum.accumulate(np.minimum(level, level - change))
    most = np.maximum.reduceat(level - before, first)
    names = codes[first]
    return int(most.sum()), int(most[_FORMATTING[names]].sum())


def _tag_codes(body: bytes) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.int64]]:
    """Return (name code, +1 for a start and -1 for an end) of the tags that can nest, in page order."""
    data = np.frombuffer(body + b"\0\0\0\0\0", dtype=np.uint8)
    at = np.flatnonzero(data == 0x3C)
    ends = data[at + 1] == 0x2F
    at = at + 1 + ends
    second = _PLACES[data[at + 1]]
    third = np.where(second, _PLACES[data[at + 2]], 0).astype(np.uint16)
    codes = (_PLACES[data[at]] * np.uint16(_BASE) + second) * np.uint16(_BASE) + third
    kept = _NESTING[codes]
    return codes[kept], np.where(ends, -1, 1)[kept]
