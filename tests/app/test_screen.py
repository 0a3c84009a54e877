"""What a cycle shows: on a terminal, in a pipe, as JSON."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from rich.console import Console

from pipelines.app.live import LiveReporter
from pipelines.app.screen import JsonReporter, PlainReporter, Reporter, reporter
from pipelines.app.words import duration_words, figures, ready_lines, time_words


@dataclass
class Report:
    """The fields of a CycleReport that are shown."""

    cycle: int = 2
    planned: int = 300
    requests: int = 298
    pages: int = 250
    duplicates: int = 21
    outcomes: dict[str, int] = field(default_factory=lambda: {"ok": 250, "http_404": 9, "redirect": 39})
    new_urls: int = 903
    seconds: dict[str, float] = field(default_factory=lambda: {"plan": 0.4, "fetch": 16.0456})
    given_up: int = 0
    unfetched: int = 0
    set_aside: int = 0
    next_due: Any = None
    resumed: bool = False
    stopped: bool = False
    dashboard: str | None = None


class Ticks:
    """A clock that is told the time."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def whole_cycle(told: Reporter, clock: Ticks) -> None:
    """Tell a reporter what a cycle of 60 seconds tells, five times a second."""
    told.message("Dashboard: http://127.0.0.1:8787/status")
    told.step("plan", 0, 4)
    told.step("plan", 4, 4)
    told.plan({"due URLs": 300, "hosts": 20, "window_seconds": 60})
    told.step("fetch", 0, 2)
    for tick in range(300):
        clock.now += 0.2
        told.fetch(tick, 300, 5.0, {"ok": tick})
    told.step("fetch", 2, 2)
    told.final(Report())
    told.close()


@pytest.fixture
def clock() -> Iterator[Ticks]:
    yield Ticks()


def test_in_a_pipe_a_long_step_says_at_most_a_line_in_ten_seconds(clock: Ticks) -> None:
    out = io.StringIO()
    whole_cycle(PlainReporter(out, clock=clock, lake="l"), clock)
    lines = out.getvalue().splitlines()
    progress = [line for line in lines if line.startswith("fetch: ") and " of 300 URLs" in line]
    assert 4 <= len(progress) <= 6
    assert "plan: done in 0.0 s" in lines
    assert "plan: due URLs 300, hosts 20, window seconds 60" in lines
    assert "fetch: done in 60.0 s" in lines
    assert "pages: 250, 21 of them duplicates" in lines
    assert "\x1b" not in out.getvalue() and "\r" not in out.getvalue()


def test_planned_urls_that_nobody_asked_for_are_told_with_the_reason() -> None:
    told = dict(figures(Report(planned=300, set_aside=40, unfetched=2)))
    assert told["planned"] == (
        "300 URLs; 40 set aside: host out of reach, or path pattern left; 2 not reached in the window"
    )
    assert dict(figures(Report(planned=300)))["planned"] == "300 URLs"


def test_json_is_one_object_and_nothing_else(clock: Ticks) -> None:
    out = io.StringIO()
    whole_cycle(JsonReporter(out), clock)
    found = json.loads(out.getvalue())
    assert found["outcomes"] == {"ok": 250, "http_404": 9, "redirect": 39}
    assert found["seconds"] == {"plan": 0.4, "fetch": 16.046}


def test_on_a_terminal_there_is_a_plan_a_bar_a_step_and_a_table(clock: Ticks) -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100, highlight=False)
    whole_cycle(LiveReporter(lake="l", console=console), clock)
    text = out.getvalue()
    for word in (
        "Plan",
        "due URLs",
        "fetch",
        "300",
        "5.0 pages/s",
        "Cycle 2",
        "new URLs",
        "Open it:",
        "lake.open('l')",
    ):
        assert word in text


def test_the_display_can_be_closed_twice_or_before_it_began() -> None:
    told = LiveReporter(lake="l", console=Console(file=io.StringIO(), force_terminal=True))
    told.close()
    told.step("plan", 0, 1)
    told.close()
    told.close()


def test_a_pipe_gets_plain_lines_and_json_if_wanted() -> None:
    assert isinstance(reporter(as_json=False, lake="l", out=io.StringIO()), PlainReporter)
    assert isinstance(reporter(as_json=True, lake="l", out=io.StringIO()), JsonReporter)


def test_partitions_given_up_and_the_next_due_time_are_told(clock: Ticks) -> None:
    out = io.StringIO()
    PlainReporter(out, clock=clock).final(
        Report(given_up=1, resumed=True, next_due=datetime(2099, 1, 1, tzinfo=UTC))
    )
    assert "given up: 1 fetch partitions" in out.getvalue()
    assert "cycle: 2 (resumed)" in out.getvalue()
    assert "next due: 2099-01-01 00:00:00 UTC (in " in out.getvalue()


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0.0 s"),
        (59.94, "59.9 s"),
        (60, "1 min"),
        (3600, "1 h"),
        (3661, "1 h 1 min"),
        (86_399, "23 h 59 min"),
        (200_000, "2 d 7 h"),
    ],
)
def test_durations_are_read_at_a_glance(seconds: float, words: str) -> None:
    assert duration_words(seconds) == words


def test_times_say_how_far_off_they_are() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert time_words(None) == "-"
    assert time_words(datetime(2026, 1, 1, 1, tzinfo=UTC), now=now) == "2026-01-01 01:00:00 UTC (in 1 h)"
    assert time_words(datetime(2025, 12, 31, tzinfo=UTC), now=now).endswith("(1 d ago)")


def test_three_lines_open_the_result() -> None:
    assert [label for label, _ in ready_lines("l")] == ["SQL", "pandas", "notebook"]


@pytest.mark.parametrize("name", ["data/lake", "with blank", "it's", 'a "b"', "$HOME `ls` \\n!"])
def test_the_lines_name_the_lake_whatever_its_name(name: str) -> None:
    """A shell gives Python what was meant: the line is run with `lake.open` replaced by a print of its argument."""
    for label, line in ready_lines(name):
        code = shlex.split(line)[-1] if label != "notebook" else line
        call = next(
            node
            for node in ast.walk(ast.parse(code))
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "open"
        )
        assert ast.literal_eval(call.args[0]) == name


def test_a_cycle_goes_on_when_nobody_reads_its_output(capsys: pytest.CaptureFixture[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    with open(write, "w") as out:
        told = PlainReporter(out)
        told.message("one")
        told.message("two")
        told.final(Report())
        with contextlib.suppress(BrokenPipeError):
            out.close()
    assert capsys.readouterr().err.count("the cycle goes on") == 1
