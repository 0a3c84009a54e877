"""Lakes of an older Noria: columns have been added since, and what is missing in their files is null, not damage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.transaction import AddAction, CommitProperties, Transaction

from lake import commit, fsck, runs, snapshot
from lake.errors import DamagedFile
from lake.files import Add, write_data
from lake.layout import Layout
from lake.schema import BY_NAME, CAPTURES, CONTENTS, FRONTIER_READY, HOSTS, Column, Table
from lake.snapshot import Lake
from tests.lake.sample import finish, keys_in, new_lake, rows_of, run_add

KEYS = keys_in(0, 1, 2)


def without(spec: Table, *names: str) -> Table:
    """Return a table as it was before some columns were added."""
    return replace(spec, columns=tuple(column for column in spec.columns if column.name not in names))


def retyped(spec: Table, name: str, kind: pa.DataType) -> Table:
    """Return a table in which a column is of another type."""
    columns = [Column(name, kind, "") if column.name == name else column for column in spec.columns]
    return replace(spec, columns=tuple(columns))


def before_fields() -> Table:
    """Return `hosts` as it was before its sitemaps had the last two of their fields."""
    kind = HOSTS.arrow.field("sitemaps").type.value_type
    fields = [kind.field(place) for place in range(kind.num_fields - 2)]
    return retyped(HOSTS, "sitemaps", pa.list_(pa.struct(fields)))


def older_lake(folder: Path, olds: Sequence[Table]) -> Lake:
    """Make an empty lake in which some tables are as they were."""
    layout = Layout(folder / "lake")
    for old in olds:
        commit.make_table(layout.table(old.name), old)
    layout.making.write_bytes(b"")
    return snapshot.create(layout.root, buckets=4)


def written(lake: Lake, old: Table, rows: pa.Table, partition: dict[str, int | str]) -> None:
    """Add rows to a table as the older Noria did, in cycle 1."""
    bucket = partition.get("bucket", partition.get("shard"))
    path = lake.layout.data_path(old.name, 1, None if bucket is None else int(bucket))
    given = {field.name: as_was(rows, field) for field in old.file_schema}
    add = write_data(lake.layout.table(old.name), path, pa.table(given), old, partition)
    action = AddAction(add.path, add.size, add.partition, 0, True, f'{{"numRecords": {add.rows}}}')
    DeltaTable(lake.layout.table(old.name)).create_write_transaction(
        [action], mode="append", schema=old.arrow, partition_by=list(old.partitions),
        commit_properties=CommitProperties(app_transactions=[Transaction("cycle", 1)]),
    )  # fmt: skip


def as_was(rows: pa.Table, field: pa.Field) -> pa.Array:
    """Return a column's values in the type that it had, null where they cannot have had it."""
    if field.name in rows.column_names and pa.types.is_list(field.type):
        return pa.array(rows[field.name].to_pylist(), field.type)
    same = field.name in rows.column_names and rows[field.name].type == field.type
    return rows[field.name] if same else pa.nulls(rows.num_rows, field.type)


def first_cycle(folder: Path, *olds: Table) -> Lake:
    """Return a lake after one cycle of an older Noria: two URLs on ready, and a host."""
    lake = older_lake(folder, olds)
    of = {**BY_NAME, **{old.name: old for old in olds}}
    urls = [f"http://a.test/{key}" for key in KEYS]
    ready = rows_of("frontier_ready", url_key=KEYS, url=urls)
    written(lake, of["frontier_ready"], ready, {"bucket": 0})
    written(
        lake,
        of["hosts"],
        rows_of("hosts", host=["a.test"], host_key=[7], sitemaps=[[{"url": "http://a.test/s.xml"}]]),
        {"bucket": 0},
    )
    captures = rows_of("captures", url_surtkey=["test,a)/"], url=["http://a.test/"])
    written(lake, of["captures"], captures, {"crawl": snapshot.crawl_name(1), "subset": "warc"})
    contents = rows_of("contents", digest_key=[5], digest=["A" * 32])
    written(lake, of["contents"], contents, {"shard": 0})
    return finish(lake, 1, {"seen": [run_add(lake, 1, 0, KEYS)]})


def faults(lake: Lake) -> list[str]:
    return [fault.what for fault in fsck.check(lake.root, deep=True)]


NEVER_ADDED = {"url", "host", "digest", "warc_filename"}


