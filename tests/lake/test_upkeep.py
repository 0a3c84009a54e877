"""Upkeep changes how the lake is stored, never what it holds."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path

import numpy as np

from lake import commit, fsck, ledger, runs, snapshot, upkeep
from lake.layout import rung_of
from lake.ledger import LedgerRow
from lake.snapshot import Lake
from tests.lake.sample import NOON, keys_in, new_lake, run_add, shelf_add, turn

DAY = dt.timedelta(days=1)


def _ms(at: dt.datetime) -> int:
    return int(at.timestamp() * 1000)


def _grown(tmp_path: Path, cycles: int) -> Lake:
    lake = new_lake(tmp_path)
    for cycle in range(1, cycles + 1):
        lake = turn(
            lake,
            cycle,
            {0: keys_in(0, cycle, 1_000 + cycle), 1: keys_in(1, *range(cycle * 100, cycle * 100 + 60))},
        )
    return lake


def _next_turn_with_compaction(lake: Lake, cycle: int, tiers: int) -> Lake:
    """As the commit step does it: table, compaction, ledger row."""
    adds = [run_add(lake, cycle, 0, keys_in(0, cycle))]
    shelf = [shelf_add(lake, "backlog", cycle, 0, keys_in(0, cycle))]
    versions = {
        **lake.versions,
        "frontier_backlog": commit.commit_table(
            lake.root, "frontier_backlog", cycle=cycle, adds=shelf, replace=None
        ),
        "seen": commit.commit_table(lake.root, "seen", cycle=cycle, adds=adds, replace=None),
    }
    versions["seen"] = upkeep.compact_runs(lake.root, "seen", cycle=cycle, tiers=tiers)
    commit.append_ledger(lake.root, LedgerRow(cycle, ledger.COMMITTED, NOON, NOON, versions=versions))
    return snapshot.open(lake.root)


def _keys(lake: Lake) -> list[int]:
    return sorted(lake.read("seen", columns=["url_key"]).column(0).to_pylist())


def test_compaction_keeps_every_key_and_readers_see_fewer_runs(tmp_path: Path) -> None:
    before = _grown(tmp_path, 3)
    after = _next_turn_with_compaction(before, 4, tiers=4)
    assert _keys(after) == sorted(_keys(before) + keys_in(0, 4))
    assert [len(after.files("seen", partitions={"bucket": [bucket]})) for bucket in (0, 1)] == [1, 3]
    assert fsck.check(after.root, deep=True) == []
    assert _keys(snapshot.open(after.root, cycle=3)) == _keys(before)


def test_runs_that_stay_get_a_second_name_and_no_copy(tmp_path: Path) -> None:
    lake = turn(new_lake(tmp_path), 1, {0: keys_in(0, *range(10_000, 12_000))})
    for cycle in (2, 3):
        lake = turn(lake, cycle, {0: keys_in(0, cycle)})
    big = lake.files("seen")[-1].path
    after = _next_turn_with_compaction(lake, 4, tiers=3)
    kept = max(after.files("seen"), key=lambda file: file.rows).path
    assert kept.name == "b0000-pk0.parquet"
    assert kept.stat().st_ino in {file.path.stat().st_ino for file in lake.files("seen")} and big.exists()
    assert len(after.files("seen")) == 2 and fsck.check(after.root, deep=True) == []


def test_compacting_twice_is_compacting_once(tmp_path: Path) -> None:
    lake = _grown(tmp_path, 4)
    first = upkeep.compact_runs(lake.root, "seen", cycle=5, tiers=4)
    assert upkeep.compact_runs(lake.root, "seen", cycle=5, tiers=4) == first == lake.versions["seen"] + 1
    assert upkeep.compact_runs(lake.root, "seen", cycle=6, tiers=4) == first  # nothing due


def test_a_compaction_that_died_before_its_commit_is_done_again(tmp_path: Path) -> None:
    lake = _grown(tmp_path, 4)
    plans = upkeep.plan_runs(lake, "seen", tiers=4)
    for plan in plans:
        upkeep.compact_partition(lake.root, "seen", plan, cycle=5)
    version = upkeep.compact_runs(lake.root, "seen", cycle=5, tiers=4)
    assert _keys(lake.at({"seen": version})) == _keys(lake)


def test_a_shelf_by_due_day_and_bucket_is_compacted_and_the_other_pairs_stay(tmp_path: Path) -> None:
    lake = new_lake(tmp_path)
    for cycle in range(1, 4):
        pairs = [(7, 0), (8, 1)] + ([(7, 1), (8, 0), (9, 0)] if cycle == 1 else [])
        adds = [
            shelf_add(lake, "later", cycle, bucket, keys_in(bucket, day * 100 + cycle), due_day=day)
            for day, bucket in pairs
        ]
        commit.commit_table(lake.root, "frontier_later", cycle=cycle, adds=adds, replace=None)
    before = lake.at({"frontier_later": 3})
    after = lake.at({"frontier_later": upkeep.compact_runs(lake.root, "frontier_later", cycle=3, tiers=3)})
    assert (len(before.files("frontier_later")), len(after.files("frontier_later"))) == (9, 5)
    assert after.rows("frontier_later", "due_day") == before.rows("frontier_later", "due_day")
    assert after.read("frontier_later").sort_by("url_key") == before.read("frontier_later").sort_by("url_key")


def test_p7_the_rungs_of_a_backlog_are_not_mixed(tmp_path: Path) -> None:
    lake = new_lake(tmp_path)
    for cycle in range(1, 4):
        adds = [
            shelf_add(lake, "backlog", cycle, 0, keys_in(0, 100 * rung + cycle), rung=rung) for rung in (0, 2)
        ]
        commit.commit_table(lake.root, "frontier_backlog", cycle=cycle, adds=adds, replace=None)
    before = lake.at({"frontier_backlog": 3})
    version = upkeep.compact_runs(lake.root, "frontier_backlog", cycle=3, tiers=3)
    after = lake.at({"frontier_backlog": version})
    found = {rung_of(file.path): file for file in after.files("frontier_backlog")}
    assert {rung: file.rows for rung, file in found.items()} == {0: 3, 2: 3}
    assert (found[2].min_key, found[2].max_key) == tuple(keys_in(0, 201, 203))
    assert after.read("frontier_backlog").sort_by("url_key") == before.read("frontier_backlog").sort_by(
        "url_key"
    )


def test_every_table_that_grows_by_appending_is_compacted_and_the_lake_stays_sound(tmp_path: Path) -> None:
    lake = _grown(tmp_path, 3)
    versions = {**lake.versions, **upkeep.compact(lake.root, cycle=4, tiers=3)}
    commit.append_ledger(lake.root, LedgerRow(4, ledger.COMMITTED, NOON, NOON, versions=versions))
    after = snapshot.open(lake.root)
    assert (len(lake.files("frontier_backlog")), len(after.files("frontier_backlog"))) == (6, 2)
    assert fsck.check(after.root, deep=True) == []
    upkeep.tidy(after.root, retention_days=0, now_ms=_ms(NOON + 36_500 * DAY))
    assert fsck.check(after.root, deep=True) == [] and len(list(after.layout.table("seen").glob("c*/*"))) == 2


def test_compacted_runs_answer_as_before(tmp_path: Path) -> None:
    lake = _grown(tmp_path, 4)
    after = lake.at({"seen": upkeep.compact_runs(lake.root, "seen", cycle=5, tiers=2)})
    asked = np.arange(0, 2_000, dtype=np.int64)
    assert np.array_equal(runs.known(lake.files("seen"), asked), runs.known(after.files("seen"), asked))


def test_the_ledger_folds_into_one_file_and_goes_on(tmp_path: Path) -> None:
    lake = _grown(tmp_path, 4)
    before = lake.ledger()
    assert upkeep.fold_ledger(lake.root, above=10) == 4
    assert upkeep.fold_ledger(lake.root, above=3) == 5
    assert lake.ledger() == before and len(lake.at({"ledger": 5}).files("ledger")) == 1
    after = turn(snapshot.open(lake.root), 5, {2: keys_in(2, 1)})
    assert [row.cycle for row in after.ledger()] == [1, 2, 3, 4, 5]
    assert snapshot.open(lake.root, cycle=2).rows("seen") == 2 * 62
    assert fsck.check(lake.root) == []


def test_staging_of_committed_cycles_is_swept(tmp_path: Path) -> None:
    lake = _grown(tmp_path, 2)
    for cycle in (1, 2, 3):
        (lake.layout.staging(cycle) / "x").mkdir(parents=True)
    assert upkeep.sweep_staging(lake.root) == [1, 2]
    assert [path.name for path in (lake.root / "staging").iterdir()] == ["cycle=000003"]
    assert upkeep.sweep_staging(new_lake(tmp_path / "b").root) == []


def _rewritten(tmp_path: Path) -> Lake:
    """Three cycles that rewrite bucket 0 of `frontier_ready`, ten days apart; the files as old as their cycle."""
    lake = new_lake(tmp_path)
    for cycle in (1, 2, 3):
        at = NOON + (cycle - 1) * 10 * DAY
        add = shelf_add(lake, "ready", cycle, 0, keys_in(0, cycle))
        version = commit.commit_table(
            lake.root, "frontier_ready", cycle=cycle, adds=[add], replace={"bucket": [0]}
        )
        path = lake.layout.table("frontier_ready") / add.path
        os.utime(path, (at.timestamp(), at.timestamp()))
        row = LedgerRow(
            cycle, ledger.COMMITTED, at, at, versions={**lake.versions, "frontier_ready": version}
        )
        commit.append_ledger(lake.root, row)
        lake = snapshot.open(lake.root)
    return lake


def _left(lake: Lake) -> list[str]:
    return sorted(path.parent.name for path in lake.layout.table("frontier_ready").glob("c*/*.parquet"))


def test_vacuum_removes_what_no_cycle_in_use_names(tmp_path: Path) -> None:
    lake = _rewritten(tmp_path)
    now = _ms(NOON + 25 * DAY)
    assert [
        path.parent.name for path in upkeep.vacuum(lake.root, retention_days=16, now_ms=now, dry_run=True)
    ] == ["c000001"]
    assert _left(lake) == ["c000001", "c000002", "c000003"]
    upkeep.vacuum(lake.root, retention_days=16, now_ms=now)
    assert _left(lake) == ["c000002", "c000003"]
    upkeep.vacuum(lake.root, retention_days=1, now_ms=now)
    assert _left(lake) == ["c000003"]
    assert lake.read("frontier_ready").num_rows == 1


def test_vacuum_spares_an_open_cycle_its_input_and_its_files(tmp_path: Path) -> None:
    lake = _rewritten(tmp_path)
    planned = LedgerRow(4, ledger.PLANNED, NOON, NOON, versions=lake.versions)
    commit.append_ledger(lake.root, planned)
    fresh = shelf_add(lake, "ready", 4, 0, keys_in(0, 4))
    orphan = lake.layout.table("frontier_ready") / fresh.path
    os.utime(orphan, (0, 0))
    commit.commit_table(lake.root, "frontier_ready", cycle=4, adds=[fresh], replace={"bucket": [0]})
    upkeep.vacuum(lake.root, retention_days=1, now_ms=_ms(NOON + 300 * DAY))
    assert _left(lake) == ["c000003", "c000004"]
    assert snapshot.open(lake.root).read("frontier_ready").num_rows == 1


def test_vacuum_spares_young_orphans_and_paths_with_spaces(tmp_path: Path) -> None:
    folder = tmp_path / "a läke"
    folder.mkdir()
    lake = _rewritten(folder)
    young = lake.layout.table("frontier_ready") / "c000002" / "b0000-left.parquet"
    young.write_bytes(b"")
    removed = upkeep.vacuum(lake.root, retention_days=1, now_ms=young.stat().st_mtime_ns // 1_000_000)
    assert young.exists() and [path.parent.name for path in removed] == ["c000001", "c000002"]
    assert lake.read("frontier_ready").num_rows == 1
