"""A record as it was read, with its HTTP message where it holds one; and a fault of the file."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_BLANK_LINE = re.compile(rb"\n\r*\n")
_HTTP = re.compile(rb"HTTP/\d|[A-Z]{3,10} \S+ HTTP/\d")
_CHUNK = re.compile(rb"([0-9a-fA-F]{1,8})[ \t]*(?:;[^\n]*)?\r?\n")
_LINE_END = re.compile(rb"\r?\n")
_FOLD = re.compile(rb"\r*\n[ \t]+")
Headers = list[tuple[str, str]]


@dataclass(slots=True)
class WarcRecord:
    """One record.

    offset, length: of its gzip member, or of the record itself in a plain file: what `read_at` takes.
    type: response, request, revisit, warcinfo …; `arc_header` for the head of an ARC file, whose fields come
    under the names of WARC. version: '1.1', or 'ARC'. headers: in order, repeated names kept.
    """

    offset: int
    length: int
    type: str
    version: str
    headers: Headers
    block: bytes
    _http_size: int | None = field(default=None, repr=False)

    def header(self, name: str) -> str | None:
        """Return the first header of that name (any case), or None."""
        return _first(self.headers, name)

    @property
    def url(self) -> str | None:
        """The target URI without the brackets that old writers put around it."""
        uri = self.header("WARC-Target-URI")
        return uri.removeprefix("<").removesuffix(">") if uri else None

    @property
    def record_id(self) -> str | None:
        """The record id without brackets."""
        name = self.header("WARC-Record-ID")
        return name.strip("<>") if name else None

    @property
    def http_size(self) -> int:
        """Bytes of the HTTP head with its blank line; 0 where the block is no HTTP message."""
        if self._http_size is None:
            self._http_size = self._measure_head()
        return self._http_size

    def _measure_head(self) -> int:
        kind = (self.header("Content-Type") or "").lower()
        web = self.type.lower() in ("response", "request", "revisit") and (self.url or "").startswith("http")
        if not (kind.startswith("application/http") or web) or not _HTTP.match(self.block):
            return 0
        end = _BLANK_LINE.search(self.block)
        return end.end() if end else len(self.block)

    @property
    def http_head(self) -> bytes:
        """The HTTP head as stored, with its blank line; empty where there is none."""
        return self.block[: self.http_size]

    @property
    def http_line(self) -> str:
        """The status or request line; empty where there is none."""
        return self.http_head.partition(b"\n")[0].decode("latin-1").strip()

    @property
    def http_headers(self) -> Headers:
        """The HTTP headers in order, as Latin-1 text; lines that are none are left out."""
        return fields(self.http_head.partition(b"\n")[2], "latin-1")

    def http_header(self, name: str) -> str | None:
        """Return the first HTTP header of that name (any case), or None."""
        return _first(self.http_headers, name)

    @property
    def status(self) -> int | None:
        """The HTTP status; None for what is no answer."""
        words = self.http_line.split(maxsplit=2)
        return (
            int(words[1]) if len(words) > 1 and words[0].startswith("HTTP/") and words[1].isdigit() else None
        )

    @property
    def payload(self) -> bytes:
        """The block without its HTTP head: content coding kept, chunks kept where the writer kept them."""
        return self.block[self.http_size :]

    @property
    def entity(self) -> bytes:
        """The payload with chunked transfer coding removed."""
        coding = (self.http_header("Transfer-Encoding") or "").lower()
        return dechunked(self.payload) if "chunked" in coding else self.payload


@dataclass(slots=True)
class WarcFault:
    """Damage: where in the file, and what in words. record: what can be saved of the damaged record, or None."""

    offset: int
    what: str
    record: WarcRecord | None = None

    def __str__(self) -> str:
        return f"byte {self.offset}: {self.what}"


def dechunked(data: bytes) -> bytes:
    """Return the bytes without chunk framing; from the first bad chunk line on they are taken as they are.

    >>> dechunked(b"3\\r\\nabc\\r\\n0\\r\\n\\r\\n")
    b'abc'
    """
    out, at = bytearray(), 0
    while line := _CHUNK.match(data, at):
        size, at = int(line[1], 16), line.end()
        if size == 0:
            return bytes(out)
        out += data[at : at + size]
        at += size
        if end := _LINE_END.match(data, at):
            at = end.end()
    return bytes(out + data[at:])


def _first(pairs: Headers, name: str) -> str | None:
    wanted = name.lower()
    return next((value for key, value in pairs if key.lower() == wanted), None)


def fields(lines: bytes, charset: str) -> Headers:
    """Return name and value of each header line, folded lines joined; lines without a colon are left out."""
    text = _FOLD.sub(b" ", lines).decode(charset, "surrogateescape")
    pairs = (line.partition(":") for line in text.split("\n"))
    return [(name.strip(), value.strip()) for name, colon, value in pairs if colon]
