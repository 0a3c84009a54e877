"""A simulated week on a small computed web: the promises hold, and the same seed gives the same report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lake import fsck
from pipelines import config
from pipelines.app import simulate_cmd
from pipelines.app.simulate_cmd import BASE
from pipelines.rules import urls
from pipelines.simulate import world as web
from pipelines.simulate.judging import LOG, Judge
from pipelines.simulate.run import simulate
from pipelines.simulate.world import World

SMALL = World(hosts=60, urls=3_000, seed=3)


def run(folder: Path, **overrides: Any) -> dict[str, Any]:
    """Simulate three days."""
    given = {
        "plan.max_pages": "400",
        "lake.buckets": "4",
        **{name.replace("__", "."): str(v) for name, v in overrides.items()},
    }
    conf = config.load([], environ={}, overrides=given, base=BASE)
    return simulate(folder, conf, SMALL, cycles=4, slots=2, tell=lambda figures: None)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("simulated")
    told = run(folder, budget__requests_per_month=25)
    assert [str(fault) for fault in fsck.check(folder / "lake")] == []
    return told


def test_p1_p6_budgets_and_pauses_hold(report: dict[str, Any]) -> None:
    assert report["budget_overdraws"] == report["politeness_violations"] == report["address_violations"] == 0
    assert report["requests"] > 500 and report["budgets_spent"] > 5
    assert not simulate_cmd.broken(report)


def test_the_report_is_told_in_words_and_as_json(report: dict[str, Any]) -> None:
    assert "budget overdraws       0" in simulate_cmd.text(report)
    assert json.loads(json.dumps(report))["world"] == {"hosts": 60, "urls": 3_000, "seed": 3}


def test_p10_the_same_seed_gives_the_same_report(report: dict[str, Any], tmp_path: Path) -> None:
    again = run(tmp_path, budget__requests_per_month=25)
    for one in (report, again):
        one["growth"].pop("cpu_seconds", None)
        one.pop("seconds", None)
    assert again == report


def test_the_judge_sees_what_is_wrong() -> None:
    rows = np.zeros(4, dtype=LOG)
    rows["host"], rows["address"] = [0, 0, 1, 1], [1, 1, 1, 2]
    rows["start"], rows["end"] = [0, 1_099, 1_200, 9_000], [100, 1_100, 1_300, 9_100]
    judge = Judge(SMALL, floor_ms=1_000, address_floor_ms=250, factor=0, patience_ms=0, budget=1)
    judge._judge_hosts(rows)
    judge._judge_addresses(rows)
    judge._count_months(rows)
    assert (judge.too_soon, judge.too_soon_for_address, judge.overdraws()) == (1, 1, 2)


def test_every_page_of_a_host_is_found_from_its_root() -> None:
    size = web.facts(SMALL).sizes[0]
    found, queue = {0}, [0]
    while queue:
        for host, page in web.links(SMALL, 0, queue.pop()):
            if host == 0 and page not in found:
                found.add(page)
                queue.append(page)
    assert found == set(range(size))
    assert urls.host_of(SMALL.url(7, 3)) == SMALL.name(7) == "h0000007.flood.sim"
