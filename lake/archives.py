"""What lies beside the tables of a cycle, as a deep check reads it: WARC files to their ends, CDXJ, the papers.

Judged by other code than made it, as in `members`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lake import members
from lake.files import DataFile
from lake.layout import Layout, cycle_of
from lake.ledger import COMMITTED, LedgerRow
from lake.schema import CAPTURES
from lake.snapshot import Lake

KINDS = ("warcinfo", "request", "resource", "metadata")
"""Records that no row names: those beside a capture, and the papers of a cycle."""
NOT_MODIFIED = 304
"""Answers that a CDXJ leaves out (older ones do not)."""
PAPERS = "*-meta.warc.gz"
SINCE = "finished"
"""A count of the ledger that is younger than the papers: a cycle that has it has left them."""

_COLUMNS = (
    "warc_filename", "warc_record_offset", "warc_record_length", "url_surtkey", "url", "fetch_time", "fetch_status",
    "content_digest",
)  # fmt: skip
_FIRST, _MORE = 4 << 10, 1 << 20  # bytes read of a member: a request fits the first
_Words = npt.NDArray[np.uint64]
Told = tuple[Path, str]


@dataclass
class Records:
    """The records of one WARC file that `captures` names: place, status, and a hash of what their CDXJ lines say."""

    offsets: list[npt.NDArray[np.int64]] = field(default_factory=list)
    lengths: list[npt.NDArray[np.int64]] = field(default_factory=list)
    statuses: list[npt.NDArray[np.int64]] = field(default_factory=list)
    words: list[_Words] = field(default_factory=list)

    def sorted(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64], _Words]:
        """Return offsets, lengths, statuses and hashes by offset."""
        offsets = np.concatenate(self.offsets)
        order = np.argsort(offsets, kind="stable")
        lengths, statuses = np.concatenate(self.lengths), np.concatenate(self.statuses)
        return offsets[order], lengths[order], statuses[order], np.concatenate(self.words)[order]


def faults(lake: Lake, files: Iterable[DataFile], *, damaged: Iterable[Path]) -> Iterator[Told]:
    """Yield what is wrong, with the file's path; cycle by cycle, one WARC file at a time.

    files: of `captures`, those that can be read. damaged: WARC files that are known to be missing.
    """
    left_out, cycles = set(damaged), _by_cycle(files)
    for _, held in sorted(cycles.items()):
        for name, records in sorted(_records(held).items()):
            path = lake.layout.warc_file(name)
            offsets, lengths, statuses, words = records.sorted()
            if path not in left_out and path.is_file():
                places = list(zip(offsets.tolist(), lengths.tolist(), strict=True))
                yield from ((path, what) for what in warc_faults(path, places))
            index = lake.root / "cdxj" / f"{name.removesuffix('.gz').removesuffix('.warc')}.cdxj"
            yield from ((index, what) for what in index_faults(index, name, offsets, statuses, words))
    with_warcs = {cycle for cycle in cycles if any(lake.layout.warc(cycle).glob("*.warc.gz"))}
    yield from paper_faults(lake.layout, lake.ledger(), with_warcs)


def _by_cycle(files: Iterable[DataFile]) -> dict[int, list[DataFile]]:
    found: dict[int, list[DataFile]] = {}
    for file in files:
        found.setdefault(cycle_of(file.path) or 0, []).append(file)
    return found


def _records(files: list[DataFile]) -> dict[str, Records]:
    """Return the stored records of some files of `captures`, by WARC file: 32 bytes a record."""
    found: dict[str, Records] = {}
    for file in files:
        rows = pq.read_table(
            file.path, columns=list(_COLUMNS), schema=CAPTURES.file_schema, partitioning=None
        )
        rows = rows.filter(pc.is_valid(rows["warc_filename"])).sort_by("warc_filename").combine_chunks()
        names = rows["warc_filename"].to_numpy()
        changes = np.flatnonzero(names[1:] != names[:-1]) + 1
        ends = [0, *changes.tolist(), len(names)] if len(names) else []
        for start, end in pairwise(ends):
            _add(found.setdefault(str(names[start]), Records()), rows.slice(start, end - start))
    return found


def _add(records: Records, rows: pa.Table) -> None:
    for column, kept in (
        ("warc_record_offset", records.offsets),
        ("warc_record_length", records.lengths),
        ("fetch_status", records.statuses),
    ):
        kept.append(pc.fill_null(rows[column].cast(pa.int64()), 0).to_numpy())
    seconds = pc.fill_null(rows["fetch_time"].cast(pa.int64()), 0).to_numpy() // 1_000_000
    stamps = np.datetime_as_string(seconds.astype("datetime64[s]"))
    texts = [rows[name].to_pylist() for name in ("url_surtkey", "url", "content_digest")]
    numbers = [kept[-1].tolist() for kept in (records.statuses, records.offsets, records.lengths)]
    records.words.append(
        np.array(
            [
                _hash(surt, "".join(filter(str.isdigit, stamp)), url, digest, status, offset, length)
                for surt, url, digest, status, offset, length, stamp in zip(
                    *texts, *numbers, stamps.tolist(), strict=True
                )
            ],
            dtype=np.uint64,
        )
    )


def _hash(*values: object) -> int:
    text = "\n".join("" if value is None else str(value) for value in values)
    return int.from_bytes(hashlib.blake2b(text.encode(errors="replace"), digest_size=8).digest(), "big")


# --- WARC files -----------------------------------------------------------------------------------------


def warc_faults(path: Path, places: Iterable[tuple[int, int]]) -> Iterator[str]:
    """Yield what is wrong between the records that tables name, before the first and behind the last.

    places: offset and length of those, ascending; they are judged elsewhere. What stands there is whole records of
    `KINDS`, and nothing else.
    """
    size, at = path.stat().st_size, 0
    inside = [(offset, length) for offset, length in places if offset >= 0 and offset + length <= size]
    with path.open("rb", buffering=0) as file:
        for offset, length in [*inside, (size, 0)]:
            while at < offset:
                end, what = _judged(file, at, offset)
                if what is not None:
                    yield what
                at = end
            at = max(at, offset + length)


def _judged(file: BinaryIO, at: int, limit: int) -> tuple[int, str | None]:
    """Return the end of the member at `at`, and what is wrong with it; after damage, `limit`."""
    file.seek(at)
    data = file.read(min(_FIRST, limit - at))
    if not data.startswith(members.MAGIC):
        return limit, f"{limit - at} bytes at {at} are no gzip member"
    unpacking, record = members.unpacker(), b""
    try:
        while data:
            record += unpacking.decompress(data)
            if unpacking.eof:
                break
            data = file.read(min(_MORE, limit - file.tell()))
    except members.UnpackError as error:
        return limit, f"the member at {at} cannot be decompressed ({error})"
    if not unpacking.eof:
        return limit, f"the member at {at} is cut off at {limit}"
    end = file.tell() - len(unpacking.unused_data)
    kind = members.kind_of(record)
    what = members.plain_fault(record, members.Place(file="", offset=at, length=end - at))
    if what is None and kind not in KINDS:
        what = f"the {kind or 'nameless'} record at {at} is named by no row of captures"
    return end, what


# --- CDXJ -----------------------------------------------------------------------------------------------


def index_faults(
    path: Path,
    filename: str,
    offsets: npt.NDArray[np.int64],
    statuses: npt.NDArray[np.int64],
    words: _Words,
) -> Iterator[str]:
    """Yield what is wrong with the CDXJ of a WARC file: each record has its line (a 304 may), in byte order.

    offsets (ascending), statuses, words: of the records.
    """
    if not path.is_file():
        yield f"the file is missing; it tells where {len(offsets)} records of {filename} lie"
        return
    known, there, before = dict(zip(offsets.tolist(), words.tolist(), strict=True)), set(), b""
    wrong: dict[str, list[int]] = {}
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            what, offset = _line_fault(line, filename, known)
            if what is None and line < before:
                what = "not in byte order"
            if what is not None:
                wrong.setdefault(what, []).append(number)
            there.add(offset)
            before = line
    for what, lines in wrong.items():
        yield f"{len(lines)} lines are {what}, the first is line {lines[0]}"
    missing = offsets[~np.isin(offsets, np.array(sorted(there), np.int64)) & (statuses != NOT_MODIFIED)]
    if len(missing):
        yield f"{len(missing)} records of {filename} have no line, the first is that at {missing[0]}"


def _line_fault(line: bytes, filename: str, known: dict[int, int]) -> tuple[str | None, int]:
    """Return what is wrong with a line, as the end of a sentence, and the offset that it tells (-1 = none)."""
    surt, _, rest = line.decode("utf-8", "replace").partition(" ")
    stamp, _, text = rest.partition(" ")
    try:
        told: Any = json.loads(text)
        offset = int(told["offset"])
    except (ValueError, KeyError, TypeError):
        return "no CDXJ", -1
    if not line.endswith(b"\n"):
        return "cut off", offset
    values = (told.get(name) for name in ("url", "digest", "status", "offset", "length"))
    if told.get("filename") != filename or known.get(offset) != _hash(surt, stamp, *values):
        return "not as the table captures says", offset
    return None, offset


# --- papers ---------------------------------------------------------------------------------------------


def paper_faults(layout: Layout, ledger: list[LedgerRow], cycles: set[int]) -> Iterator[Told]:
    """Yield what is wrong with the WARC files that hold the cycles' settings, seeds and ledger rows.

    cycles: those with WARC files. Each has one, from the first on that has one or counts what is younger.
    """
    begun = False
    for row in ledger:
        if row.state != COMMITTED or row.cycle not in cycles:
            continue
        folder = layout.warc(row.cycle)
        papers = sorted(folder.glob(PAPERS))
        begun = begun or bool(papers) or SINCE in row.counts
        if begun and not papers:
            yield folder, f"the file with the papers of cycle {row.cycle} ({PAPERS}) is missing"
        for path in papers:
            yield from ((path, what) for what in warc_faults(path, ()))
