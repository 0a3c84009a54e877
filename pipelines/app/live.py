"""The live display of a cycle on a terminal: a plan table, one bar a step, a final table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from pipelines.app.words import (
    ORDER,
    PART_OF,
    duration_words,
    figures,
    outcome_words,
    plan_words,
    ready_lines,
)


class LiveReporter:
    """Draws on the terminal. What is finished stays; what runs is drawn anew a few times a second."""

    def __init__(self, *, lake: str, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False)
        self._lake = lake
        self._bars = Progress(
            TextColumn("{task.description:<7}"),
            BarColumn(bar_width=28),
            TextColumn("{task.fields[count]:>17}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}"),
            console=self._console,
        )
        self._answers = Text("", style="dim")
        self._tasks: dict[str, TaskID] = {}
        self._live = Live(Group(self._bars, self._answers), console=self._console, refresh_per_second=4)
        self._shown, self._planned, self._rate = False, 0, ""
        self._ended: set[str] = set()

    def plan(self, info: Mapping[str, object]) -> None:
        """Draw the plan as a table."""
        self._console.print(_table("Plan", plan_words(info)))

    def step(self, name: str, done: int, total: int) -> None:
        """Draw the step's bar; that of fetch counts URLs, once it is told of them."""
        step = PART_OF.get(name, name)
        if step in self._ended:
            return
        if step == name and total > 0 and done >= total:
            self._ended.add(step)
            self._end(step)
            self._begin_next(step)
        elif step != "fetch" or not self._planned:
            count = f"{done:,}/{total:,}" if total > 1 else ""
            self._draw(step, done, total, count=count, note="" if step == name else name)

    def fetch(self, done: int, planned: int, pages_s: float, outcomes: Mapping[str, int]) -> None:
        """Draw URLs fetched of those planned, the rate, the time left, and the answers."""
        self._planned = planned
        self._answers.plain = f"        {outcome_words(outcomes)}"
        if pages_s > 0:
            left = f"; {duration_words((planned - done) / pages_s)} left" if planned > done else ""
            self._rate = f"{pages_s:,.1f} pages/s{left}"
        self._draw("fetch", done, planned, count=f"{done:,}/{planned:,}", note=self._rate)

    def message(self, text: str) -> None:
        """Print it above the bars."""
        self._console.print(text, markup=False)

    def final(self, report: Any) -> None:
        """Leave the bars, and print the figures and how to open the result."""
        self.close()
        self._console.print(_table(f"Cycle {report.cycle}" if report.cycle else "", figures(report)))
        if not report.cycle:
            return
        self._console.print("Open it:")
        for label, line in ready_lines(self._lake):
            self._console.print(f"  {label:<9} {line}", markup=False, soft_wrap=True)

    def close(self) -> None:
        """Stop drawing; a second time does nothing."""
        if self._shown:
            self._answers.plain = ""
            self._live.stop()
            self._shown = False

    def _end(self, step: str) -> None:
        """Fill the bar; a step that was not drawn before gets one that is full."""
        if step not in self._tasks:
            self._draw(step, 1, 1, count="", note="")
        bar = self._bars.tasks[self._tasks[step]]
        count = (
            bar.fields["count"] if step == "fetch" or bar.total == 1 else f"{bar.total:,.0f}/{bar.total:,.0f}"
        )
        self._bars.update(
            bar.id,
            completed=bar.total,
            count=count,
            note=self._rate.partition(";")[0] if step == "fetch" else "",
        )

    def _begin_next(self, step: str) -> None:
        """Show what is under way now, also where nothing is heard of it yet."""
        following = ORDER[ORDER.index(step) + 1 :] if step in ORDER else ()
        if following and following[0] not in self._tasks:
            self._draw(following[0], 0, 1, count="", note="")

    def _draw(self, name: str, done: int, total: int, *, count: str, note: str) -> None:
        if not self._shown:
            self._live.start()
            self._shown = True
        if name not in self._tasks:
            self._tasks[name] = self._bars.add_task(name, total=max(total, 1), count=count, note=note)
        self._bars.update(self._tasks[name], completed=done, total=max(total, 1), count=count, note=note)


def _table(title: str, rows: Any) -> Table:
    table = Table(
        title=title, title_justify="left", show_header=False, box=None, pad_edge=False, padding=(0, 2, 0, 0)
    )
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for label, figure in rows:
        table.add_row(label, Text(figure))
    return table
