"""Files that are either whole and on disk or not there: atomic writes, and Parquet as the lake stores it."""

from __future__ import annotations

import contextlib
import errno
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lake.errors import DamagedFile, DiskFull, LakeError
from lake.schema import Table

ROW_GROUP = 2**18
"""Rows of a row group: the unit that a look-up skips or reads (about 1.1 MB of keys)."""

STATS_CHARS = 120
"""Longest text kept as a minimum or maximum in the log; a longer one gets none (never a cut one)."""

REPEATING = frozenset(
    {
        "host", "band", "depth", "source", "meta", "added_cycle", "added_at", "shelf_cycle", "reason", "detail",
        "visits", "changes", "failures", "last_status", "domain", "score", "delay_ms", "delay_reason", "health",
        "label", "month", "month_budget", "last_cycle", "cycle", "url_host_name", "url_host_tld",
        "url_host_2nd_last_part", "url_host_3rd_last_part", "url_host_4th_last_part", "url_host_5th_last_part",
        "url_host_registry_suffix", "url_host_registered_domain", "url_host_private_suffix",
        "url_host_private_domain", "url_host_name_reversed", "url_protocol", "url_port", "fetch_status",
        "content_mime_type", "content_mime_detected", "content_charset", "content_languages", "content_truncated",
        "warc_filename", "warc_segment", "bucket", "kind", "outcome", "error", "record_type", "address", "hop",
        "robots_tags", "duplicate", "attempt", "via", "src_host", "dst_host", "state", "date", "noria",
    }
)  # fmt: skip
"""Columns whose values repeat within a file: stored through a dictionary. Keys, URLs and digests never are."""


@dataclass(frozen=True)
class FileStats:
    """A Parquet file just written: bytes, rows, and Delta's statistics (exact values only)."""

    size: int
    rows: int
    stats: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Add:
    """A data file that a commit shall add. Small and picklable: what a task returns.

    path: relative to the table's folder. partition: values as text, as Delta keeps them.
    stats: `minValues`, `maxValues`, `nullCount` by column, exact values only.
    """

    path: str
    size: int
    rows: int
    partition: dict[str, str] = field(default_factory=dict)
    stats: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class DataFile:
    """A data file of a snapshot, told from the Delta log alone. `min_key`, `max_key`: None = not known."""

    path: Path
    rows: int
    size: int
    partition: dict[str, int | str] = field(default_factory=dict)
    min_key: int | None = None
    max_key: int | None = None


