"""Sorted runs: a file per cycle and bucket, sorted by key; looked up by merge, compacted in tiers.

`seen` (by `url_key`, a run per bucket) and `contents` (by `digest_key`, a run per digest shard) are runs.
A key is a 63-bit int64, never negative. Arrays of keys that come in are sorted.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from lake.errors import DamagedFile, LakeError, first_line
from lake.files import (
    ROW_GROUP,
    Add,
    DataFile,
    column_stats,
    parquet_writer,
    publish,
    stored,
    temporary,
    widened,
    write_data,
)
from lake.layout import Layout, rung_of
from lake.schema import BUCKETED, BY_NAME, CONTENTS, Table

Keys = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


def write_run(
    root: Path | str, table: str, *, cycle: int, partition: int, rows: pa.Table, part: int | str = 0
) -> Add:
    """Write one cycle's run of a bucket and return what the commit needs.

    rows: sorted by the table's key. In `seen` a key may stand once only. Raises DamagedFile if the order
    is wrong, a key comes twice in `seen`, or one is negative.
    """
    spec = _keyed(table)
    _check_keys(rows.column(spec.sorted_by[0]).to_numpy(), table)
    layout = Layout(Path(root))
    relative = layout.data_path(table, cycle, partition, part)
    return write_data(layout.table(table), relative, rows, spec, {BUCKETED[table]: partition})


def known(files: Sequence[DataFile], keys: Keys) -> Mask:
    """Say for each of the sorted `keys` whether one of the runs holds it. Exact.

    Reads the key column only, and of it only the row groups whose span some key falls into.
    """
    _check_ascending(keys)
    found = np.zeros(len(keys), dtype=np.bool_)
    for file in files:
        if not _overlaps(file, keys):
            continue
        for _, low, group in _groups(file, keys):
            here = keys[low : int(np.searchsorted(keys, group[-1], side="right"))]
            found[low : low + len(here)] |= _is_in(group, here)
    return found


def lookup(files: Sequence[DataFile], keys: Keys) -> pa.Table:
    """Return the rows of the runs whose key is among the sorted `keys`; a column that a file lacks is null.

    A key can match several rows, and (two digests may share their top 63 bits) a wrong one: compare the
    digest. No file at all gives an empty table of `contents`.
    """
    _check_ascending(keys)
    found: list[pa.Table] = []
    for file in files:
        if not _overlaps(file, keys):
            continue
        for (reader, number), _, group in _groups(file, keys):
            match = _is_in(keys, group)
            if match.any():
                with _told_of(file):
                    rows = reader.read_row_group(number).filter(pa.array(match))
                found.append(widened(rows, CONTENTS.file_schema))
    return pa.concat_tables(found) if found else CONTENTS.file_schema.empty_table()


def read_keys(file: DataFile) -> Keys:
    """Return all keys of one run, ascending."""
    with _opened(file) as reader:
        name = _key_column(reader)
        if name is None:
            return np.empty(0, dtype=np.int64)
        with _told_of(file):
            keys: Keys = reader.read(columns=[name]).column(0).to_numpy()
        return keys


def is_member(sorted_keys: Keys, wanted: Keys) -> Mask:
    """Say for each of `wanted` whether it is among `sorted_keys`; both int64, the first ascending."""
    return _is_in(sorted_keys, wanted)


def plan_compaction(files: Sequence[DataFile], *, tiers: int) -> list[list[DataFile]]:
    """Choose runs to merge: groups of files of one partition (of the backlog: of one rung), each to become one file.

    tiers: how many runs of about one size a partition may hold; the next one merges them. A run of n rows
    lies on tier log(n) to the base `tiers`, so a row is rewritten once a tier: log(rows) times in all.
    A merged run that would complete the next tier takes that one along.
    """
    if tiers < 2:
        raise LakeError(f"{tiers} runs a tier: at least 2 are needed to merge anything")
    partitions: dict[tuple[Any, ...], list[DataFile]] = {}
    for file in files:
        partitions.setdefault((*sorted(file.partition.items()), rung_of(file.path)), []).append(file)
    groups = [_due(held, tiers) for _, held in sorted(partitions.items())]
    return [group for group in groups if group]


def _due(files: list[DataFile], tiers: int) -> list[DataFile]:
    """Return the files of one partition that are to be merged now, smallest first; none if no tier is full."""
    chosen: list[DataFile] = []
    waiting = sorted(files, key=lambda file: (file.rows, str(file.path)))
    while waiting:
        merged = sum(file.rows for file in chosen)
        level = _tier(max(merged, waiting[0].rows), tiers)
        same = [file for file in waiting if _tier(file.rows, tiers) <= level]
        if len(same) + bool(chosen) >= tiers:
            chosen += same
        elif chosen:
            break
        waiting = [file for file in waiting if file not in same]
    return chosen


def _tier(rows: int, base: int) -> int:
    level = 0
    while rows >= base:
        rows //= base
        level += 1
    return level


def merge_runs(
    root: Path | str,
    table: str,
    *,
    cycle: int,
    partition: int,
    files: Sequence[DataFile],
    part: int | str = "m",
    due_day: int | None = None,
) -> Add:
    """Merge runs of one partition into a new sorted file; memory holds one row group of each run.

    partition: the bucket (or digest shard). due_day: the other half of a partition of `frontier_later`. Equal keys follow each other in the order of `files`. A key that is in two runs of `seen` raises
    DamagedFile: a merge never changes what the lake holds.
    """
    spec = _keyed(table)
    layout = Layout(Path(root))
    rung = rung_of(files[0].path)
    relative = layout.data_path(table, cycle, partition, part, due_day=due_day, rung=rung)
    final = layout.table(table) / relative
    values = {BUCKETED[table]: str(partition), **({} if due_day is None else {"due_day": str(due_day)})}
    stats: list[dict[str, dict[str, Any]]] = []
    rows = 0
    with temporary(final) as tmp:
        with parquet_writer(tmp, spec, spec.sorted_by) as writer:
            for slab in _merged(files, spec):
                writer.write_table(stored(slab, spec, values), row_group_size=ROW_GROUP)
                stats.append(column_stats(slab, spec.sorted_by))
                rows += slab.num_rows
        size = tmp.stat().st_size
        publish(tmp, final)
    return Add(relative, size, rows, values, _joined(stats))


def renamed(root: Path | str, table: str, file: DataFile, *, cycle: int, part: str) -> Add:
    """Give a file that stays a name of this cycle, a hard link: a commit may not remove and add the same path."""
    layout = Layout(Path(root))
    day = file.partition.get("due_day")
    relative = layout.data_path(
        table,
        cycle,
        int(file.partition[BUCKETED[table]]),
        part,
        due_day=None if day is None else int(day),
        rung=rung_of(file.path),
    )
    final = layout.table(table) / relative
    with temporary(final) as tmp:
        try:
            os.link(file.path, tmp)
        except OSError:  # a file system without hard links
            shutil.copyfile(file.path, tmp)
        publish(tmp, final)
    stats: dict[str, dict[str, int]] = {}
    if file.min_key is not None and file.max_key is not None:
        key = BY_NAME[table].sorted_by[0]
        stats = {"minValues": {key: file.min_key}, "maxValues": {key: file.max_key}, "nullCount": {key: 0}}
    return Add(
        relative, file.size, file.rows, {name: str(value) for name, value in file.partition.items()}, stats
    )


def _merged(files: Sequence[DataFile], spec: Table) -> Iterator[pa.Table]:
    """Yield the rows of all runs in key order, about a row group at a time."""
    key = spec.sorted_by[0]
    streams = [_slabs(file, spec) for file in files]
    heads = [next(stream, None) for stream in streams]
    ready: list[pa.Table] = []
    last = -1
    while any(head is not None for head in heads):
        bound = min(int(head.column(key)[-1].as_py()) for head in heads if head is not None)
        taken: list[pa.Table] = []
        for place, head in enumerate(heads):
            if head is None:
                continue
            cut = int(np.searchsorted(head.column(key).to_numpy(), bound, side="right"))
            taken.append(head.slice(0, cut))
            heads[place] = head.slice(cut) if cut < head.num_rows else next(streams[place], None)
        slab = _sorted(pa.concat_tables(taken), key)
        last = _check_follows(slab.column(key).to_numpy(), last, spec.name)
        ready.append(slab)
        if sum(one.num_rows for one in ready) >= ROW_GROUP:
            yield pa.concat_tables(ready).combine_chunks()
            ready = []
    if ready:
        yield pa.concat_tables(ready).combine_chunks()


def _slabs(file: DataFile, spec: Table) -> Iterator[pa.Table]:
    with _opened(file) as reader:
        for number in range(reader.num_row_groups):
            with _told_of(file):
                slab = widened(reader.read_row_group(number), spec.file_schema).combine_chunks()
            if slab.num_rows:
                yield slab


def _sorted(rows: pa.Table, key: str) -> pa.Table:
    if rows.num_columns == 1:
        return pa.table([np.sort(rows.column(key).to_numpy(), kind="stable")], schema=rows.schema)
    order = np.argsort(rows.column(key).to_numpy(), kind="stable")
    return rows.take(pa.array(order)).combine_chunks()


def _check_follows(keys: Keys, last: int, table: str) -> int:
    """Return the largest key so far; raise where `seen` would hold a key twice."""
    if table == "seen" and len(keys) and (keys[0] == last or bool((keys[1:] == keys[:-1]).any())):
        raise DamagedFile("table seen holds a key in two runs; `noria check` says in which bucket")
    return int(keys[-1]) if len(keys) else last


def _joined(parts: list[dict[str, dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """Join the statistics of pieces of a file; a column that a piece has none for gets none."""
    if not parts:
        return {}
    low, high, nulls = ([part[kind] for part in parts] for kind in ("minValues", "maxValues", "nullCount"))
    bounded = set.intersection(*(set(one) for one in low))
    return {
        "minValues": {name: min(one[name] for one in low) for name in sorted(bounded)},
        "maxValues": {name: max(one[name] for one in high) for name in sorted(bounded)},
        "nullCount": {name: sum(one[name] for one in nulls) for name in nulls[0]},
    }


def _groups(file: DataFile, keys: Keys) -> Iterator[tuple[tuple[pq.ParquetFile, int], int, Keys]]:
    """Yield the row groups that some key falls into: (file, number), place of the first such key, keys."""
    with _opened(file) as reader:
        name = _key_column(reader)
        if name is None:
            return
        column = reader.schema_arrow.get_field_index(name)
        for number in range(reader.num_row_groups):
            stats = reader.metadata.row_group(number).column(column).statistics
            low = int(np.searchsorted(keys, stats.min)) if stats is not None else 0
            if low == len(keys) or (stats is not None and keys[low] > stats.max):
                continue
            with _told_of(file):
                group = reader.read_row_group(number, columns=[name]).column(0).to_numpy()
            yield (reader, number), low, group


def _opened(file: DataFile) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(file.path, memory_map=True)
    except FileNotFoundError as error:
        raise DamagedFile(
            f"{file.path} is missing; restore it from a copy (`noria check` lists all)"
        ) from error
    except (pa.ArrowException, OSError) as error:
        raise _damaged(file, error) from error


@contextmanager
def _told_of(file: DataFile) -> Iterator[None]:
    """Name the file whose pages cannot be read."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise _damaged(file, error) from error


