"""The ledger: a row when a cycle is planned, a row when it is committed. The second makes the cycle real."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from lake import actions
from lake.errors import DamagedFile, LakeDamaged, LakeMissing, first_line
from lake.files import widened
from lake.layout import Layout
from lake.schema import LEDGER
from lake.torn import newest_whole

PLANNED, COMMITTED = "planned", "committed"
_MAPS = ("versions", "counts", "outcomes", "seconds")
_TIMES = ("opened_at", "written_at")
"""Read as µs: Arrow brings in pandas to make Python's times, a quarter of a second for one row."""
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass
class LedgerRow:
    """One row of the ledger; the columns' meanings are in the schema. Times are aware, in UTC."""

    cycle: int
    state: str
    opened_at: dt.datetime = _EPOCH
    written_at: dt.datetime = _EPOCH
    config_digest: str = ""
    seed: int = 0
    partitions: int = 0
    window_seconds: int = 0
    versions: dict[str, int] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    outcomes: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    noria: str = ""


def to_table(rows: list[LedgerRow]) -> pa.Table:
    """Return ledger rows as Arrow, in the schema of the table."""
    columns = {one.name: [_cell(getattr(row, one.name)) for row in rows] for one in fields(LedgerRow)}
    return pa.table(columns, schema=LEDGER.file_schema)


def _cell(value: Any) -> Any:
    return list(value.items()) if isinstance(value, dict) else value


def from_table(table: pa.Table) -> list[LedgerRow]:
    """Return Arrow rows of the ledger as dataclasses, in the order of cycles, planned before committed."""
    plain = [pa.field(one.name, pa.int64()) if one.name in _TIMES else one for one in table.schema]
    rows = [LedgerRow(**_arguments(row)) for row in table.cast(pa.schema(plain)).to_pylist()]
    return sorted(rows, key=lambda row: (row.cycle, row.state == COMMITTED))


def _arguments(row: dict[str, Any]) -> dict[str, Any]:
    maps = {name: dict(row[name] or ()) for name in _MAPS}
    times = {name: _EPOCH + dt.timedelta(microseconds=row[name]) for name in _TIMES if row[name] is not None}
    return {**row, **maps, **times}


def read(root: Path | str, *, version: int | None = None) -> list[LedgerRow]:
    """Return every row of the ledger, at its newest version unless one is given."""
    return from_table(_read_files(_files(Path(root), version)))


def last(root: Path | str, state: str = COMMITTED, *, cycle: int | None = None) -> LedgerRow | None:
    """Return the newest row of a state (or that of one cycle), None if there is none.

    Reads only the ledger files that can hold it: the cost does not grow with the number of cycles.
    """
    best: LedgerRow | None = None
    for path, low, high in _files(Path(root), None):
        if best is not None and (cycle is not None or high <= best.cycle):
            break
        if cycle is not None and not low <= cycle <= high:
            continue
        rows = [row for row in from_table(_read_files([(path, low, high)])) if row.state == state]
        rows = [row for row in rows if cycle is None or row.cycle == cycle]
        best = max([*rows, *([best] if best else [])], key=lambda row: row.cycle, default=None)
    return best


def recent(root: Path | str, cycles: int) -> list[LedgerRow]:
    """Return the rows of the newest cycles, oldest first; reads only the ledger files that can hold them."""
    files = _files(Path(root), None)
    if not files:
        return []
    since = files[0][2] - cycles
    rows = from_table(_read_files([one for one in files if one[2] > since]))
    return [row for row in rows if row.cycle > since]


def _files(root: Path, version: int | None) -> list[tuple[Path, int, int]]:
    """Return the ledger's files with their lowest and highest cycle, highest first."""
    folder = Layout(root).table(LEDGER.name)
    if not (folder / "_delta_log").is_dir():
        raise LakeMissing(f"{root}: no ledger in it; restore {folder} from a copy or make a new lake")
    log = _log(folder, version)
    if not log.num_rows:
        return []
    rows = log.select(["path", "min.cycle", "max.cycle"]).to_pylist()
    found = [(folder / row["path"], row["min.cycle"], row["max.cycle"]) for row in rows]
    return sorted(found, key=lambda one: -one[2])


def _log(folder: Path, version: int | None) -> pa.Table:
    """Return the ledger's actions; without an entry that a power cut tore: nobody was told of that cycle's end."""
    try:
        return actions.read(DeltaTable(folder, version=version))
    except DeltaError as error:
        whole = newest_whole(folder) if version is None else None
        try:
            if whole is None:
                raise
            return actions.read(DeltaTable(folder, version=whole))
        except DeltaError:
            raise LakeDamaged(
                f"{folder / '_delta_log'}: the ledger's log cannot be read ({first_line(error)}); restore it from a copy"
            ) from error


def _read_files(files: list[tuple[Path, int, int]]) -> pa.Table:
    # ParquetFile, for read_table brings in pandas: a quarter of a second before `noria status` says a word
    tables = [widened(_rows_of(path), LEDGER.file_schema) for path, _, _ in files]
    return pa.concat_tables(tables) if tables else LEDGER.file_schema.empty_table()


def _rows_of(path: Path) -> pa.Table:
    try:
        return pq.ParquetFile(path).read()
    except (pa.ArrowException, OSError) as error:
        raise DamagedFile(
            f"{path}: a file of the ledger cannot be read ({first_line(error)}); restore it from a copy"
        ) from error
