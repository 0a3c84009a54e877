"""Stored records copied into one WARC file, byte for byte, with what is needed to read them.

A request goes with its answer, and the warcinfo record of each file that something is taken from. A revisit record is of no use without the record that holds its bytes: such
originals are fetched from wherever in the lake they lie.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
from isal import isal_zlib

from lake import runs
from lake.snapshot import Lake, crawl_name
from pipelines.export.selection import PLACED
from pipelines.failure import Failure
from pipelines.net import cdxj
from pipelines.net.warc import WarcError, WarcInfo, first_member, warcinfo_member

Row = dict[str, Any]
_AHEAD = 16_384  # bytes read behind an answer for its request; a longer one is read again
_MOST_REQUEST = 1 << 20
_MOST_INFO = 1 << 20


@dataclass
class WarcCopy:
    """Writes a WARC file to a stream. `lines`: the CDXJ of what was written; `pages`: entries for a page list."""

    lake: Lake
    sink: BinaryIO
    filename: str
    size: int = 0
    records: int = 0
    lines: list[str] = field(default_factory=list)
    _file: BinaryIO | None = None
    _name: str = ""
    _informed: set[str] = field(default_factory=set)
    _has: set[str] = field(default_factory=set)
    _wants: set[str] = field(default_factory=set)

    def begin(self, info: WarcInfo) -> None:
        """Write the warcinfo record."""
        self._write(warcinfo_member(info))

    def copy(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Copy the record of each row, and yield the row when it is written.

        rows: the columns of `selection.PLACED`. Raises Failure for a record that is not where the lake says.
        """
        for row in rows:
            self._one(row)
            if row["content_digest"]:  # a 304 may confirm what was fetched before the lake was
                (self._wants if row["record_type"] == "revisit" else self._has).add(row["content_digest"])
            yield row

    def copy_originals(self) -> int:
        """Copy the records that hold the bytes of revisits and were not among the rows; return their number."""
        missing = sorted(self._wants - self._has)
        files = self.lake.files("contents")
        copied = 0
        for start in range(0, len(missing), 10_000):
            wanted = missing[start : start + 10_000]
            keys = np.sort(np.array([digest_key(digest) for digest in wanted], dtype=np.int64))
            rows = [row for row in runs.lookup(files, keys).to_pylist() if row["digest"] in self._wants]
            small = sorted(set(wanted) - {row["digest"] for row in rows})
            for captures in (_captures_of(self.lake, rows), _small_ones(self.lake, small)):
                for capture in captures:
                    self._one(capture)
                    copied += 1
        return copied

    def close(self) -> None:
        """Close the file that is being read."""
        if self._file is not None:
            self._file.close()

    def _one(self, row: Row) -> None:
        data = self._read(row["warc_filename"], row["warc_record_offset"], row["warc_record_length"])
        answer, behind = data[: row["warc_record_length"]], data[row["warc_record_length"] :]
        self._inform(row["warc_filename"])
        line = cdxj.of_capture(row, filename=self.filename, offset=self.size)
        self.lines += [line] if line else []
        self._write(answer)
        request = _request(behind, row)
        if request is None and len(behind) == _AHEAD:
            longer = self._read(
                row["warc_filename"], row["warc_record_offset"], row["warc_record_length"], _MOST_REQUEST
            )
            request = _request(longer[row["warc_record_length"] :], row)
        if request is not None:
            self._write(request)

    def _inform(self, name: str) -> None:
        """Copy the warcinfo record of a file once: the records name it."""
        if name in self._informed or self._file is None:
            return
        self._informed.add(name)
        self._file.seek(0)
        begin = self._file.read(_MOST_INFO)
        try:
            self._write(begin[: first_member(begin, f"warc/{name}, byte 0")])
        except WarcError as error:
            raise Failure(f"{error}; `noria check --deep` lists what is damaged") from error

    def _read(self, name: str, offset: int, length: int, ahead: int = _AHEAD) -> bytes:
        if name != self._name or self._file is None:
            self.close()
            path = self.lake.layout.warc_file(name)
            if not path.is_file():
                raise Failure(f"{path} is missing; restore it from a copy (`noria check` lists all)")
            self._file, self._name = path.open("rb"), name
        self._file.seek(offset)
        data = self._file.read(length + ahead)
        try:
            whole = first_member(data[:length], f"warc/{name}, byte {offset}") == length
        except WarcError as error:
            raise Failure(f"{error}; `noria check --deep` lists what is damaged") from error
        if not whole:
            raise Failure(
                f"warc/{name}, byte {offset}: no record of {length} bytes; `noria check --deep` tells more"
            )
        return data

    def _write(self, data: bytes) -> None:
        self.sink.write(data)
        self.size += len(data)
        self.records += 1


def digest_key(digest: str) -> int:
    """Return the key of a payload in `contents`: the top 63 bits of the sha1.

    >>> digest_key("A" * 32), digest_key("7" * 32) == 2**63 - 1
    (0, True)
    """
    return int.from_bytes(base64.b32decode(digest)[:8], "big") >> 1


def _request(data: bytes, row: Row) -> bytes | None:
    """Return the member that the data begin with if it is the request of a row's answer."""
    try:
        length = first_member(data, "")
    except WarcError:
        return None
    head = isal_zlib.decompress(data[:length], wbits=31).partition(b"\r\n\r\n")[0]
    ours = b"WARC-Type: request" in head and f"<{row['record_id']}>".encode() in head
    return data[:length] if ours else None


def _captures_of(lake: Lake, contents: list[Row]) -> Iterator[Row]:
    """Yield the captures of the records that rows of `contents` name, file by file in the order of their places."""

    def file_of(row: Row) -> tuple[int, str]:
        return row["cycle"], row["warc_filename"]

    for (cycle, name), group in groupby(sorted(contents, key=file_of), key=file_of):
        offsets = [row["warc_record_offset"] for row in group]
        quoted = name.replace("'", "''")
        rows: list[Row] = lake.sql(
            f"""select {", ".join(PLACED)} from captures where crawl = '{crawl_name(cycle)}' and warc_filename = '{quoted}'
                and warc_record_offset in ({", ".join(map(str, offsets))}) order by warc_record_offset"""
        ).to_pylist()
        if len(rows) != len(offsets):
            raise Failure(
                f"contents names records in warc/{name} that no capture names; `noria check` tells more"
            )
        yield from rows


def _small_ones(lake: Lake, digests: list[str]) -> Iterator[Row]:
    """Yield a capture that holds the bytes of each payload that is too small for `contents`; of some there is none."""
    if digests:
        quoted = ", ".join(f"'{digest}'" for digest in digests)
        _, batches = lake.stream(
            f"""select distinct on (content_digest) {", ".join(PLACED)} from captures
                where content_digest in ({quoted}) and record_type = 'response' and warc_filename is not null
                order by content_digest, crawl, warc_filename, warc_record_offset"""
        )
        yield from rows_of(batches)


def rows_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
    """Yield the rows of batches as plain values."""
    for batch in batches:
        yield from batch.to_pylist()
