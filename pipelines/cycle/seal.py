"""seal: from the spools of a fetch partition to its final WARC files, duplicates replaced by revisit records.

Gzip members are copied byte for byte. The result depends on nothing but the task, so running it again, or twice
at once, makes the same files: names appear by rename, whole and durable.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.net import cdxj
from pipelines.net.warc import WarcError, WarcInfo, first_member, revisit_member, sync_folder, warcinfo_member

_CHUNK = 4 << 20
SPOOL_COLUMNS = ("spool", "spool_offset", "spool_length", "request_length")
CDXJ_COLUMNS = (
    "url_surtkey", "url", "fetch_time", "fetch_status", "content_digest", "content_mime_type",
    "content_mime_detected", "fetch_redirect", "content_truncated", "record_type",
    "warc_filename", "warc_record_offset", "warc_record_length",
)  # fmt: skip


@dataclass(frozen=True)
class SpoolFile:
    """A spool and the file to make of it.

    length: committed bytes; what lies behind them is ignored. filename: final name under `warc/`, such as
    `cycle=000012/NORIA-….warc.gz`. info: the warcinfo that the spool was opened with.
    """

    path: Path
    length: int
    filename: str
    info: WarcInfo


@dataclass(frozen=True)
class SealTask:
    """What `seal_partition` is given.

    captures: rows of the partition; `record_id`, `record_type`, the URL and content columns of the captures
    table, `spool` (index into `spools`; null = nothing stored), `spool_offset` and `spool_length` (the response
    member), `request_length` (the member right behind it).
    verdicts: `record_id`, `duplicate`, and of the record that holds the bytes `refers_url`, `refers_date`,
    `refers_id` (ids without brackets); a record without a row is no duplicate.
    """

    spools: tuple[SpoolFile, ...]
    captures: pa.Table
    verdicts: pa.Table
    warc_dir: Path
    cdxj_dir: Path


class SealedFile(NamedTuple):
    """A final file: name under `warc/`, bytes, capture rows in it, and those that became revisits."""

    filename: str
    size: int
    captures: int
    revisits: int
    cdxj_size: int


@dataclass(frozen=True)
class SealResult:
    """captures: as given, without the spool columns, with the final place of each record.

    bytes_written: WARC and CDXJ bytes of the files, those included that were there already.
    """

    captures: pa.Table
    files: tuple[SealedFile, ...]
    bytes_written: int


class _Edit(NamedTuple):
    """Bytes of a spool to leave out, and what takes their place."""

    offset: int
    length: int
    put: bytes


def seal_partition(task: SealTask) -> SealResult:
    """Make the final WARC and CDXJ files of a partition, and say where each record lies in them.

    A spool that holds nothing but its warcinfo gives no file. Raises WarcError where a spool is shorter than
    what was committed, or a row names bytes outside it.
    """
    verdicts = _verdicts(task.verdicts)
    captures = _with_verdicts(task.captures, verdicts)
    files, offsets, lengths = [], np.zeros(len(captures), np.int64), np.zeros(len(captures), np.int64)
    index = pc.fill_null(captures["spool"], -1).to_numpy()
    for number, spool in enumerate(task.spools):
        rows = np.flatnonzero(index == number)
        part = captures.select(["record_id", "duplicate", *SPOOL_COLUMNS]).take(pa.array(rows))
        sealed = _seal_spool(spool, part, verdicts, task.warc_dir)
        if sealed is None:
            continue
        size, offsets[rows], lengths[rows] = sealed
        files.append((spool.filename, size, rows))
    placed = _placed(captures, [spool.filename for spool in task.spools], index, offsets, lengths)
    done = tuple(_index(task.cdxj_dir, name, size, placed.take(pa.array(rows))) for name, size, rows in files)
    return SealResult(placed.drop_columns(list(SPOOL_COLUMNS)), done, sum(f.size + f.cdxj_size for f in done))


def _verdicts(table: pa.Table) -> dict[str, dict[str, Any]]:
    """Return the duplicates' verdicts by record id."""
    return {row["record_id"]: row for row in table.filter(pc.field("duplicate")).to_pylist()}


def _with_verdicts(captures: pa.Table, verdicts: Mapping[str, dict[str, Any]]) -> pa.Table:
    """Return the rows with `record_type`, `duplicate` and `refers_to` as the verdicts have them."""
    ids = captures["record_id"].to_pylist()
    kinds = captures["record_type"].to_pylist()
    found = [verdicts.get(i) if kind == "response" else None for i, kind in zip(ids, kinds, strict=True)]
    refers = [v and f"{v['refers_url']} {v['refers_date']}" for v in found]
    if "refers_to" in captures.column_names:
        refers = [new or old for new, old in zip(refers, captures["refers_to"].to_pylist(), strict=True)]
    kinds = ["revisit" if v else kind for v, kind in zip(found, kinds, strict=True)]
    captures = _put(captures, "record_type", pa.array(kinds, pa.string()))
    captures = _put(captures, "duplicate", pa.array([v is not None for v in found], pa.bool_()))
    return _put(captures, "refers_to", pa.array(refers, pa.string()))


def _put(table: pa.Table, name: str, column: pa.Array) -> pa.Table:
    place = table.schema.get_field_index(name)
    return table.append_column(name, column) if place < 0 else table.set_column(place, name, column)


