"""The lake as one cycle left it: every table at the version that the ledger names, never "latest"."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from lake import ledger
from lake.actions import adds_of, log_entry
from lake.commit import make_table, newest_version
from lake.errors import (
    DamagedFile,
    LakeDamaged,
    LakeError,
    LakeExists,
    LakeMissing,
    QueryError,
    first_line,
)
from lake.files import DataFile, make_folder, put_if_absent
from lake.layout import Layout
from lake.ledger import LedgerRow
from lake.mend import mend
from lake.meta import check_buckets, put_meta, read_meta, refuse_foreign
from lake.query import run as run_query
from lake.query import stream as stream_query
from lake.schema import BY_NAME, DERIVED, TABLES, Table
from lake.torn import newest_whole

if TYPE_CHECKING:
    import pyarrow.dataset as ds

Partitions = Mapping[str, Iterable[int | str]]
ASK_CHECK = "; `noria check` names what is damaged"


@dataclass
class Lake:
    """A consistent snapshot. Picklable; opens a table's log when it is first asked for it.

    cycle: the last committed cycle it shows, 0 = none yet. versions: the Delta version of each table.
    """

    root: Path
    buckets: int
    lake_id: str
    cycle: int
    versions: dict[str, int]
    _logs: dict[str, DeltaTable] = field(default_factory=dict, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the open logs behind: a DeltaTable does not pickle."""
        return {**self.__dict__, "_logs": {}}

    @property
    def layout(self) -> Layout:
        """Where everything lies."""
        return Layout(self.root)

    def at(self, versions: Mapping[str, int]) -> Lake:
        """Return the lake at other table versions, such as those pinned by a "planned" ledger row."""
        return Lake(self.root, self.buckets, self.lake_id, self.cycle, {**self.versions, **versions})

    def ledger(self) -> list[LedgerRow]:
        """Return every row of the ledger, newer ones than this snapshot included."""
        return ledger.read(self.root)

    def files(self, table: str, *, partitions: Partitions | None = None) -> list[DataFile]:
        """Return the data files of a table, told from the Delta log only.

        partitions: keep the files whose partition value is among these, for every column named.
        """
        spec = _spec(table)
        adds = _matching(self._adds(table), partitions, spec)
        key = spec.sorted_by[0] if spec.sorted_by else ""
        names = {
            "path": "path",
            "num_records": "rows",
            "size_bytes": "size",
            f"min.{key}": "low",
            f"max.{key}": "high",
        }
        columns = {
            new: adds.column(old).to_pylist() for old, new in names.items() if old in adds.column_names
        }
        values = (
            [adds.column(f"partition.{name}").to_pylist() for name in spec.partitions]
            if adds.num_rows
            else []
        )
        folder = self.layout.table(table)
        return [
            DataFile(
                folder / path,
                columns["rows"][i] or 0,
                columns["size"][i],
                {name: value[i] for name, value in zip(spec.partitions, values, strict=True)},
                _integer(columns.get("low"), i),
                _integer(columns.get("high"), i),
            )
            for i, path in enumerate(columns.get("path", []))
        ]

    @overload
    def rows(self, table: str, by: None = None) -> int: ...
    @overload
    def rows(self, table: str, by: str) -> dict[int | str, int]: ...
    def rows(self, table: str, by: str | None = None) -> int | dict[int | str, int]:
        """Count rows from the Delta log only: all of them, or by the values of a partition column."""
        adds = self._adds(table)
        if by is None:
            return int(pc.sum(adds.column("num_records")).as_py() or 0) if adds.num_rows else 0
        if by not in _spec(table).partitions:
            raise LakeError(f"table {table} is not partitioned by '{by}' but by {_spec(table).partitions}")
        if not adds.num_rows:
            return {}
        counted = adds.group_by(f"partition.{by}").aggregate([("num_records", "sum")])
        values, sums = (counted[name].to_pylist() for name in (f"partition.{by}", "num_records_sum"))
        return dict(sorted((value, count or 0) for value, count in zip(values, sums, strict=True)))

    def read(
        self,
        table: str,
        *,
        columns: list[str] | None = None,
        partitions: Partitions | None = None,
        files: Sequence[DataFile] | None = None,
        filter: pc.Expression | None = None,
    ) -> pa.Table:
        """Return rows of a table, partition columns included, in the order of its files (or of `files`, some of them).

        Only files of the given partitions are opened, and only row groups that `filter` leaves are read. Raises
        QueryError for a column that the table has not, DamagedFile where a file cannot be read.
        """
        spec = _spec(table)
        dataset = self.dataset(table, partitions=partitions, files=files)
        strange = next((name for name in columns or () if name not in spec.arrow.names), None)
        if strange is not None:
            raise QueryError(
                f"table {spec.name} has no column {strange!r}; it has {', '.join(spec.arrow.names)}"
            )
        try:
            return dataset.to_table(columns=columns, filter=filter)
        except (pa.ArrowException, OSError) as error:
            raise DamagedFile(
                f"table {spec.name} of cycle {self.cycle} cannot be read: {first_line(error)}; `noria check` "
                "names what is damaged (files of a cycle older than the retention may be gone: open a newer one)"
            ) from error

    def dataset(
        self, table: str, *, partitions: Partitions | None = None, files: Sequence[DataFile] | None = None
    ) -> ds.Dataset:
        """Return a table as an Arrow dataset, for scans larger than memory."""
        spec = _spec(table)
        import pyarrow.dataset as ds  # here: it brings in pandas, for which `noria status` need not wait

        form = ds.ParquetFileFormat()
        local = pa.fs.LocalFileSystem()
        fragments = [
            form.make_fragment(str(file.path), local, partition_expression=_expression(file.partition, spec))
            for file in (self.files(table, partitions=partitions) if files is None else files)
        ]
        return ds.FileSystemDataset(fragments, spec.arrow, form, local)

    def sql(self, query: str) -> pa.Table:
        """Run SQL (DataFusion's) over the tables of this snapshot, offline; text comes as pa.string."""
        return run_query(query, self._log)

    def stream(self, query: str) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Run SQL as `sql` does, and return the result's schema and its rows in pieces: memory holds one at a time."""
        return stream_query(query, self._log)

    def size(self, table: str) -> int:
        """Return the bytes of a table's data files, from the Delta log only."""
        adds = self._adds(table)
        return int(pc.sum(adds.column("size_bytes")).as_py() or 0) if adds.num_rows else 0

    def transaction(self, table: str, app: str = "cycle") -> int | None:
        """Return the newest cycle that the table holds at this snapshot's version, None if none."""
        return self._log(table).transaction_version(app)

    def captures(self, *, columns: list[str] | None = None, cycle: int | None = None) -> pa.Table:
        """Return the captures, those of one cycle if given."""
        chosen = None if cycle is None else {"crawl": [crawl_name(cycle)]}
        return self.read("captures", columns=columns, partitions=chosen)

    def pages(self, *, columns: list[str] | None = None, cycle: int | None = None) -> pa.Table:
        """Return the captures of answered pages: no robots.txt, sitemaps, redirects or failures."""
        chosen: dict[str, list[int | str]] = {"subset": ["warc"]}
        if cycle is not None:
            chosen["crawl"] = [crawl_name(cycle)]
        return self.read("captures", columns=columns, partitions=chosen, filter=pc.field("kind") == "page")

    def _adds(self, table: str) -> pa.Table:
        if table in _DERIVED and not made(self.layout, table):
            return pa.table({})
        entry = log_entry(self.layout.table(table), self.versions.get(table, 0))
        return adds_of(entry, lambda: self._log(table))

    def _log(self, table: str) -> DeltaTable:
        if table not in self._logs:
            _spec(table)
            folder, version = self.layout.table(table), self.versions.get(table, 0)
            try:
                self._logs[table] = DeltaTable(folder, version=version)
            except TableNotFoundError as error:
                if table in _DERIVED:
                    raise LakeMissing(f"table {table} is not made yet; `noria extract` makes it") from error
                raise LakeMissing(f"{folder}: table {table} is not there; restore it from a copy") from error
            except DeltaError as error:
                raise LakeDamaged(
                    f"table {table} cannot be opened at version {version}: {first_line(error)}{ASK_CHECK}"
                ) from error
        return self._logs[table]


