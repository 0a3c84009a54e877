"""Commits happen once, whole, and only for files that are what their task said (P4)."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from deltalake.transaction import Transaction

from lake import commit, ledger, snapshot
from lake.errors import CommitConflict, DamagedFile, LakeError
from lake.files import Add, write_parquet
from lake.schema import BY_NAME
from tests.lake import procs
from tests.lake.sample import keys_in, new_lake, rows_of, run_add, shelf_add


def test_a_cycle_committed_twice_is_committed_once(tmp_path: Path) -> None:
    lake = new_lake(tmp_path)
    add = run_add(lake, 1, 0, keys_in(0, 1, 2))
    first = commit.commit_table(lake.root, "seen", cycle=1, adds=[add], replace=None)
    again = commit.commit_table(lake.root, "seen", cycle=1, adds=[add], replace=None)
    assert (first, again) == (1, 1)
    assert lake.at({"seen": 1}).rows("seen") == 2


@pytest.mark.parametrize("replace", [None, {}, {"bucket": []}])
def test_an_empty_commit_still_records_the_cycle(
    tmp_path: Path, replace: dict[str, list[int]] | None
) -> None:
    lake = new_lake(tmp_path)
    commit.commit_table(lake.root, "hosts", cycle=1, adds=[], replace=None)
    assert commit.commit_table(lake.root, "hosts", cycle=2, adds=[], replace=replace) == 2
    assert commit.committed_cycle(lake.root, "hosts") == 2


def test_replace_removes_what_matches_all_its_lists_and_nothing_else(tmp_path: Path) -> None:
    lake = new_lake(tmp_path)
    cells = [(day, bucket) for day in (1, 2, 3) for bucket in (0, 1, 2)]
    adds = [shelf_add(lake, "later", 1, bucket, keys_in(bucket, day), due_day=day) for day, bucket in cells]
    commit.commit_table(lake.root, "frontier_later", cycle=1, adds=adds, replace=None)
    new = shelf_add(
        lake, "later", 2, 3, keys_in(3, 9), due_day=9
    )  # a partition that the filter does not name
    after = commit.commit_table(
        lake.root, "frontier_later", cycle=2, adds=[new], replace={"due_day": [1, 2], "bucket": [0, 1]}
    )
    left = {
        (f.partition["due_day"], f.partition["bucket"])
        for f in lake.at({"frontier_later": after}).files("frontier_later")
    }
    assert left == {(day, bucket) for day, bucket in cells if not (day in (1, 2) and bucket in (0, 1))} | {
        (9, 3)
    }


def test_a_bucket_is_replaced_as_a_whole_and_may_be_emptied(tmp_path: Path) -> None:
    lake = new_lake(tmp_path)
    both = [shelf_add(lake, "ready", 1, bucket, keys_in(bucket, 1, 2, 3)) for bucket in (0, 1)]
    commit.commit_table(lake.root, "frontier_ready", cycle=1, adds=both, replace={"bucket": [0, 1]})
    commit.commit_table(lake.root, "frontier_ready", cycle=2, adds=[], replace={"bucket": [0]})
    assert lake.at({"frontier_ready": 2}).rows("frontier_ready", "bucket") == {1: 3}


def test_a_table_that_moved_since_it_was_read_is_refused(tmp_path: Path) -> None:
    lake = new_lake(tmp_path)
    commit.commit_table(lake.root, "hosts", cycle=1, adds=[], replace=None)
    with pytest.raises(CommitConflict, match="is at version 1, the rows were made from version 0"):
        commit.commit_table(lake.root, "hosts", cycle=2, adds=[], replace=None, expect_version=0)


def test_a_file_that_the_table_holds_is_not_added_again(tmp_path: Path) -> None:
    lake = new_lake(tmp_path)
    add = run_add(lake, 1, 0, keys_in(0, 1))
    commit.commit_table(lake.root, "seen", cycle=1, adds=[add], replace=None)
    with pytest.raises(CommitConflict, match=r"holds c000001/b0000-p0.parquet already"):
        commit.commit_table(lake.root, "seen", cycle=2, adds=[add], replace={"bucket": [0]})


def _bad(add: Add, path: Path) -> dict[str, Add]:
    truncated = dataclasses.replace(add, path="c000001/cut.parquet")
    whole = path.read_bytes()
    (path.parent / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    (path.parent / "torn.parquet").write_bytes(
        whole[: len(whole) // 2] + b"\0" * (len(whole) - len(whole) // 2)
    )
    pq.write_table(pa.table({"other": [1, 2]}), path.parent / "other.parquet")
    other = (path.parent / "other.parquet").stat().st_size
    return {
        "it is not there": dataclasses.replace(add, path="c000001/none.parquet"),
        f"it has {len(whole) // 2} bytes": truncated,
        "its footer cannot be read": dataclasses.replace(add, path="c000001/torn.parquet"),
        "it has 2 rows, 3 were written": dataclasses.replace(add, rows=3),
        "its columns are": dataclasses.replace(add, path="c000001/other.parquet", size=other),
        "the manifest says": dataclasses.replace(
            add, stats={"minValues": {"url_key": 0}, "maxValues": {"url_key": 9}}
        ),
        "it claims 1": dataclasses.replace(add, partition={"bucket": "1"}),
        "the table has": dataclasses.replace(add, partition={}),
    }


def test_nothing_is_committed_of_a_file_that_is_not_what_its_task_said(tmp_path: Path) -> None:
    lake = new_lake(tmp_path)
    good = run_add(lake, 1, 0, keys_in(0, 5, 7))
    other = run_add(lake, 1, 2, keys_in(2, 5, 7))
    for what, bad in _bad(good, lake.layout.table("seen") / good.path).items():
        with pytest.raises(DamagedFile, match=what):
            commit.commit_table(lake.root, "seen", cycle=1, adds=[other, bad], replace=None)
    assert commit.newest_version(lake.root, "seen") == 0


def test_row_groups_out_of_order_are_refused(tmp_path: Path) -> None:
    lake = new_lake(tmp_path)
    path = lake.layout.table("seen") / "c000001/b0000-p0.parquet"
    path.parent.mkdir()
    rows = pa.table({"url_key": [5, 6, 1, 2], "bucket": pa.array([0] * 4, pa.int32())})
    pq.write_table(rows, path, row_group_size=2)
    add = Add("c000001/b0000-p0.parquet", path.stat().st_size, 4, {"bucket": "0"})
    with pytest.raises(DamagedFile, match="row groups are not sorted"):
        commit.commit_table(lake.root, "seen", cycle=1, adds=[add], replace=None)


def test_a_file_from_before_partition_columns_were_kept_may_stay_under_a_new_name(tmp_path: Path) -> None:
    lake = new_lake(tmp_path)
    path = lake.layout.table("seen") / "c000001/b0000-p0.parquet"
    path.parent.mkdir()
    pq.write_table(pa.table({"url_key": [1, 2, 5]}), path)
    add = Add("c000001/b0000-p0.parquet", path.stat().st_size, 3, {"bucket": "0"})
    assert commit.commit_table(lake.root, "seen", cycle=1, adds=[add], replace=None)
    assert lake.at({"seen": 1}).read("seen").to_pydict() == {"bucket": [0, 0, 0], "url_key": [1, 2, 5]}


def test_two_processes_that_commit_one_cycle_have_one_effect(tmp_path: Path) -> None:
    lake = new_lake(tmp_path)
    for cycle in (1, 2):
        twins = [procs.start("commit_cycle", lake.root, cycle) for _ in range(2)]
        assert [twin.stdout.readline() for twin in twins] == ["ready\n"] * 2  # type: ignore[union-attr]
        assert [procs.outcome(twin) for twin in twins] == [str(cycle)] * 2
    assert lake.at({"seen": 2}).rows("seen") == 8
    assert commit.newest_version(lake.root, "seen") == 2


def test_a_committer_that_opened_before_the_other_committed_is_refused_by_delta(tmp_path: Path) -> None:
    """The race in one process: both hold version 0 and have seen that the cycle is not there yet."""
    lake = new_lake(tmp_path)
    spec = commit._spec("seen")
    first, second = (DeltaTable(lake.layout.table("seen")) for _ in range(2))
    add = run_add(lake, 1, 0, keys_in(0, 1))
    once = Transaction("cycle", 1)
    assert commit._transact(first, spec, [add], None, once)
    assert not commit._transact(second, spec, [add], None, once)


def test_a_checkpoint_is_made_every_ten_commits_and_old_versions_stay_readable(tmp_path: Path) -> None:
    lake = new_lake(tmp_path)
    for cycle in range(1, 23):
        commit.commit_table(
            lake.root, "seen", cycle=cycle, adds=[run_add(lake, cycle, 0, keys_in(0, cycle))], replace=None
        )
    log = lake.layout.table("seen") / "_delta_log"
    assert [path.name[:20].lstrip("0") for path in sorted(log.glob("*.checkpoint.parquet"))] == ["10", "20"]
    assert commit.committed_cycle(lake.root, "seen") == 22
    assert [lake.at({"seen": version}).rows("seen") for version in (0, 3, 10, 13, 22)] == [0, 3, 10, 13, 22]


def test_the_ledger_takes_each_cycle_and_state_once_and_names_its_own_version(tmp_path: Path) -> None:
    lake = new_lake(tmp_path)
    rows = [
        ledger.LedgerRow(1, state, versions={"seen": 0}, counts={"pages": 3})
        for state in (ledger.PLANNED, ledger.COMMITTED)
    ]
    assert [commit.append_ledger(lake.root, row) for row in [*rows, *rows]] == [1, 2, 2, 2]
    held = ledger.read(lake.root)
    assert [(row.state, row.versions["ledger"], row.counts) for row in held] == [
        ("planned", 1, {"pages": 3}),
        ("committed", 2, {"pages": 3}),
    ]


def test_an_unknown_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(LakeError, match="no table 'sheets'; the tables are frontier_ready"):
        commit.commit_table(new_lake(tmp_path).root, "sheets", cycle=1, adds=[], replace=None)


POINTS = [
    f"{when} {table}"
    for table in ("seen", "frontier_ready", "frontier_later")
    for when in ("before", "files of", "after")
] + ["after ledger"]  # fmt: skip


@pytest.mark.parametrize(
    "points", [POINTS[1::3], pytest.param(POINTS, marks=pytest.mark.slow)], ids=["some", "all"]
)
def test_killed_at_any_point_and_recovered_by_two_the_lake_equals_an_undisturbed_one(
    tmp_path: Path, points: list[str]
) -> None:
    """P4 for the commits of a cycle: SIGKILL at each point, then two recoverers at once."""
    calm, stormy = (snapshot.create(tmp_path / name, buckets=4) for name in ("calm", "stormy"))
    for cycle, point in enumerate(points, start=1):
        killed = procs.start("turn_with_deaths", stormy.root, cycle, NORIA_DIE=point)
        assert procs.a_turn(calm.root, cycle) == "committed"
        assert procs.outcome(killed) == "nothing (code -9)", point
        twins = [procs.start("turn_with_deaths", stormy.root, cycle) for _ in range(2)]
        assert {procs.outcome(twin) for twin in twins} <= {"committed", "done before"}
    one, other = snapshot.open(calm.root), snapshot.open(stormy.root)
    assert one.versions == other.versions
    for table in ("seen", "frontier_ready"):
        assert one.read(table).sort_by("url_key") == other.read(table).sort_by("url_key")
        assert len(one.files(table)) == len(other.files(table))


def test_rows_of_another_shape_are_refused_with_the_columns_named(tmp_path: Path) -> None:
    lake = new_lake(tmp_path)
    with pytest.raises(LakeError, match="columns missing"):
        run_rows = rows_of("seen", url_key=[1]).rename_columns(["key"])
        from_rows = lake.layout.table("seen") / "x.parquet"
        write_parquet(from_rows, run_rows, BY_NAME["seen"])
