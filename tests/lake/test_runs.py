"""Sorted runs: a look-up is exact (P3), a merge changes nothing but the number of files."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lake import runs
from lake.errors import DamagedFile, LakeError
from lake.files import ROW_GROUP, DataFile
from lake.schema import SEEN
from tests.lake.sample import rows_of

KEYS = st.sets(st.integers(0, 2**63 - 1) | st.integers(0, 40), max_size=60)


def _run(root: Path, name: int, keys: set[int] | np.ndarray, *, stats: bool = True) -> DataFile:
    ordered = np.sort(np.array(list(keys), dtype=np.int64))
    add = runs.write_run(root, "seen", cycle=1, partition=0, part=name, rows=pa.table({"url_key": ordered}))
    low, high = (add.stats[kind].get("url_key") for kind in ("minValues", "maxValues"))
    return DataFile(
        root / "seen" / add.path,
        add.rows,
        add.size,
        {"bucket": 0},
        low if stats else None,
        high if stats else None,
    )


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    held=st.lists(KEYS, max_size=4),
    asked=st.lists(st.integers(0, 2**63 - 1) | st.integers(0, 40), max_size=60),
    stats=st.booleans(),
)
def test_known_is_exact_set_membership(
    tmp_path: Path, held: list[set[int]], asked: list[int], stats: bool
) -> None:
    files = [_run(tmp_path, place, keys, stats=stats) for place, keys in enumerate(held)]
    everything = set().union(*held)
    wanted = sorted(asked + list(everything)[:10])
    assert runs.known(files, np.array(wanted, dtype=np.int64)).tolist() == [
        key in everything for key in wanted
    ]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(keys=KEYS, parts=st.integers(1, 5))
def test_a_merge_keeps_every_key_once_in_order(tmp_path: Path, keys: set[int], parts: int) -> None:
    split = [sorted(keys)[place::parts] for place in range(parts)]
    files = [_run(tmp_path, place, set(part)) for place, part in enumerate(split)]
    add = runs.merge_runs(tmp_path, "seen", cycle=2, partition=0, files=files)
    assert pq.read_table(tmp_path / "seen" / add.path).column(0).to_pylist() == sorted(keys)
    assert add.rows == len(keys)
    assert add.stats.get("minValues", {}).get("url_key") == min(keys, default=None)


def test_a_merge_of_large_runs_spans_row_groups(tmp_path: Path) -> None:
    everything = np.arange(3 * ROW_GROUP, dtype=np.int64) * 7
    files = [_run(tmp_path, place, everything[place::3]) for place in range(3)]
    add = runs.merge_runs(tmp_path, "seen", cycle=2, partition=0, files=files)
    merged = pq.ParquetFile(tmp_path / "seen" / add.path)
    assert np.array_equal(merged.read().column(0).to_numpy(), everything)
    assert merged.num_row_groups <= 4


def test_a_merge_refuses_a_key_that_two_runs_hold(tmp_path: Path) -> None:
    files = [_run(tmp_path, 0, {1, 5}), _run(tmp_path, 1, {5, 9})]
    with pytest.raises(DamagedFile, match="a key in two runs"):
        runs.merge_runs(tmp_path, "seen", cycle=2, partition=0, files=files)
    assert not list((tmp_path / "seen").rglob("*m.parquet"))


def test_lookup_returns_the_rows_of_matching_keys_and_collisions_too(tmp_path: Path) -> None:
    rows = rows_of("contents", digest_key=[1, 4, 4, 9], digest=["a", "b", "c", "d"])
    add = runs.write_run(tmp_path, "contents", cycle=1, partition=0, rows=rows)
    file = DataFile(tmp_path / "contents" / add.path, add.rows, add.size, {"shard": 0}, 1, 9)
    assert runs.lookup([file], np.array([0, 4, 9])).column("digest").to_pylist() == ["b", "c", "d"]
    assert runs.lookup([file], np.array([2, 3])).num_rows == 0
    assert runs.lookup([], np.array([2])).num_rows == 0


def test_a_key_column_costs_about_five_bytes_and_no_dictionary(tmp_path: Path) -> None:
    keys = np.random.default_rng(1).integers(0, 2**57, 400_000)
    file = _run(tmp_path, 0, set(keys.tolist()))
    column = pq.read_metadata(file.path).row_group(0).column(0)
    assert column.encodings == ("DELTA_BINARY_PACKED", "RLE") or "DELTA_BINARY_PACKED" in column.encodings
    assert column.dictionary_page_offset is None
    assert file.size / file.rows < 5.7


def test_only_row_groups_that_a_key_falls_into_are_read(tmp_path: Path) -> None:
    file = _run(tmp_path, 0, np.arange(4 * ROW_GROUP, dtype=np.int64))
    asked = np.array([5, 3 * ROW_GROUP + 1], dtype=np.int64)
    assert [number for (_, number), _, _ in runs._groups(file, asked)] == [0, 3]


@pytest.mark.parametrize("keys", [[3, 1], [-1, 4]])
def test_keys_to_look_up_are_sorted_and_not_negative(keys: list[int]) -> None:
    with pytest.raises(LakeError, match="must be sorted and not negative"):
        runs.known([], np.array(keys, dtype=np.int64))


@pytest.mark.parametrize(
    ("keys", "what"), [([-2, 1], "negative"), ([1, 1], "without repeating"), ([2, 1], "without repeating")]
)
def test_a_run_that_is_not_one_is_not_written(tmp_path: Path, keys: list[int], what: str) -> None:
    with pytest.raises(DamagedFile, match=what):
        runs.write_run(tmp_path, "seen", cycle=1, partition=0, rows=pa.table({"url_key": keys}))
    assert not list(tmp_path.rglob("*.parquet"))


def test_a_missing_and_a_damaged_run_are_named(tmp_path: Path) -> None:
    file = _run(tmp_path, 0, {1, 2})
    file.path.write_bytes(b"rubbish")
    with pytest.raises(DamagedFile, match=r"b0000-p0.parquet is damaged"):
        runs.known([file], np.array([1]))
    file.path.unlink()
    with pytest.raises(DamagedFile, match=r"b0000-p0.parquet is missing"):
        runs.known([file], np.array([1]))


def _sized(*rows: int, bucket: int = 0) -> list[DataFile]:
    return [
        DataFile(Path(f"b{bucket}-{place}"), count, 0, {"bucket": bucket}) for place, count in enumerate(rows)
    ]


def test_compaction_merges_a_full_tier_and_takes_the_next_along() -> None:
    plan = runs.plan_compaction
    assert plan(_sized(10, 11, 12), tiers=4) == []
    assert [len(group) for group in plan(_sized(10, 11, 12, 9, 10_000), tiers=4)] == [4]
    assert [len(group) for group in plan(_sized(10, 11, 12, 9, 64, 65, 66, 10_000), tiers=4)] == [7]
    assert plan(_sized(5, 5, bucket=1) + _sized(5, 5, bucket=2), tiers=3) == []
    with pytest.raises(LakeError, match="at least 2"):
        plan([], tiers=1)


@given(arrivals=st.lists(st.integers(1, 500), min_size=1, max_size=200), tiers=st.integers(2, 8))
@settings(max_examples=50, deadline=None)
def test_compaction_bounds_both_runs_and_rewriting(arrivals: list[int], tiers: int) -> None:
    """P7: few runs to look up, and a row is rewritten about once a size tier, not once a cycle."""
    held: list[DataFile] = []
    written = 0
    for number, rows in enumerate(arrivals):
        held.append(DataFile(Path(str(number)), rows, 0, {"bucket": 0}))
        for group in runs.plan_compaction(held, tiers=tiers):
            merged = sum(file.rows for file in group)
            written += merged
            held = [file for file in held if file not in group] + [
                DataFile(Path(f"m{number}"), merged, 0, {"bucket": 0})
            ]
    levels = 2 + math.log(max(sum(arrivals), tiers)) / math.log(tiers)
    assert len(held) <= (tiers - 1) * levels
    assert written <= sum(arrivals) * (levels + 1)


def test_a_million_keys_are_read_and_120_000_checked_quickly_enough_to_notice_a_blunder(
    tmp_path: Path,
) -> None:
    """Not a timing: one file, four row groups, nothing decoded twice."""
    keys = np.random.default_rng(2).integers(0, 2**60, 1_000_000)
    file = _run(tmp_path, 0, set(keys.tolist()))
    asked = np.sort(keys[:120_000])
    assert runs.known([file], asked).all()
    assert np.array_equal(runs.read_keys(file), np.sort(np.array(list(set(keys.tolist())))))
    assert SEEN.file_schema.names == ["url_key"]
