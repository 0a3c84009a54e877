"""A fetch partition belongs to one attempt at a time: frozen workers, zombies, and what the next attempt takes over."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lake import lease, staging
from lake.layout import Layout
from pipelines.cycle import enlist, journal, parts
from pipelines.cycle.crew import HOST_COLUMNS
from pipelines.rules.outcome import Outcome
from tests.cycle.crash_driver import Death, Run, run
from tests.cycle.ground import Ground


def await_(condition: Callable[[], bool], what: str, *, seconds: float = 60) -> None:
    """Wait until something has happened; fail with its name where it does not."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.01)


class Frozen:
    """A lake whose only fetch partition is held by a worker that was stopped in the middle of its work."""

    def __init__(self, still: Ground) -> None:
        self.still, self.path, self.mark = still, still.copy(1), still.mark()
        self.job = replace(still.job(self.path), slots=1)
        assert run(replace(self.job, death=Death(("before attempt",)))).word == "killed"
        self.base = staging.folder(self.path, 2) / "fetch" / "p0000"
        self.worker = Run(replace(self.job, partition=0))
        await_(lambda: any(self.base.glob("a001/part-*.json")), "the first part")
        self.worker.send(signal.SIGSTOP)
        self.connections = {row.connection for row in still.rows(self.mark)}

    def thaw(self) -> None:
        """Let the worker go on."""
        self.at_thaw = self.still.mark()
        self.worker.send(signal.SIGCONT)

    def await_requests(self, more: int) -> None:
        """Wait for so many more requests than there are now."""
        wanted = self.still.mark() + more
        await_(lambda: self.still.mark() >= wanted, f"{more} more requests")

    def assert_polite_and_equal(self) -> None:
        """Hold what came of it to the reference and to the server's log; the worker's old connections are silent."""
        late = [row for row in self.still.rows(self.at_thaw) if row.connection in self.connections]
        assert [row.target for row in late] == []
        assert self.still.impolite(self.mark) == []
        assert self.still.unequal(self.path, 2) == []


@pytest.mark.slow
def test_p1_p4_a_worker_frozen_past_its_lease_asks_for_nothing_more_and_its_late_part_is_nobodys(
    still: Ground,
) -> None:
    frozen = Frozen(still)
    heir = Run(frozen.job)
    frozen.await_requests(4)
    frozen.thaw()
    assert heir.ended().word == "done"
    assert frozen.worker.ended().word in ("done", "broken")  # it hears of the heir, or finds all swept
    frozen.assert_polite_and_equal()


def test_p1_p4_a_zombie_that_inherits_from_its_heir_leaves_its_own_late_part_aside(still: Ground) -> None:
    frozen = Frozen(still)
    before = len(list(frozen.base.glob("a001/part-*.json")))
    heir = Run(replace(frozen.job, death=Death(("after flush",))))
    frozen.await_requests(4)
    frozen.thaw()
    assert heir.ended().word == "killed"
    assert frozen.worker.ended().word == "done"
    assert len(list(frozen.base.glob("a001/part-*.json"))) >= before
    assert (frozen.base / "a003" / "start.json").exists()
    assert run(frozen.job).word == "done"
    frozen.assert_polite_and_equal()


@pytest.mark.slow
def test_p4_a_worker_frozen_for_half_its_lease_goes_on_by_itself(still: Ground) -> None:
    frozen = Frozen(still)
    path = Layout(frozen.path).partition_lease(2, 0)

    def runs_out() -> bool:
        held = lease.held_by(path)
        return held is None or held.expires_ms - lease.system_clock() < 2_500

    await_(runs_out, "half of the lease")
    frozen.thaw()
    assert frozen.worker.ended().word == "done"
    assert run(frozen.job).word == "done"
    assert still.impolite(frozen.mark) == []
    assert still.unequal(frozen.path, 2) == []


# --- what the next attempt takes over -------------------------------------------------------------------


def test_an_attempt_takes_over_what_the_one_before_it_had_and_no_part_of_a_zombie(tmp_path: Path) -> None:
    first = parts.Attempt.begin(tmp_path)
    first.flush({}, {})
    second = parts.Attempt.begin(tmp_path)
    first.flush({}, {})  # the zombie's
    second.flush({}, {})
    (tmp_path / "a003").mkdir()  # killed before it could tell what it took over
    fourth = parts.Attempt.begin(tmp_path)
    assert second.inherited == [parts.PartName(1, 0)]
    assert fourth.inherited == [parts.PartName(1, 0), parts.PartName(2, 0)]
    assert fourth.number == 4


