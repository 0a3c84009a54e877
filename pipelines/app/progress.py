"""A progress bar for commands that read much: on a terminal only, on standard error."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Bar:
    """A context that shows how far something is. Where standard error is no terminal it shows nothing."""

    def __init__(self, label: str, unit: str, *, out: TextIO | None = None) -> None:
        self._label, self._unit, self._out = label, unit, out or sys.stderr
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Bar:
        if self._out.isatty():
            self._progress = self._started()
        return self

    def _started(self) -> Progress:
        from rich.console import Console  # here, so that pipes need not wait for rich
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=28),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=Console(file=self._out, highlight=False),
            transient=True,
        )
        self._task = progress.add_task(self._label, total=None, note="")
        progress.start()
        return progress

    def show(self, done: int, total: int | None, note: str = "") -> None:
        """Draw it; total: None = not known."""
        if self._progress is None or self._task is None:
            return
        of = f"{done:,}" if total is None else f"{done:,}/{total:,}"
        self._progress.update(
            self._task, completed=done, total=total, note=f"{of} {self._unit} {note}".rstrip()
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()
