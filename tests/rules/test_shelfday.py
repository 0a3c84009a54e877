"""Under which day a URL waits: never one after its own, never one that is past, near ones under their own."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipelines.rules.shelfday import NEAR_DAYS, SLOT_DAYS, shelf_days

TODAY = 20_000
AHEAD = st.lists(st.integers(-400, 4_000), min_size=1, max_size=50)


@given(ahead=AHEAD, bucket=st.integers(0, 65_535))
def test_no_url_is_found_too_late_and_none_far_too_early(ahead: list[int], bucket: int) -> None:
    due = TODAY + np.array(ahead, dtype=np.int64)
    days = shelf_days(due, bucket=bucket, today=TODAY)
    assert (days <= due).all() and (due - days < SLOT_DAYS).all()
    far = due - TODAY > NEAR_DAYS
    assert (days[~far] == due[~far]).all(), "near ones have their own day"
    assert (days[far] > TODAY + 1).all(), "what is far is not looked at again at once"


@given(ahead=st.integers(0, 4_000), bucket=st.integers(0, 65_535))
def test_p7_a_url_is_shelved_at_most_once_more(ahead: int, bucket: int) -> None:
    due, today, times = TODAY + ahead, TODAY, 0
    while True:
        day = int(shelf_days(np.array([due]), bucket=bucket, today=today)[0])
        if day == due:
            break
        today, times = day, times + 1
    assert times <= 1


def test_p7_few_files_lie_ahead() -> None:
    """A quarter ahead is 21 slots a bucket instead of 91 days, and the buckets' slots begin on all days."""
    due = TODAY + np.arange(91, dtype=np.int64)
    assert len(set(shelf_days(due, bucket=3, today=TODAY).tolist())) == 21
    starts = {int(shelf_days(np.array([TODAY + 60]), bucket=bucket, today=TODAY)[0]) for bucket in range(7)}
    assert len(starts) == SLOT_DAYS
