"""When a URL comes again: after an answer by how often it changes, after a failure by growing pauses."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pipelines.rules.outcome import Outcome

DAY = 86_400


@dataclass(frozen=True)
class RecrawlPolicy:
    """The first pause after a first visit, its bounds, the pause after a redirect, and the share of expected changes we aim at."""

    first_seconds: int = 7 * DAY
    min_seconds: int = 3_600
    max_seconds: int = 90 * DAY
    redirect_seconds: int = 30 * DAY
    changes_expected: float = 0.7


@dataclass(frozen=True)
class RetryPolicy:
    """Pauses after failures in a row; after `tries` of them the URL is retired."""

    first_seconds: int = 3_600
    factor: int = 4
    max_seconds: int = 14 * DAY
    tries: int = 6
    gone_tries: int = 2
    robots_denied_seconds: int = 30 * DAY


@dataclass(frozen=True)
class ProbePolicy:
    """Pauses between probes of a host that cannot be talked to; after `retire_seconds` its URLs are retired."""

    first_seconds: int = 3_600
    factor: int = 2
    max_seconds: int = 7 * DAY
    retire_seconds: int = 60 * DAY


def probe_seconds(policy: ProbePolicy, *, failures: int) -> int:
    """Return the pause before the next probe after `failures` in a row (the last included): it is never for ever.

    >>> [probe_seconds(ProbePolicy(), failures=n) for n in (1, 2, 99)]
    [3600, 7200, 604800]
    """
    return int(min(policy.first_seconds * policy.factor ** min(max(failures - 1, 0), 60), policy.max_seconds))


def change_rate(*, visits: int, changes: int, watched_seconds: int) -> float | None:
    """Return the changes a second that a history tells, or None when there is no interval yet.

    The bias-reduced estimator of Cho and Garcia-Molina ("Estimating frequency of change", 2003) on the
    mean interval: `-ln((n - x + 0.5) / (n + 0.5)) * n / T` for x changes found in n intervals of T
    seconds in all.
    """
    intervals = visits - 1
    if intervals < 1 or watched_seconds <= 0:
        return None
    found = min(changes, intervals)
    return -math.log((intervals - found + 0.5) / (intervals + 0.5)) * intervals / watched_seconds


def next_visit_seconds(policy: RecrawlPolicy, *, visits: int, changes: int, watched_seconds: int) -> int:
    """Return the pause before the next visit after an answer: so long that `changes_expected` are due.

    Bounded by the policy; a page never seen to change waits twice the time it was watched.
    """
    rate = change_rate(visits=visits, changes=changes, watched_seconds=watched_seconds)
    if rate is None:
        wish = float(policy.first_seconds)
    elif rate == 0:
        wish = 2.0 * watched_seconds
    else:
        wish = policy.changes_expected / rate
    return round(min(max(wish, policy.min_seconds), policy.max_seconds))


def retry_seconds(policy: RetryPolicy, *, failures: int, outcome: Outcome) -> int | None:
    """Return the pause before the next try after `failures` in a row (the last included); None = give up.

    >>> [retry_seconds(RetryPolicy(), failures=n, outcome=Outcome.SERVER_ERROR) for n in (1, 2, 6)]
    [3600, 14400, None]
    """
    if outcome is Outcome.ROBOTS_DENIED:
        return policy.robots_denied_seconds
    most = policy.gone_tries if outcome is Outcome.NOT_FOUND else policy.tries
    if failures >= most:
        return None
    return int(min(policy.first_seconds * policy.factor ** min(failures - 1, 30), policy.max_seconds))