def test_a_journal_tells_requests_by_host_and_month_and_the_longest_hold(tmp_path: Path) -> None:
    november, december = 1_764_547_200_000 - 1, 1_764_547_200_000
    paths = [tmp_path / "one", tmp_path / "two", tmp_path / "absent"]
    for path in paths[:2]:
        book = journal.Journal(path)
        book.intend(7, 1, november)
        book.intend(7, 2, december)
        book.intend(2**64 - 1, 3, december)
        book.hold(7, december + len(path.name))
        book.close()
    with paths[1].open("ab") as file:
        file.write(b"\x01torn")
    told = journal.read(paths)
    assert told.spent == {7: Counter({202511: 2, 202512: 2}), 2**64 - 1: Counter({202512: 2})}
    assert told.holds == {7: december + 3}


@pytest.mark.parametrize(
    ("month", "spent", "wanted"),
    [
        (202512, {202512: 3}, (202512, 13, 103)),
        (202511, {202512: 3}, (202512, 3, 103)),
        (202511, {202511: 2, 202512: 3}, (202512, 3, 105)),
        (202511, {202511: 2}, (202511, 12, 102)),
        (None, {202512: 1}, (202512, 1, 101)),
        (202512, {}, (202512, 99, 99)),
    ],
)
def test_p6_books_are_what_the_plan_knew_and_the_journals_tell(
    month: int | None, spent: dict[int, int], wanted: tuple[int, int, int]
) -> None:
    plan = {"month": month, "month_requests": 10, "requests": 100}
    flushed = {"month": 202512, "month_requests": 99, "requests": 99}
    enlist.book(flushed, plan=plan, spent=Counter(spent))
    assert (flushed["month"], flushed["month_requests"], flushed["requests"]) == wanted


def capture(
    url: str, hop: int, via: str | None, outcome: Outcome, target: str | None = None
) -> dict[str, Any]:
    row = dict.fromkeys(parts.CAPTURE_SCHEMA.names)
    return row | {
        "url": url, "host": "a.test", "url_key": hash(url) & 0xFFFF, "origin_key": 1, "hop": hop, "via": via,
        "outcome": outcome.value, "fetch_redirect": target, "depth": 3, "source": "redirect", "kind": "page",
    }  # fmt: skip


def test_a_redirect_whose_target_was_not_asked_is_open_and_knows_the_way_it_came() -> None:
    first = capture("http://a.test/1", 0, "http://seed.test/", Outcome.REDIRECT, "http://a.test/2")
    second = capture("http://a.test/2", 1, "http://a.test/1", Outcome.REDIRECT, "http://a.test/3")
    third = capture("http://a.test/3", 2, "http://a.test/2", Outcome.REDIRECT, "http://b.test/4")
    last = capture("http://b.test/4", 3, "http://a.test/3", Outcome.NOT_FOUND)
    rows = [first, second, third, last]
    ((item, target),) = enlist.open_hops(pa.Table.from_pylist(rows[:3], parts.CAPTURE_SCHEMA))
    assert (item.url, item.hop, item.origin, item.depth, target) == (
        "http://a.test/3",
        2,
        1,
        3,
        "http://b.test/4",
    )
    assert item.chain == ("http://a.test/1", "http://a.test/2")
    assert enlist.open_hops(pa.Table.from_pylist(rows, parts.CAPTURE_SCHEMA)) == []


def test_a_host_that_failed_in_an_earlier_attempt_is_left_alone_and_one_that_only_ailed_before_is_not() -> (
    None
):
    ailing: dict[str, Any] = dict.fromkeys(HOST_COLUMNS) | {"health": "connect_timeout", "probe_at": 5}
    assert not enlist.went_down(ailing, {**ailing, "failures": 2})
    assert enlist.went_down(ailing, {**ailing, "probe_at": 9})
    assert not enlist.went_down(ailing, {**ailing, "probe_at": None, "health": "ok"})
    assert not enlist.went_down(ailing, {**ailing, "probe_at": 9, "health": "robots_unreachable"})
