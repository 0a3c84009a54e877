"""The change process of pages is Poisson, and a pure function of the page and the time."""

from __future__ import annotations

from statistics import fmean, pvariance

from hypothesis import given
from hypothesis import strategies as st

from pipelines.toyweb.schedule import BORN_MS, changed_at, changes_between

DAY = 86_400_000
times = st.integers(BORN_MS, BORN_MS + 3_000 * DAY)


@given(st.text(max_size=8), st.integers(1_000, 40 * DAY), times)
def test_version_is_the_last_change_at_or_before_now(key, gap_ms, now_ms):
    at = changed_at(key, gap_ms, now_ms)
    assert BORN_MS <= at <= now_ms
    if now_ms - at < 1_000 * gap_ms:
        assert changes_between(key, gap_ms, at, now_ms) == []
    assert at == BORN_MS or at in changes_between(key, gap_ms, at - 1, at)


@given(st.integers(1_000, 40 * DAY), times, st.integers(0, 50), st.integers(0, 50))
def test_changes_of_two_spans_are_those_of_the_whole(gap_ms, start_ms, first, second):
    middle, end = start_ms + first * gap_ms, start_ms + (first + second) * gap_ms
    halves = changes_between("a", gap_ms, start_ms, middle) + changes_between("a", gap_ms, middle, end)
    assert halves == changes_between("a", gap_ms, start_ms, end)


def test_changes_come_at_the_known_rate_with_the_variance_of_a_poisson_process():
    counts = [len(changes_between(f"page {n}", DAY, BORN_MS, BORN_MS + 10 * DAY)) for n in range(2_000)]
    assert abs(fmean(counts) - 10) < 0.3
    assert abs(pvariance(counts) - 10) < 1.2


def test_a_page_that_never_changes_is_as_old_as_the_web():
    assert changed_at("a", 0, BORN_MS + DAY) == BORN_MS
    assert changes_between("a", 0, BORN_MS, BORN_MS + DAY) == []
