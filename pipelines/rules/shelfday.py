"""The day under which a URL that waits for its visit is shelved: its own if it is near, one before it if it is far.

A file for each day that lies ahead, each bucket and each cycle would soon be more files than URLs. As in a hierarchical
timing wheel (Varghese and Lauck 1987), days further off share a slot; when the slot's first day comes, its URLs are
shelved again, by then near. And a slot with hardly a URL in it is not worth a file: it is joined to the one before. A
URL is never found too late, and where there are many it is written once more at most.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Days = npt.NDArray[np.int64]

NEAR_DAYS = 8
"""Days ahead that have a slot each."""
SLOT_DAYS = 7


def shelf_days(due_days: Days, *, bucket: int, today: int) -> Days:
    """Return the day, since 1970, under which each URL is shelved: its due day or up to six days before, never past.

    due_days: of URLs of one bucket; today: days since 1970. The slots of the buckets begin on different days, so that
    not all fall due at once.

    >>> shelf_days(np.array([9, 10, 18, 19, 25, 26, 32]), bucket=1, today=10).tolist()
    [9, 10, 18, 13, 20, 20, 27]
    """
    far = due_days - (due_days + bucket) % SLOT_DAYS
    return np.where(due_days - today <= NEAR_DAYS, due_days, far)


def joined_days(days: Days, *, least: int) -> Days:
    """Return the day under which each URL is filed: its own, or an earlier one that has fewer than `least` URLs.

    days: of URLs of one bucket, of `shelf_days`. Every file but the last so has `least` rows or more.

    >>> joined_days(np.array([9, 12, 9, 30, 12, 13]), least=3).tolist()
    [9, 9, 9, 13, 9, 13]
    """
    own, place, counts = np.unique(days, return_inverse=True, return_counts=True)
    under = own.copy()
    held = 0
    for at in range(1, len(own)):
        held += int(counts[at - 1])
        if held < least:
            under[at] = under[at - 1]
        else:
            held = 0
    return under[place]
