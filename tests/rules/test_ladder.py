"""The rungs of a backlog: what comes up soon lies on rung 0 in time, and nothing is moved often."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipelines.rules.ladder import MOST, STEP, highest_due, rungs

WINDOWS = st.integers(2, 10)


@given(
    ahead=st.floats(0, 5_000), windows=WINDOWS, bucket=st.integers(0, 32_767), since=st.integers(1, 10_000)
)
def test_p7_a_url_is_on_rung_0_before_its_turn_and_moved_once_a_rung(
    ahead: float, windows: int, bucket: int, since: int
) -> None:
    """Its host takes one window of its queue a cycle; a look comes once in `interval` of them."""
    interval = windows - 1
    start = (since + bucket) * interval - bucket  # it was put on its rung when its bucket was looked at
    rung = first = int(rungs(np.array([ahead]))[0])
    moves, look = 0, 0
    while True:
        look += 1
        left = ahead - look
        due = highest_due(start + look * interval, bucket=bucket, interval=interval)
        assert due is not None
        if due >= rung > 0:
            nearer = int(rungs(np.array([max(left, 0.0)]))[0])
            moves += nearer != rung
            rung = nearer
        if left < 0:
            break
    assert rung == 0, "it can come up when its turn is there"
    assert moves <= first


@given(looks=st.integers(1, 10**6), interval=st.integers(1, 9), bucket=st.integers(0, 100))
def test_a_rung_is_looked_through_half_as_often_as_the_one_below(
    looks: int, interval: int, bucket: int
) -> None:
    cycles = range((looks + bucket) * interval - bucket, (looks + bucket + 64) * interval - bucket)
    due = [highest_due(cycle, bucket=bucket, interval=interval) for cycle in cycles]
    found = [rung for rung in due if rung is not None]
    assert len(found) == 64
    for rung in range(6):
        assert sum(one >= rung for one in found) == 64 // STEP**rung


@given(ahead=st.lists(st.floats(0, 1e12), min_size=1, max_size=30))
def test_further_ahead_is_never_lower(ahead: list[float]) -> None:
    found = rungs(np.sort(np.array(ahead)))
    assert (np.diff(found) >= 0).all() and found.min() >= 0 and found.max() <= MOST
