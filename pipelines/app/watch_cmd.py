"""`noria status --watch`: follow the cycle that runs, from what its fetchers tell. It may run on any machine."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

import lake
from pipelines.app.words import outcome_words
from pipelines.dashboard.figures import Figures, Trail, fold, left_ms
from pipelines.dashboard.read import sample
from pipelines.dashboard.words import clock, seconds

EVERY_SECONDS = 1.0
PIPE_SECONDS = 10.0
HOSTS = 5


def run(
    path: Path, *, as_json: bool, out: TextIO | None = None, sleep: Callable[[float], None] = time.sleep
) -> None:
    """Show how the cycle stands until Ctrl-C: drawn anew every second on a terminal, a line in ten seconds in a pipe.

    as_json: one JSON object a line. Returns at once, with a sentence, where no cycle runs and nothing is shown yet.
    """
    lake.open(path)
    out = out or sys.stdout
    seen = _looks(path)
    try:
        if as_json or not out.isatty():
            _print(seen, out, sleep, as_json=as_json)
        else:
            _draw(seen, sleep)
    except KeyboardInterrupt:
        return


def _looks(path: Path) -> Iterator[tuple[Figures, Trail]]:
    """Yield the figures each time they are asked for, until the cycle that ran has ended."""
    trail, met = Trail(), False
    while True:
        figures = fold(sample(path, now_ms=time.time_ns() // 1_000_000))
        trail.add(figures)
        if not figures.cycle and met:
            return
        met = met or bool(figures.cycle)
        yield figures, trail


def _print(
    seen: Iterator[tuple[Figures, Trail]], out: TextIO, sleep: Callable[[float], None], *, as_json: bool
) -> None:
    for figures, trail in seen:
        if not figures.cycle:
            print(json.dumps(asdict(figures)) if as_json else "no cycle runs", file=out)
            return
        words = ", ".join(f"{label} {told}" for label, told in lines(figures, trail)[:5])
        print(json.dumps(asdict(figures)) if as_json else words, file=out, flush=True)
        sleep(EVERY_SECONDS if as_json else PIPE_SECONDS)
    if not as_json:
        print("the cycle has ended", file=out)


def _draw(seen: Iterator[tuple[Figures, Trail]], sleep: Callable[[float], None]) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(highlight=False)
    with Live(console=console, auto_refresh=False) as live:
        for figures, trail in seen:
            told = (
                lines(figures, trail) if figures.cycle else [("waiting", "no cycle runs; Ctrl-C ends this")]
            )
            live.update(Text("\n".join(f"{label:<12} {words}" for label, words in told)), refresh=True)
            sleep(EVERY_SECONDS)
    console.print("The cycle has ended.")


def lines(figures: Figures, trail: Trail) -> list[tuple[str, str]]:
    """Return label and words of a running cycle, in the order of reading."""
    step = (
        f"{figures.step}, {figures.step_done:,} of {figures.step_total:,} tasks"
        if figures.step_total
        else figures.step
    )
    told = [("cycle", f"{figures.cycle}: {step}" + (", stopping" if figures.stopping else ""))]
    if not figures.planned:
        return told
    point = trail.points[-1] if trail.points and figures.step == "fetch" else None
    rates = f" ({point.pages_s:,.1f} pages/s, {point.bytes_s / 1e6:,.2f} MB/s)" if point else ""
    told += [
        ("URLs", f"{figures.done:,} done, {figures.left:,} left, {figures.put_off:,} put off of {figures.planned:,} planned"),
        ("pages", f"{figures.pages:,}{rates}"),
    ]  # fmt: skip
    if figures.step != "fetch":
        return told
    hosts = ", ".join(f"{count:,} {state}" for state, count in figures.hosts.items())
    left = clock(left_ms(figures, done_s=trail.done_s))
    partitions = ", ".join(
        f"{count:,} {state.replace('_', ' ')}" for state, count in figures.partitions.items()
    )
    told += [
        ("time left", f"{left}, the window closes in {clock(figures.window_left_ms)}"),
        ("outcomes", outcome_words(figures.outcomes)),
        ("hosts", f"{hosts}; {figures.open:,} connections open"),
        ("partitions", partitions),
        ("lag", f"flush {seconds(figures.flush_lag_ms)}, lease {seconds(figures.lease_age_ms)}"),
        ("lake", f"held by {figures.writer or 'nobody'}"),
    ]
    for at, host in enumerate(figures.slow_hosts[:HOSTS]):
        words = f"{host['host']}: {host['left']:,} URLs, {host['pause_ms'] / 1_000:,.1f} s apart ({host['reason']})"
        told.append(("" if at else "slow hosts", f"{words}, needs {clock(host['work_ms'])}"))
    return told
