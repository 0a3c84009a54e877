"""Into how many groups the buckets are dealt."""

from __future__ import annotations

import pytest

from pipelines.cycle.turn import bucket_groups


@pytest.mark.parametrize(
    ("buckets", "slots", "seeds", "groups"),
    [
        (8, 2, 0, 8),
        (1_024, 2, 0, 8),
        (64, 2, 10_000_000, 40),  # 250,000 seeds a group, so that a worker stays under a gigabyte
        (16, 2, 10_000_000, 16),
        (65_536, 1_000, 10**9, 1_024),
        (4, 1, 0, 4),
    ],
)
def test_many_seeds_make_more_and_smaller_groups(buckets: int, slots: int, seeds: int, groups: int) -> None:
    assert bucket_groups(buckets, slots, seeds) == groups
