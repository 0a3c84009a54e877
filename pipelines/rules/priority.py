"""Which of a host's URLs go first: bands by score, and a biased random choice among all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class PriorityPolicy:
    """Weights of the score's terms, the bands' lower bounds (best first) and the bands' weights."""

    seed_boost: float = 4.0
    depth_weight: float = 2.0
    waiting_weight: float = 0.02
    change_weight: float = 1.0
    sitemap_boost: float = 0.5
    band_bounds: tuple[float, ...] = (4.0, 1.5, 0.75, 0.4, 0.0)
    band_weights: tuple[float, ...] = (16.0, 8.0, 4.0, 2.0, 1.0)


def scores(
    policy: PriorityPolicy, *, seed: npt.NDArray[np.bool_], sitemap: npt.NDArray[np.bool_], depth: Ints,
    waited_cycles: Ints, change_share: Floats, host_score: Floats,
) -> Floats:  # fmt: skip
    """Return each URL's score, higher is better.

    depth: links from a seed. waited_cycles: cycles on the ready shelf. change_share: changes a visit, 0 for
    a first visit. host_score multiplies the whole: 1 = usual.
    """
    own = (
        policy.seed_boost * seed
        + policy.sitemap_boost * sitemap
        + policy.depth_weight / (1.0 + np.maximum(depth, 0))
        + policy.waiting_weight * waited_cycles
        + policy.change_weight * change_share
    )
    return own * host_score


def bands(policy: PriorityPolicy, score: Floats) -> Ints:
    """Return the band of each score: 1 for the best, len(band_bounds) for the rest.

    >>> bands(PriorityPolicy(), np.array([9.0, 0.5, -1.0])).tolist()
    [1, 4, 5]
    """
    bounds = np.array(policy.band_bounds)
    below = (score[:, None] < bounds[None, :]).sum(axis=1)
    banded: Ints = np.minimum(below + 1, len(bounds)).astype(np.int64)
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
