"""Retry-After in both forms."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.rules.retry_after import RetryAfterPolicy, retry_after_ms

NOW_MS = 784_111_777_000  # Sun, 06 Nov 1994 08:49:37 GMT
LONGEST_MS = RetryAfterPolicy().max_ms


@pytest.mark.parametrize(
    ("value", "wait_ms"),
    [
        ("120", 120_000),
        (" 0 ", 0),
        ("1.5", 2_000),
        ("Sun, 06 Nov 1994 08:50:37 GMT", 60_000),
        ("Sunday, 06-Nov-94 08:50:37 GMT", 60_000),
        ("Sun Nov  6 08:50:37 1994", 60_000),
        ("Sun, 06 Nov 1994 08:49:36 GMT", 0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
        ("Mon, 06 Nov 2004 08:49:37 GMT", LONGEST_MS),
        ("999999999999999999999999", LONGEST_MS),
        ("9" * 5000, LONGEST_MS),
        ("5, 120", 120_000),
        ("5, Sun, 06 Nov 1994 08:50:37 GMT", 60_000),
        (None, None),
        ("", None),
        ("-5", None),
        ("soon", None),
        ("NaN", None),
        ("1e9", None),
        ("١٢", None),
        ("Sun, 31 Feb 1994 08:49:37 GMT", None),
        ("Sun, 06 Nov 1994 25:49:37 GMT", None),
    ],
)
def test_both_forms_are_read_and_clamped(value: str | None, wait_ms: int | None):
    assert retry_after_ms(value, now_ms=NOW_MS) == wait_ms


@given(st.text(max_size=80), st.integers(0, 2**53))
def test_no_value_raises_or_leaves_the_bounds(value: str, now_ms: int):
    wait_ms = retry_after_ms(value, now_ms=now_ms)
    assert wait_ms is None or 0 <= wait_ms <= LONGEST_MS
