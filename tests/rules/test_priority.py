"""The biased random choice: shares match the weights, nobody waits for ever, and plans repeat (P10)."""

import numpy as np

from pipelines.rules import priority
from pipelines.rules.priority import PriorityPolicy

POLICY = PriorityPolicy()


def test_p10_the_same_keys_and_cycle_give_the_same_choice() -> None:
    keys = np.arange(1_000, dtype=np.int64) * 7_919
    band = np.ones(1_000, dtype=np.int64)
    one = priority.choice_keys(POLICY, url_keys=keys, band=band, salt=12)
    assert (one == priority.choice_keys(POLICY, url_keys=keys, band=band, salt=12)).all()
    assert (one != priority.choice_keys(POLICY, url_keys=keys, band=band, salt=13)).any()


def test_first_places_match_the_band_weights() -> None:
    band, wins = np.arange(1, 6), np.zeros(5)
    keys = np.arange(5, dtype=np.int64) + 10**15
    cycles = 20_000
    for cycle in range(cycles):
        wins[np.argmin(priority.choice_keys(POLICY, url_keys=keys, band=band, salt=cycle))] += 1
    expected = np.array(POLICY.band_weights) / sum(POLICY.band_weights)
    error = np.sqrt(expected * (1 - expected) / cycles)
    assert (np.abs(wins / cycles - expected) < 5 * error).all()


def test_no_url_waits_for_ever() -> None:
    """One of the lowest band among 99 of the highest, one place a cycle: drawn within 10 times its mean wait."""
    keys = np.arange(100, dtype=np.int64) + 5
    band = np.ones(100, dtype=np.int64)
    band[0] = 5
    mean_wait = 1 + 99 * POLICY.band_weights[0] / POLICY.band_weights[4]
    for cycle in range(int(10 * mean_wait)):
        if np.argmin(priority.choice_keys(POLICY, url_keys=keys, band=band, salt=cycle)) == 0:
            return
    raise AssertionError("the low band starved")


def test_the_best_of_each_host_are_chosen_in_their_order() -> None:
    codes, keys = np.array([1, 0, 1, 0, 1]), np.array([0.3, 0.2, 0.1, 0.9, 0.2])
    assert priority.best_per_host(codes, keys, most=np.array([1, 2])).tolist() == [1, 2, 4]
