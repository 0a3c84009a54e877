"""A version's data files are read from its log once a process, and never taken for another table's."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from lake import actions, snapshot
from lake.errors import LakeMissing
from tests.lake.sample import keys_in, new_lake, turn


def test_a_version_is_read_once_whoever_opens_the_lake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn(new_lake(tmp_path), 1, {0: [1, 2, 3]})
    reads: list[int] = []
    read = actions.read
    monkeypatch.setattr(actions, "read", lambda held: reads.append(held.version()) or read(held))
    assert [snapshot.open(tmp_path / "lake").rows("seen") for _ in range(5)] == [3] * 5
    in_ledger = 5
    assert len(reads) <= in_ledger + 1


def test_a_new_commit_is_seen(tmp_path: Path) -> None:
    held = turn(new_lake(tmp_path), 1, {0: [1, 2, 3]})
    assert snapshot.open(tmp_path / "lake").rows("seen") == 3
    turn(held, 2, {1: keys_in(1, 4)})
    assert snapshot.open(tmp_path / "lake").rows("seen", "bucket") == {0: 3, 1: 1}
    assert snapshot.open(tmp_path / "lake", cycle=1).rows("seen", "bucket") == {0: 3}


def test_another_lake_at_the_same_path_is_not_taken_for_the_first(tmp_path: Path) -> None:
    turn(new_lake(tmp_path), 1, {0: [1, 2, 3]})
    assert snapshot.open(tmp_path / "lake").rows("seen") == 3
    shutil.rmtree(tmp_path / "lake")
    turn(new_lake(tmp_path), 1, {2: keys_in(2, 7)})
    assert snapshot.open(tmp_path / "lake").rows("seen", "bucket") == {2: 1}


def test_no_more_is_kept_in_mind_than_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actions, "_kept", {})
    monkeypatch.setattr(actions, "REMEMBERED", 2)
    held = new_lake(tmp_path)
    for table in ("seen", "hosts", "captures", "seen"):
        assert held.rows(table) == 0
    assert len(actions._kept) == 2
    monkeypatch.setattr(actions, "LARGEST_BYTES", -1)
    assert snapshot.open(tmp_path / "lake").rows("contents") == 0
    assert len(actions._kept) == 2


def test_a_table_that_is_not_there_is_told_as_before(tmp_path: Path) -> None:
    held = new_lake(tmp_path)
    assert actions.log_entry(tmp_path / "nowhere", 0) is None
    shutil.rmtree(tmp_path / "lake" / "seen")
    with pytest.raises(LakeMissing, match="table seen is not there"):
        held.rows("seen")
