"""The few rows of a lake that are about one URL or one host: its bucket's files, its row groups, no more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lake import runs
from lake.errors import DamagedFile
from lake.files import DataFile, widened
from lake.schema import BY_NAME, CAPTURES, SHELVES
from lake.snapshot import Lake, crawl_name
from pipelines.rules import urls

URL_MASK = 2**48 - 1
MOST_FILES = 60
"""Files of captures that are looked into for the history of one URL, newest cycle first."""


def was_admitted(lake: Lake, key: int) -> bool:
    """Return whether the lake has ever admitted the URL of a key."""
    files = lake.files("seen", partitions={"bucket": [urls.bucket_of(key, lake.buckets)]})
    return bool(runs.known(files, np.array([key], dtype=np.int64))[0])


def shelf_of(lake: Lake, key: int) -> tuple[str, dict[str, Any]] | None:
    """Return the shelf that a key lies on and its row there; None if it lies on none."""
    for shelf in SHELVES:
        rows = key_range(lake, f"frontier_{shelf}", key, key)
        if rows.num_rows:
            return shelf, rows.slice(0, 1).to_pylist()[0]
    return None


WAITING = (
    "url_key", "url", "host", "source", "depth", "meta", "visits", "changes", "due_at", "added_at", "last_visit_at",
)  # fmt: skip
"""What ranks a URL in its host's queue: half of the columns."""


def waiting_rows(lake: Lake, host: str, today: int) -> pa.Table:
    """Return a host's rows that a cycle could plan: those of ready, and those of later whose due day has come."""
    low = urls.host_key(host)
    ready = key_range(lake, "frontier_ready", low, low | URL_MASK, columns=WAITING)
    come = [int(day) for day in lake.rows("frontier_later", "due_day") if int(day) <= today]
    later = (
        key_range(lake, "frontier_later", low, low | URL_MASK, only={"due_day": come}, columns=WAITING)
        if come
        else ready[:0]
    )
    rows = pa.concat_tables([ready, later.select(ready.column_names)])
    return rows.filter(pc.equal(rows["host"], host)).combine_chunks()


def host_row(lake: Lake, host: str) -> pa.Table:
    """Return a host's row of the host table: one row, none if the lake has not met it."""
    low = urls.host_key(host)
    rows = key_range(lake, "hosts", low, low | URL_MASK)
    return rows.filter(pc.equal(rows["host"], host)).combine_chunks()


def robots_body(lake: Lake, digest: str) -> bytes | None:
    """Return the robots.txt of a digest, None if the lake does not hold it."""
    rows = lake.read("robots", columns=["body"], filter=pc.field("digest") == digest)
    return rows["body"][0].as_py() if rows.num_rows else None


def key_range(
    lake: Lake,
    table: str,
    low: int,
    high: int,
    *,
    only: dict[str, list[int]] | None = None,
    columns: Sequence[str] | None = None,
) -> pa.Table:
    """Return the rows of a bucketed table with low <= key <= high (one bucket's), with the columns of its files.

    Opens the bucket's files whose span (told by the Delta log) meets the range, and reads of the matching row
    groups first the key alone. only: further partition values. columns: None = all. Raises DamagedFile.
    """
    spec = BY_NAME[table]
    where: dict[str, Iterable[int | str]] = {"bucket": [urls.bucket_of(low, lake.buckets)], **(only or {})}
    schema = spec.file_schema
    if columns is not None:
        schema = pa.schema([schema.field(name) for name in columns])
    found = [schema.empty_table()]
    for file in lake.files(table, partitions=where):
        if not _apart(file, low, high):
            rows = _slices(file, spec.sorted_by[0], low, high, columns)
            found += [widened(piece, schema) for piece in rows]
    return pa.concat_tables(found).combine_chunks()


def _apart(file: DataFile, low: int, high: int) -> bool:
    return (file.max_key is not None and file.max_key < low) or (
        file.min_key is not None and file.min_key > high
    )


def _slices(
    file: DataFile, name: str, low: int, high: int, columns: Sequence[str] | None
) -> Iterator[pa.Table]:
    try:
        with pq.ParquetFile(file.path) as reader:
            for group in _groups(reader, name, low, high):
                keys = reader.read_row_group(group, columns=[name]).column(0).to_numpy()
                start = int(np.searchsorted(keys, low, side="left"))
                stop = int(np.searchsorted(keys, high, side="right"))
                if stop > start:
                    yield reader.read_row_group(group, columns=columns).slice(start, stop - start)
    except (OSError, pa.ArrowInvalid) as error:
        raise _damaged(file, error) from error


def _groups(reader: pq.ParquetFile, name: str, low: Any, high: Any) -> list[int]:
    """Return the row groups whose span of a column meets the range; one without a span may."""
    at = reader.schema.names.index(name)
    kept = []
    for group in range(reader.num_row_groups):
        told = reader.metadata.row_group(group).column(at).statistics
        if told is None or not told.has_min_max or (told.min <= high and told.max >= low):
            kept.append(group)
    return kept


def _damaged(file: DataFile, error: Exception) -> DamagedFile:
    return DamagedFile(
        f"{file.path} cannot be read ({str(error).splitlines()[0]}); `noria check` names all that is damaged"
    )


# --- captures -------------------------------------------------------------------------------------------


def captures_of(
    lake: Lake,
    spellings: Iterable[str],
    key: int,
    cycles: Sequence[int],
    *,
    most: int,
    until_stored: bool = False,
) -> tuple[list[dict[str, Any]], int]:
    """Return the newest captures of a URL key, newest first, and the oldest cycle that was looked into.

    spellings: of the URL, as it may have been requested. cycles: where to look, newest first; the search ends with
    `most` captures, after MOST_FILES files, or (`until_stored`) with the first page whose bytes are stored.
    """
    surts = sorted({urls.surt(spelling) for spelling in spellings})
    found: list[dict[str, Any]] = []
    opened, oldest = 0, cycles[0] if cycles else 0
    for cycle in cycles:
        files = lake.files("captures", partitions={"crawl": [crawl_name(cycle)]})
        if opened and opened + len(files) > MOST_FILES:
            break
        opened, oldest = opened + len(files), cycle
        rows = [row for file in files for row in _captures_in(file, surts) if row["url_key"] == key]
        found += sorted(rows, key=lambda row: (row["fetch_time"], row["hop"] or 0), reverse=True)
        if len(found) >= most or (until_stored and any(map(_is_page, rows))):
            break
    return found[:most], oldest


def _is_page(capture: dict[str, Any]) -> bool:
    return bool(capture["warc_filename"]) and capture["outcome"] in ("ok", "not_modified")


def _captures_in(file: DataFile, surts: list[str]) -> Iterator[dict[str, Any]]:
    wanted = pa.array(surts, pa.string())
    try:
        with pq.ParquetFile(file.path) as reader:
            for group in _groups(reader, "url_surtkey", surts[0], surts[-1]):
                column = reader.read_row_group(group, columns=["url_surtkey"]).column(0)
                places = np.flatnonzero(pc.is_in(column, wanted).to_numpy(zero_copy_only=False))
                if len(places):
                    rows = widened(reader.read_row_group(group).take(pa.array(places)), CAPTURES.file_schema)
                    yield from ({**row, **file.partition} for row in rows.to_pylist())
    except (OSError, pa.ArrowInvalid) as error:
        raise _damaged(file, error) from error
