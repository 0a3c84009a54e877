"""What comes next, for every shelf and every thing that can stand in the way. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pipelines.explain.prospects import Place, Reason, ms, prospect
from pipelines.rules.outcome import Outcome

NOW = datetime(2026, 5, 1, tzinfo=UTC)
NOW_MS = ms(NOW)
HOUR = 3_600_000


def row(**changes: Any) -> dict[str, Any]:
    usual = {"due_at": None, "reason": None, "detail": None, "visits": 0, "changes": 0, "failures": 0}
    return {**usual, **changes}


def told(shelf: str, state: dict[str, Any], *blocks: Reason, place: Place | None = None) -> Any:
    return prospect(shelf, state, now_ms=NOW_MS, blocks=blocks, place=place, ready=7)


def test_a_ready_url_within_its_hosts_room_is_asked_in_the_next_cycle() -> None:
    found = told("ready", row(), place=Place(3, 10, 5))
    assert (found.what, found.when_ms, found.cycles) == ("ask", None, 1)


def test_one_beyond_it_is_told_how_many_cycles_are_before_it() -> None:
    found = told("ready", row(), place=Place(23, 50, 5))
    assert found.cycles == 5
    assert "place 23 of 50" in found.because[0].words


def test_the_longest_block_says_when() -> None:
    clock, probe = Reason("clock", "clock", NOW_MS + 5), Reason("host_ailing", "ill", NOW_MS + HOUR)
    found = told("ready", row(), probe, clock, place=Place(1, 1, 0))
    assert found.when_ms == NOW_MS + HOUR
    assert [one.rule for one in found.because] == ["host_ailing", "clock"]


def test_a_block_without_an_end_leaves_no_time() -> None:
    found = told("ready", row(), Reason("robots_denied", "line 2"), place=Place(1, 1, 1))
    assert (found.what, found.when_ms) == ("wait", None)


def test_a_host_without_room_is_told() -> None:
    assert told("ready", row(), place=Place(1, 9, 0)).because[0].rule == "no_room"


def test_a_url_due_later_is_told_when_and_a_block_that_lasts_longer_wins() -> None:
    due = NOW + timedelta(hours=2)
    state = row(due_at=due, reason="ok", visits=3, changes=1)
    found = told("later", state, Reason("clock", "soon over", NOW_MS + HOUR))
    assert found.when_ms == ms(due) and [one.rule for one in found.because] == ["ok"]
    assert "changed at 1 of 3 visits" in found.because[0].words
    longer = told("later", state, Reason("month_spent", "spent", NOW_MS + 9 * HOUR))
    assert longer.when_ms == NOW_MS + 9 * HOUR


def test_a_url_whose_time_has_come_queues_with_the_ready_ones() -> None:
    state = row(due_at=NOW - timedelta(hours=1), reason="ok", visits=1)
    assert told("later", state, place=Place(1, 1, 1)).cycles == 1


def test_backlog_waits_behind_the_ready_shelf_and_retired_for_a_seed() -> None:
    assert "7 URLs on the ready shelf" in told("backlog", row()).because[0].words
    gone = told("retired", row(reason="http_404", failures=2))
    assert gone.what == "none" and "unless a seed names it" in gone.words
    assert gone.because[0].words.startswith("it failed 2 times in a row, last with http_404")


@pytest.mark.parametrize("outcome", Outcome)
def test_p8_every_outcome_has_words_on_every_shelf(outcome: Outcome) -> None:
    state = row(reason=outcome.value, failures=1, visits=1, due_at=NOW + timedelta(days=1), detail="x")
    for shelf in ("later", "retired"):
        assert told(shelf, state).because[0].words
