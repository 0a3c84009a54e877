"""WARC and ARC read: every sound record, every fault in words, and on at the next good record.

Reads files of one gzip member a record (with offsets for `read_at`), files compressed as a whole, zstd frames
and plain files; WARC 0.17 to 1.1, and ARC, whose fields come under the names of WARC.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from pipelines.net.warc_record import Headers, WarcFault, WarcRecord, fields
from pipelines.net.warc_stream import Buffer, Damage, Source, opened, pieces
from pipelines.net.warc_write import WarcError

HEADER_BYTES = 1 << 20  # most bytes of a record header
BLOCK_BYTES = 1 << 30  # most bytes of a block that is read into memory

_VERSION = re.compile(rb"WARC/(\d\.\d+)[ \t]*\r*\n", re.I)
_BLANK_LINE = re.compile(rb"\n\r*\n")
_NEXT_WARC = re.compile(rb"\n(?=WARC/\d\.\d+[ \t]*\r*\n)", re.I)
_ARC_FIELDS = rb"[^\s/]+:[^\r\n]* \S+ (?:\d{8,18}|-) \S+ (?:\S+ \S+ \S+ \d+ \S+ )?-?\w+\r?\n"
_ARC_LINE = re.compile(_ARC_FIELDS)
_NEXT_ARC = re.compile(rb"\n(?=" + _ARC_FIELDS + rb")")


def read_records(source: Source, *, block_bytes: int = BLOCK_BYTES) -> Iterator[WarcRecord | WarcFault]:
    """Yield the records and faults of a file in order of their place; never raises for what the bytes are.

    source: a path, or the bytes of a file, or an open one. A block over `block_bytes` is a fault, and skipped.
    """
    with opened(source) as data:
        found = None
        for found in _Parser(Buffer(pieces(data)), block_bytes).run():
            yield found
        if found is None:
            yield WarcFault(0, "no record in the file")


def read_at(path: Path | str, offset: int, length: int) -> WarcRecord:
    """Return the record at a place that a capture row or CDXJ line names; WarcError says what is wrong there."""
    with Path(path).open("rb") as file:
        file.seek(offset)
        found = next(read_records(file.read(length)), None)
    if isinstance(found, WarcRecord) and found.length == length:
        found.offset = offset
        return found
    what = found.what if isinstance(found, WarcFault) else "no record of that length"
    raise WarcError(f"{path}: byte {offset}, {length} bytes: {what}")


def members(path: Path | str) -> Iterator[tuple[int, int]]:
    """Yield offset and length of each gzip member; WarcError at the first damage."""
    with opened(path) as data:
        for piece in pieces(data):
            if isinstance(piece, Damage):
                raise WarcError(f"{path}: byte {piece.offset}: {piece.what}")
            if piece.end is not None:
                yield piece.offset, piece.end - piece.offset


class _Parser:
    """Finds the records in the bytes of a file."""

    def __init__(self, buffer: Buffer, block_bytes: int) -> None:
        self._buffer = buffer
        self._block_bytes = block_bytes
        self._arc = False  # an ARC file: WARC and ARC records do not mix
        self._named = -1  # offset of the member that was reported as no member of one record

    def run(self) -> Iterator[WarcRecord | WarcFault]:
        buffer = self._buffer
        while True:
            buffer.drop(self._blank(0))
            if buffer.data:
                yield from self._next()
            elif damage := buffer.next_run():
                yield WarcFault(damage.offset, damage.what)
            elif buffer.over:
                return

    def _next(self) -> Iterator[WarcRecord | WarcFault]:
        buffer = self._buffer
        buffer.fill(1 << 13)
        if version := _VERSION.match(buffer.data):
            yield from self._warc(version)
        elif (line := _ARC_LINE.match(buffer.data)) and (self._arc or buffer.offset() == 0):
            self._arc = True
            yield from self._arc_record(line[0])
        else:
            yield self._garbage()

    def _blank(self, at: int) -> int:
        """Return the position behind the line ends at `at`."""
        buffer = self._buffer
        while buffer.fill(at + 1) and buffer.data[at] in b"\r\n":
            at += 1
        return at

    def _warc(self, version: re.Match[bytes]) -> Iterator[WarcRecord | WarcFault]:
        end = self._header_end(version.end() - 1)
        if not end:
            yield self._garbage("a record header without end")
            return
        headers = _header(bytes(self._buffer.data[version.end() : end]))
        record = WarcRecord(self._buffer.offset(), 0, "", version[1].decode(), headers, b"")
        record.type = record.header("WARC-Type") or ""
        yield from self._block(record, end, record.header("Content-Length"))

    def _header_end(self, at: int) -> int:
        """Return the position behind the blank line that ends a record header; 0 where there is none."""
        buffer, size = self._buffer, 1 << 13
        while not (found := _BLANK_LINE.search(buffer.data, at)):
            size *= 2
            if size > HEADER_BYTES or not buffer.fill(len(buffer.data) + 1):
                return 0
            buffer.fill(size)
        return found.end()

    def _arc_record(self, line: bytes) -> Iterator[WarcRecord | WarcFault]:
        words = line.decode("utf-8", "replace").split()
        tail = 4 if not re.fullmatch(rb".*( \S+){5} \d+ \S+ -?\w+\s*", line) or len(words) < 10 else 9
        url, address, date, kind = " ".join(words[:-tail]), *words[-tail : -tail + 3]
        length = words[-1]
        named = [("WARC-Target-URI", url), ("WARC-IP-Address", address), ("WARC-Date", _arc_date(date)),
                 ("Content-Type", kind), ("Content-Length", length)]  # fmt: skip
        type_ = "arc_header" if url.startswith("filedesc:") else "response"
        record = WarcRecord(self._buffer.offset(), 0, type_, "ARC", named, b"")
        yield from self._block(record, len(line), length)

    def _block(self, record: WarcRecord, start: int, length: str | None) -> Iterator[WarcRecord | WarcFault]:
        """Yield the record that has its header before `start`, or the fault of its block, and use it up."""
        buffer = self._buffer
        if length is None or not (length.isascii() and length.isdigit()):
            said = "is missing" if length is None else f"is {length!r}, no number of bytes"
            yield self._cut(record, start, self._next_start(start, None), f"Content-Length {said}")
            return
        end = start + int(length)
        if end - start > self._block_bytes:
            yield self._skipped(record, end)
            return
        if not buffer.fill(end):
            stop = self._next_start(start, len(buffer.data))
            there = f"Content-Length says {length}, {(stop or len(buffer.data)) - start} bytes are there"
            yield self._cut(record, start, stop, f"the record is cut off: {there}")
            return
        behind = self._blank(end)
        if self._follows(behind):
            yield from self._whole(record, start, end, behind)
            return
        stop = self._next_start(start, end)
        if stop or behind == end:
            said = f"Content-Length says {length}, which is too {'many' if stop else 'few'}"
            yield self._cut(record, start, stop or end, said)
            return
        yield from self._whole(record, start, end, behind)

    def _whole(
        self, record: WarcRecord, start: int, end: int, behind: int
    ) -> Iterator[WarcRecord | WarcFault]:
        buffer = self._buffer
        record.block = bytes(buffer.data[start:end])
        record.length = buffer.extent(end if buffer.plain else behind)
        damage = buffer.damage if not buffer.ends(behind) else None
        buffer.drop(behind)
        if damage and not buffer.data:
            buffer.next_run()
            yield WarcFault(record.offset, damage.what, record)
            return
        yield record
        if not record.length and self._named != record.offset:
            self._named = record.offset
            yield WarcFault(
                record.offset, "the gzip member does not hold exactly one record: no random access"
            )

    def _follows(self, at: int) -> bool:
        """Say whether a record, a member or the end is at the position."""
        buffer = self._buffer
        if not buffer.fill(at + 1) or at in buffer.starts():
            return True
        buffer.fill(at + (1 << 13))
        return bool((_ARC_LINE if self._arc else _VERSION).match(buffer.data, at))

    def _next_start(self, at: int, stop: int | None) -> int:
        """Return the position of the next record at or behind `at` and before `stop`; 0 = there is none.

        stop: None = look as far as the run goes, and return its end where there is none.
        """
        buffer, pattern = self._buffer, _NEXT_ARC if self._arc else _NEXT_WARC
        while stop is None and buffer.fill(len(buffer.data) + 1):
            if len(buffer.data) > self._block_bytes or pattern.search(buffer.data, at - 1):
                break
        limit = len(buffer.data) if stop is None else stop
        found = pattern.search(buffer.data, at - 1, min(limit + 64, len(buffer.data)))
        begun = [found.end()] if found and found.end() < limit else []
        begun += [
            start for start in buffer.starts() if at < start < limit and _VERSION.match(buffer.data, start)
        ]
        return min(begun, default=limit if stop is None else 0)

    def _cut(self, record: WarcRecord, start: int, stop: int, what: str) -> WarcFault:
        """Return the fault of a record, with what there is of its block up to `stop` (0 = all), and use that up."""
        buffer = self._buffer
        stop = stop or len(buffer.data)
        record.block = bytes(buffer.data[start:stop])
        if stop < len(buffer.data):
            record.block = re.sub(rb"(?:\r?\n){1,2}\Z", b"", record.block)
        buffer.drop(stop)
        return WarcFault(record.offset, self._closed(what), record)

    def _skipped(self, record: WarcRecord, end: int) -> WarcFault:
        """Use up a block that is too big to be read."""
        buffer, size = self._buffer, end
        while end > 0 and buffer.fill(1):
            step = min(end, len(buffer.data))
            buffer.drop(step)
            end -= step
        return WarcFault(record.offset, f"a record of {size} bytes is over the limit of {self._block_bytes}")

    def _garbage(self, what: str = "bytes that begin no record") -> WarcFault:
        """Use up what begins no record, up to what does, and return its fault."""
        buffer = self._buffer
        offset, preview, used, found = buffer.offset(), bytes(buffer.data[:40]), 0, 0
        while not found:
            found = self._next_start(1, len(buffer.data))
            if not found and buffer.fill(len(buffer.data) + 1):
                step = max(0, len(buffer.data) - (2 << 20))  # what was looked through, but for its end
            else:
                step = found = found or len(buffer.data)
            buffer.drop(step)
            used += step
        return WarcFault(offset, self._closed(f"{what}: {used} bytes, {preview[:used]!r}"))

    def _closed(self, what: str) -> str:
        """Return the words of a fault that used up a run, with those of the damage that ended the run."""
        if self._buffer.damage is None or self._buffer.data:
            return what
        damage = self._buffer.next_run()
        return f"{what}; {damage.what}" if damage else what


def _header(lines: bytes) -> Headers:
    """Return the fields of a record header: UTF-8, or Latin-1 where it is none."""
    try:
        lines.decode()
    except UnicodeDecodeError:
        return fields(lines, "latin-1")
    return fields(lines, "utf-8")


def _arc_date(digits: str) -> str:
    """Return an ARC date as a WARC-Date; what is none stays as it is."""
    try:
        return datetime.strptime(digits[:14], "%Y%m%d%H%M%S").strftime("%Y-%m-%dT%H:%M:%SZ")
    except ValueError:
        return digits
