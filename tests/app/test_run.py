"""`noria run`: never two cycles at once, failures are survived, a stop is clean. Time is pretended: nothing waits."""

from __future__ import annotations

import configparser
import fcntl
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lake
from lake import lease
from lake.layout import Layout
from pipelines.app.rounds import End, Pace, Rounds, every_ms, next_start_ms
from pipelines.app.run_cmd import Child, Stop, busy
from pipelines.failure import Misuse
from pipelines.net.clock import PretendClock

HOUR = 3_600_000


class World:
    """A pretended machine: cycles end as told and take as long as told."""

    def __init__(self, *turns: tuple[End, int]) -> None:
        self.clock, self.turns = PretendClock(), list(turns)
        self.began: list[int] = []
        self.said: list[str] = []
        self.warned: list[str] = []

    def turn(self) -> End:
        end, took = self.turns.pop(0)
        self.began.append(self.clock.monotonic_ms())
        self.clock.advance(took)
        return end

    def run(
        self, pace: Pace, cycles: int | None = None, *, stopping: Callable[[], bool] | None = None
    ) -> End:
        out = stopping or (lambda: not self.turns)
        return Rounds(
            pace, self.turn, self.clock.advance, out, self.said.append, self.warned.append, self.clock
        ).run(cycles)


def test_cycles_begin_an_hour_apart_and_one_that_took_longer_is_followed_at_once_by_one() -> None:
    world = World((End.DONE, HOUR // 2), (End.DONE, 3 * HOUR), (End.DONE, 1), (End.DONE, 1))
    assert world.run(Pace(HOUR), 4) is End.DONE
    assert world.began == [0, HOUR, 4 * HOUR, 5 * HOUR]


def test_a_failed_cycle_is_tried_again_later_and_later_and_a_good_one_forgets_it() -> None:
    world = World(*[(End.FAILED, 1_000)] * 3, (End.DONE, 1_000), (End.FAILED, 1_000), (End.DONE, 0))
    assert world.run(Pace(HOUR), 2) is End.DONE
    gaps = [b - a for a, b in zip(world.began, world.began[1:], strict=False)]
    assert gaps == [61_000, 121_000, 241_000, HOUR, 61_000]
    assert "the cycle failed; the next cycle begins in 60 s" in world.warned


def test_a_busy_lake_is_left_alone_until_the_next_time() -> None:
    world = World((End.BUSY, 0), (End.BUSY, 0), (End.DONE, 5))
    assert world.run(Pace(HOUR), 1) is End.DONE
    assert world.began == [0, HOUR, 2 * HOUR]
    assert world.warned[0].startswith("another process writes to the lake")


def test_a_mistake_ends_it_at_the_first_try_and_is_a_failure_later() -> None:
    assert World((End.MISUSED, 0), (End.DONE, 0)).run(Pace(HOUR)) is End.MISUSED
    later = World((End.DONE, 0), (End.MISUSED, 0), (End.DONE, 0))
    assert later.run(Pace(HOUR), 2) is End.DONE


def test_a_stop_while_waiting_begins_no_other_cycle() -> None:
    world = World((End.DONE, 10), (End.DONE, 10))
    assert world.run(Pace(HOUR), stopping=lambda: len(world.began) == 1) is End.STOPPED
    assert len(world.began) == 1


@given(st.integers(1, 10**9), st.integers(0, 10**9), st.integers(0, 10**9), st.integers(0, 10_000))
def test_the_next_cycle_never_begins_before_the_last_has_ended(
    every: int, began: int, took: int, failures: int
) -> None:
    pace = Pace(every)
    begins = next_start_ms(pace, began_ms=began, ended_ms=began + took, failures=failures)
    assert began + took <= begins <= began + took + max(every, pace.retry_most_ms)


@pytest.mark.parametrize("text", ["", "1", "h", "1x", "0s", "1h x", "-1h"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(Misuse, match="a duration is wanted"):
        every_ms(text)


def test_a_lake_that_is_written_to_is_busy_and_no_process_is_started(tmp_path: Path) -> None:
    root = lake.create(tmp_path / "lake", buckets=8).root
    with Stop.listening() as stop:
        child = Child([sys.executable, "-c", f"open({str(tmp_path / 'ran')!r}, 'w')"], [], root, stop)
        with lease.Lease.acquire(Layout(root).lease, holder="noria cycle", seconds=45):
            assert busy(root) and child.turn() is End.BUSY
            assert not (tmp_path / "ran").exists()
        assert child.turn() is End.DONE
        assert (tmp_path / "ran").exists()


def test_seeds_are_given_until_a_cycle_has_ended_well(tmp_path: Path) -> None:
    script = "import sys; print(sys.argv[1:], file=open(sys.argv[1], 'a')); sys.exit(sys.argv[-1] == 'b' and len(open(sys.argv[1]).readlines()) < 2)"
    with Stop.listening() as stop:
        child = Child([sys.executable, "-c", script, str(tmp_path / "told")], ["b"], tmp_path / "lake", stop)
        assert [child.turn() for _ in range(3)] == [End.FAILED, End.DONE, End.DONE]
    assert ["'b'" in line for line in (tmp_path / "told").read_text().splitlines()] == [True, True, False]


def test_a_signal_is_passed_on_to_the_cycle_and_ends_the_wait(tmp_path: Path) -> None:
    script = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(130)); print('up', flush=True); signal.pause()"
    with Stop.listening() as stop:
        child = Child([sys.executable, "-c", script], [], tmp_path / "lake", stop)

        def later() -> None:
            while stop.child is None:
                pass
            while not int(_caught(stop.child.pid), 16) & 1 << signal.SIGTERM - 1:
                pass
            os.kill(os.getpid(), signal.SIGTERM)

        thread = threading.Thread(target=later)
        thread.start()
        assert child.turn() is End.STOPPED
        thread.join()
        stop.wait(60_000)  # a signal came: no wait
        assert stop.signals == [signal.SIGTERM]


def _caught(pid: int) -> str:
    """The signals that a process handles, as proc(5) tells."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line.split()[1] for line in lines if line.startswith("SigCgt"))


CONF = Path(__file__).resolve().parents[2] / "conf"


@pytest.mark.parametrize("name", ["noria.service", "noria.timer"])
def test_the_units_are_such_that_cycles_never_overlap(name: str) -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(CONF / name)
    if name == "noria.timer":
        assert dict(unit["Timer"])["OnCalendar"] == "hourly"
        return
    service = dict(unit["Service"])
    assert (service["Type"], service["KillMode"], service["SuccessExitStatus"]) == ("oneshot", "mixed", "130")
    assert "noria cycle --lake" in service["ExecStart"]


def test_the_cron_line_does_nothing_while_a_cycle_of_its_own_still_runs(tmp_path: Path) -> None:
    (line,) = [one for one in (CONF / "noria.cron").read_text().splitlines() if not one.startswith("#")]
    command = line.split(maxsplit=6)[6].replace("/srv/noria", str(tmp_path))
    for folder in ("data", "logs", ".venv/bin"):
        (tmp_path / folder).mkdir(parents=True)
    program = tmp_path / ".venv/bin/noria"
    program.write_text('#!/bin/sh\necho "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    with (tmp_path / "data/noria.cron.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert subprocess.run(command, shell=True, check=False).returncode == 0
        assert (tmp_path / "logs/cron.log").read_text() == ""
    assert subprocess.run(command, shell=True, check=False).returncode == 0
    assert (tmp_path / "logs/cron.log").read_text() == "cycle --lake data/lake --conf my.toml\n"


def test_a_cycle_beside_another_is_refused_and_leaves_the_lake_as_it_is(tmp_path: Path) -> None:
    root = lake.create(tmp_path / "lake", buckets=8).root
    before = sorted(str(path) for path in root.rglob("*"))
    with lease.Lease.acquire(Layout(root).lease, holder="noria cycle", seconds=45) as held:
        words = [
            "cycle",
            "--lake",
            str(root),
            "--set",
            "identity.contact=you@example.org",
            "--seeds",
            "http://a.example/",
        ]
        done = subprocess.run(
            [sys.executable, "-m", "pipelines.app.cli", *words], cwd=Path(__file__).resolve().parents[2],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert held.check(lease.system_clock())
    assert (done.returncode, done.stdout) == (1, "")
    assert "another cycle writes to" in done.stderr and done.stderr.count("\n") == 1
    left = sorted(str(path) for path in root.rglob("*") if "leases" not in str(path))
    assert left == [path for path in before if "leases" not in path]
