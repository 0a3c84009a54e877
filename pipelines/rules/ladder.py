"""The rungs on which a host's backlog waits: how far ahead a URL is, and how often its rung is looked through.

Were a whole backlog read whenever its host runs short, a cycle's work would grow with what is known (P7). As in a ladder
queue (Tang, Goh and Thng 2005), what comes up soon lies on rung 0, and each rung above holds what is four times as far
ahead. A rung is looked through before the first of it can come up, and what is near by then comes down: a URL is moved
about once a rung, and a cycle reads of each rung about as much as its hosts are asked in a few windows.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

STEP = 4
"""A rung reaches this many times as far as the one below."""
MOST = 8
"""The highest rung: 65,536 refills ahead and all behind it."""


def rungs(ahead: npt.NDArray[np.float64]) -> Ints:
    """Return the rung of each URL by what is ahead of it, in refills of its host (1 = as much as one brings).

    >>> rungs(np.array([0, 3.9, 4, 15.9, 16, 1e9])).tolist()
    [0, 0, 1, 1, 2, 8]
    """
    found: Ints = np.floor(np.log(np.maximum(ahead, 1.0)) / np.log(STEP) + 1e-9).astype(np.int64)
    return np.minimum(found, MOST)


def period(rung: int, *, windows: int) -> int:
    """Return once in how many cycles a rung has its turn: as many as there are windows ahead of its first URL.

    windows: how many a refill brings.
    """
    first: int = windows * STEP**rung
    return first


def highest_due(cycle: int, *, bucket: int, windows: int) -> int:
    """Return the highest rung of a bucket that is looked through if a host runs short; those below it are due with it.

    The buckets take turns. A turn is as long as a host that is asked goes from one refill to the next. Rung 0 is due
    in every cycle.

    >>> [highest_due(cycle, bucket=0, windows=3) for cycle in (11, 12, 14, 15, 48, 192)]
    [0, 1, 1, 0, 2, 3]
    """
    due = 0
    while due < MOST and (cycle + bucket) % period(due + 1, windows=windows) < windows:
        due += 1
    return due
