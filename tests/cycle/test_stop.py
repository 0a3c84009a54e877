"""Ctrl-C once and twice, SIGTERM, and a second cycle on a lake that is being written: as a user meets them."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

import lake
from tests.cycle import compare
from tests.cycle.crash_driver import run
from tests.cycle.ground import Ground
from tests.cycle.test_crash import HELD
from tests.cycle.test_lease import await_
from tests.cycle.wheels import faults

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.timeout(300)


class Command:
    """A `noria cycle` in a process group of its own, as a shell starts it."""

    def __init__(self, still: Ground, path: Path, folder: Path) -> None:
        self.still, self.words = still, still.words(path)
        environ = {name: value for name, value in os.environ.items() if name != "MAKELEVEL"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pipelines.app.cli", "cycle", *self.words],
            cwd=folder, env={**environ, "PYTHONPATH": str(ROOT)}, start_new_session=True, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def family(self) -> list[psutil.Process]:
        """Return the command and the processes that it started."""
        own = psutil.Process(self.process.pid)
        return [own, *own.children(recursive=True)]

    def press_ctrl_c(self) -> None:
        """Send what a terminal sends: SIGINT to every process of the group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def await_line(self, begin: str) -> None:
        """Read its output up to a line."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(begin):
                return
        raise AssertionError(f"it never said {begin!r}: {self.process.communicate()}")

    def ended(self) -> tuple[int, str, str]:
        """Wait for its end; return exit code, output, and what went to stderr."""
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out, err


@contextmanager
def started(still: Ground, path: Path, folder: Path) -> Iterator[tuple[Command, list[psutil.Process]]]:
    """Start a cycle, wait until it is in the middle of its fetch, and leave no process of it behind."""
    wanted = still.mark() + 12
    command = Command(still, path, folder)
    try:
        await_(lambda: still.mark() >= wanted or command.process.poll() is not None, "12 requests")
        assert command.process.poll() is None, command.ended()
        yield command, command.family()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(command.process.pid, signal.SIGKILL)


def assert_sound(still: Ground, path: Path, mark: int) -> None:
    """Hold a lake that was stopped to what holds for any."""
    assert faults(path) == [] and list(compare.warc_faults(path)) == []
    assert still.impolite(mark) == []


def test_ctrl_c_once_commits_and_says_how_to_go_on_and_a_second_cycle_is_told_who_writes(
    still: Ground, tmp_path: Path
) -> None:
    path, mark = still.copy(1), still.mark()
    with started(still, path, tmp_path) as (command, family):
        code, out, err = Command(still, path, tmp_path).ended()
        assert (code, out) == (1, "")
        assert re.search(HELD, err) and f"process {command.process.pid})" in err and err.count("\n") == 1
        command.press_ctrl_c()
        code, out, err = command.ended()
    assert (code, err) == (130, "")
    assert "Stopping: what is open is finished and committed. Again to stop at once." in out
    (line,) = [
        line for line in out.splitlines() if line.startswith("Stopped and committed; nothing is lost.")
    ]
    assert shlex.split(line.partition("Go on with: ")[2])[1:3] == ["cycle", "--lake"]
    assert psutil.wait_procs(family, timeout=10)[1] == []
    last = lake.open(path).ledger()[-1]
    assert (last.cycle, last.state, last.counts["stopped"] > 0) == (2, "committed", True)
    assert last.counts["unfetched"] > 0
    assert_sound(still, path, mark)


def test_ctrl_c_twice_stops_at_once_and_the_next_cycle_finishes_what_was_open(
    still: Ground, tmp_path: Path
) -> None:
    path, mark = still.copy(1), still.mark()
    with started(still, path, tmp_path) as (command, family):
        command.press_ctrl_c()
        command.await_line("Stopping:")
        command.press_ctrl_c()
        code, _, err = command.ended()
    assert code == 130
    assert err.startswith("Stopped at once; what was committed is safe. Finish this cycle with: ")
    assert err.count("\n") == 1, err
    assert psutil.wait_procs(family, timeout=10)[1] == []
    assert lake.open(path).cycle == 1
    ended = run(still.job(path))
    assert ended.word == "done" and ended.report is not None
    assert (ended.report["cycle"], ended.report["resumed"], ended.report["stopped"]) == (2, True, False)
    assert_sound(still, path, mark)


@pytest.mark.slow
def test_sigterm_is_one_ctrl_c_also_for_workers_that_came_later(still: Ground, tmp_path: Path) -> None:
    path, mark = still.copy(1), still.mark()
    with started(still, path, tmp_path) as (command, family):
        (victim, *_) = [child for child in family[1:] if "spawn_main" in " ".join(child.cmdline())]
        victim.kill()
        await_(lambda: len({*command.family()} - {*family}) > 0, "a new worker")
        command.press_ctrl_c()
        code, out, err = command.ended()
    assert (code, "Stopped and committed" in out) == (130, True), err
    with started(still, path, tmp_path) as (command, _):
        command.process.terminate()
        code, out, err = command.ended()
    assert (code, "Stopped and committed" in out, err) == (130, True, "")
    assert_sound(still, path, mark)
