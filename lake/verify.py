"""The verifier that runs before a commit: Delta itself checks nothing of the files it is told to add."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lake.errors import DamagedFile, LakeDamaged, first_line
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


def fault_of(path: Path, spec: Table, add: Add, shift: int | None, *, older: bool = False) -> str | None:
    """Return what is wrong with one file, None if it is as promised.

    older: columns may be missing, whose values are then null: the table has got them since the file was written. A column
    that the table is sorted by is never one of them.
    """
    if set(add.partition) != set(spec.partitions):
        return f"partition values {sorted(add.partition)}, the table has {sorted(spec.partitions)}"
    if not path.is_file():
        return "it is not there"
    if path.stat().st_size != add.size:
        return f"it has {path.stat().st_size} bytes, {add.size} were written"
    try:
        footer = pq.read_metadata(path)
    except (pa.ArrowException, OSError) as error:
        return f"its footer cannot be read ({first_line(error)})"
    return _footer_fault(footer, spec, add, older) or _bucket_fault(spec, add, shift)


def _footer_fault(footer: pq.FileMetaData, spec: Table, add: Add, older: bool) -> str | None:
    if footer.num_rows != add.rows:
        return f"it has {footer.num_rows} rows, {add.rows} were written"
    found = footer.schema.to_arrow_schema()
    return _columns_fault(found, spec, older) or _order_fault(footer, spec, add)


def _columns_fault(found: pa.Schema, spec: Table, older: bool) -> str | None:
    wanted = spec.stored_schema
    whole = (
        wanted.names,
        spec.file_schema.names,
    )  # files that stay may be from before partition columns were kept
    if not older and found.names not in whole:
        return f"its columns are {found.names}"
    for name in found.names:
        if name not in wanted.names:
            return f"its column {name} is not one of the table's"
        if not _fits(found.field(name).type, wanted.field(name).type, older):
            return f"its column {name} is {found.field(name).type}, the table's {wanted.field(name).type}"
    lost = [name for name in spec.sorted_by if name in wanted.names and name not in found.names]
    return f"it lacks {', '.join(lost)}, by which the table is sorted" if lost else None


def _fits(found: pa.DataType, wanted: pa.DataType, older: bool) -> bool:
    """Whether a type is the wanted one; older: structs may lack fields."""
    if pa.types.is_list(found) and pa.types.is_list(wanted):
        return _fits(found.value_type, wanted.value_type, older)
    if not (pa.types.is_struct(found) and pa.types.is_struct(wanted)):
        return bool(found == wanted)
    held, names = {field.name: field.type for field in found}, {field.name for field in wanted}
    if not held.keys() <= names or (not older and len(held) < len(names)):
        return False
    return all(field.name not in held or _fits(held[field.name], field.type, older) for field in wanted)


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
    leaves = [footer.schema.column(place).path for place in range(footer.num_columns)]
    if spec.sorted_by[0] not in leaves:
        return None
    column = leaves.index(spec.sorted_by[0])
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
