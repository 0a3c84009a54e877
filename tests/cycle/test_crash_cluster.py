"""P4 on a real Dask cluster: workers and the driver are killed, and a partition that kills its workers is given up."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import replace

import psutil
import pyarrow.compute as pc
import pytest

import lake
from lake import staging
from tests.cycle import compare
from tests.cycle.crash_driver import Run, run
from tests.cycle.ground import MIX, Ground, ground
from tests.cycle.test_lease import await_
from tests.cycle.wheels import faults

pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def still(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """Give the web and the reference of two undisturbed cycles."""
    slow = {"delay.floor_ms": "150"}
    with ground(tmp_path_factory.mktemp("cluster"), mix=replace(MIX, pages=8), pace=slow) as made:
        yield made


def await_fetch(still: Ground, mark: int, requests: int) -> None:
    """Wait until so many requests have been logged since a mark."""
    await_(lambda: still.mark() >= mark + requests, f"{requests} requests")


@pytest.mark.parametrize("many", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_p4_a_cycle_outlives_its_workers(many: int, still: Ground) -> None:
    path, mark = still.copy(1), still.mark()
    driver = Run(replace(still.job(path), workers=2))
    await_fetch(still, mark, 15)
    victims = driver.workers()[:many]
    assert len(victims) == many
    for victim in victims:
        victim.kill()
    ended = driver.ended(120)
    assert ended.word == "done" and ended.report is not None, ended
    assert ended.report["given_up"] == 0
    assert still.impolite(mark) == []
    assert still.unequal(path, 2) == []


@pytest.mark.slow
def test_p4_a_killed_driver_takes_its_workers_along_and_the_next_finishes(still: Ground) -> None:
    path, mark = still.copy(1), still.mark()
    driver = Run(replace(still.job(path), workers=2))
    await_fetch(still, mark, 15)
    orphans = driver.workers()
    driver.send(signal.SIGKILL)
    assert driver.ended().word == "killed"
    ended = Run(replace(still.job(path), workers=2)).ended(120)
    assert ended.word == "done" and ended.report is not None and ended.report["resumed"], ended
    assert psutil.wait_procs(orphans, timeout=30)[1] == []
    assert still.impolite(mark) == []
    assert still.unequal(path, 2) == []


def test_a_partition_that_kills_three_workers_is_given_up_and_its_urls_go_back_to_ready(
    still: Ground,
) -> None:
    path, mark = still.copy(1), still.mark()
    before = lake.open(path)
    ended = Run(replace(still.job(path), workers=2, deadly=True)).ended(200)
    assert ended.word == "done" and ended.report is not None, ended
    assert (ended.report["cycle"], ended.report["given_up"]) == (2, 1)
    left = ended.report["unfetched"]
    assert left > 0
    said = f"Partition 0 was given up: its worker died 3 times. {left} URLs go back to ready."
    assert said in ended.messages
    after = lake.open(path)
    waiting = set(before.read("frontier_ready", columns=["url_key"])["url_key"].to_pylist())
    captures = after.read("captures", filter=pc.field("cycle") == 2)
    asked = set(captures["url_key"].to_pylist())
    ready = set(after.read("frontier_ready", columns=["url_key"])["url_key"].to_pylist())
    assert 0 < len(waiting - asked) <= left  # a redirect that was still to be followed counts as left too
    assert waiting - asked <= ready
    assert any(captures["attempt"].to_pylist()) and not staging.folder(path, 2).exists()
    assert still.impolite(mark) == []
    assert faults(path) == [] and list(compare.warc_faults(path)) == []
    books = still.books(path, mark, since_cycle=1)
    assert all(saw <= told for told, saw in books.values()), books
    assert sum(told - saw for told, saw in books.values()) <= 3
    assert run(still.job(path)).word == "done"
    assert still.impolite(mark) == []
