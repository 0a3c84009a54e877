"""What a power cut tears in a Delta log is mended by the next writer (P4, "also the whole machine")."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lake import commit, fsck, mend, snapshot
from lake.errors import LakeDamaged
from lake.snapshot import Lake
from tests.lake.sample import BUCKETS, keys_in, new_lake, run_add, turn


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _zeros(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def _without_its_end(path: Path) -> None:
    """Cut at the end of a line: what is left is well-formed, but the app transaction is missing."""
    path.write_text("\n".join(path.read_text().splitlines()[:-1]))


def _grown(tmp_path: Path) -> Lake:
    lake = new_lake(tmp_path)
    for cycle in range(1, 11):
        lake = turn(lake, cycle, {0: keys_in(0, cycle)})
    return lake


@pytest.mark.parametrize("tear", [_empty, _half, _zeros])
@pytest.mark.parametrize("name", ["00000000000000000010.checkpoint.parquet", "_last_checkpoint"])
def test_a_torn_checkpoint_is_done_without(tmp_path: Path, name: str, tear: Callable[[Path], None]) -> None:
    lake = _grown(tmp_path)
    tear(lake.layout.table("seen") / "_delta_log" / name)
    assert any("the next `noria cycle` mends it" in str(fault) for fault in fsck.check(lake.root))
    again = snapshot.open_or_create(lake.root, buckets=BUCKETS)
    assert again.rows("seen") == 10 and fsck.check(again.root) == []
    assert turn(again, 11, {0: keys_in(0, 11)}).rows("seen") == 11


@pytest.mark.parametrize("tear", [_empty, _half, _zeros, _without_its_end])
def test_a_torn_log_entry_of_an_unfinished_cycle_is_written_again(
    tmp_path: Path, tear: Callable[[Path], None]
) -> None:
    lake = _grown(tmp_path)
    add = run_add(lake, 11, 0, keys_in(0, 11))
    commit.commit_table(lake.root, "seen", cycle=11, adds=[add], replace=None)
    tear(lake.layout.table("seen") / "_delta_log" / f"{11:020d}.json")
    again = snapshot.open_or_create(lake.root, buckets=BUCKETS)
    assert commit.commit_table(again.root, "seen", cycle=11, adds=[add], replace=None) == 11
    assert again.at({"seen": 11}).rows("seen") == 11


def test_a_torn_entry_that_the_ledger_names_is_not_mended_but_named(tmp_path: Path) -> None:
    lake = _grown(tmp_path)
    _half(lake.layout.table("hosts") / "_delta_log" / f"{10:020d}.json")
    with pytest.raises(LakeDamaged, match="the ledger names its version"):
        snapshot.open_or_create(lake.root, buckets=BUCKETS)


def test_a_torn_ledger_row_is_a_cycle_not_committed(tmp_path: Path) -> None:
    lake = turn(_grown(tmp_path), 11, {0: keys_in(0, 11)})
    _half(lake.layout.table("ledger") / "_delta_log" / f"{11:020d}.json")
    again = snapshot.open_or_create(lake.root, buckets=BUCKETS)
    assert (again.cycle, again.rows("seen")) == (10, 10)
    assert turn(again, 11, {}).rows("seen") == 11


def test_a_sound_lake_needs_no_mending(tmp_path: Path) -> None:
    assert mend.mend(_grown(tmp_path).root) == mend.mend(new_lake(tmp_path / "other").root) == []
