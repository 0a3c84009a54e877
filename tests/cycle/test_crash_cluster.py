"""P4 on a real Dask cluster: workers and the driver are killed, and a partition that kills its workers is given up."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import psutil
import pyarrow.compute as pc
import pytest

import lake
from lake import staging
from pipelines import cluster
from pipelines.cluster import Task
from tests.cycle import compare
from tests.cycle.crash_driver import Run, run
from tests.cycle.ground import Ground
from tests.cycle.test_lease import await_
from tests.cycle.wheels import faults
from tests.daskcluster import dask_cluster

pytestmark = pytest.mark.timeout(400)


def await_fetch(still: Ground, mark: int, requests: int) -> None:
    """Wait until so many requests have been logged since a mark."""
    await_(lambda: still.mark() >= mark + requests, f"{requests} requests")


@pytest.mark.slow
@pytest.mark.parametrize("many", [1, 2])
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


def deaf_to_interrupts() -> dict[str, object]:
    """Say whether the process that runs this ignores Ctrl-C, and which it is."""
    return {"pid": os.getpid(), "deaf": signal.getsignal(signal.SIGINT) is signal.SIG_IGN}


@pytest.mark.slow
def test_workers_ignore_ctrl_c_also_those_that_take_the_place_of_dead_ones() -> None:
    runner = cluster.start(scheduler=None, workers=1, memory_bytes=2**30, dashboard_port=0, tries=3)
    try:
        (first,) = runner.run("test", 1, deaf_to_interrupts, [Task(0, ())])
        assert isinstance(first, dict) and first["deaf"]
        os.kill(first["pid"], signal.SIGKILL)
        (second,) = runner.run("test", 2, deaf_to_interrupts, [Task(0, ())])
        assert isinstance(second, dict) and second["deaf"] and second["pid"] != first["pid"]
    finally:
        runner.close()


@pytest.mark.slow
def test_a_scheduler_that_ends_in_the_middle_is_a_sentence_and_the_next_cycle_finishes(
    still: Ground, tmp_path: Path
) -> None:
    path, mark = still.copy(1), still.mark()
    with dask_cluster(tmp_path) as (address, scheduler):
        driver = Run(replace(still.job(path), scheduler=address))
        await_fetch(still, mark, 15)
        scheduler.kill()
        ended = driver.ended()
        assert ended.word == "refused" and "the Dask cluster lost task" in ended.said, ended
    assert run(still.job(path)).word == "done"
    assert still.impolite(mark) == []
    assert faults(path) == [] and list(compare.warc_faults(path)) == []
    assert lake.open(path).cycle == 2
