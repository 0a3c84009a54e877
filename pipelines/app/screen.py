"""What a cycle shows while it runs: a live display on a terminal, plain lines in a pipe, or one JSON object.

`run_cycle` is given a Reporter and knows nothing of terminals.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TextIO

from pipelines.app.words import PART_OF, figures, outcome_words, plan_words, ready_lines

QUIET_SECONDS = 10.0


class Reporter(Protocol):
    """Is told what happens in a cycle. Calls are cheap and may come as often as the caller likes."""

    def plan(self, info: Mapping[str, object]) -> None:
        """The cycle is planned: label to figure, in the order to show."""

    def step(self, name: str, done: int, total: int) -> None:
        """`done` of `total` tasks of a step are finished; 0 when it begins, equal when it ends."""

    def fetch(self, done: int, planned: int, pages_s: float, outcomes: Mapping[str, int]) -> None:
        """Requests made of those planned, pages a second of late, and requests by outcome."""

    def message(self, text: str) -> None:
        """Something a person should know: a partition given up, a resumed cycle, the dashboard's link."""

    def final(self, report: Any) -> None:
        """The cycle is over; `report` is a CycleReport."""

    def close(self) -> None:
        """Nothing more will come, whether it went well or not."""


class JsonReporter:
    """Nothing but the report, as one JSON object."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def plan(self, info: Mapping[str, object]) -> None:
        """Say nothing."""

    def step(self, name: str, done: int, total: int) -> None:
        """Say nothing."""

    def fetch(self, done: int, planned: int, pages_s: float, outcomes: Mapping[str, int]) -> None:
        """Say nothing."""

    def message(self, text: str) -> None:
        """Say nothing."""

    def final(self, report: Any) -> None:
        """Print the report."""
        print(json.dumps(as_plain(report)), file=self._out)

    def close(self) -> None:
        """Nothing is open."""


class PlainReporter:
    """Plain lines: one as a step ends, and of a long step at most one in ten seconds."""

    def __init__(self, out: TextIO, *, clock: Callable[[], float] = time.monotonic, lake: str = "") -> None:
        self._out, self._clock, self._lake = out, clock, lake
        self._ended: set[str] = set()
        self._since = clock()
        self._said = clock()

    def plan(self, info: Mapping[str, object]) -> None:
        """Print the plan on one line."""
        self._print("plan: " + ", ".join(f"{label} {figure}" for label, figure in plan_words(info)))

    def step(self, name: str, done: int, total: int) -> None:
        """Print a line when the step ends, or when nothing was said for long."""
        step = PART_OF.get(name, name)
        if step in self._ended:
            return
        if step == name and total and done >= total:
            self._ended.add(step)
            self._print(f"{step}: done in {self._clock() - self._since:.1f} s")
            self._since = self._clock()
        elif self._due():
            self._print(f"{name}: {done} of {total}")

    def fetch(self, done: int, planned: int, pages_s: float, outcomes: Mapping[str, int]) -> None:
        """Print where the fetch stands, when nothing was said for long."""
        if self._due():
            rate = f", {pages_s:,.1f} pages/s" if pages_s else ""
            self._print(f"fetch: {done:,} of {planned:,} URLs{rate}; {outcome_words(outcomes)}")

    def message(self, text: str) -> None:
        """Print it."""
        self._print(text)
        self._since = self._clock()

    def final(self, report: Any) -> None:
        """Print the figures, a line each, and how to open the result."""
        for label, figure in figures(report):
            self._print(f"{label}: {figure}")
        for label, line in ready_lines(self._lake) if report.cycle else ():
            self._print(f"{label}: {line}")

    def close(self) -> None:
        """Nothing is open."""

    def _due(self) -> bool:
        return self._clock() - self._said >= QUIET_SECONDS

    def _print(self, line: str) -> None:
        self._said = self._clock()
        try:
            print(line, file=self._out, flush=True)
        except BrokenPipeError:  # `noria cycle | head`: a crawl does not end because nobody listens any more
            nobody = open(os.devnull, "w")  # noqa: SIM115  it is open as long as the process is
            if self._out is sys.stdout:
                sys.stdout = nobody  # the interpreter flushes it when it ends
            self._out = nobody
            print("noria: nobody reads this output any more; the cycle goes on", file=sys.stderr)


def reporter(*, as_json: bool, lake: str, out: TextIO | None = None) -> Reporter:
    """Return the reporter that fits: JSON if wanted, a live display on a terminal, else plain lines."""
    out = out or sys.stdout
    if as_json:
        return JsonReporter(out)
    if out.isatty():
        from pipelines.app.live import LiveReporter  # here, so that pipes need not wait for rich

        return LiveReporter(lake=lake)
    return PlainReporter(out, lake=lake)


def as_plain(report: Any) -> dict[str, Any]:
    """Return a report's fields as plain values; the times are rounded to milliseconds."""
    plain: dict[str, Any] = dataclasses.asdict(report)
    if isinstance(plain.get("seconds"), dict):
        plain["seconds"] = {step: round(value, 3) for step, value in plain["seconds"].items()}
    return plain
