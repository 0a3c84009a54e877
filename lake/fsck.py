"""The lake's own check: what a committed lake promises, read from its files. Changes nothing.

Always: the ledger against the tables, every file's size, footer and order of row groups, the conservation
law P2 by bucket, each key once in `seen` and each digest once in `contents` (P5), every record's place in
its WARC file, the staging manifests and the inbox. Deep: also every row's order, the shelves' keys against
`seen`, the bloom filters, every WARC record's headers and digests, what else stands in WARC files, CDXJ, and papers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake.exceptions import DeltaError

from lake import archives, bloom, inbox, members, runs, snapshot, verify
from lake.errors import DamagedFile, LakeError, first_line
from lake.files import Add, DataFile, check_sorted
from lake.members import Place
from lake.schema import BUCKETED, BY_NAME, DERIVED, SHELVES, Table
from lake.snapshot import Lake
from lake.torn import ENTRY, torn

VerifyWarc = Callable[[Path, int, int], str | None]
"""Judge a record by (file, offset, length): what is wrong with it, or None."""


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong: where (a file, a table, a bucket) and what."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


@dataclass
class _Check:
    """A check under way: files known to be damaged are named once and then left out."""

    lake: Lake
    deep: bool
    verify_warc: VerifyWarc | None
    damaged: set[Path] = field(default_factory=set)

    def sound(self, files: Iterable[DataFile]) -> list[DataFile]:
        return [file for file in files if file.path not in self.damaged]


def check(path: Path | str, *, deep: bool = False, verify_warc: VerifyWarc | None = None) -> list[Fault]:
    """Return everything that is wrong with a lake, empty for a sound one. Never raises for a damaged lake.

    verify_warc: judges each WARC record in a deep check in place of our own reading.
    """
    try:
        lake = snapshot.open(path)
    except LakeError as error:
        return [Fault(str(path), str(error))]
    state = _Check(lake, deep, verify_warc)
    found = [fault for part in _PARTS for fault in _guarded(part, state)]
    return list(dict.fromkeys(found))  # a log that cannot be read stands in the way of several parts


def _guarded(part: Callable[[_Check], Iterator[Fault]], state: _Check) -> Iterator[Fault]:
    """Run one part; a lake too damaged for it is a fault, not a crash."""
    try:
        yield from part(state)
    except LakeError as error:
        yield _told(state.lake, error)
    except (pa.ArrowException, DeltaError, OSError) as error:
        yield Fault(
            str(state.lake.root), f"{part.__name__.strip('_')} cannot be checked: {first_line(error)}"
        )


_DERIVED = frozenset(table.name for table in DERIVED)
_UNPINNED = _DERIVED | {"ledger"}
_MENDED_BY = {False: "the next `noria cycle` mends it", True: "the next `noria extract` mends it"}


def _told(lake: Lake, error: LakeError) -> Fault:
    return Fault(str(lake.root), str(error).removesuffix(snapshot.ASK_CHECK))


def _logs(state: _Check) -> Iterator[Fault]:
    """No torn file in a Delta log."""
    for table in state.lake.versions:
        named = -1 if table in _UNPINNED else state.lake.versions[table]
        for one in torn(state.lake.layout.table(table)):
            lost = one.what == ENTRY and one.version <= named
            remedy = "the ledger names it: restore it from a copy" if lost else _MENDED_BY[table in _DERIVED]
            yield Fault(str(one.path), f"{one.what}; {remedy}")


def _ledger(state: _Check) -> Iterator[Fault]:
    """Cycles are numbered without a gap, and the tables have the versions and cycles that the ledger names."""
    lake = state.lake
    done = [row.cycle for row in lake.ledger() if row.state == "committed"]
    if done != list(range(1, len(done) + 1)):
        yield Fault("ledger", f"committed cycles are {_shortened(done)}, not 1 to {len(done)}")
    for table in lake.versions:
        try:
            at = lake.transaction(table)
        except LakeError as error:
            yield _told(lake, error)
            continue
        if table != "ledger" and at is not None and at > lake.cycle:
            yield Fault(
                f"table {table}",
                f"version {lake.versions[table]} holds cycle {at}, the ledger ends at {lake.cycle}",
            )
    yield from _ledger_counts(lake)


def _ledger_counts(lake: Lake) -> Iterator[Fault]:
    row = next(
        (row for row in reversed(lake.ledger()) if row.cycle == lake.cycle and row.state == "committed"), None
    )
    for name, table in {"seen": "seen", **{shelf: f"frontier_{shelf}" for shelf in SHELVES}}.items():
        told = row.counts.get(name) if row else None
        if told is not None and told != lake.rows(table):
            yield Fault(
                "ledger",
                f"cycle {lake.cycle} counts {told} rows in {table}, the table has {lake.rows(table)}",
            )


def _files(state: _Check) -> Iterator[Fault]:
    """Every data file is there and is what the log says; deep: its rows are in order."""
    lake = state.lake
    for name in lake.versions:
        spec, folder = BY_NAME[name], lake.layout.table(name)
        shift = verify.KEY_BITS - (lake.buckets.bit_length() - 1) if name in BUCKETED else None
        for file in lake.files(name):
            what = verify.fault_of(file.path, spec, _as_add(file, spec, folder), shift, older=True)
            if what is None and state.deep:
                what = _row_fault(file, spec)
            if what is not None:
                state.damaged.add(file.path)
                yield Fault(str(file.path), what)


def _as_add(file: DataFile, spec: Table, folder: Path) -> Add:
    stats = {}
    if file.min_key is not None and file.max_key is not None:
        key = spec.sorted_by[0]
        stats = {"minValues": {key: file.min_key}, "maxValues": {key: file.max_key}}
    values = {name: str(value) for name, value in file.partition.items()}
    return Add(str(file.path.relative_to(folder)), file.size, file.rows, values, stats)


def _row_fault(file: DataFile, spec: Table) -> str | None:
    """Read every column of a file, so that each page is decompressed, and check the order of its rows."""
    try:
        rows = pq.read_table(file.path, partitioning=None)
        check_sorted(rows, spec.sorted_by, str(file.path))
    except (pa.ArrowException, OSError) as error:
        return f"its rows cannot be read ({first_line(error)})"
    except DamagedFile:
        return f"its rows are not sorted by {', '.join(spec.sorted_by)}"
    return None


def _conservation(state: _Check) -> Iterator[Fault]:
    """P2: every admitted URL is in `seen` once and on one shelf; by bucket."""
    lake = state.lake
    seen = lake.rows("seen", "bucket")
    shelves = {shelf: lake.rows(f"frontier_{shelf}", "bucket") for shelf in SHELVES}
    for bucket in sorted({*seen, *(one for held in shelves.values() for one in held)}):
        counts = {shelf: held.get(bucket, 0) for shelf, held in shelves.items()}
        if seen.get(bucket, 0) != sum(counts.values()):
            parts = " + ".join(f"{shelf} {count}" for shelf, count in counts.items())
            yield Fault(
                f"bucket {bucket}",
                f"seen has {seen.get(bucket, 0)} URLs, the shelves {sum(counts.values())} ({parts})",
            )


def _seen(state: _Check) -> Iterator[Fault]:
    """Each key once over all runs of a bucket; deep: the shelves hold just these keys, the filter all of them."""
    lake = state.lake
    for bucket, files in _by_partition(state, "seen").items():
        keys = _all_keys(files)
        twice = keys[1:][keys[1:] == keys[:-1]]
        if len(twice):
            yield Fault(
                f"seen, bucket {bucket}", f"{len(twice)} keys stand in it twice, the first is {twice[0]}"
            )
        if state.deep:
            yield from _shelved(state, bucket, keys)
            yield from _filtered(lake, bucket, keys)


def _all_keys(files: list[DataFile]) -> runs.Keys:
    parts = [runs.read_keys(file) for file in files]
    return np.sort(np.concatenate(parts), kind="stable") if parts else np.empty(0, dtype=np.int64)


def _shelved(state: _Check, bucket: int, seen: runs.Keys) -> Iterator[Fault]:
    parts = []
    for shelf in SHELVES:
        files = state.sound(state.lake.files(f"frontier_{shelf}", partitions={"bucket": [bucket]}))
        parts += [runs.read_keys(file) for file in files]
    keys = np.sort(np.concatenate(parts), kind="stable") if parts else np.empty(0, dtype=np.int64)
    twice = keys[1:][keys[1:] == keys[:-1]]
    if len(twice):
        yield Fault(f"bucket {bucket}", f"{len(twice)} URLs lie on two shelves, the first key is {twice[0]}")
    lost = seen[~runs.is_member(keys, seen)]
    stray = keys[~runs.is_member(seen, keys)]
    for which, where in ((lost, "in seen but on no shelf"), (stray, "on a shelf but not in seen")):
        if len(which):
            yield Fault(f"bucket {bucket}", f"{len(which)} URLs are {where}, the first key is {which[0]}")


def _filtered(lake: Lake, bucket: int, keys: runs.Keys) -> Iterator[Fault]:
    """P3: a filter that vouches for this cycle must know every key."""
    held = bloom.held(lake, "seen", bucket)
    if held is None:
        return
    missed = int(np.count_nonzero(~held.maybe(keys)))
    held.close()
    if missed:
        yield Fault(
            str(held.path), f"{missed} keys of seen are not in the bloom filter; delete it, it is made anew"
        )


def _contents(state: _Check) -> Iterator[Fault]:
    """P5: each digest once over all runs of a shard."""
    for shard, files in _by_partition(state, "contents").items():
        keys = _all_keys(files)
        again = keys[1:][keys[1:] == keys[:-1]]
        if not len(again):
            continue
        rows = runs.lookup(files, again)
        counted = rows.group_by("digest").aggregate([([], "count_all")])
        twice = counted.filter(pc.greater(counted.column("count_all"), 1)).column("digest")
        if len(twice):
            yield Fault(
                f"contents, shard {shard}", f"{len(twice)} digests are stored twice, the first is {twice[0]}"
            )


def _by_partition(state: _Check, table: str) -> dict[int, list[DataFile]]:
    found: dict[int, list[DataFile]] = {}
    for file in state.sound(state.lake.files(table)):
        found.setdefault(int(file.partition[BUCKETED[table]]), []).append(file)
    return dict(sorted(found.items()))


_CAPTURED = {
    "warc_filename": "file",
    "warc_record_offset": "offset",
    "warc_record_length": "length",
    "record_id": "record_id",
    "url": "url",
    "content_digest": "digest",
    "record_type": "record_type",
}
_STORED = {name: field for name, field in _CAPTURED.items() if name not in ("content_digest", "record_type")}


def _warcs(state: _Check) -> Iterator[Fault]:
    """Every record that `captures` and `contents` name lies where they say; deep: and is what they say."""
    tables = (("captures", _CAPTURED), ("contents", {**_STORED, "digest": "digest"}))
    for table, names in tables:
        for file in state.sound(state.lake.files(table)):
            schema = BY_NAME[table].file_schema  # gives a file that is older than a column nulls in its place
            try:
                rows = pq.read_table(file.path, columns=list(names), schema=schema, partitioning=None)
            except (pa.ArrowException, OSError) as error:
                state.damaged.add(file.path)
                yield Fault(str(file.path), f"its rows cannot be read ({first_line(error)})")
                continue
            rows = rows.filter(pc.is_valid(rows.column("warc_filename"))).rename_columns(names)
            places = [
                Place(**row)
                for row in rows.sort_by([("file", "ascending"), ("offset", "ascending")]).to_pylist()
            ]
            for name, group in groupby(places, key=lambda place: place.file):
                yield from _warc(state, table, name, list(group))


def _warc(state: _Check, table: str, name: str, places: list[Place]) -> Iterator[Fault]:
    path = state.lake.layout.warc_file(name)
    if not path.is_file():
        if path not in state.damaged:
            yield Fault(str(path), f"the file is missing; table {table} names {len(places)} records in it")
        state.damaged.add(path)
        return
    size = path.stat().st_size
    for place, ends in zip(places, members.edges(path, places), strict=True):
        what = members.place_fault(place, size, ends)
        if what is None and state.deep:
            what = _record(state, path, place)
        if what is not None:
            yield Fault(str(path), f"{what} (table {table})")


def _record(state: _Check, path: Path, place: Place) -> str | None:
    if state.verify_warc is not None:
        return state.verify_warc(path, place.offset, place.length)
    with path.open("rb") as file:
        file.seek(place.offset)
        return members.record_fault(file.read(place.length), place)


def _archives(state: _Check) -> Iterator[Fault]:
    """Deep: WARC files hold nothing else and are whole, their CDXJ agree with `captures`, each cycle has its papers."""
    if state.deep:
        files = state.sound(state.lake.files("captures"))
        for path, what in archives.faults(state.lake, files, damaged=state.damaged):
            yield Fault(str(path), what)


def _beside(state: _Check) -> Iterator[Fault]:
    """Manifests of the open cycle and waiting inbox files can be read."""
    root = state.lake.root
    for path in sorted((root / "staging").rglob("*.json")):
        try:
            json.loads(path.read_bytes())
        except ValueError as error:
            yield Fault(str(path), f"unreadable manifest ({error})")
    for name in inbox.pending(root):
        for what in inbox.faults(root, name):
            yield Fault(str(state.lake.layout.inbox / name), what)


def _shortened(numbers: list[int]) -> str:
    return f"{numbers[:5]} ... {numbers[-3:]}" if len(numbers) > 10 else str(numbers)


_PARTS: tuple[Callable[[_Check], Iterator[Fault]], ...] = (
    _logs, _ledger, _files, _conservation, _seen, _contents, _warcs, _archives, _beside,
)  # fmt: skip
