"""Pauses before the next visit and the next try."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipelines.rules.outcome import Outcome
from pipelines.rules.recrawl import (
    RecrawlPolicy,
    RetryPolicy,
    called_seconds,
    change_rate,
    lastmod_trust,
    next_price,
    next_visit_seconds,
    retry_seconds,
)


def test_the_rate_of_a_poisson_page_is_found_again() -> None:
    rng = np.random.default_rng(1)
    rate, interval, visits = 1 / 50_000, 30_000, 400
    changed = rng.random(visits - 1) < 1 - np.exp(-rate * interval)
    found = change_rate(visits=visits, changes=int(changed.sum()), watched_seconds=interval * (visits - 1))
    assert abs(found / rate - 1) < 0.15
    assert np.isnan(change_rate(visits=[1, 2], changes=0, watched_seconds=[99, 0])).all()


def test_a_page_that_changes_more_often_comes_sooner() -> None:
    policy = RecrawlPolicy()
    waits = next_visit_seconds(policy, visits=11, changes=np.arange(11), watched_seconds=10 * 86_400).tolist()
    assert waits == sorted(waits, reverse=True)
    assert all(policy.min_seconds <= wait <= policy.max_seconds for wait in waits)


def test_failures_wait_longer_each_time_and_end() -> None:
    policy = RetryPolicy(tries=5)
    waits = [retry_seconds(policy, failures=n, outcome=Outcome.CONNECT_REFUSED) for n in range(1, 6)]
    assert waits[-1] is None
    assert waits[:4] == sorted(waits[:4])  # type: ignore[type-var]
    assert retry_seconds(policy, failures=2, outcome=Outcome.NOT_FOUND, before="http_404") is None
    assert retry_seconds(policy, failures=2, outcome=Outcome.NOT_FOUND, before="http_5xx") == waits[1]
    assert retry_seconds(RetryPolicy(gone_tries=1), failures=1, outcome=Outcome.NOT_FOUND) is None


def test_a_pause_is_the_optimum_at_its_price() -> None:
    """With the rate known, pauses at one price are those of the Lagrange condition: value(rate * pause) = price * rate."""
    policy = RecrawlPolicy(price_seconds=1, min_seconds=1, max_seconds=10**9, changes_expected=1e9)
    for gap_days in (2, 7, 30, 90):
        visits, changes, watched = (
            100_001,
            round(100_000 * (1 - np.exp(-0.2))),
            round(100_000 * 0.2 * gap_days * 86_400),
        )
        rate = change_rate(visits=visits, changes=changes, watched_seconds=watched)
        pause = next_visit_seconds(
            policy, visits=visits, changes=changes, watched_seconds=watched, price_seconds=43_200
        )
        x = rate * pause
        assert abs((1 - np.exp(-x) * (1 + x)) / rate - 43_200) < 200


def test_what_matters_more_comes_sooner_and_a_higher_price_means_later() -> None:
    policy = RecrawlPolicy()
    told = {"visits": 20, "changes": 5, "watched_seconds": 60 * 86_400}
    usual = next_visit_seconds(policy, **told, price_seconds=80_000)
    assert next_visit_seconds(policy, **told, price_seconds=80_000, importance=4.0) < usual
    assert next_visit_seconds(policy, **told, price_seconds=160_000) > usual


def test_at_a_high_price_a_page_that_changes_all_the_time_comes_later_than_one_that_can_be_kept_fresh() -> (
    None
):
    policy = RecrawlPolicy()
    restless = next_visit_seconds(
        policy, visits=201, changes=126, watched_seconds=200 * 21_600, price_seconds=10 * 86_400
    )
    calm = next_visit_seconds(
        policy, visits=20, changes=4, watched_seconds=100 * 86_400, price_seconds=10 * 86_400
    )
    assert restless > calm


@given(st.integers(1, 400), st.integers(0, 400), st.integers(0, 10**9), st.floats(0, 1e8), st.floats(0.1, 4))
def test_a_pause_is_always_within_its_bounds(
    visits: int, changes: int, watched: int, price: float, worth: float
) -> None:
    policy = RecrawlPolicy()
    pause = next_visit_seconds(
        policy, visits=visits, changes=changes, watched_seconds=watched, price_seconds=price, importance=worth
    )
    assert policy.min_seconds <= pause <= policy.max_seconds


def test_a_price_rises_while_more_is_due_than_may_be_asked_and_falls_back_to_the_policys() -> None:
    policy, price = RecrawlPolicy(), 6.0 * 3_600
    for _ in range(20):
        before, price = (
            price,
            next_price(policy, price_seconds=price, demand=200, budget=100, visited=100, known=1_000),
        )
        assert price > before
    for _ in range(400):
        price = next_price(policy, price_seconds=price, demand=20, budget=100, visited=100, known=1_000)
    assert price == policy.price_seconds
    assert next_price(policy, price_seconds=9e4, demand=200, budget=0, visited=0, known=10) == 9e4


@given(st.integers(0, 10**8), st.integers(0, 10**8), st.integers(0, 50), st.data())
def test_a_call_makes_no_visit_later_or_too_soon_and_calls_harder_the_more_proved_true(
    due: int, visited: int, told: int, data: st.DataObject
) -> None:
    policy = RecrawlPolicy()
    true = data.draw(st.integers(0, told))
    waits = [
        called_seconds(
            policy, due_seconds=due, visited_seconds=visited, trust=lastmod_trust(told=told, true=true_)
        )
        for true_ in (0, true, told)
    ]
    assert waits == sorted(waits, reverse=True)
    assert all(min(policy.min_seconds - visited, due) <= wait <= due for wait in waits)


def test_a_changefreq_is_believed_by_half_until_there_is_a_history() -> None:
    policy = RecrawlPolicy()
    hints = (0, 3_600, 86_400, 604_800, 31_536_000)
    first = next_visit_seconds(policy, visits=1, changes=0, watched_seconds=0, hint_seconds=hints).tolist()
    assert first == sorted(first) and first[2] == round((7 * 86_400 * 86_400) ** 0.5)
    assert first[0] == policy.min_seconds and first[3] == policy.first_seconds


@given(
    visits=st.integers(2, 60), hint=st.sampled_from((3_600, 86_400, 604_800, 31_536_000)), data=st.data(),
)  # fmt: skip
def test_a_history_outweighs_a_changefreq(visits: int, hint: int, data: st.DataObject) -> None:
    policy = RecrawlPolicy()
    changes = data.draw(st.integers(0, visits - 1))
    told = {"visits": visits, "changes": changes, "watched_seconds": (visits - 1) * 86_400}
    without = next_visit_seconds(policy, **told)
    sooner = next_visit_seconds(policy, **told, hint_seconds=3_600)
    later = next_visit_seconds(policy, **told, hint_seconds=31_536_000)
    assert sooner <= later
    if visits > 30 and changes:
        for hinted in (sooner, next_visit_seconds(policy, **told, hint_seconds=604_800)):
            assert 0.4 < hinted / without < 2.5


def test_a_page_said_to_change_daily_that_never_does_is_left_alone() -> None:
    policy = RecrawlPolicy()
    pauses, watched, visits = [], 0, 1
    while watched < 365 * 86_400:
        pause = next_visit_seconds(
            policy, visits=visits, changes=0, watched_seconds=watched, hint_seconds=86_400
        )
        pauses.append(pause)
        watched, visits = watched + pause, visits + 1
    assert pauses[1:] == sorted(pauses[1:]) and pauses[-1] > 14 * 86_400 and len(pauses) < 50
