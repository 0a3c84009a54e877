"""Which rows share a file: a day's or a rung's few are not worth one of their own, and join those looked at before them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

FILE_ROWS = 1_000
"""Rows that are worth a file of their own: writing and reading a file costs what moving as many rows does."""


def joined(places: Ints, *, least: int = FILE_ROWS) -> Ints:
    """Return the place under which each row is filed: its own, or an earlier one that has fewer than `least` rows.

    places: numbers in the order in which they are looked at (days, rungs). Every file but the last so has `least` rows or
    more, and no row is found too late.

    >>> joined(np.array([9, 12, 9, 30, 12, 13]), least=3).tolist()
    [9, 9, 9, 13, 9, 13]
    """
    own, place, counts = np.unique(places, return_inverse=True, return_counts=True)
    under = own.copy()
    held = 0
    for at in range(1, len(own)):
        held += int(counts[at - 1])
        if held < least:
            under[at] = under[at - 1]
        else:
            held = 0
    filed: Ints = under[place]
    return filed