def _damaged(file: DataFile, error: Exception) -> DamagedFile:
    return DamagedFile(f"{file.path} is damaged: {first_line(error)}; restore it from a copy")


def _key_column(reader: pq.ParquetFile) -> str | None:
    """Return the column that the file says it is sorted by, None for a file without rows."""
    if not reader.num_row_groups:
        return None
    sorting = reader.metadata.row_group(0).sorting_columns
    if not sorting:
        raise DamagedFile("a run does not say what it is sorted by; it was not written by lake.runs")
    return str(reader.schema_arrow.names[sorting[0].column_index])


def _overlaps(file: DataFile, keys: Keys) -> bool:
    if not len(keys) or not file.rows:
        return False
    if file.min_key is None or file.max_key is None:
        return True
    low = int(np.searchsorted(keys, file.min_key))
    return low < len(keys) and bool(keys[low] <= file.max_key)


def _is_in(held: Keys, wanted: Keys) -> Mask:
    if not len(held):
        return np.zeros(len(wanted), dtype=np.bool_)
    place = np.searchsorted(held, wanted)
    np.minimum(place, len(held) - 1, out=place)
    same: Mask = held[place] == wanted
    return same


def _check_ascending(keys: Keys) -> None:
    if len(keys) and (keys[0] < 0 or bool((keys[1:] < keys[:-1]).any())):
        raise LakeError("keys to look up must be sorted and not negative")


def _check_keys(keys: Keys, table: str) -> None:
    if len(keys) and int(keys.min()) < 0:
        raise DamagedFile(f"table {table}: key {int(keys.min())} is negative")
    if table == "seen" and bool((keys[1:] <= keys[:-1]).any()):
        raise DamagedFile("table seen: a run must ascend without repeating a key")


def _keyed(table: str) -> Table:
    if table not in BUCKETED:
        raise LakeError(f"table {table} is not kept in runs by bucket; these are: {', '.join(BUCKETED)}")
    return BY_NAME[table]
