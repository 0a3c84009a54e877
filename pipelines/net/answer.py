"""The machine that reads one HTTP/1 answer from bytes as they arrive, whatever their state.

It has no clock and no socket: it is fed bytes, told of the end, and says what it has. It is as lenient as a
browser (a page that a browser would show is kept), and bounded: head and body stop at their limits.
"""

from __future__ import annotations

import re

from pipelines.net.head import HEAD_START, Framing, Head, read_head

HEAD_CEILING = (
    262_144  # bytes of a head that are read to find its end, as in Chromium; what is kept may be less
)
LINE_CEILING = 16_384  # bytes of a chunk-size or trailer line, as in Chromium
INTERIM_CEILING = 64  # 1xx answers before the final one
MAYBE_CHUNK = re.compile(
    rb"[ \t\r]*(?:[0-9A-Fa-f]|\Z)"
)  # the beginning of a line that may turn out a chunk size
CHUNK_SIZE = re.compile(rb"[ \t]*([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?", re.DOTALL)


class AnswerReader:
    """One answer being read. Feed until `done`, or tell it `end_of_stream`.

    head: what the head says, None until it is complete. raw_head: its bytes. body(): the entity so far.
    truncated: 'length' or 'disconnect' where the body is not whole. fault: why no answer can be made of the
    bytes. flaws: what was forgiven. extra: bytes came behind the answer's end.
    """

    __slots__ = (
        "_body_bytes", "_buffer", "_chunk_left", "_header_bytes", "_in_trailer", "_interim", "_left", "_method",
        "_owes_crlf", "_parts", "_room", "_searched", "_trailer_bytes", "chunks", "done", "extra", "fault", "flaws",
        "head", "raw_head", "truncated",
    )  # fmt: skip

    def __init__(
        self, *, method: str = "GET", header_bytes: int = 65_536, body_bytes: int = 10_485_760
    ) -> None:
        self._method = method
        self._header_bytes = header_bytes
        self._body_bytes = body_bytes
        self._buffer = b""  # of the head, or of an unfinished chunk line
        self._searched = 0
        self._interim = 0
        self._parts: list[bytes] = []
        self._room = body_bytes  # what may still be kept
        self._left = 0  # of a Content-Length
        self._chunk_left = 0
        self._owes_crlf = False
        self._in_trailer = False
        self._trailer_bytes = 0
        self.chunks = 0
        self.head: Head | None = None
        self.raw_head = b""
        self.truncated: str | None = None
        self.fault: str | None = None
        self.flaws: list[str] = []
        self.done = False
        self.extra = False

    @property
    def started(self) -> bool:
        """Whether any byte of an answer came."""
        return self.head is not None or bool(self._buffer) or self._interim > 0

    @property
    def reusable(self) -> bool:
        """Whether the connection may carry another request."""
        return (
            self.done
            and self.head is not None
            and self.head.keep
            and self.truncated is None
            and self.fault is None
            and not self.extra
        )

    def body(self) -> bytes:
        """Return the entity received so far: transfer framing removed, at most the limit."""
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)

    def partial_head(self) -> bytes:
        """Return the bytes received of a head that is not complete."""
        return self._buffer[: self._header_bytes] if self.head is None else b""

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the connection."""
        if self.done:
            self.extra = self.extra or bool(data)
        elif self.head is None:
            self._feed_head(data)
        else:
            self._feed_body(data)

    def end_of_stream(self, *, clean: bool = True) -> None:
        """Take note that the connection ended; clean: by the server's closing it, not by a reset."""
        if self.done:
            return
        self.done = True
        if self.head is None:
            return
        self.head.keep = False
        framing = self.head.framing
        if framing is Framing.CLOSE:
            whole = clean
        elif framing is Framing.CHUNKED:
            if self._buffer and not self.chunks:
                self._no_chunk(self._buffer)
            whole = self._in_trailer or (clean and not self.chunks and bool(self._parts))
        else:
            whole = self._left == 0
        if not whole:
            self.truncated = self.truncated or "disconnect"

    def _feed_head(self, data: bytes) -> None:
        buffer = self._buffer + data if self._buffer else data
        if not self._searched:
            buffer = buffer.lstrip(b"\r\n")  # blank lines before the answer: left over from a body before
        end = _end_of_head(buffer, self._searched)
        if end < 0:
            self._buffer = buffer
            self._searched = max(0, len(buffer) - 2)
            self._refuse_endless_head(buffer)
            return
        self._buffer, self._searched = b"", 0
        head = read_head(buffer[:end], method=self._method)
        if head is None:
            self._fail(f"no HTTP answer: {buffer[:60]!r}")
            self._buffer = buffer[:end]
        elif head.status < 200 and head.status != 101:
            self._skip_interim(buffer[end:])
        else:
            self._begin_body(head, buffer[:end], buffer[end:])

    def _refuse_endless_head(self, buffer: bytes) -> None:
        if len(buffer) >= 16 and not HEAD_START.match(buffer):
            self._fail(f"no HTTP answer: {buffer[:60]!r}")
        elif len(buffer) > HEAD_CEILING:
            self._fail(f"answer head is longer than {HEAD_CEILING} bytes")
            self.truncated = "length"

    def _skip_interim(self, rest: bytes) -> None:
        self._interim += 1
        if self._interim > INTERIM_CEILING:
            self._fail(f"more than {INTERIM_CEILING} interim answers")
        elif rest:
            self._feed_head(rest)

    def _begin_body(self, head: Head, raw: bytes, rest: bytes) -> None:
        self.head, self.raw_head, self.flaws = head, raw, head.flaws
        if len(raw) > self._header_bytes:
            self._cut_head()
        if head.framing is Framing.LENGTH:
            self._left = head.length
        if head.framing is Framing.NONE or (head.framing is Framing.LENGTH and not head.length):
            self.done = True
            self.extra = bool(rest)
        elif rest:
            self._feed_body(rest)

    def _cut_head(self) -> None:
        """Keep the lines of an oversized head that fit, and the blank line; the framing is known by now."""
        assert self.head is not None
        kept = self.raw_head[: self._header_bytes]
        kept = kept[: kept.rfind(b"\n") + 1]
        shorter = read_head(kept + b"\r\n", method=self._method) if kept else None
        self.raw_head = kept + b"\r\n"
        self.head.headers = shorter.headers if shorter else []
        self.truncated = "length"
        self.flaws.append(f"answer head cut at {self._header_bytes} bytes")

    def _feed_body(self, data: bytes) -> None:
        assert self.head is not None
        if self.head.framing is Framing.CHUNKED:
            self._feed_chunks(data)
        elif self.head.framing is Framing.CLOSE:
            self._keep(data)
        elif len(data) < self._left:
            self._left -= len(data)
            self._keep(data)
        else:
            self.extra = len(data) > self._left
            if self.extra:
                self.flaws.append(f"bytes behind the announced Content-Length of {self.head.length}")
                data = data[: self._left]
            self._left = 0
            self._keep(data)
            self.done = True

    def _keep(self, data: bytes) -> None:
        if len(data) > self._room:
            data = data[: self._room]
            self.truncated = "length"
            self.done = True
        if data:
            self._room -= len(data)
            self._parts.append(data)

    def _feed_chunks(self, data: bytes) -> None:
        if self._buffer:
            data, self._buffer = self._buffer + data, b""
        at, size = 0, len(data)
        while at < size and not self.done:
            if self._chunk_left:
                piece = data[at : at + self._chunk_left]
                at += len(piece)
                self._chunk_left -= len(piece)
                self._owes_crlf = not self._chunk_left
                self._keep(piece)
                continue
            end = data.find(b"\n", at)
            if end < 0 or (self._owes_crlf and data[at] not in b"\r\n"):
                self._wait_for_line(data[at:])
                return
            if not self._chunk_line(data[at:end].rstrip(b"\r")):
                self._no_chunk(data[at:])
                return
            at = end + 1
        if at < size and self.done and self.fault is None and self.truncated is None:
            self.extra = True

    def _wait_for_line(self, rest: bytes) -> None:
        if self._owes_crlf:
            if rest[0] not in b"\r\n" or len(rest) > LINE_CEILING:
                self._break_off(f"chunk {self.chunks} is not followed by a line end")
                return
        elif len(rest) > LINE_CEILING or not (self._in_trailer or MAYBE_CHUNK.match(rest)):
            self._no_chunk(rest)
            return
        self._buffer = rest

    def _chunk_line(self, line: bytes) -> bool:
        """Take a line of the chunk framing; False where it should be a chunk size and is none."""
        if self._in_trailer:
            self._trailer_bytes += len(line) + 2
            if not line or self._trailer_bytes > HEAD_CEILING:
                self.done = True
                self.extra = bool(line)
        elif self._owes_crlf:
            self._owes_crlf = False
            if line:  # "\rrubbish\n": a line end was owed and something else came
                self._break_off(f"chunk {self.chunks} is not followed by a line end")
        elif match := CHUNK_SIZE.fullmatch(line):
            self._chunk_left = int(match[1], 16)
            self.chunks += 1
            self._in_trailer = not self._chunk_left
        else:
            return False
        return True

    def _no_chunk(self, rest: bytes) -> None:
        """Meet what is no chunk size: a plain body from the start, or the end of what can be read."""
        assert self.head is not None
        if self.chunks:
            self._break_off(f"no chunk size behind chunk {self.chunks}: {rest[:20]!r}")
            return
        self.flaws.append("called chunked, but sent plain")
        self.head.framing, self.head.keep = Framing.CLOSE, False
        self._keep(rest)  # and goes on to the close of the connection

    def _break_off(self, flaw: str) -> None:
        self.flaws.append(flaw)
        self.truncated = self.truncated or "disconnect"
        self.done = True

    def _fail(self, fault: str) -> None:
        self.fault = fault
        self.done = True


def _end_of_head(buffer: bytes, start: int) -> int:
    """Return where the head ends (behind its blank line), or -1; line ends may be CRLF or LF."""
    crlf = buffer.find(b"\n\r\n", start)
    bare = buffer.find(b"\n\n", start, crlf + 1 if crlf >= 0 else len(buffer))
    if bare >= 0:
        return bare + 2
    return crlf + 3 if crlf >= 0 else -1
