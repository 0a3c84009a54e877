"""Leases: never two holders who may act, never a wait for a process that is provably gone."""

from __future__ import annotations

import json
import os
import pickle
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lake import lease as leases
from lake.errors import LeaseHeld, LeaseLost
from lake.files import replace_fast
from lake.lease import Lease, held_by, system_clock
from tests.lake import procs


class Pretend:
    """A clock that is told the time, ms."""

    def __init__(self, ms: int = 1_000_000) -> None:
        self.ms = ms

    def __call__(self) -> int:
        return self.ms


def test_a_second_taker_is_told_who_holds_it_and_until_when(tmp_path: Path) -> None:
    clock = Pretend()
    Lease.acquire(tmp_path / "writer", holder="noria cycle 12", now=clock)
    with pytest.raises(
        LeaseHeld, match=r"held by noria cycle 12 \(host .*, process \d+\) since 1970-01-01 .* until"
    ) as held:
        Lease.acquire(tmp_path / "writer", holder="other", now=clock)
    assert held.value.until_ms == clock.ms + 45_000
    again = pickle.loads(pickle.dumps(held.value))
    assert (str(again), again.until_ms) == (str(held.value), held.value.until_ms)


def test_it_is_free_when_it_ran_out_or_was_given_back(tmp_path: Path) -> None:
    clock = Pretend()
    first = Lease.acquire(tmp_path / "w", holder="a", now=clock)
    clock.ms += 45_000
    second = Lease.acquire(tmp_path / "w", holder="b", now=clock)
    with pytest.raises(LeaseLost):
        first.renew()
    first.release()  # harmless
    second.renew()
    second.release()
    assert held_by(tmp_path / "w", now=clock) is None
    with Lease.acquire(tmp_path / "w", holder="c", now=clock) as third:
        assert (first.epoch, second.epoch, third.epoch) == (1, 2, 3)
        assert held_by(tmp_path / "w", now=clock).holder == "c"  # type: ignore[union-attr]


def test_the_holder_may_act_until_half_of_it_has_passed_without_a_renewal(tmp_path: Path) -> None:
    clock = Pretend()
    held = Lease.acquire(tmp_path / "w", holder="a", seconds=40, now=clock)
    assert held.check(clock.ms + 19_999) and held.alive(clock.ms)
    assert not held.check(clock.ms + 20_000)
    clock.ms += 30_000
    held.renew()
    assert held.check(clock.ms + 19_999)
    assert held.expires_ms == clock.ms + 40_000


def test_a_lease_that_ran_out_is_not_renewed_even_if_nobody_took_it(tmp_path: Path) -> None:
    clock = Pretend()
    held = Lease.acquire(tmp_path / "w", holder="a", seconds=10, now=clock)
    clock.ms += 10_000
    with pytest.raises(LeaseLost, match="not renewed in time"):
        held.renew()
    assert not held.check(clock.ms)


def test_a_renewal_that_comes_late_does_not_undo_a_taking(tmp_path: Path) -> None:
    """The old holder's file appears again behind the taker's: the higher epoch counts."""
    clock = Pretend()
    old = Lease.acquire(tmp_path / "w", holder="old", now=clock)
    clock.ms += 45_000
    new = Lease.acquire(tmp_path / "w", holder="new", now=clock)
    replace_fast(leases._file(tmp_path / "w", old.epoch), leases._bytes(old._me))
    assert held_by(tmp_path / "w", now=clock).holder == "new"  # type: ignore[union-attr]
    new.renew()


