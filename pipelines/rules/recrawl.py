"""When a URL comes again: after an answer by how often it changes, after a failure by growing pauses."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from pipelines.rules.outcome import Outcome

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

DAY = 86_400


@dataclass(frozen=True)
class RecrawlPolicy:
    """Pauses between visits: after the first, their bounds, after a redirect; and what a visit must be worth.

    price_seconds: freshness that a visit must bring where nothing is scarce. changes_expected: a page that
    changes fast is then visited when so many changes are due. unchanged_changes: what is assumed of a page
    never seen to change: so many changes in the time that it was watched.
    """

    first_seconds: int = 7 * DAY
    min_seconds: int = 3_600
    max_seconds: int = 90 * DAY
    redirect_seconds: int = 30 * DAY
    changes_expected: float = 0.7
    price_seconds: int = 6 * 3_600
    unchanged_changes: float = 0.2


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


def change_rate(*, visits: ArrayLike, changes: ArrayLike, watched_seconds: ArrayLike) -> Floats:
    """Return the changes a second that each history tells; NaN where there is no interval yet. Arrays or numbers.

    The bias-reduced estimator of Cho and Garcia-Molina ("Estimating frequency of change", 2003) on the
    mean interval: `-ln((n - x + 0.5) / (n + 0.5)) * n / T` for x changes found in n intervals of T
    seconds in all.
    """
    intervals = np.asarray(visits, dtype=np.float64) - 1
    watched = np.asarray(watched_seconds, dtype=np.float64)
    known = (intervals >= 1) & (watched > 0)
    intervals, watched = np.where(known, intervals, 1.0), np.where(known, watched, 1.0)
    found = np.minimum(changes, intervals)
    rate = -np.log((intervals - found + 0.5) / (intervals + 0.5)) * intervals / watched
    return np.where(known, rate, np.nan)


def next_visit_seconds(
    policy: RecrawlPolicy,
    *,
    visits: ArrayLike,
    changes: ArrayLike,
    watched_seconds: ArrayLike,
    price_seconds: ArrayLike = 0.0,
    importance: ArrayLike = 1.0,
    hint_seconds: ArrayLike = np.nan,
) -> Ints:
    """Return the pause before each page's next visit after an answer: until the visit is worth its price.

    Arrays of one length, or numbers that hold for all.

    hint_seconds: how often a sitemap says that the page changes, NaN = it does not say. It stands for half a change in half
    of that time, so a page's own history soon outweighs it; before there is one, it is believed by half.

    A visit to a page that changes `rate` times a second, t seconds after the last one, adds
    `(1 - e^-x (1 + x)) / rate` seconds of freshness, x = rate t, to what later visits will bring: the marginal
    value in the optimum of Cho and Garcia-Molina ("Effective page refresh policies for web crawlers", 2003).
    All pages of a host share the price that fits its budget (`next_price`), so its mean freshness, weighted by
    importance, is as high as that budget allows. What changes so fast that no visit is worth the price still
    comes now and then. Where nothing is scarce (the price is the policy's), fast pages come by `changes_expected`.
    """
    hint, worth = (np.asarray(given, dtype=np.float64) for given in (hint_seconds, importance))
    rate = change_rate(visits=visits, changes=changes, watched_seconds=watched_seconds)
    no_history, hinted = np.isnan(rate), ~np.isnan(hint)
    watched = np.where(no_history, 1.0, watched_seconds)
    rate = np.where(hinted, (rate * watched + HINT_CHANGES) / (watched + HINT_CHANGES * hint), rate)
    rate = np.where(no_history | (rate == 0.0), policy.unchanged_changes / watched, rate)
    price = np.maximum(price_seconds, float(policy.price_seconds))
    due = _changes_due(price * rate / worth)
    eager = policy.changes_expected * (price / policy.price_seconds) ** 2 / worth
    wish = np.where(
        due < MOST_CHANGES,
        np.minimum(due, eager) / rate,
        np.minimum(eager / rate, HOPELESS * price / worth),
    )
    first = np.where(hinted, np.rint(np.sqrt(policy.first_seconds * hint)), policy.first_seconds)
    bounded = np.clip(np.where(no_history, first, wish), policy.min_seconds, policy.max_seconds)
    pause: Ints = np.rint(np.where(no_history & ~hinted, policy.first_seconds, bounded)).astype(np.int64)
    return pause


HINT_CHANGES = 0.5
"""Changes that a sitemap's changefreq counts for, beside those that visits found."""

MOST_CHANGES = 4.0
"""Pages for which more changes than these would have to be due are hopeless: they cannot be kept fresh at the price."""
HOPELESS = MOST_CHANGES / (1 - (1 + MOST_CHANGES) * math.exp(-MOST_CHANGES))
"""A hopeless page comes so many prices apart: as often as the fastest page that is not."""


def _changes_due(worth: Floats) -> Floats:
    """Return the x for which `1 - e^-x (1 + x)` is `worth`, at most MOST_CHANGES: three steps of Newton."""
    bound = np.minimum(worth, 0.9)
    x = np.sqrt(2.0 * bound) * (1.0 + bound)
    for _ in range(3):
        power = np.exp(-x)
        x = x - (1.0 - power * (1.0 + x) - bound) / np.maximum(x * power, 1e-12)
    return np.where(worth >= 0.9, MOST_CHANGES, np.clip(x, 0.0, MOST_CHANGES))


def next_price(
    policy: RecrawlPolicy, *, price_seconds: float, demand: float, budget: float, visited: int, known: int
) -> float:
    """Return the price of a visit for a host's next visits, given what its pages ask for and what they may get.

    demand: visits a day that the host's pages are due for, by the pauses given to them. budget: visits a day
    that they may get. visited, known: pages visited in this cycle, of all that ever were; the price moves by no
    more than those can answer for, or it would swing: only their pauses have heard of it.
    """
    pull = min(max(demand / max(budget, 1e-9), 0.5), 2.0)
    moved: float = max(price_seconds, 1.0) * pull ** min(visited / max(known, 1), 1.0)
    return min(max(moved, float(policy.price_seconds)), 10.0 * policy.max_seconds)


def importance_of(*, seed: ArrayLike, depth: ArrayLike) -> Floats:
    """Return what the freshness of each URL is worth: 1 for a page linked from a seed's page, less further off.

    >>> importance_of(seed=[True, False, False], depth=[0, 1, 7]).tolist()
    [4.0, 1.0, 0.5]
    """
    return np.where(seed, 4.0, 1.0 / np.sqrt(1.0 + np.maximum(np.asarray(depth) - 1, 0) / 2.0))


def retry_seconds(
    policy: RetryPolicy, *, failures: int, outcome: Outcome, before: str | None = None
) -> int | None:
    """Return the pause before the next try after `failures` in a row (the last included); None = give up.

    before: the outcome of the visit before. One 404 behind other failures is not yet a page that is gone.

    >>> [retry_seconds(RetryPolicy(), failures=n, outcome=Outcome.SERVER_ERROR) for n in (1, 2, 6)]
    [3600, 14400, None]
    """
    if outcome is Outcome.ROBOTS_DENIED:
        return policy.robots_denied_seconds
    gone = outcome is Outcome.NOT_FOUND and (policy.gone_tries == 1 or before == outcome.value)
    if failures >= (policy.gone_tries if gone else policy.tries):
        return None
    return int(min(policy.first_seconds * policy.factor ** min(failures - 1, 30), policy.max_seconds))


def lastmod_trust(*, told: int, true: int) -> float:
    """Return how far a host's sitemaps are believed when they tell of a change: 0 to 1.

    told: changes that they told of and that a visit could prove; true: those it did. One that has proved nothing yet is
    believed by half (Laplace's rule of succession).

    >>> [lastmod_trust(told=told, true=true) for told, true in ((0, 0), (8, 8), (8, 0))]
    [0.5, 0.9, 0.1]
    """
    return (true + 1) / (told + 2)


def called_seconds(
    policy: RecrawlPolicy, *, due_seconds: float, visited_seconds: float, trust: float
) -> float:
    """Return the pause before the visit to a page of which a sitemap says that it has changed since the last one.

    due_seconds: until its visit as planned; `trust` is the share of it that falls away. visited_seconds: since the last
    visit, which no page follows sooner than the policy's least pause.

    >>> called_seconds(RecrawlPolicy(), due_seconds=1_000_000, visited_seconds=0, trust=0.5)
    500000.0
    """
    soonest = max(policy.min_seconds - visited_seconds, 0.0)
    return max(due_seconds * (1.0 - trust), min(soonest, due_seconds))
