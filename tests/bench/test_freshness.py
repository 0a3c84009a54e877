"""The next-visit rule keeps a host's pages as fresh as its budget allows."""

import pytest

from pipelines.rules.recrawl import RecrawlPolicy
from tests.bench import bench_freshness


@pytest.mark.parametrize("every_days", [7.0, 30.0])
def test_freshness_is_95_percent_of_the_optimum_for_the_same_budget(every_days: float) -> None:
    told = bench_freshness.compare(every_days, hosts=40, days=360, warm=120, policy=RecrawlPolicy())
    assert told["ours"]["share"] >= 0.95
    assert told["ours"]["used"] <= 1.0
    assert told["ours"]["share"] > max(told["nutch"]["share"], told["uniform"]["share"])
