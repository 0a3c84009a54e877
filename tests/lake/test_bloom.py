"""P3: the filter never says "new" of a key it holds, and both ways of asking agree."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from bloom_filter2 import BloomFilter
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lake import bloom, snapshot
from lake.bloom import Bloom
from lake.errors import LakeError
from tests.lake.sample import keys_in, new_lake, turn

KEYS = st.lists(st.integers(0, 2**63 - 1), max_size=80)


def _array(keys: list[int]) -> np.ndarray:
    return np.array(keys, dtype=np.int64)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    added=KEYS,
    scalar=KEYS,
    asked=KEYS,
    capacity=st.integers(1, 200),
    rate=st.sampled_from([0.0082, 0.1, 0.5]),
)
def test_numpy_and_bloom_filter2_agree_on_the_same_bits(
    tmp_path: Path, added: list[int], scalar: list[int], asked: list[int], capacity: int, rate: float
) -> None:
    (tmp_path / "f.bloom").unlink(missing_ok=True)
    held = Bloom.open(tmp_path / "f.bloom", capacity=capacity, error_rate=rate)
    held.add(_array(added))
    for key in scalar:
        held.scalar().add(key)
    every = added + scalar + asked
    assert held.maybe(_array(every)).tolist() == [key in held.scalar() for key in every]
    assert held.maybe(_array(every)).tolist() == [held.maybe_one(key) for key in every]
    assert held.maybe(_array(added + scalar)).all()


def test_keys_that_share_bytes_are_all_kept(tmp_path: Path) -> None:
    """Many bits of one byte set at once: none may be lost."""
    held = Bloom.open(tmp_path / "f.bloom", capacity=50)
    keys = np.arange(5_000, dtype=np.int64)
    held.add(keys)
    assert held.maybe(keys).all()


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="mappings are read from Linux's /proc")
def test_what_is_unloaded_takes_no_memory_and_keeps_its_bits(tmp_path: Path) -> None:
    keys = np.random.default_rng(2).integers(0, 2**63 - 1, 20_000)
    held = Bloom.open(tmp_path / "f.bloom", capacity=2_000_000)
    held.add(keys)
    assert _resident(tmp_path / "f.bloom") > 2**20
    held.unload()
    assert _resident(tmp_path / "f.bloom") == 0
    assert held.maybe(keys).all()
    held.close()


def _resident(path: Path) -> int:
    """Return the bytes of a mapped file that count as this process's memory."""
    lines = iter(Path("/proc/self/smaps").read_text().splitlines())
    assert any(line.endswith(str(path)) for line in lines), f"{path} is not mapped"
    return next(int(line.split()[1]) * 1_024 for line in lines if line.startswith("Rss:"))


def test_a_full_filter_errs_as_designed_and_costs_ten_bits_a_key(tmp_path: Path) -> None:
    count = 200_000
    keys = np.random.default_rng(1).integers(0, 2**63 - 1, 2 * count)
    held = Bloom.open(tmp_path / "f.bloom", capacity=count)
    held.add(keys[:count])
    assert held.maybe(keys[:count]).all()
    assert 0.006 < held.maybe(keys[count:]).mean() < 0.0105
    assert held.bits / count == pytest.approx(10.0, abs=0.05)


def test_composite_keys_of_one_bucket_and_host_spread_as_well(tmp_path: Path) -> None:
    """The top 15 bits are the host's: within a host only 48 bits vary."""
    count = 100_000
    keys = (np.int64(77) << 48) + np.random.default_rng(3).integers(0, 2**48, 2 * count)
    held = Bloom.open(tmp_path / "f.bloom", capacity=count)
    held.add(keys[:count])
    assert held.maybe(keys[count:]).mean() < 0.0105


def test_the_file_is_the_librarys_and_lives_on(tmp_path: Path) -> None:
    path = tmp_path / "f.bloom"
    held = Bloom.open(path, capacity=1_000)
    held.add(_array([7, 8]))
    held.flush()
    held.close()
    assert path.stat().st_size == bloom.file_size(1_000)
    theirs = BloomFilter(1_000, bloom.ERROR_RATE, bloom.probes, filename=(str(path), -1))
    assert 7 in theirs and 8 in theirs and 9 not in theirs


