"""`noria cycle`: one turn of the wheel, on the real web or on the toy web."""

from __future__ import annotations

import os
import shlex
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from lake.layout import Layout
from pipelines import log, plugins
from pipelines.app import demo, screen, seeds_cmd
from pipelines.app.asked import Asked
from pipelines.app.lakes import place, refuse_busy
from pipelines.app.words import program
from pipelines.config import require_contact
from pipelines.cycle.graph import run_cycle
from pipelines.failure import Misuse

if TYPE_CHECKING:
    from pipelines.app.screen import Reporter
    from pipelines.config import Settings


def run(asked: Asked) -> int:
    """Run one cycle and show it; return the exit code: 0, or 130 if it was stopped and has committed what it had."""
    settings = asked.settings()
    lake = settings.lake.path
    toy = demo.wanted(Path(lake), wish=asked.wish, seeds=asked.seeds)
    if toy is not None:
        settings = asked.settings(toy.settings())
    else:
        _refuse_early(settings, asked)
    plugins.load(settings.plugins)  # refused here, before a cycle is opened that could not end
    refuse_busy(Path(lake))
    reporter = screen.reporter(as_json=asked.as_json, lake=lake)
    log.start(settings.log, at_work=sys.stderr.isatty())
    with ExitStack() as stack:
        stack.callback(reporter.close)
        if toy is not None:
            stack.enter_context(demo.running(toy, Path(lake), settings, reporter))
        try:
            return _turn(settings, asked, reporter)
        except KeyboardInterrupt:
            reporter.close()
            print(
                f"Stopped at once; what was committed is safe. Finish this cycle with: {go_on(asked)}",
                file=sys.stderr,
            )
            return 130


def _turn(settings: Settings, asked: Asked, reporter: Reporter) -> int:
    if asked.seeds:
        reporter.message(seeds_cmd.summary(seeds_cmd.put(settings, asked.seeds), settings.lake.path))
    place(settings, make=True)
    report = run_cycle(
        Path(settings.lake.path), settings, scheduler=settings.cluster.scheduler or None, reporter=reporter
    )
    reporter.final(report)
    if report.stopped:
        reporter.message(f"Stopped and committed; nothing is lost. Go on with: {go_on(asked)}")
        return 130
    return 0


def go_on(asked: Asked) -> str:
    """Return the command that goes on where this cycle ended, as it was called; seeds are in the lake by now."""
    if "MAKELEVEL" in os.environ:
        conf = f" CONF='{' '.join(map(str, asked.conf))}'" if asked.conf else ""
        return f"make cycle LAKE={asked.lake}{conf}"
    return shlex.join([program(), "cycle", *asked.words()])


def _refuse_early(settings: Settings, asked: Asked) -> None:
    """Refuse what cannot end well before anything is made or opened."""
    path = Path(settings.lake.path)
    if not asked.seeds and not Layout(path.absolute()).meta.exists() and not _half_made(path):
        raise Misuse(
            f"there is no lake at {path} and no seeds to begin one: give --seeds FILE (or a URL), "
            f"or try it on the toy web with {program()} cycle --demo"
        )
    require_contact(settings)


def _half_made(path: Path) -> bool:
    return path.is_file() or Layout(path.absolute()).making.exists()