def test_a_taker_who_slept_does_not_win_with_an_epoch_of_the_past(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Pretend()
    for holder in "abc":
        Lease.acquire(tmp_path / "w", holder=holder, now=clock).release()
    holding = Lease.acquire(tmp_path / "w", holder="d", now=clock)  # epoch 4; the files 1 to 3 are swept
    seen = iter([1, 4, 4, 4])
    monkeypatch.setattr(leases, "_highest", lambda base: next(seen))
    with pytest.raises(LeaseHeld, match="held by d"):
        Lease.acquire(tmp_path / "w", holder="sleeper", now=clock)
    monkeypatch.undo()
    assert [path.name for path in tmp_path.iterdir()] == ["w.e00000004"]
    holding.renew()


def test_leases_beside_each_other_do_not_mix(tmp_path: Path) -> None:
    for name in ("p0001", "p0001.x", "p00012"):
        Lease.acquire(tmp_path / name, holder=name)
    assert held_by(tmp_path / "p0001").holder == "p0001"  # type: ignore[union-attr]


def test_of_many_processes_that_race_for_it_one_wins(tmp_path: Path) -> None:
    takers = [procs.start("take_lease", tmp_path / "w", 45) for _ in range(3)]
    try:
        for taker in takers:
            assert taker.stdout.readline() == "ready\n"  # type: ignore[union-attr]
        for taker in takers:
            taker.stdin.write("go\n")  # type: ignore[union-attr]
            taker.stdin.flush()  # type: ignore[union-attr]
        said = [taker.stdout.readline() for taker in takers]  # type: ignore[union-attr]
    finally:
        for taker in takers:
            taker.communicate("\n", timeout=30)
    assert sorted(line.split()[0] for line in said) == ["refused"] * 2 + ["won"]


def test_a_killed_holder_frees_it_at_once_and_a_stopped_one_does_not(tmp_path: Path) -> None:
    holder = procs.start("take_lease", tmp_path / "w", 3_600)
    holder.stdin.write("go\n")  # type: ignore[union-attr]
    holder.stdin.flush()  # type: ignore[union-attr]
    assert [holder.stdout.readline() for _ in range(2)] == ["ready\n", "won 1\n"]  # type: ignore[union-attr]
    os.kill(holder.pid, signal.SIGSTOP)
    with pytest.raises(LeaseHeld):
        Lease.acquire(tmp_path / "w", holder="next")
    os.kill(holder.pid, signal.SIGKILL)
    os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)  # dead but not reaped: a zombie counts as gone
    taken = Lease.acquire(tmp_path / "w", holder="next")
    holder.communicate()
    assert taken.epoch == 2


@pytest.mark.parametrize("change", [{"boot": "other"}, {"pid_space": "pid:[1]"}, {"boot": ""}])
def test_death_elsewhere_cannot_be_proved(tmp_path: Path, change: dict[str, str]) -> None:
    held = Lease.acquire(tmp_path / "w", holder="a")
    path = leases._file(tmp_path / "w", 1)
    path.write_text(json.dumps({**json.loads(path.read_text()), "pid": 2**22 - 1, **change}))
    with pytest.raises(LeaseHeld):
        Lease.acquire(tmp_path / "w", holder="b")
    assert held.epoch == 1


def test_a_process_number_that_was_given_again_is_another_process(tmp_path: Path) -> None:
    Lease.acquire(tmp_path / "w", holder="a")
    path = leases._file(tmp_path / "w", 1)
    path.write_text(json.dumps({**json.loads(path.read_text()), "started": 1}))
    assert Lease.acquire(tmp_path / "w", holder="b").epoch == 2


def test_an_unreadable_lease_is_held_for_one_lease_from_its_last_change(tmp_path: Path) -> None:
    path = leases._file(tmp_path / "w", 3)
    path.write_text("")
    clock = Pretend(system_clock())
    with pytest.raises(LeaseHeld, match="an unreadable lease file"):
        Lease.acquire(tmp_path / "w", holder="b", now=clock)
    clock.ms += 46_000
    assert Lease.acquire(tmp_path / "w", holder="b", now=clock).epoch == 4


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["take", "renew", "release", "wait"]), st.integers(0, 2), st.integers(0, 30_000)
        ),
        max_size=25,
    )
)
def test_two_holders_never_may_act_at_once(tmp_path: Path, steps: list[tuple[str, int, int]]) -> None:
    for old in tmp_path.iterdir():
        old.unlink()
    clock, held = Pretend(), {}
    for act, who, wait_ms in steps:
        if act == "take":
            try:
                held[who] = Lease.acquire(tmp_path / "w", holder=str(who), seconds=45, now=clock)
            except LeaseHeld:
                pass
        elif act == "renew" and who in held:
            try:
                held[who].renew()
            except LeaseLost:
                del held[who]
        elif act == "release" and who in held:
            held.pop(who).release()
        clock.ms += wait_ms
        assert sum(one.check(clock.ms) for one in held.values()) <= 1
