"""P4: a cycle happens once, at whatever instant its process is killed. The driver is crash_driver.py."""

from __future__ import annotations

import random
import re
import time
from dataclasses import replace
from pathlib import Path

import pyarrow.compute as pc
import pytest

import lake
from lake import inbox, staging
from pipelines.cycle import parts
from pipelines.toyweb.hosts import Robots
from tests.cycle import compare
from tests.cycle.crash_driver import Death, Halt, Run, run, run_chain
from tests.cycle.ground import MIX, Ground, ground
from tests.cycle.wheels import faults

STEPS = ("claim", "finish", "attempt", "flush", "commit", "ledger", "drain", "sweep")
TASKS = ("sift", "demand", "resolve", "select", "fetch", "sort", "gate", "seal", "contents", "merge")
FIRST_OF_EACH = (
    "finish intake", "finish allot", *(f"finish {step} 0" for step in TASKS),
    "attempt", "flush", "commit", "ledger", "drain", "sweep",
)  # fmt: skip
BUDGET = 4
HELD = (
    r"another cycle writes to .*: the (?:lake|lease .*) is held by noria cycle \(host .+, process \d+\) "
    r"since \d{4}-.* UTC until \d{4}-.* UTC"
)


def moments(*names: str) -> tuple[str, ...]:
    """Return the moments just before and just after."""
    return tuple(f"{when} {name}" for name in names for when in ("before", "after"))


def assert_booked(still: Ground, path: Path, mark: int, kills: int) -> None:
    """Hold the books to the log: no request is left out, and only one that a kill kept from being sent is too many."""
    books = still.books(path, mark, since_cycle=1)
    assert all(told >= saw for told, saw in books.values()), books
    assert sum(told - saw for told, saw in books.values()) <= kills


@pytest.mark.timeout(400)
def test_p4_a_kill_at_the_boundary_of_every_step_leaves_no_trace(still: Ground, tmp_path: Path) -> None:
    path, mark = still.copy(1), still.mark()
    kills = run_chain(still.job(path), Death(moments(*FIRST_OF_EACH), tmp_path / "moments"), cycles=2)
    died = (tmp_path / "moments").read_text().splitlines()
    assert kills == len(died) > 50
    for moment in (
        "before commit hosts of 2",
        "after commit frontier_retired of 2",
        "before ledger committed of 2",
    ):
        assert moment in died
    assert still.impolite(mark) == []
    assert still.unequal(path, 2) == []
    assert_booked(still, path, mark, kills)


def test_p4_a_kill_behind_the_ledger_row_leaves_only_rubbish_that_the_next_run_sweeps(still: Ground) -> None:
    path = still.copy(1)
    known = still.web.seeds(still.server.port)[0]
    inbox.put(path, [{"url": known, "source": "seed"}], kind="seed")
    assert run(replace(still.job(path), death=Death(("after ledger committed of 2",)))).word == "killed"
    assert still.unequal(path, 2) == []
    assert inbox.pending(path) and (path / "staging" / "cycle=000002").is_dir()
    assert run(replace(still.job(path), death=Death(("before attempt",)))).word == "killed"
    assert inbox.pending(path) == []
    assert [folder.name for folder in (path / "staging").iterdir()] == ["cycle=000003"]


@pytest.mark.parametrize("folder", ["warc", "cdxj"])
def test_p4_a_file_that_a_kill_left_half_written_is_swept(folder: str, still: Ground) -> None:
    path = still.fetched()
    death = Death((f"after fsync {folder}/",), system=True)
    assert run(replace(still.job(path), death=death)).word == "killed"
    assert [*path.rglob("*.open")]
    assert run(still.job(path)).word == "done"
    assert [*path.rglob("*.open")] == []
    assert still.unequal(path, 2) == []


IN_FETCH = ("before send", "after send", "before answer", "after answer")


class Flushed:
    """Remembers what lay in parts whenever a run was killed, and tears the tails of its spools."""

    def __init__(self, path: Path) -> None:
        self.path, self.records, self.torn = path, set[str](), 0

    def __call__(self) -> None:
        for base in staging.folder(self.path, 2).glob("fetch/p*"):
            attempt = parts.Attempt.begin(base)  # what the next attempt would take over
            attempt.close()
            captures = parts.read_parts(base, attempt.inherited, "captures")
            self.records |= set(captures.filter(pc.is_valid(captures["record_id"]))["record_id"].to_pylist())
            for spool in base.glob("a*/spool-*"):
                with spool.open("ab") as tail:
                    tail.write(b"\x1f\x8b\x08\x00 a member that was cut off")
                self.torn += 1


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 8))])
def test_p4_kills_at_random_moments_of_fetch_lose_no_page_and_store_none_twice(
    seed: int, still: Ground
) -> None:
    path, mark, rng = still.copy(1), still.mark(), random.Random(seed)
    flushed, kills = Flushed(path), 0
    for moment in ("after flush", *rng.choices(IN_FETCH, k=5), "before flush", "after spool flush"):
        skip = 0 if "flush" in moment else rng.randrange(1, 12)
        ended = run(replace(still.job(path), death=Death((moment,), skip=skip)))
        kills += ended.word == "killed"
        flushed()
    while lake.open(path).cycle < 2:
        assert run(still.job(path)).word == "done"
    assert kills >= 6 and flushed.torn
    assert still.impolite(mark) == []
    assert still.unequal(path, 2) == []
    captured = set(lake.open(path).read("captures", columns=["record_id"])["record_id"].to_pylist())
    assert flushed.records and flushed.records <= captured
    assert_booked(still, path, mark, kills)


