"""Clocks: whole milliseconds, and a monotonic one that no setting of the wall clock moves."""

from __future__ import annotations

import pytest

from pipelines.net.clock import Clock, PretendClock, SystemClock


@pytest.mark.parametrize("clock", [SystemClock(), PretendClock()])
def test_clocks_tell_whole_milliseconds(clock: Clock) -> None:
    assert type(clock.now_ms()) is int and type(clock.monotonic_ms()) is int
    assert clock.now_ms() > 1_600_000_000_000
    assert clock.monotonic_ms() <= clock.monotonic_ms()


def test_a_pretend_clock_moves_only_when_told_and_never_back() -> None:
    clock = PretendClock(5_000)
    clock.advance(250)
    clock.jump(-1_000)
    assert (clock.now_ms(), clock.monotonic_ms()) == (4_250, 250)
    with pytest.raises(ValueError, match="cannot advance by -1 ms"):
        clock.advance(-1)
