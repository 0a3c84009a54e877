"""The decompressed bytes of an archive file, in pieces that know where they came from, damage named.

gzip (one member a record, or the whole file as one), zstd frames, and plain files. After damage the pieces go on
at the next gzip member that begins like a record.
"""

from __future__ import annotations

import mmap
import re
import sys
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

GZIP_MAGIC = b"\x1f\x8b\x08"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIP = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18", re.S)
_DICTIONARY = b"\x5d\x2a\x4d\x18"  # the frame that holds a file's dictionary (WARC zstd proposal)
_STEP = 1 << 16  # compressed bytes fed at a time
Source = Path | str | bytes | BinaryIO
_PIECE = 1 << 20  # most decompressed bytes in a piece: a bomb comes in slices
_RECORD_START = re.compile(rb"\s*+(?:WARC/\d|filedesc:|[a-z]++:\S++ [0-9.]++ \d{14} )", re.I)
_UNREADABLE = {
    b"PK\x03\x04": "a zip archive (WACZ?): read the WARC files inside it",
    b"\x04\x22\x4d\x18": "LZ4 frames, which are not read here: recompress the file with gzip",
    b"\xfd7zX": "an xz file, which is not read here: recompress it with gzip",
    b"BZh": "a bzip2 file, which is not read here: recompress it with gzip",
}


class Piece(NamedTuple):
    """Some decompressed bytes.

    offset: in the file, of the gzip member or frame (of the bytes themselves in a plain file).
    start: it is the first of its member. end: file offset behind the member; None = more of it follows.
    plain: the file has no members.
    """

    offset: int
    data: bytes
    start: bool = False
    end: int | None = None
    plain: bool = False


class Damage(NamedTuple):
    """A gap: what precedes it in the stream does not join what follows."""

    offset: int
    what: str


@contextmanager
def opened(source: Source) -> Iterator[memoryview]:
    """Give the bytes of a path (mapped, not read), a file object or a bytes object."""
    if isinstance(source, bytes):
        yield memoryview(source)
    elif not isinstance(source, (str, Path)):
        yield memoryview(source.read())
    elif Path(source).stat().st_size == 0:
        yield memoryview(b"")
    else:
        with Path(source).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            view = memoryview(mapped)
            try:
                yield view
            finally:
                view.release()


def pieces(data: memoryview) -> Iterator[Piece | Damage]:
    """Yield the decompressed bytes of a whole file; never raises for what the bytes are."""
    head = bytes(data[:4])
    for magic, what in _UNREADABLE.items():
        if head.startswith(magic):
            yield Damage(0, what)
            return
    if not data:
        yield Damage(0, "the file is empty")
    elif head == _ZSTD_MAGIC or _ZSTD_SKIP.match(head):
        yield from _zstd(data)
    elif head[:2] == GZIP_MAGIC[:2] or (
        not _RECORD_START.match(data[:256]) and _next_member(data, 0) is not None
    ):
        yield from _gzip(data)
    else:
        for offset in range(0, len(data), _PIECE):
            yield Piece(offset, bytes(data[offset : offset + _PIECE]), plain=True)


def _gzip(data: memoryview) -> Iterator[Piece | Damage]:
    at = 0
    while at < len(data):
        if data[at : at + 3] == GZIP_MAGIC:
            end = yield from _member(data, at)
            if end:
                at = end
                continue
            beyond = _next_member(data, at + 1)
        else:
            beyond = _next_member(data, at)
            gap = bytes(data[at : len(data) if beyond is None else beyond])
            yield Damage(at, _gap(gap))
        if beyond is None:
            return
        at = beyond


def _gap(gap: bytes) -> str:
    if not gap.strip(b"\0"):
        return f"{len(gap)} zero bytes where a gzip member should begin"
    return f"{len(gap)} bytes that are no gzip member, beginning {gap[:24]!r}"


def _member(data: memoryview, at: int) -> Generator[Piece | Damage, None, int]:
    """Yield one member's pieces; return the offset behind it, 0 after damage."""
    inflater, fed, tail, start = zlib.decompressobj(31), at, b"", True
    while not inflater.eof:
        if not tail:
            if fed >= len(data):
                yield Damage(at, f"the gzip member is cut off: the file ends after {fed - at} bytes of it")
                return 0
            tail = bytes(data[fed : fed + _STEP])
            fed += len(tail)
        try:
            out = inflater.decompress(tail, _PIECE)
        except zlib.error as fault:
            yield Damage(
                at, f"the gzip member is damaged within its first {fed - at} bytes: {_reason(fault)}"
            )
            return 0
        tail = inflater.unconsumed_tail
        if not inflater.eof and out:
            yield Piece(at, out, start)
            start = False
    end = fed - len(inflater.unused_data)
    yield Piece(at, out, start, end)
    return end


def _reason(fault: Exception) -> str:
    """Return zlib's own words without its prefix."""
    return str(fault).rsplit(": ", 1)[-1]


