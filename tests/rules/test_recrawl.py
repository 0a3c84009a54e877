"""Pauses before the next visit and the next try."""

import numpy as np

from pipelines.rules.outcome import Outcome
from pipelines.rules.recrawl import RecrawlPolicy, RetryPolicy, change_rate, next_visit_seconds, retry_seconds


def test_the_rate_of_a_poisson_page_is_found_again() -> None:
    rng = np.random.default_rng(1)
    rate, interval, visits = 1 / 50_000, 30_000, 400
    changed = rng.random(visits - 1) < 1 - np.exp(-rate * interval)
    found = change_rate(visits=visits, changes=int(changed.sum()), watched_seconds=interval * (visits - 1))
    assert found is not None and abs(found / rate - 1) < 0.15


def test_a_page_that_changes_more_often_comes_sooner() -> None:
    policy = RecrawlPolicy()
    waits = [next_visit_seconds(policy, visits=11, changes=c, watched_seconds=10 * 86_400) for c in range(11)]
    assert waits == sorted(waits, reverse=True)
    assert all(policy.min_seconds <= wait <= policy.max_seconds for wait in waits)


def test_failures_wait_longer_each_time_and_end() -> None:
    policy = RetryPolicy(tries=5)
    waits = [retry_seconds(policy, failures=n, outcome=Outcome.CONNECT_REFUSED) for n in range(1, 6)]
    assert waits[-1] is None
    assert waits[:4] == sorted(waits[:4])  # type: ignore[type-var]
    assert retry_seconds(policy, failures=2, outcome=Outcome.NOT_FOUND) is None