def barest(spec: Table) -> Table:
    """Return a table with no more columns than it must always have had."""
    kept = {*spec.sorted_by, *spec.partitions, *NEVER_ADDED}
    return without(spec, *[column.name for column in spec.columns if column.name not in kept])


OLDER = {
    "the last column": (without(FRONTIER_READY, "last_modified"), without(CAPTURES, "notes")),
    "columns in the middle": (without(CAPTURES, "hop", "record_id"), without(FRONTIER_READY, "meta")),
    "fields of a struct": (before_fields(),),
    "all that can be": (barest(FRONTIER_READY), barest(HOSTS), barest(CONTENTS), barest(CAPTURES)),
}


@pytest.mark.parametrize("olds", OLDER.values(), ids=OLDER)
def test_files_from_before_a_column_was_added_are_no_fault_and_read_as_null(
    tmp_path: Path, olds: tuple[Table, ...]
) -> None:
    lake = first_cycle(tmp_path, *olds)
    assert faults(lake) == []
    for old in olds:
        rows = lake.read(old.name)
        assert rows.schema.equals(BY_NAME[old.name].arrow) and rows.num_rows
        added = set(rows.column_names) - set(old.arrow.names)
        assert all(rows[name].null_count == rows.num_rows for name in added)


@pytest.mark.parametrize(
    ("old", "what"),
    [
        (without(FRONTIER_READY, "url_key"), "it lacks url_key, by which the table is sorted"),
        (without(HOSTS, "host"), "it lacks host, by which the table is sorted"),
        (retyped(FRONTIER_READY, "visits", pa.int64()), "its column visits is int64, the table's int32"),
        (retyped(HOSTS, "sitemaps", pa.string()), "its column sitemaps is string, the table's list<"),
        (
            replace(FRONTIER_READY, columns=(*FRONTIER_READY.columns, Column("strange", pa.string(), ""))),
            "its column strange is not one of the table's",
        ),
    ],
    ids=["no key", "no second key", "another type", "no list", "a column of nobody's"],
)
def test_a_missing_key_a_wrong_type_and_a_strange_column_are_faults(
    tmp_path: Path, old: Table, what: str
) -> None:
    lake = first_cycle(tmp_path, replace(old, sorted_by=()))
    assert any(line.startswith(what) for line in faults(lake)), faults(lake)


def test_a_new_file_must_have_every_column(tmp_path: Path) -> None:
    lake = new_lake(tmp_path)
    old = without(FRONTIER_READY, "last_modified")
    rows = rows_of("frontier_ready", url_key=KEYS).select(old.file_schema.names)
    add = write_data(
        lake.layout.table(old.name), lake.layout.data_path(old.name, 1, 0), rows, old, {"bucket": 0}
    )
    with pytest.raises(DamagedFile, match="its columns are"):
        commit.commit_table(lake.root, old.name, cycle=1, adds=[add], replace=None)


def test_the_next_cycle_writes_beside_older_files(tmp_path: Path) -> None:
    lake = first_cycle(
        tmp_path,
        without(FRONTIER_READY, "last_modified"),
        without(CONTENTS, "cycle"),
        without(CAPTURES, "notes"),
    )
    keys = keys_in(1, 3)
    ready = rows_of("frontier_ready", url_key=keys, last_modified=["today"])
    adds: dict[str, list[Add]] = {
        "seen": [run_add(lake, 2, 1, keys)],
        "frontier_ready": [
            write_data(lake.layout.table("frontier_ready"), lake.layout.data_path("frontier_ready", 2, 1), ready, FRONTIER_READY, {"bucket": 1})
        ],
        "contents": [runs.write_run(lake.root, "contents", cycle=2, partition=0, rows=rows_of("contents", digest_key=[6], digest=["B" * 32], cycle=[2]))],
    }  # fmt: skip
    lake = finish(lake, 2, adds)
    assert faults(lake) == []
    rows = lake.read("frontier_ready").sort_by("url_key")
    assert rows["last_modified"].to_pylist() == [None, None, "today"]
    found = runs.lookup(lake.files("contents"), np.array([5, 6]))
    assert dict(zip(found["digest"].to_pylist(), found["cycle"].to_pylist(), strict=True)) == {
        "A" * 32: None,
        "B" * 32: 2,
    }
    merged = runs.merge_runs(lake.root, "contents", cycle=3, partition=0, files=lake.files("contents"))
    assert merged.rows == 2
