"""The rungs of a backlog: what comes up soon lies on rung 0 in time, and nothing is moved often."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipelines.rules.ladder import MOST, highest_due, period, rungs

WINDOWS = st.integers(1, 10)


@given(
    ahead=st.floats(0, 5_000), windows=WINDOWS, bucket=st.integers(0, 32_767), since=st.integers(1, 10_000)
)
def test_p7_a_url_is_on_rung_0_before_its_turn_and_moved_once_a_rung(
    ahead: float, windows: int, bucket: int, since: int
) -> None:
    """Its host takes one window of its queue a cycle, and is refilled every `windows` cycles with as many."""
    rung = first = int(rungs(np.array([ahead]))[0])
    moves = 0
    for refill in range(1, int(ahead) + 1):
        left = ahead - refill
        if highest_due(since + refill * windows, bucket=bucket, windows=windows) >= rung > 0:
            nearer = int(rungs(np.array([left]))[0])
            moves += nearer != rung
            rung = nearer
    assert rung == 0, "it can come up when its turn is there"
    assert moves <= first


@given(rung=st.integers(0, MOST - 1), windows=WINDOWS)
def test_a_rung_comes_with_all_below_it(rung: int, windows: int) -> None:
    assert period(rung + 1, windows=windows) % period(rung, windows=windows) == 0 or rung == 0
    turns = [
        highest_due(cycle, bucket=0, windows=windows) for cycle in range(1, 4 * period(2, windows=windows))
    ]
    assert turns.count(0) > turns.count(1) > turns.count(2) > 0


@given(ahead=st.lists(st.floats(0, 1e12), min_size=1, max_size=30))
def test_further_ahead_is_never_lower(ahead: list[float]) -> None:
    found = rungs(np.sort(np.array(ahead)))
    assert (np.diff(found) >= 0).all() and found.min() >= 0 and found.max() <= MOST
