"""Which of a host's URLs go first: bands by score, and a biased random choice among all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class PriorityPolicy:
    """Weights of the score's terms and of the bands, best band first."""

    seed: float = 4.0
    depth: float = 1.0
    sitemap: float = 1.0
    host: float = 1.0
    change: float = 1.0
    waiting_per_day: float = 0.1
    band_weights: tuple[float, ...] = (16.0, 8.0, 4.0, 2.0, 1.0)


@dataclass(frozen=True)
class Terms:
    """The facts that a score is made of, an entry a URL.

    sitemap: 1 where a sitemap lists it, more or less by the priority that it gives (twice that). depth: links from a
    seed. waited_days: since it could have been asked. change_share: changes a visit, 0
    before the second. host_score: 1 = usual.
    """

    seed: npt.NDArray[np.bool_]
    sitemap: Floats
    depth: Ints
    waited_days: Floats
    change_share: Floats
    host_score: Floats


def scores(policy: PriorityPolicy, terms: Terms) -> Floats:
    """Return each URL's score, higher is better; a page of a seed's own depth has about 0."""
    score: Floats = (
        policy.seed * terms.seed
        + policy.sitemap * terms.sitemap
        - policy.depth * np.log2(1.0 + np.maximum(terms.depth, 0))
        + policy.waiting_per_day * terms.waited_days
        + policy.change * terms.change_share
        + policy.host * np.log2(np.maximum(terms.host_score, 1e-6))
    )
    return score


def bands(policy: PriorityPolicy, score: Floats) -> Ints:
    """Return the band of each score: a band a unit of score, band 1 from +1 up, the last for all that is left.

    >>> bands(PriorityPolicy(), np.array([4.0, 0.3, -0.5, -9.0])).tolist()
    [1, 2, 3, 5]
    """
    banded: Ints = np.clip(2 - np.floor(score), 1, len(policy.band_weights)).astype(np.int64)
    return banded


def uniform(keys: Ints, *, salt: int) -> Floats:
    """Return a number in (0, 1] hashed from each key and the salt: splitmix64 (Steele and others, 2014).

    The same key and salt give the same number on every machine.
    """
    with np.errstate(over="ignore"):
        state = keys.astype(np.uint64) + np.uint64(salt % 2**64) * np.uint64(0x9E3779B97F4A7C15)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        state = state ^ (state >> np.uint64(31))
    return ((state >> np.uint64(11)).astype(np.float64) + 1.0) / 2.0**53


def choice_keys(policy: PriorityPolicy, *, url_keys: Ints, band: Ints, salt: int) -> Floats:
    """Return the sort key of the biased random choice, smallest first: `-ln(u) / weight(band)`.

    So the first place goes to a URL with probability weight / sum of weights (Efraimidis and Spirakis,
    2006), and no URL waits for ever: each cycle draws anew.
    """
    weights = np.array(policy.band_weights)
    place = np.clip(band - 1, 0, len(weights) - 1)
    keys: Floats = -np.log(uniform(url_keys, salt=salt)) / weights[place]
    return keys


def best_per_host(host_codes: Ints, keys: Floats, *, most: Ints) -> Ints:
    """Return the positions chosen: per host the `most[host code]` rows with the smallest keys, in that order.

    Positions come back grouped by host code, best first; ties fall by position.
    """
    order = np.lexsort((keys, host_codes))
    codes = host_codes[order]
    starts = np.concatenate([[True], codes[1:] != codes[:-1]]) if len(codes) else np.zeros(0, bool)
    rank = np.arange(len(codes)) - np.maximum.accumulate(np.where(starts, np.arange(len(codes)), 0))
    chosen: Ints = order[rank < most[codes]]
    return chosen
