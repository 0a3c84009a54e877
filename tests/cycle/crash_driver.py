"""A program that runs a cycle and kills itself at a chosen moment: the tests' hand, no part of Noria.

Each run is a process of its own, forked from one that has imported everything. Which functions mark a moment is in
`MOMENTS` and `_watch_system`; they are wrapped here, in the test's process only.
"""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import re
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import psutil

import lake.commit
from lake import inbox, staging, upkeep
from lake.errors import LakeError
from pipelines import cluster
from pipelines.cluster import InlineRunner, Runner
from pipelines.config import Settings
from pipelines.cycle import fetch, graph, parts
from pipelines.cycle import open as opening
from pipelines.cycle.fetch import FetchTask
from pipelines.cycle.journal import Journal
from pipelines.cycle.keeper import Keeper
from pipelines.cycle.turn import Turn
from pipelines.failure import Failure
from pipelines.net.warc import Spool
from tests.cycle.wheels import Quiet

KILLED = -signal.SIGKILL
_OWN = re.compile(
    r"[.-][0-9a-f-]+\.tmp$|(?<=\.e)\d{8}|-[0-9a-f]{12}(?=\.parquet)|(?<=gone-)\S+|\.(\d+-)?[0-9a-f]+(?=\.open$)"
    r"|(?<=/a)\d{3}(?=/|$)|(?<=-a)\d+(?=-)"
)
"""What differs from run to run in a file's name: a process, an epoch, a random number, an attempt."""


@dataclass(frozen=True)
class Death:
    """When a run kills itself: at the first moment whose name begins with `prefix` and that `ledger` does not hold.

    A moment is named `before …` or `after …`. ledger: a file of the moments at which earlier runs died, so that a chain
    of runs dies at each of them once; None = at the first. skip: as many moments that fit are lived through. system:
    renames, links and fsyncs are moments too.
    """

    prefix: tuple[str, ...]
    ledger: Path | None = None
    skip: int = 0
    system: bool = False


@dataclass(frozen=True)
class Halt:
    """Where a run waits, once, before moments go on. here, go: FIFOs, through which test and run meet there."""

    prefix: str
    here: Path
    go: Path

    @classmethod
    def at(cls, prefix: str, folder: Path) -> Halt:
        """Return a Halt with FIFOs made for it."""
        halt = cls(prefix, folder / "here", folder / "go")
        os.mkfifo(halt.here)
        os.mkfifo(halt.go)
        return halt

    def await_run(self) -> None:
        """Wait, on the test's side, until the run has come there."""
        self.here.open("rb").close()

    def let_go(self) -> None:
        """Let the run go on."""
        self.go.open("wb").close()


@dataclass(frozen=True)
class Job:
    """One run. slots: threads of the runner. partition: fetch this one only, as a worker does, and run no cycle.

    workers: processes of a local Dask cluster that the cycle runs on; 0 = threads of the run's own process.
    scheduler: of a running cluster.
    deadly: a worker that fetches partition 0 kills itself once it has sent some requests.
    """

    path: Path
    settings_json: str
    slots: int = 1
    death: Death | None = None
    halt: Halt | None = None
    lease_seconds: int = graph.LEASE_SECONDS
    partition: int | None = None
    workers: int = 0
    scheduler: str | None = None
    deadly: bool = False


@dataclass(frozen=True)
class Ended:
    """How a run ended. word: done, refused (a Failure), broken (a LakeError or OSError), killed, crashed."""

    word: str
    said: str = ""
    report: dict[str, Any] | None = None
    messages: tuple[str, ...] = ()


# --- the test's side ------------------------------------------------------------------------------------


