"""The verifier that runs before a commit: Delta itself checks nothing of the files it is told to add."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lake.errors import DamagedFile, LakeDamaged
from lake.files import Add, sync_folder
from lake.layout import Layout
from lake.schema import BUCKETED, Table

KEY_BITS = 63


def verify(root: Path, spec: Table, adds: Sequence[Add]) -> None:
    """Check every file against what its task said of it; raises DamagedFile for the first that differs.

    Read are the file's size and footer, not its rows: rows, smallest and largest values, schema, the order
    of its row groups, the partition columns, and that the keys lie in the bucket. Folders are made durable.
    """
    folder = Layout(root).table(spec.name)
    shift = _bucket_shift(root, spec) if spec.partitions and adds else None
    paths = [add.path for add in adds]
    if len(set(paths)) != len(paths):
        raise DamagedFile(f"table {spec.name}: the same file twice in one commit")
    for add in adds:
        problem = fault_of(folder / add.path, spec, add, shift)
        if problem:
            raise DamagedFile(f"table {spec.name}, file {add.path}: {problem}; run the step again")
    for parent in {(folder / add.path).parent for add in adds}:
        sync_folder(parent)
    sync_folder(folder)


def fault_of(path: Path, spec: Table, add: Add, shift: int | None) -> str | None:
    """Return what is wrong with one file, None if it is as promised."""
    if set(add.partition) != set(spec.partitions):
        return f"partition values {sorted(add.partition)}, the table has {sorted(spec.partitions)}"
    if not path.is_file():
        return "it is not there"
    if path.stat().st_size != add.size:
        return f"it has {path.stat().st_size} bytes, {add.size} were written"
    try:
        footer = pq.read_metadata(path)
    except (pa.ArrowInvalid, OSError) as error:
        return f"its footer cannot be read ({str(error).splitlines()[0]})"
    return _footer_fault(footer, spec, add) or _bucket_fault(spec, add, shift)


def _footer_fault(footer: pq.FileMetaData, spec: Table, add: Add) -> str | None:
    if footer.num_rows != add.rows:
        return f"it has {footer.num_rows} rows, {add.rows} were written"
    names = footer.schema.to_arrow_schema().names
    if names != spec.file_schema.names:
        return f"its columns are {names}"
    return _order_fault(footer, spec, add)


def _order_fault(footer: pq.FileMetaData, spec: Table, add: Add) -> str | None:
    """Compare the first sort column's footer figures with the manifest, and the row groups with each other."""
    spans = key_spans(footer, spec)
    if spans is None or not spans:
        return None
    if any(after[0] < before[1] for before, after in pairwise(spans)):
        return f"its row groups are not sorted by {spec.sorted_by[0]}"
    told = (
        add.stats.get("minValues", {}).get(spec.sorted_by[0]),
        add.stats.get("maxValues", {}).get(spec.sorted_by[0]),
    )
    if told != (None, None) and told != (spans[0][0], spans[-1][1]):
        return f"its {spec.sorted_by[0]} runs from {spans[0][0]} to {spans[-1][1]}, the manifest says {told}"
    return None


def key_spans(footer: pq.FileMetaData, spec: Table) -> list[tuple[Any, Any]] | None:
    """Return (min, max) of the first sort column by row group, None where the file does not say."""
    if not spec.sorted_by or not pa.types.is_integer(spec.arrow.field(spec.sorted_by[0]).type):
        return None
    column = spec.file_schema.get_field_index(spec.sorted_by[0])
    spans = []
    for group in range(footer.num_row_groups):
        stats = footer.row_group(group).column(column).statistics
        if stats is None or not stats.has_min_max:
            return None
        spans.append((stats.min, stats.max))
    return spans


def _bucket_fault(spec: Table, add: Add, shift: int | None) -> str | None:
    """Check that smallest and largest key lie in the partition the file claims."""
    name = BUCKETED.get(spec.name)
    key = spec.sorted_by[0] if spec.sorted_by else ""
    if shift is None or name is None or key not in add.stats.get("minValues", {}):
        return None
    low, high = add.stats["minValues"][key], add.stats["maxValues"][key]
    if low < 0:
        return f"{key} {low} is negative"
    if {str(low >> shift), str(high >> shift)} != {add.partition[name]}:
        return f"keys {low}..{high} lie in {name} {low >> shift}..{high >> shift}, it claims {add.partition[name]}"
    return None


def _bucket_shift(root: Path, spec: Table) -> int | None:
    """Return by how many bits a key is shifted to give its bucket, None for tables without buckets."""
    if spec.name not in BUCKETED:
        return None
    try:
        buckets = int(json.loads(Layout(root).meta.read_text())["buckets"])
    except (OSError, ValueError, KeyError) as error:
        raise LakeDamaged(f"{Layout(root).meta} cannot be read ({error}); restore it from a copy") from error
    return KEY_BITS - (buckets.bit_length() - 1)
