"""Rows that share a file: none is found too late, and no file but the last is small."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipelines.rules.filing import joined


@given(wanted=st.lists(st.integers(-400, 4_000), min_size=1, max_size=50), least=st.integers(1, 60))
def test_p7_places_are_joined_until_they_are_worth_a_file(wanted: list[int], least: int) -> None:
    places = np.array(wanted, dtype=np.int64)
    under = joined(places, least=least)
    assert (under <= places).all(), "never found too late"
    assert set(under.tolist()) <= set(places.tolist())
    filed, rows = np.unique(under, return_counts=True)
    assert (rows[:-1] >= least).all(), "no file but the last is smaller"
    assert (np.diff(under[np.argsort(places, kind="stable")]) >= 0).all(), "in the order of their places"
    assert len(filed) <= 1 + len(places) // least