class Run:
    """A run under way."""

    def __init__(self, job: Job) -> None:
        self._ours, theirs = _CONTEXT.Pipe(duplex=False)
        self.process: BaseProcess = _CONTEXT.Process(target=_main, args=(job, theirs), daemon=not job.workers)
        self.process.start()
        theirs.close()

    @property
    def pid(self) -> int:
        """The process."""
        assert self.process.pid is not None
        return self.process.pid

    def workers(self) -> list[psutil.Process]:
        """Return the worker processes of its Dask cluster."""
        try:
            children = psutil.Process(self.pid).children()
        except psutil.NoSuchProcess:
            return []
        return [child for child in children if "spawn_main" in " ".join(_words_of(child))]

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)

    def said_something(self, timeout: float = 0) -> bool:
        """Return whether it has told its end, or died."""
        return self._ours.poll(timeout)

    def ended(self, timeout: float = 60) -> Ended:
        """Wait for its end and return it."""
        said: Ended | None = None
        if self._ours.poll(timeout):
            try:
                said = self._ours.recv()
            except EOFError:
                pass
        self.process.join(timeout)
        assert self.process.exitcode is not None, f"the run {self.pid} does not end"
        if said is None:
            said = Ended(
                "killed" if self.process.exitcode == KILLED else "crashed", str(self.process.exitcode)
            )
        self._ours.close()
        return said


def _words_of(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.NoSuchProcess:
        return []


_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.cycle.crash_driver", "distributed", "pytest"])


def run(job: Job) -> Ended:
    """Run a job to its end."""
    return Run(job).ended()


def run_chain(job: Job, death: Death, *, cycles: int, after_kill: Callable[[], None] = lambda: None) -> int:
    """Turn cycles until the lake has so many, each run dying at a moment where none died before; return the kills.

    What the last one left behind is swept, as the next run would.
    """
    kills = 0
    while lake.open(job.path).cycle < cycles:
        ended = run(replace(job, death=death))
        assert ended.word in ("killed", "done"), ended
        if ended.word == "killed":
            kills += 1
            after_kill()
    opening.sweep(lake.open(job.path))
    return kills


# --- the run's side -------------------------------------------------------------------------------------


def _main(job: Job, answer: Connection) -> None:
    os.setpgid(0, 0)
    marks = _Marks(job)
    _watch(marks)
    if job.death is not None and job.death.system:
        _watch_system(marks)
    graph.LEASE_SECONDS = job.lease_seconds
    reporter = Quiet()
    try:
        report = _work(job, reporter)
    except Failure as failure:
        ended = Ended("refused", str(failure))
    except (LakeError, OSError) as error:
        ended = Ended("broken", f"{type(error).__name__}: {error}")
    else:
        ended = Ended("done", report=report)
    answer.send(replace(ended, messages=tuple(reporter.messages)))
    answer.close()


def _work(job: Job, reporter: Quiet) -> dict[str, Any]:
    settings = Settings.from_json(job.settings_json)
    if job.partition is not None:
        lake_ = lake.open(job.path)
        plain = staging.read_manifest(staging.folder(job.path, lake_.cycle + 1) / "open.json")
        assert plain is not None
        turn = Turn.from_json(plain, root=str(job.path), resumed=True)
        return fetch.fetch_partition(fetch.FetchTask(turn, job.partition, "a worker of the test"))
    runner: Runner = InlineRunner(job.slots)
    if job.workers or job.scheduler:
        runner = cluster.start(
            scheduler=job.scheduler,
            workers=job.workers,
            memory_bytes=2**31,
            dashboard_port=0,
            tries=settings.fetch.tries,
        )
    if job.deadly:
        fetch.FetchTask = DeadlyTask  # type: ignore[misc]
    try:
        return asdict(graph.run_cycle(job.path, settings, reporter=reporter, runner=runner))
    finally:
        runner.close()


@dataclass(frozen=True)
class DeadlyTask(FetchTask):
    """A fetch task that is the death of its worker."""

    @property
    def base(self) -> Path:
        """The folder of attempts; who looks here in a worker, to begin one, does not live long."""
        if self.partition == 0 and _in_worker():
            threading.Thread(target=_die_of, args=(super().base,), daemon=True).start()
        return super().base


def _in_worker() -> bool:
    from distributed import get_worker

    try:
        get_worker()
    except ValueError:
        return False
    return True


def _die_of(base: Path) -> None:
    """Die when the newest attempt has sent three requests, and the first of all has written a part."""
    while True:
        newest = max(base.glob("a*/journal"), default=None)
        sent = newest is not None and newest.stat().st_size >= 3 * 25
        if sent and (newest != base / "a001" / "journal" or any(base.glob("a001/part-*.json"))):
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.01)