def _next_member(data: memoryview, at: int) -> int | None:
    """Return the offset of the next gzip member that begins like a record, or None."""
    for found in re.finditer(GZIP_MAGIC, data[at:]):
        try:
            start = zlib.decompressobj(31).decompress(bytes(data[at + found.start() :][:4096]), 256)
        except zlib.error:
            continue
        if _RECORD_START.match(start):
            return at + found.start()
    return None


def _zstd(data: memoryview) -> Iterator[Piece | Damage]:
    """Yield the frames of a `.warc.zst`; damage ends the file, as frames have no mark to find again."""
    at, dictionary = 0, None
    while at < len(data):
        try:
            if skipped := _skippable(data, at):
                if data[at : at + 4] == _DICTIONARY:
                    dictionary = _dictionary(bytes(data[at + 8 : at + skipped]))
                at += skipped
                continue
            at = yield from _frame(data, at, zstd.ZstdDecompressor(dictionary))
        except (zstd.ZstdError, ValueError) as fault:
            yield Damage(at, f"the zstd frame is damaged: {fault}")
            return


def _skippable(data: memoryview, at: int) -> int:
    """Return the bytes of a frame that holds no content; 0 for one that does."""
    if not _ZSTD_SKIP.match(data[at : at + 4]):
        return 0
    return 8 + int.from_bytes(data[at + 4 : at + 8], "little")


def _dictionary(held: bytes) -> zstd.ZstdDict:
    return zstd.ZstdDict(zstd.decompress(held) if held[:4] == _ZSTD_MAGIC else held)


def _frame(
    data: memoryview, at: int, inflater: zstd.ZstdDecompressor
) -> Generator[Piece | Damage, None, int]:
    """Yield one frame's pieces; return the offset behind it."""
    start, fed, out = True, at, b""
    while not inflater.eof:
        feed = b""
        if inflater.needs_input:
            if fed >= len(data):
                yield Damage(at, f"the zstd frame is cut off: the file ends after {fed - at} bytes of it")
                return len(data)
            feed = bytes(data[fed : fed + _STEP])
            fed += len(feed)
        out = inflater.decompress(feed, _PIECE)
        if out and not inflater.eof:
            yield Piece(at, out, start)
            start = False
    end = fed - len(inflater.unused_data)
    yield Piece(at, out, start, end)
    return end


@dataclass(slots=True)
class _Mark:
    """Where a piece lies in the buffer (`at` may be below 0: its first bytes are used up)."""

    at: int
    size: int
    piece: Piece
    end: int | None


class Buffer:
    """The bytes of a run of pieces that are not used up yet, and the file places of their positions."""

    def __init__(self, source: Iterator[Piece | Damage]) -> None:
        self._source = source
        self.data = bytearray()
        self.damage: Damage | None = None  # what ends this run
        self.over = False  # nothing follows
        self._marks: list[_Mark] = []

    def fill(self, size: int) -> bool:
        """Read on until there are `size` bytes; False where damage or the end comes before."""
        while len(self.data) < size:
            if self.damage or self.over:
                return False
            self._take(next(self._source, None))
        return True

    def _take(self, piece: Piece | Damage | None) -> None:
        if piece is None:
            self.over = True
        elif isinstance(piece, Damage):
            self.damage = piece
        elif piece.data:
            self._marks.append(_Mark(len(self.data), len(piece.data), piece, piece.end))
            self.data += piece.data
        elif self._marks:
            self._marks[-1].end = piece.end

    def drop(self, size: int) -> None:
        """Forget the first bytes."""
        del self.data[:size]
        for mark in self._marks:
            mark.at -= size
        while self._marks and self._marks[0].at + self._marks[0].size <= 0:
            del self._marks[0]

    def next_run(self) -> Damage | None:
        """Return the damage that ended this run, and go on behind it."""
        damage, self.damage = self.damage, None
        self.data.clear()
        self._marks.clear()
        return damage

    def offset(self) -> int:
        """Return the file offset of the first byte: of its gzip member, where there are members."""
        first = self._marks[0]
        return first.piece.offset - (first.at if first.piece.plain else 0)

    def extent(self, end: int) -> int:
        """Return the file bytes of what lies before `end`; 0 where that is not a whole number of members."""
        first, last = self._marks[0], next(mark for mark in reversed(self._marks) if mark.at < end)
        if first.piece.plain:
            return end
        whole = first.at == 0 and first.piece.start and last.at + last.size == end and last.end is not None
        return (last.end or 0) - first.piece.offset if whole else 0

    @property
    def plain(self) -> bool:
        """The file has no members."""
        return self._marks[0].piece.plain

    def ends(self, end: int) -> bool:
        """Say whether a member, or the whole run without damage, ends at the position."""
        if end == len(self.data) and self.over:
            return True
        return any(mark.at + mark.size == end and mark.end is not None for mark in self._marks)

    def starts(self) -> list[int]:
        """Return the positions at which a member begins."""
        return [mark.at for mark in self._marks if mark.piece.start]
