"""`noria extract`: bring the table `pages` up to date."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.app.cycles import cycles_of
from pipelines.app.lakes import place
from pipelines.app.progress import Bar
from pipelines.app.words import again, program
from pipelines.extract.graph import ExtractReport, run_extract
from pipelines.failure import Stopped

if TYPE_CHECKING:
    from pipelines.config import Settings


class _Reporter:
    """Shows files and pages as a bar, messages as lines on standard error."""

    def __init__(self, bar: Bar) -> None:
        self._bar = bar

    def files(self, done: int, total: int, pages: int) -> None:
        self._bar.show(done, total, f"{pages:,} pages")

    def message(self, text: str) -> None:
        print(text, file=sys.stderr)


def run(settings: Settings, cycle: str | None, *, as_json: bool) -> None:
    """Extract the cycles and say what was done."""
    held = place(settings, make=False)
    with Bar("extract", "WARC files") as bar:
        try:
            report = run_extract(
                Path(settings.lake.path),
                settings,
                reporter=_Reporter(bar),
                cycles=cycles_of(cycle, last=held.cycle),
            )
        except KeyboardInterrupt as stop:
            raise Stopped(f"stopped; what was read is kept, {again('extract')} goes on there") from stop
    if as_json:
        print(json.dumps(asdict(report)))
    else:
        print("\n".join(words(report, settings.lake.path)))


def words(report: ExtractReport, lake: str) -> list[str]:
    """Return what was done, and how to look at it, a line each."""
    if not report.cycles:
        return [
            f"nothing to extract: {report.left:,} cycles were extracted before"
            if report.left
            else f"nothing to extract: no cycle is committed yet; {again('cycle')} runs one"
        ]
    first, last = report.cycles[0], report.cycles[-1]
    named = f"cycle {first}" if first == last else f"cycles {first} to {last}"
    unread = (
        f", {report.unread:,} of the pages could not be read (column problem says why)"
        if report.unread
        else ""
    )
    return [
        f"{report.pages:,} pages of {named} from {report.files:,} WARC files{unread}",
        f"open them: {program()} export pages --lake {shlex.quote(str(lake))} --to parquet",
    ]
