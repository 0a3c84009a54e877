"""The rungs on which a host's backlog waits: how far ahead a URL is, and how often its rung is looked through.

Were a whole backlog read whenever its host runs short, a cycle's work would grow with what is known (P7). As in a ladder
queue (Tang, Goh and Thng 2005), what comes up soon lies on rung 0, and each rung above holds what is twice as far ahead
and is looked through half as often, as the marks of a ruler are long. What is near by then comes down: a URL is moved
about once a rung, and of each rung a cycle reads about as much as its hosts are asked in it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

STEP = 2
"""A rung reaches this many times as far as the one below."""
MOST = 16
"""The highest rung: 65,536 looks ahead and all behind it."""


def rungs(ahead: npt.NDArray[np.float64]) -> Ints:
    """Return the rung of each URL by what is ahead of it, in looks (1 = what its host is asked from one to the next).

    >>> rungs(np.array([0, 1.9, 2, 3.9, 4, 1e9])).tolist()
    [0, 0, 1, 1, 2, 16]
    """
    found: Ints = np.floor(np.log2(np.maximum(ahead, 1.0))).astype(np.int64)
    return np.minimum(found, MOST)


def highest_due(cycle: int, *, bucket: int, interval: int) -> int | None:
    """Return the highest rung of a bucket that is looked through in a cycle, with all below it; None: not even rung 0.

    interval: cycles from one look to the next. The buckets take turns.

    >>> [highest_due(cycle, bucket=0, interval=2) for cycle in (1, 2, 3, 4, 6, 8)]
    [None, 0, None, 1, 0, 2]
    """
    look, rest = divmod(cycle + bucket, interval)
    if rest:
        return None
    return min((look & -look).bit_length() - 1, MOST) if look else MOST
