"""The spool: the WARC file that a fetch partition appends to while it runs; `cycle/seal.py` makes the final one."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from pipelines.net.exchange import Exchange
from pipelines.net.warc_write import (
    Headers,
    RecordMaker,
    Revisit,
    Stored,
    WarcError,
    WarcInfo,
    pair,
    warcinfo_member,
)

SPILL_BYTES = 4 << 20  # a spool buffers no more than this


class Spool:
    """The WARC file that a fetch partition appends to; `add` in one thread, `flush` in any.

    Members are made in memory and appended whole. Bytes are safe after `flush`; the `size` before it goes into
    the flush's manifest, and `reopen` cuts the file back to it.
    """

    def __init__(self, path: Path | str, info: WarcInfo) -> None:
        """Make the file (what was there under the name is lost) and put the warcinfo record in front."""
        self._open(Path(path), info, os.O_CREAT | os.O_TRUNC, 0)
        self._append(warcinfo_member(info))

    @classmethod
    def reopen(cls, path: Path | str, info: WarcInfo, size: int) -> Spool:
        """Go on after `size` bytes: what lies behind them, a torn tail, is cut off.

        Raises WarcError where the file is absent or shorter: flushed bytes were lost, and with them captures.
        """
        path = Path(path)
        if size == 0:
            return cls(path, info)
        there = path.stat().st_size if path.exists() else 0
        if there < size:
            raise WarcError(f"spool {path}: {size} bytes were flushed, {there} are there; captures are lost")
        spool = cls.__new__(cls)
        spool._open(path, info, 0, size)
        os.ftruncate(spool._fd, size)
        return spool

    def _open(self, path: Path, info: WarcInfo, flags: int, size: int) -> None:
        self.path, self.info, self.size = path, info, size
        self._fd = os.open(path, os.O_WRONLY | flags, 0o644)
        self._maker = RecordMaker()
        self._pending: list[bytes] = []
        self._written = size
        self._named = False
        self._file = threading.Lock()
        """Held while the file is written to, so that members stand in it in their order."""
        self._handing = threading.Lock()
        """Held for the moment in which what is pending changes hands; never while the disk is waited for."""

    def add(
        self, exchange: Exchange, *, record_date: str, record_id: str, payload: bytes | None = None,
        truncated: str | None = None, revisit: Revisit | None = None,
    ) -> Stored:  # fmt: skip
        """Append an answer and the request that brought it; arguments and errors as in `pair`.

        record_date: as `warc_date` makes it, the start of the request. record_id: `urn:uuid:…` of the answer.
        """
        answer, request, digest = pair(
            self._maker, exchange, warcinfo_id=self.info.warcinfo_id, record_date=record_date,
            record_id=record_id, payload=payload, truncated=truncated, revisit=revisit,
        )  # fmt: skip
        offset = self.size
        self._append(answer, request)
        return Stored(record_id, offset, len(answer), digest, len(answer) + len(request))

    def add_record(self, headers: Headers, block: bytes) -> tuple[int, int]:
        """Append another record (metadata, resource …), return its offset and length.

        headers: from WARC-Type on, without digest and length; the warcinfo id is added.
        """
        made = self._maker.member([*headers, ("WARC-Warcinfo-ID", f"<{self.info.warcinfo_id}>")], block)
        offset = self.size
        self._append(made)
        return offset, len(made)

    def _append(self, *members: bytes) -> None:
        with self._handing:
            self._pending.extend(members)
        self.size += sum(map(len, members))
        if self.size - self._written > SPILL_BYTES:
            self._write()

    def _write(self) -> None:
        with self._file:
            with self._handing:
                pending, self._pending = self._pending, []
            data = b"".join(pending)
            try:
                write_all(self._fd, data, self._written)
            except OSError:
                with self._handing:
                    self._pending = [data, *self._pending]
                os.ftruncate(self._fd, self._written)
                raise
            self._written += len(data)

    def flush(self) -> int:
        """Write and fsync what was added before the call; return the size that is now safe.

        Raises OSError (full disk): the file is cut back to its last whole state, and a later flush tries again.
        """
        self._write()
        safe = self._written
        os.fsync(self._fd)
        if not self._named:
            sync_folder(self.path.parent)
            self._named = True
        return safe

    def close(self) -> None:
        """Flush and close; a second call does nothing."""
        if self._fd < 0:
            return
        self.flush()
        os.close(self._fd)
        self._fd = -1


def write_all(fd: int, data: bytes, offset: int) -> None:
    """Write all bytes at the offset, however many calls that takes."""
    view = memoryview(data)
    while view:
        done = os.pwrite(fd, view, offset)
        view, offset = view[done:], offset + done


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
