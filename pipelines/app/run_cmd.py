"""`noria run --every 1h`: cycles one after another, each in a process of its own, in the foreground.

A cycle that dies, whatever of, takes nothing with it: the loop goes on and the next cycle finishes it. The lake's
lease keeps it from overlapping with anything else that writes.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import structlog

from lake import lease
from lake.layout import Layout
from pipelines import log
from pipelines.app.asked import Asked
from pipelines.app.rounds import End, Pace, Rounds, every_ms
from pipelines.net.clock import SystemClock

INTERRUPTED = 130


def run(asked: Asked, *, every: str, cycles: int | None) -> int:
    """Run cycles until stopped, or until `cycles` have ended well; return the exit code.

    Seeds are given to the first cycle that ends well. SIGTERM or Ctrl-C once: the running cycle finishes and
    commits; twice: it stops at once. Exit code 0, 130 after Ctrl-C, 2 for a mistake.
    """
    pace, settings = Pace(every_ms(every)), asked.settings()
    log.start(settings.log)
    told = structlog.get_logger("noria.run")
    with Stop.listening() as stop:
        words = [*asked.words(), *(["--json"] if asked.as_json else [])]
        command = [sys.executable, "-m", "pipelines.app.cli", "cycle", *words]
        child = Child(command, asked.seeds, Path(settings.lake.path), stop)
        rounds = Rounds(
            pace, child.turn, stop.wait, lambda: bool(stop.signals), told.info, told.warning, SystemClock()
        )
        end = rounds.run(cycles)
    if end is End.MISUSED:
        return 2
    return INTERRUPTED if signal.SIGINT in stop.signals else 0


@dataclass
class Stop:
    """Signals that came, and a wait that they end. `child`: the process they are passed on to."""

    reads: int
    writes: int
    signals: list[int] = field(default_factory=list)
    child: subprocess.Popen[bytes] | None = None

    @classmethod
    @contextmanager
    def listening(cls) -> Iterator[Stop]:
        """Listen for SIGTERM and SIGINT until the block ends."""
        stop = cls(*os.pipe())
        before = {name: signal.signal(name, stop._heard) for name in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield stop
        finally:
            for name, handler in before.items():
                signal.signal(name, handler)
            os.close(stop.reads)
            os.close(stop.writes)

    def _heard(self, number: int, frame: FrameType | None) -> None:
        self.signals.append(number)
        os.write(
            self.writes, b"x"
        )  # a pipe, not an Event: its lock could be held by the wait that we interrupt
        if self.child is not None and self.child.poll() is None:
            self.child.send_signal(number)

    def wait(self, ms: int) -> None:
        """Wait, but no longer than until the next signal."""
        select.select([self.reads], [], [], ms / 1_000)


@dataclass
class Child:
    """Tries a cycle in a process of its own, in a session of its own: a terminal's Ctrl-C reaches it through us only."""

    command: list[str]
    seeds: list[str]
    lake: Path
    stop: Stop

    def turn(self) -> End:
        """Run one cycle to its end."""
        if busy(self.lake):
            return End.BUSY
        words = [word for seed in self.seeds for word in ("--seeds", seed)]
        self.stop.child = subprocess.Popen([*self.command, *words], start_new_session=True)
        if self.stop.signals:  # one came while it was started
            self.stop.child.send_signal(self.stop.signals[-1])
        code = self.stop.child.wait()
        self.stop.child = None
        if code == 0:
            self.seeds = []
        return end_of(code, stopping=bool(self.stop.signals))


def end_of(code: int, *, stopping: bool) -> End:
    """Return what an exit code of `noria cycle` means.

    >>> end_of(0, stopping=False), end_of(-9, stopping=False), end_of(130, stopping=True)
    (<End.DONE: 'done'>, <End.FAILED: 'failed'>, <End.STOPPED: 'stopped'>)
    """
    if stopping:
        return End.STOPPED
    return {0: End.DONE, 2: End.MISUSED}.get(code, End.FAILED)


def busy(lake: Path) -> bool:
    """Whether another process writes to the lake just now."""
    layout = Layout(lake.absolute())
    return layout.meta.exists() and lease.held_by(layout.lease) is not None