_DERIVED = frozenset(table.name for table in DERIVED)


def made(layout: Layout, table: str) -> bool:
    """Say whether a table is there: an older lake lacks the derived ones, which then count as empty."""
    return (layout.table(table) / "_delta_log").is_dir()


def _derived(layout: Layout) -> dict[str, int]:
    """Return the newest versions of the derived tables: no cycle owns them, each of their commits is whole."""
    return {table.name: _newest_derived(layout, table.name) for table in DERIVED if made(layout, table.name)}


def _newest_derived(layout: Layout, table: str) -> int:
    """Return a table's newest version; an entry that a power cut tore was never acknowledged, and is done without."""
    try:
        return newest_version(layout.root, table)
    except DeltaError:
        return newest_whole(layout.table(table)) or 0


def crawl_name(cycle: int) -> str:
    """Return the cycle as the `crawl` column has it.

    >>> crawl_name(12)
    'cycle-000012'
    """
    return f"cycle-{cycle:06d}"


def create(path: Path | str, *, buckets: int, lake_id: str | None = None) -> Lake:
    """Make an empty lake and return it; going on with one whose making was interrupted.

    buckets: a power of two up to 32,768, fixed for the lake's life. noria.json is written last and makes
    the folder a lake. Raises LakeExists where one is, LakeMissing where something else lies.
    """
    check_buckets(buckets)
    layout = Layout(Path(path).absolute())
    refuse_foreign(layout)
    make_folder(layout.root)
    put_if_absent(layout.making, json.dumps({"buckets": buckets}).encode())
    for table in TABLES:
        make_table(layout.table(table.name), table)
    ours = put_meta(layout, buckets=buckets, lake_id=lake_id)
    layout.making.unlink(missing_ok=True)
    if not ours:
        raise LakeExists(f"{path}: another process made a lake there just now; open that one")
    return open(path)