def test_negative_keys_are_refused_both_ways(tmp_path: Path) -> None:
    held = Bloom.open(tmp_path / "f.bloom", capacity=10)
    for ask in (
        lambda: held.add(_array([1, -1])),
        lambda: held.maybe(_array([-5])),
        lambda: held.maybe_one(-5),
        lambda: -1 in held.scalar(),
    ):
        with pytest.raises(LakeError, match="is negative"):
            ask()


@pytest.mark.parametrize("capacity", [0, bloom.LARGEST + 1])
def test_a_capacity_out_of_bounds_is_refused(tmp_path: Path, capacity: int) -> None:
    with pytest.raises(LakeError, match="are possible"):
        Bloom.open(tmp_path / "f.bloom", capacity=capacity)


def test_ensure_makes_a_missing_filter_and_fills_up_one_that_is_behind(tmp_path: Path) -> None:
    lake = turn(new_lake(tmp_path), 1, {0: keys_in(0, 1, 2), 1: keys_in(1, 5)})
    assert bloom.ensure(lake, "seen", 0).maybe(_array(keys_in(0, 1, 2, 3))).tolist() == [True, True, False]
    lake = turn(lake, 2, {0: keys_in(0, 8)})
    assert bloom.held(lake, "seen", 0) is None  # it does not vouch for cycle 2 yet
    assert bloom.ensure(lake, "seen", 0).maybe(_array(keys_in(0, 1, 2, 8))).all()
    assert bloom.held(lake, "seen", 0) is not None


def test_a_cycle_replayed_with_other_keys_leaves_none_out(tmp_path: Path) -> None:
    """`extend` before a crash must not vouch for what was then committed otherwise."""
    lake = turn(new_lake(tmp_path), 1, {0: keys_in(0, 1)})
    bloom.ensure(lake, "seen", 0)
    bloom.extend(lake.root, "seen", 0, _array(keys_in(0, 2)), cycle=2)
    lake = turn(lake, 2, {0: keys_in(0, 3)})
    assert bloom.ensure(lake, "seen", 0).maybe(_array(keys_in(0, 1, 3))).all()


def test_extend_sets_the_bits_in_place(tmp_path: Path) -> None:
    lake = turn(new_lake(tmp_path), 1, {0: keys_in(0, 1)})
    held = bloom.ensure(lake, "seen", 0)
    bloom.extend(lake.root, "seen", 0, _array(keys_in(0, 2)), cycle=2)
    assert held.maybe(_array(keys_in(0, 2))).all()
    bloom.extend(lake.root, "seen", 3, _array(keys_in(3, 2)), cycle=2)  # no filter there: nothing to do
    assert not lake.layout.bloom("seen", 3).exists()


@pytest.mark.parametrize("damage", ["no filter", "cut filter", "no sidecar", "rubbish sidecar"])
def test_a_filter_that_does_not_fit_its_sidecar_is_made_anew(tmp_path: Path, damage: str) -> None:
    lake = turn(new_lake(tmp_path), 1, {0: keys_in(0, 1, 2)})
    path = bloom.ensure(lake, "seen", 0).path
    sidecar = path.with_suffix(".json")
    if damage == "no filter":
        path.unlink()
    elif damage == "cut filter":
        path.write_bytes(path.read_bytes()[:100])
    elif damage == "no sidecar":
        sidecar.unlink()
    else:
        sidecar.write_text("{")
    assert bloom.ensure(lake, "seen", 0).maybe(_array(keys_in(0, 1, 2))).all()


def test_a_filter_that_became_too_small_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bloom, "SMALLEST", 4)
    lake = turn(new_lake(tmp_path), 1, {0: keys_in(0, 1, 2)})
    small = bloom.ensure(lake, "seen", 0)
    lake = turn(lake, 2, {0: keys_in(0, *range(10, 60))})
    large = bloom.ensure(lake, "seen", 0)
    assert (small.capacity, large.capacity) == (4, 104)
    assert large.maybe(_array(keys_in(0, 1, 2, *range(10, 60)))).all()


def test_an_older_snapshot_finds_the_newer_filter_good_enough(tmp_path: Path) -> None:
    lake = turn(turn(new_lake(tmp_path), 1, {0: keys_in(0, 1)}), 2, {0: keys_in(0, 2)})
    bloom.ensure(lake, "seen", 0)
    older = snapshot.open(lake.root, cycle=1)
    assert bloom.ensure(older, "seen", 0).maybe(_array(keys_in(0, 1))).all()
