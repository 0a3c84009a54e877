"""What a toy host is asked, and what it says: values only, so that the server has no rule of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from enum import StrEnum

from pipelines.toyweb.hosts import Host

REASONS = {
    200: "OK", 204: "No Content", 301: "Moved Permanently", 302: "Found", 303: "See Other",
    304: "Not Modified", 307: "Temporary Redirect", 308: "Permanent Redirect", 400: "Bad Request",
    401: "Unauthorized", 403: "Forbidden", 404: "Not Found", 410: "Gone", 421: "Misdirected Request",
    429: "Too Many Requests", 500: "Internal Server Error", 502: "Bad Gateway", 503: "Service Unavailable",
}  # fmt: skip
BODYLESS = frozenset({204, 304})
BLOCK = 65_536
"""Bytes written at once at most, so that a client that goes away is noticed."""


class Framing(StrEnum):
    """How a client learns where the body ends."""

    LENGTH = "length"
    CHUNKED = "chunked"
    CLOSE = "close"


class End(StrEnum):
    """What becomes of the connection after the answer."""

    KEEP = "keep"
    CLOSE = "close"
    RESET = "reset"  # a TCP reset
    HANG = "hang"  # silence for `hang_ms` (0 = until the client goes), then a reset


@dataclass(frozen=True, slots=True)
class Ask:
    """One request: `name` is the name asked for (a flood host has many), `target` the path and query."""

    host: Host
    name: str
    target: str
    method: str
    headers: Mapping[str, str]
    port: int
    now_ms: int
    visit: int

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]

    @property
    def query(self) -> str:
        """The query without the question mark, empty if there is none."""
        return self.target.partition("?")[2]

    @property
    def origin(self) -> str:
        """`http://name:port`, before every path of this host."""
        return origin(self.name, self.port)


def origin(name: str, port: int) -> str:
    """Return `http://name:port`; port 80 is left out.

    >>> origin("w001.test", 8081)
    'http://w001.test:8081'
    """
    return f"http://{name}" if port == 80 else f"http://{name}:{port}"


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer with all that can go wrong in it.

    body: the payload: content coding applied, transfer coding not. Sent `repeat` times (0 = for ever).
    headers: Latin-1 text as sent, without Content-Length and Transfer-Encoding, which `framing` adds.
    head: raw bytes to send in place of the head that would be made, blank line included.
    before_ms: silence before the first byte. piece_bytes, piece_ms: pieces of that size (0 = at once) with pauses;
    piece_head: the head too.
    cut: wire bytes after which `end` happens; None = after all.
    hold_ms: how long this answer asks the client to stay away (Retry-After); 0 = it does not.
    links: absolute URLs that a crawler finds in it, in order, without doubles. trap: name of the trap it belongs to.
    """

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    framing: Framing = Framing.LENGTH
    repeat: int = 1
    head: bytes | None = None
    before_ms: int = 0
    piece_bytes: int = 0
    piece_ms: int = 0
    piece_head: bool = False
    end: End = End.KEEP
    cut: int | None = None
    hang_ms: int = 0
    hold_ms: int = 0
    links: tuple[str, ...] = ()
    location: str | None = None
    trap: str | None = None
    sort: str = "page"
    wire_body: bytes | None = field(default=None, repr=False)

    @property
    def instant(self) -> bool:
        """True if it can be sent with one write, now."""
        return not (
            self.before_ms or self.piece_ms or self.cut is not None or self.end in (End.RESET, End.HANG)
            or self.repeat != 1 or len(self.body) > 4 * BLOCK
        )  # fmt: skip

    def head_bytes(self, date: str, *, close: bool = False) -> bytes:
        """Return the head, blank line included; `date` is the Date header's text."""
        if self.head is not None:
            return self.head
        lines = [
            f"HTTP/1.1 {self.status} {REASONS.get(self.status, 'Odd')}",
            f"Date: {date}",
            "Server: toyweb",
        ]
        lines += [f"{name}: {value}" for name, value in self.headers]
        if self.framing is Framing.CHUNKED:
            lines.append("Transfer-Encoding: chunked")
        elif self.framing is Framing.LENGTH and self.status not in BODYLESS:
            lines.append(f"Content-Length: {len(self.body) * max(self.repeat, 1)}")
        if close or self.framing is Framing.CLOSE:
            lines.append("Connection: close")
        return "\r\n".join([*lines, "\r\n"]).encode("latin-1")

    def body_pieces(self) -> Iterator[bytes]:
        """Yield the body as it goes on the wire, transfer coding applied, in pieces of at most `BLOCK` bytes."""
        if self.wire_body is not None:
            yield self.wire_body
            return
        size = self.piece_bytes or BLOCK
        chunked = self.framing is Framing.CHUNKED
        turn = 0
        while self.repeat == 0 or turn < self.repeat:
            for start in range(0, len(self.body), size):
                piece = self.body[start : start + size]
                yield b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece
            turn += 1
        if chunked:
            yield b"0\r\n\r\n"

    def pieces(self, date: str, *, method: str = "GET", close: bool = False) -> Iterator[bytes]:
        """Yield everything that is sent, head first, up to `cut` bytes."""
        left = self.cut
        for piece in self._whole(date, method, close):
            if left is None:
                yield piece
                continue
            yield piece[:left]
            left -= len(piece)
            if left <= 0:
                return

    def _whole(self, date: str, method: str, close: bool) -> Iterator[bytes]:
        head = self.head_bytes(date, close=close)
        step = self.piece_bytes if self.piece_head else len(head)
        yield from (head[start : start + step] for start in range(0, len(head), step or 1))
        if method != "HEAD" and (self.status not in BODYLESS or self.wire_body is not None):
            yield from self.body_pieces()


def http_date(ms: int) -> str:
    """Return an HTTP date.

    >>> http_date(784111777000)
    'Sun, 06 Nov 1994 08:49:37 GMT'
    """
    return formatdate(ms // 1000, usegmt=True)