def test_p4_of_several_recoverers_at_once_one_finishes_and_the_others_are_told_who(
    still: Ground, tmp_path: Path
) -> None:
    path, mark = still.copy(1), still.mark()
    assert run(replace(still.job(path), death=Death(("after send",), skip=12))).word == "killed"
    halt = Halt.at("before flush", tmp_path)
    racers = [Run(replace(still.job(path), halt=halt)) for _ in range(4)]
    halt.await_run()
    deadline = time.monotonic() + 60
    while len(ends := [racer for racer in racers if racer.said_something(0.1)]) < 3:
        assert time.monotonic() < deadline
    refused = [racer.ended() for racer in ends]
    assert [ended.word for ended in refused] == ["refused"] * 3
    assert all(re.search(HELD, ended.said) for ended in refused), refused
    halt.let_go()
    (winner,) = [racer for racer in racers if racer not in ends]
    assert winner.ended().word == "done"
    assert still.impolite(mark) == []
    assert still.unequal(path, 2) == []


def test_p4_a_recoverer_that_comes_while_tables_are_committed_is_refused(
    still: Ground, tmp_path: Path
) -> None:
    path = still.fetched()
    assert run(replace(still.job(path), death=Death(("after commit links",)))).word == "killed"
    halt = Halt.at("before commit hosts", tmp_path)
    first = Run(replace(still.job(path), halt=halt))
    halt.await_run()
    second = run(still.job(path))
    assert second.word == "refused" and re.search(HELD, second.said)
    assert f"process {first.pid})" in second.said
    halt.let_go()
    assert first.ended().word == "done"
    assert still.unequal(path, 2) == []


def test_p1_a_kill_right_after_robots_txt_was_read_does_not_shorten_its_crawl_delay(tmp_path: Path) -> None:
    patient = replace(MIX, kinds=(), robots=(Robots.DELAY,), pages=2)
    with ground(tmp_path, hosts=4, mix=patient, cycles=0) as place:
        path, mark = place.new_lake(), place.mark()
        assert run(replace(place.job(path), death=Death(("after hold",)))).word == "killed"
        assert not list(path.glob("staging/*/fetch/*/a001/part-*"))
        assert run(place.job(path)).word == "done"
        slow = [row for row in place.rows(mark) if place.web.crawl_delay_ms(row.host)]
        assert len(slow) >= 3
        assert place.impolite(mark) == []
        assert faults(path) == []


def test_p6_no_host_gets_more_than_its_month_and_every_request_is_booked_whatever_is_killed(
    tmp_path: Path,
) -> None:
    with ground(
        tmp_path, cycles=0, pace={"budget.requests_per_month": str(BUDGET), "delay.floor_ms": "50"}
    ) as place:
        path, mark, kills = place.new_lake(), place.mark(), 0
        for cycle in (1, 2):
            for moment, skip in (
                ("before answer", 3),
                ("after flush", 0),
                ("after send", 5),
                ("before answer", 2),
            ):
                kills += run(replace(place.job(path), death=Death((moment,), skip=skip))).word == "killed"
            while lake.open(path).cycle < cycle:
                assert run(place.job(path)).word == "done"
        books = place.books(path, mark)
        assert kills >= 3
        assert all(saw <= told <= BUDGET for told, saw in books.values()), books
        assert sum(told - saw for told, saw in books.values()) <= kills
        assert sum(told == BUDGET for told, _ in books.values()) >= 3
        spent = place.mark()
        assert run(place.job(path)).word == "done"  # nobody may be asked any more, and that is no fault
        assert [row.host for row in place.rows(spent) if books.get(row.host, (0, 0))[0] == BUDGET] == []
        assert faults(path) == [] and list(compare.warc_faults(path)) == []
        assert place.impolite(mark) == []


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_p4_a_kill_at_every_rename_link_and_fsync_leaves_no_trace(still: Ground, tmp_path: Path) -> None:
    path, mark = still.copy(1), still.mark()
    death = Death(moments("name", "fsync"), tmp_path / "moments", system=True)
    kills = run_chain(still.job(path), death, cycles=2)
    assert kills > 200
    assert still.impolite(mark) == []
    assert still.unequal(path, 2) == []
    assert_booked(still, path, mark, kills)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_p4_each_boundary_alone_from_the_first_cycle_on(still: Ground, tmp_path: Path) -> None:
    path, mark = still.copy(0), still.mark()
    kills = run_chain(still.job(path), Death(moments(*STEPS, "stage"), tmp_path / "moments"), cycles=2)
    assert kills > 250
    assert still.impolite(mark) == []
    assert still.unequal(path, 2) == []