def _seal_spool(
    spool: SpoolFile, rows: pa.Table, verdicts: Mapping[str, dict[str, Any]], warc_dir: Path
) -> tuple[int, np.ndarray, np.ndarray] | None:
    """Make one final file; return its size, and the offset and length of each row's record in it."""
    offsets, lengths = rows["spool_offset"].to_numpy(), rows["spool_length"].to_numpy()
    with spool.path.open("rb") as source:
        old, new = _warcinfo(source.fileno(), spool)
        if spool.length <= old:
            return None
        _check_places(spool, old, offsets, lengths + rows["request_length"].to_numpy())
        edits = [_Edit(0, old, new), *_revisits(source.fileno(), rows, verdicts)]
        edits.sort()
        size = spool.length + sum(len(edit.put) - edit.length for edit in edits)
        final = warc_dir / spool.filename
        if not (final.exists() and final.stat().st_size == size):
            _write(final, source.fileno(), edits, spool.length)
    starts = np.array([edit.offset for edit in edits], np.int64)
    shift = np.cumsum([0, *(len(edit.put) - edit.length for edit in edits)])
    changed = {edit.offset: len(edit.put) for edit in edits}
    final_lengths = [changed.get(o, n) for o, n in zip(offsets.tolist(), lengths.tolist(), strict=True)]
    return size, offsets + shift[np.searchsorted(starts, offsets)], np.array(final_lengths, np.int64)


def _warcinfo(fd: int, spool: SpoolFile) -> tuple[int, bytes]:
    """Return the length of the spool's warcinfo member, and the member that stands in the final file."""
    there = os.fstat(fd).st_size
    if there < spool.length:
        raise WarcError(f"spool {spool.path}: {spool.length} bytes were committed, {there} are there")
    wanted = warcinfo_member(spool.info)
    if os.pread(fd, len(wanted), 0) == wanted:
        return len(wanted), wanted
    return first_member(os.pread(fd, 1 << 20, 0), f"spool {spool.path}"), wanted


def _check_places(spool: SpoolFile, start: int, offsets: np.ndarray, totals: np.ndarray) -> None:
    """Hold the rows' places to the spool: inside the committed bytes, none over another."""
    order = np.argsort(offsets, kind="stable")
    begins, ends = offsets[order], (offsets + totals)[order]
    bad = np.flatnonzero(np.concatenate(([start], ends[:-1])) > begins)
    if len(bad) or (len(ends) and ends[-1] > spool.length):
        where = int(begins[bad[0]]) if len(bad) else int(begins[-1])
        raise WarcError(f"spool {spool.path}: the capture at byte {where} lies outside or over another one")


def _revisits(fd: int, rows: pa.Table, verdicts: Mapping[str, dict[str, Any]]) -> Iterator[_Edit]:
    """Yield the edit for each duplicate: its response member gives way to a revisit."""
    for row in rows.to_pylist():
        if not row["duplicate"]:
            continue
        verdict = verdicts[row["record_id"]]
        offset, length = row["spool_offset"], row["spool_length"]
        put = revisit_member(
            os.pread(fd, length, offset), record_id=row["record_id"], refers_to_url=verdict["refers_url"],
            refers_to_date=verdict["refers_date"], refers_to_id=verdict["refers_id"],
        )  # fmt: skip
        yield _Edit(offset, length, put)


def _write(final: Path, source: int, edits: Sequence[_Edit], length: int) -> None:
    """Write the edited copy under a name of its own, make it durable, give it its final name."""
    final.parent.mkdir(parents=True, exist_ok=True)
    partial = final.with_name(f"{final.name}.{uuid.uuid4().hex}.open")
    try:
        with partial.open("wb") as file:
            at = 0
            for edit in edits:
                _copy(source, file.fileno(), at, edit.offset - at)
                file.write(edit.put)
                file.flush()
                at = edit.offset + edit.length
            _copy(source, file.fileno(), at, length - at)
            os.fsync(file.fileno())
        partial.replace(final)
        sync_folder(final.parent)
    finally:
        partial.unlink(missing_ok=True)


def _copy(source: int, target: int, offset: int, length: int) -> None:
    """Append bytes of one file to another, in the kernel where it can."""
    while length > 0:
        try:
            done = os.copy_file_range(source, target, min(length, 1 << 30), offset)
        except OSError:
            done = os.write(target, os.pread(source, min(length, _CHUNK), offset))
        if done == 0:
            raise WarcError(f"a spool ended at byte {offset}, {length} bytes short")
        offset, length = offset + done, length - done


def _placed(
    captures: pa.Table, names: Sequence[str], index: np.ndarray, offsets: np.ndarray, lengths: np.ndarray
) -> pa.Table:
    """Return the rows with file, offset and length of their records; null where nothing is stored."""
    nothing = index < 0
    files = pa.DictionaryArray.from_arrays(pa.array(index, mask=nothing), pa.array(list(names), pa.string()))
    captures = _put(captures, "warc_filename", files.cast(pa.string()))
    captures = _put(captures, "warc_record_offset", pa.array(offsets, pa.int64(), mask=nothing))
    return _put(captures, "warc_record_length", pa.array(lengths, pa.int32(), mask=nothing))


def _index(cdxj_dir: Path, filename: str, size: int, rows: pa.Table) -> SealedFile:
    """Write the CDXJ beside a final file: a line for each record but a 304."""
    path = cdxj_dir / (filename.removesuffix(".gz").removesuffix(".warc") + ".cdxj")
    path.parent.mkdir(parents=True, exist_ok=True)
    names = [name for name in CDXJ_COLUMNS if name in rows.column_names]
    lines = (
        cdxj.of_capture(row, filename=row["warc_filename"], offset=row["warc_record_offset"])
        for row in rows.select(names).to_pylist()
    )
    written = cdxj.write(path, filter(None, lines))
    sync_folder(path.parent)
    return SealedFile(filename, size, len(rows), pc.sum(rows["duplicate"]).as_py() or 0, written)