class _Marks:
    """Is told each moment, and acts on those that the job names."""

    def __init__(self, job: Job) -> None:
        self._death, self._halt, self._root = job.death, job.halt, job.path
        self._lived = 0
        self._lock = threading.Lock()

    def reached(self, moment: str) -> None:
        with self._lock:
            if self._halt is not None and moment.startswith(self._halt.prefix):
                halt, self._halt = self._halt, None
                _wait(halt)
            if self._death is not None and moment.startswith(self._death.prefix):
                self._die(self._death, moment)

    def _die(self, death: Death, moment: str) -> None:
        if self._lived < death.skip:
            self._lived += 1
            return
        if death.ledger is None or _first_time(death.ledger, moment):
            os.kill(os.getpid(), signal.SIGKILL)

    def inside(self, path: Any) -> str:
        """Return a path below the lake as text, without what differs from run to run."""
        text = os.fsdecode(path).removeprefix(str(self._root)).lstrip("/")
        return _OWN.sub("", text)


def _first_time(ledger: Path, moment: str) -> bool:
    with ledger.open("a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        if moment in file.read().splitlines():
            return False
        file.write(moment + "\n")
    return True


def _wait(halt: Halt) -> None:
    halt.here.open("wb").close()
    halt.go.open("rb").close()


def _watch(marks: _Marks) -> None:
    """Mark the boundaries of steps, staged files, parts and commits."""
    wrap = _wrapper(marks)
    wrap(Turn, "finish", lambda self, step, number, manifest: f"finish {step} {number}")
    wrap(staging, "claim_manifest", lambda path, content: f"claim {marks.inside(path)}")
    wrap(staging, "write_table", lambda path, table, **_: f"stage {marks.inside(path)}")
    wrap(parts.Attempt, "begin", lambda base: f"attempt {base.name}", static=True)
    wrap(Journal, "intend", lambda self, *_: "send")
    wrap(Journal, "hold", lambda self, *_: "hold")
    wrap(Keeper, "keep", lambda self, *_, **__: "answer")
    wrap(parts.Attempt, "flush", lambda self, *_: "flush")
    wrap(Spool, "flush", lambda self: "spool flush")
    wrap(lake.commit, "commit_table", lambda root, table, *, cycle, **_: f"commit {table} of {cycle}")
    wrap(lake.commit, "append_ledger", lambda root, row: f"ledger {row.state} of {row.cycle}")
    wrap(inbox, "drain", lambda root, names: "drain")
    wrap(upkeep, "sweep_staging", lambda root: "sweep")


def _watch_system(marks: _Marks) -> None:
    """Mark every rename, link and fsync below the lake."""
    wrap = _wrapper(marks)
    for name in ("rename", "replace", "link"):
        wrap(os, name, lambda source, target, **_: f"name {marks.inside(target)}")
    wrap(os, "fsync", lambda handle: f"fsync {marks.inside(Path(f'/proc/self/fd/{handle}').readlink())}")


def _wrapper(marks: _Marks) -> Callable[..., None]:
    def wrap(owner: Any, name: str, label: Callable[..., str], *, static: bool = False) -> None:
        original = getattr(owner, name)

        def wrapped(*args: Any, **kwargs: Any) -> Any:
            what = label(*args, **kwargs)
            marks.reached(f"before {what}")
            result = original(*args, **kwargs)
            marks.reached(f"after {what}")
            return result

        setattr(owner, name, staticmethod(wrapped) if static else wrapped)

    return wrap