def open(path: Path | str, *, cycle: int | None = None) -> Lake:
    """Open a lake as its last committed cycle left it, or as the given cycle did.

    Raises a LakeError whose sentence says what is wrong and what to do.
    """
    layout = Layout(Path(path).absolute())
    meta = read_meta(layout)
    row = ledger.last(layout.root, cycle=cycle)
    if row is None and cycle:
        last = ledger.last(layout.root)
        raise LakeError(
            f"{path}: cycle {cycle} is not committed; the last one is {last.cycle if last else 'none yet'}"
        )
    versions = {table.name: 0 for table in TABLES}
    if row is not None:
        versions.update(row.versions)
    versions = {name: version for name, version in versions.items() if name not in _DERIVED}
    versions.update(_derived(layout))
    return Lake(layout.root, meta.buckets, meta.lake_id, row.cycle if row else 0, versions)


def pinned(path: Path | str, *, cycle: int, versions: Mapping[str, int]) -> Lake:
    """Return the lake at given table versions, which a cycle pinned: nothing is asked of the ledger.

    cycle: the last committed cycle that it shows.
    """
    layout = Layout(Path(path).absolute())
    meta = read_meta(layout)
    return Lake(layout.root, meta.buckets, meta.lake_id, cycle, dict(versions))


def open_or_create(path: Path | str, *, buckets: int) -> Lake:
    """Open a lake for writing, making it where there is none; raises LakeExists if its buckets differ.

    What a power cut tore in its logs is mended first.
    """
    layout = Layout(Path(path).absolute())
    if not layout.meta.exists():
        try:
            return create(path, buckets=buckets)
        except LakeExists:
            pass
    mend(layout.root)
    found = open(path)
    if found.buckets != buckets:
        raise LakeExists(
            f"{path}: this lake has {found.buckets} buckets, the configuration says {buckets} "
            f"([lake] buckets); a lake keeps its buckets, so set it to {found.buckets} or make a new lake"
        )
    return found


def _spec(table: str) -> Table:
    if table not in BY_NAME:
        raise LakeError(f"no table '{table}'; the tables are {', '.join(BY_NAME)}")
    return BY_NAME[table]


def _matching(adds: pa.Table, partitions: Partitions | None, spec: Table) -> pa.Table:
    for name, values in (partitions or {}).items():
        if name not in spec.partitions:
            raise LakeError(f"table {spec.name} is not partitioned by '{name}' but by {spec.partitions}")
        if adds.num_rows:
            wanted = pa.array(list(values), spec.arrow.field(name).type)
            adds = adds.filter(pc.is_in(adds.column(f"partition.{name}"), value_set=wanted))
    return adds


def _expression(partition: Mapping[str, int | str], spec: Table) -> pc.Expression | None:
    """Return "column = value and ..." for the dataset, which fills partition columns from it."""
    whole: pc.Expression | None = None
    for name, value in partition.items():
        one = pc.field(name) == pa.scalar(value, spec.arrow.field(name).type)
        whole = one if whole is None else whole & one
    return whole


def _integer(values: list[Any] | None, place: int) -> int | None:
    value = values[place] if values else None
    return value if isinstance(value, int) else None
