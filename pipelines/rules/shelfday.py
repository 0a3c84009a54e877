"""The day under which a URL that waits for its visit is shelved: its own if it is near, one before it if it is far.

A file for each day that lies ahead, each bucket and each cycle would soon be more files than URLs. As in a hierarchical
timing wheel (Varghese and Lauck 1987), days further off share a slot; when the slot's first day comes, its URLs are
shelved again, by then near. A URL is never found too late, and is written once more at most where there are many (a slot
with hardly a URL in it is joined to the one before: filing.py).
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