def sync_folder(folder: Path) -> None:
    """Make a folder's entries (new and renamed names) survive a power cut."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_file(path: Path) -> None:
    """Make a file's bytes survive a power cut; cheap when they are on disk already."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folder(folder: Path) -> None:
    """Make a folder and its parents, durably."""
    missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    with disk_guard(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for made in missing:
        sync_folder(made.parent)


@contextlib.contextmanager
def disk_guard(path: Path) -> Iterator[None]:
    """Turn "no space left" into a sentence; other errors of the system pass."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise DiskFull(
            f"cannot write {path}: {os.strerror(error.errno)}; free space there and run again, nothing was lost"
        ) from error


@contextlib.contextmanager
def temporary(final: Path) -> Iterator[Path]:
    """Give a name beside `final` to write to; what is left there at the end is removed."""
    make_folder(final.parent)
    tmp = final.with_name(f".{final.name}.{os.getpid()}-{uuid.uuid4().hex[:12]}.tmp")
    try:
        with disk_guard(final):
            yield tmp
    finally:
        with contextlib.suppress(FileNotFoundError):
            tmp.unlink()


def publish(tmp: Path | str, final: Path | str) -> None:
    """Give a finished file its name: fsync, rename (an older file is replaced), fsync of the folder."""
    tmp, final = Path(tmp), Path(final)
    with disk_guard(final):
        sync_file(tmp)
        tmp.replace(final)
        sync_folder(final.parent)


def write_atomic(path: Path | str, data: bytes) -> None:
    """Write a whole file or nothing, durably; an older one is replaced."""
    final = Path(path)
    with temporary(final) as tmp:
        tmp.write_bytes(data)
        publish(tmp, final)


def replace_fast(path: Path, data: bytes) -> None:
    """As `write_atomic`, but without fsync: for what need not survive a power cut (a lease's renewal)."""
    with temporary(path) as tmp:
        tmp.write_bytes(data)
        tmp.replace(path)


def put_if_absent(path: Path | str, data: bytes) -> bool:
    """Write a whole file unless the name is taken; True if it was ours, also against racing processes.

    Durable when it returns True. The rule by which the first "done" wins and the others are garbage.
    """
    final = Path(path)
    with temporary(final) as tmp:
        tmp.write_bytes(data)
        sync_file(tmp)
        try:
            os.link(tmp, final)
        except FileExistsError:
            return False
        sync_folder(final.parent)
    return True


def write_parquet(
    path: Path | str,
    table: pa.Table,
    schema: Table,
    *,
    sorted_by: Sequence[str] | None = None,
    partition: Mapping[str, int | str] | None = None,
) -> FileStats:
    """Write rows as a data file of a lake table: whole, durable, in the order given.

    table: every column of `schema` but the partition columns (these may be there and are dropped). partition: a value for
    each partition column of the schema; None = the file does without them.
    sorted_by: the order that the rows are in; None = as the schema says. Checked: rows in another order
    raise DamagedFile. Integer sort keys are stored as DELTA_BINARY_PACKED, everything as zstd.
    """
    order = tuple(schema.sorted_by if sorted_by is None else sorted_by)
    rows = conform(table, schema)
    kept = rows if partition is None else stored(rows, schema, partition)
    check_sorted(rows, order, str(path))
    final = Path(path)
    with temporary(final) as tmp:
        with parquet_writer(tmp, schema, order, kept.schema) as writer:
            if rows.num_rows:
                writer.write_table(kept, row_group_size=ROW_GROUP)
        size = tmp.stat().st_size
        publish(tmp, final)
    return FileStats(size, rows.num_rows, column_stats(rows, order))


def write_data(
    table_root: Path,
    relative: str,
    table: pa.Table,
    schema: Table,
    partition: Mapping[str, int | str] | None = None,
) -> Add:
    """Write a data file into a table's folder and return what the commit needs to know of it.

    relative: from `Layout.data_path`. partition: a value for each partition column of the schema.
    """
    stats = write_parquet(table_root / relative, table, schema, partition=partition or {})
    values = {name: str(value) for name, value in (partition or {}).items()}
    return Add(relative, stats.size, stats.rows, values, stats.stats)


def conform(table: pa.Table, schema: Table) -> pa.Table:
    """Return the rows with exactly the file's columns, in order and type; raises LakeError if one is missing."""
    target, given = schema.file_schema, set(table.column_names)
    missing = [name for name in target.names if name not in given]
    extra = sorted(given - set(schema.arrow.names))
    if missing or extra:
        raise LakeError(f"rows for table {schema.name}: columns missing {missing}, not known {extra}")
    return table.select(target.names).cast(target)


def stored(rows: pa.Table, schema: Table, partition: Mapping[str, int | str]) -> pa.Table:
    """Return rows with the columns of `file_schema` as a file holds them: each partition column is one value."""
    for name in schema.partitions:
        field = schema.arrow.field(name)
        value = pa.scalar(partition[name]).cast(field.type)
        rows = rows.append_column(field, pa.repeat(value, rows.num_rows))
    return rows


def widened(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the rows with just the columns of a schema: one that an older file lacks is null."""
    columns = [
        rows.column(field.name).cast(field.type)
        if field.name in rows.column_names
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def parquet_writer(
    path: Path, schema: Table, order: Sequence[str], target: pa.Schema | None = None
) -> pq.ParquetWriter:
    """Open a Parquet writer with the lake's encodings for a table sorted by `order`; target: None = `stored_schema`."""
    target = schema.stored_schema if target is None else target
    packed = [name for name in order if pa.types.is_integer(target.field(name).type)]
    sorting = [pq.SortingColumn(target.get_field_index(name)) for name in order if _flat_before(target, name)]
    return pq.ParquetWriter(
        path,
        target,
        compression="zstd",
        compression_level=1,
        use_dictionary=[
            name for name in target.names if name in (*REPEATING, *schema.partitions) and name not in packed
        ],
        column_encoding=dict.fromkeys(packed, "DELTA_BINARY_PACKED") or None,
        write_page_index=True,
        store_schema=False,
        sorting_columns=sorting or None,
    )


def _flat_before(schema: pa.Schema, name: str) -> bool:
    """Whether a column's number counts Parquet leaves too: no nested column stands before it."""
    before = schema.names[: schema.get_field_index(name)]
    return not any(pa.types.is_nested(schema.field(one).type) for one in before)


def check_sorted(rows: pa.Table, order: Sequence[str], where: str) -> None:
    """Raise DamagedFile unless the rows ascend by the columns of `order` (equal rows may follow each other)."""
    if rows.num_rows < 2 or not order:
        return
    falls = pa.scalar(False)
    tied = pa.scalar(True)
    for name in order:
        column = rows.column(name).combine_chunks()
        here, after = column.slice(0, len(column) - 1), column.slice(1)
        falls = pc.or_(falls, pc.and_(tied, pc.fill_null(pc.greater(here, after), False)))
        tied = pc.and_(tied, pc.fill_null(pc.equal(here, after), False))
    if pc.any(falls).as_py():
        raise DamagedFile(f"{where}: rows are not sorted by {', '.join(order)}; sort them before writing")


def column_stats(rows: pa.Table, order: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return Delta's statistics of the integer columns and of short text that the file is sorted by."""
    found: dict[str, dict[str, Any]] = {"minValues": {}, "maxValues": {}, "nullCount": {}}
    for name in rows.column_names:
        kind = rows.schema.field(name).type
        if not (pa.types.is_integer(kind) or (name in order and pa.types.is_string(kind))):
            continue
        column = rows.column(name)
        low_high = pc.min_max(column).as_py()
        found["nullCount"][name] = column.null_count
        if low_high["min"] is not None and _short(low_high["min"]) and _short(low_high["max"]):
            found["minValues"][name], found["maxValues"][name] = low_high["min"], low_high["max"]
    return found


def _short(value: object) -> bool:
    return not isinstance(value, str) or len(value) <= STATS_CHARS
