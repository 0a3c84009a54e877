"""The graph of a cycle: which step runs when, and on what. The only module here that knows how tasks run."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from lake import lease, snapshot, staging
from lake.errors import DiskFull, LeaseHeld, LeaseLost
from lake.layout import Layout
from lake.ledger import LedgerRow
from lake.mend import mend
from lake.snapshot import Lake
from pipelines import cluster
from pipelines.cluster import Runner, Task, TaskLost
from pipelines.config import Settings
from pipelines.cycle import allot, commit, contents, fetch, gate, index, merge, open, plan, resolve, sort
from pipelines.cycle.plugged import without_disabled
from pipelines.cycle.turn import Turn
from pipelines.dashboard import read
from pipelines.failure import Failure

STEPS = ("plan", "fetch", "sort", "gate", "seal", "merge", "commit")
LEASE_SECONDS = 45
RENEW_SECONDS = 5
LIVE_SECONDS = 1.0


class Reporter(Protocol):
    """Is told what happens."""

    def plan(self, info: dict[str, object]) -> None: ...
    def step(self, name: str, done: int, total: int) -> None: ...
    def fetch(self, done: int, planned: int, pages_s: float, outcomes: dict[str, int]) -> None: ...
    def message(self, text: str) -> None: ...


@dataclass
class CycleReport:
    """What a cycle did. `cycle` 0: there was nothing to do, and `next_due` says when there will be.

    unfetched: planned URLs that the window's end left on ready. set_aside: those left out on the way, because their host
    could not be talked to or their path pattern brought nothing.
    """

    cycle: int = 0
    planned: int = 0
    requests: int = 0
    pages: int = 0
    duplicates: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)
    new_urls: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    given_up: int = 0
    unfetched: int = 0
    set_aside: int = 0
    next_due: str | None = None
    resumed: bool = False
    stopped: bool = False
    dashboard: str | None = None


def run_cycle(
    lake_path: Path,
    settings: Settings,
    *,
    scheduler: str | None = None,
    reporter: Reporter,
    runner: Runner | None = None,
) -> CycleReport:
    """Run one cycle, or finish the one that was interrupted, and return what it did.

    runner: where tasks run; None = a local cluster, or the one at `scheduler`. Raises Failure where it cannot
    be done: the lake is being written by another, the scheduler does not answer.
    """
    with ExitStack() as stack:
        ours = stack.enter_context(_writer_lease(lake_path))
        for torn in mend(lake_path):
            reporter.message(torn.put_aside)
        lake = snapshot.open(lake_path)
        open.sweep(lake)
        turn = open.unfinished(lake)
        if turn is None and (nothing := open.idle(lake, _now_ms())) is not None:
            return CycleReport(next_due=_words(nothing.next_due))
        if runner is None:
            runner = _start(settings, scheduler)
            stack.callback(runner.close)
        _show(runner, lake_path, reporter)
        if turn is None:
            turn = open.begin(lake, settings, slots=runner.slots, now_ms=_now_ms())
        else:
            turn, gone = without_disabled(turn, settings.plugins)
            without = f", without the plug-in {', '.join(gone)}, which is no longer enabled" if gone else ""
            reporter.message(f"Cycle {turn.cycle} was interrupted; going on with it{without}.")
        wheel = _Wheel(turn, runner, reporter, ours)
        with _stoppable(turn, reporter):
            return wheel.turn_once()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _words(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None


def _show(runner: Runner, lake_path: Path, reporter: Reporter) -> None:
    """Put the live page beside Dask's own, and tell where the cycle can be watched."""
    if runner.dashboard:
        from pipelines.dashboard import serve  # here: a cycle without a scheduler need not wait for Bokeh

        for line in serve.links(runner.dashboard, runner.serve, lake_path):
            reporter.message(line)


def _start(settings: Settings, scheduler: str | None) -> Runner:
    conf = settings.cluster
    return cluster.start(
        scheduler=scheduler or conf.scheduler or None,
        workers=conf.workers,
        memory_bytes=conf.memory_bytes,
        dashboard_port=conf.dashboard_port,
        tries=settings.fetch.tries,
    )


@contextmanager
def _writer_lease(lake_path: Path) -> Iterator[Callable[[], None]]:
    """Hold the lake's lease, renewed by a thread; yields a check that raises LeaseLost when it is gone."""
    try:
        held = lease.Lease.acquire(Layout(lake_path).lease, holder="noria cycle", seconds=LEASE_SECONDS)
    except LeaseHeld as other:
        raise Failure(f"another cycle writes to {lake_path}: {other}") from other
    ended = threading.Event()

    def renew() -> None:
        while not ended.wait(RENEW_SECONDS):
            try:
                held.renew()
            except LeaseLost:
                return
            except (OSError, DiskFull):
                continue  # a full disk, say: who writes more than this file will tell; there is time to try again

    def ours() -> None:
        if not held.alive(_now_ms()):
            raise LeaseLost(f"the lease of {lake_path} was lost; run the cycle again to finish it")

    thread = threading.Thread(target=renew, name="lease", daemon=True)
    thread.start()
    try:
        yield ours
    finally:
        ended.set()
        thread.join()
        held.release()


@contextmanager
def _stoppable(turn: Turn, reporter: Reporter) -> Iterator[None]:
    """Ctrl-C (or SIGTERM) once: stop asking, finish and commit. Twice: stop at once; the next cycle recovers.

    Fetchers on a cluster that is not ours outlive this process: whatever ends it, they are told to stop.
    """
    calls = 0
    turn.staged("stop").unlink(missing_ok=True)  # what an earlier run of this cycle was told is over

    def on_signal(number: int, frame: Any) -> None:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise KeyboardInterrupt
        staging.write_manifest(turn.staged("stop"), {"signal": number}, durable=False)
        reporter.message("Stopping: what is open is finished and committed. Again to stop at once.")

    before = {}
    for name in (signal.SIGINT, signal.SIGTERM):
        try:
            before[name] = signal.signal(name, on_signal)
        except ValueError:  # not the main thread: a notebook's, say; nobody to interrupt
            break
    try:
        yield
    except LeaseLost:
        raise  # the cycle is another's now, who decides what its fetchers do
    except BaseException:
        with suppress(OSError):
            staging.write_manifest(turn.staged("stop"), {"signal": 0}, durable=False)
        raise
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


@dataclass
class _Wheel:
    """One turn, step by step."""

    turn: Turn
    runner: Runner
    reporter: Reporter
    ours: Callable[[], None]
    seconds: dict[str, float] = field(default_factory=dict)
    stopped: bool = False  # this run was told to stop

    def turn_once(self) -> CycleReport:
        """Run the steps that are not done yet, and commit."""
        with self._timed("open"):
            open.tell_ledger(self.turn)
        with self._timed("plan"):
            planned = self._plan()
        self.reporter.plan(_plan_info(planned))
        count = planned["partitions"]
        with self._timed("fetch"):
            self._fetch(count, planned["planned"])
        with self._timed("sort"):
            self._each("sort", sort.sort_partition, count)
        with self._timed("gate"):
            self._groups("gate", gate.gate, count)
        with self._timed("seal"):
            self._each("seal", index.seal, count)
            self._groups("contents", contents.contents, count)
        with self._timed("merge"):
            self._groups("merge", merge.merge, count)
        with self._timed("commit"):
            row = commit.commit_cycle(self.turn, count, seconds=self.seconds, still_ours=self.ours)
            self.stopped = self.turn.staged("stop").exists()
            commit.tidy(self.turn)
        return self._report(row)

    @contextmanager
    def _timed(self, step: str) -> Iterator[None]:
        self.ours()
        began = time.monotonic()
        yield
        self.seconds[step] = time.monotonic() - began
        self.reporter.step(step, 1, 1)

    def _plan(self) -> dict[str, Any]:
        turn, groups = self.turn, self.turn.groups
        self._run("sift", plan.sift, [Task(number, (turn, number)) for number in range(len(turn.inbox))])
        plan.intake(turn)
        for name, work in (("demand", plan.demand), ("resolve", resolve.resolve)):
            self._run(name, work, [Task(group, (turn, group)) for group in range(groups)])
        told = allot.allot(turn)
        self._run("select", plan.select, [Task(group, (turn, group)) for group in range(groups)])
        return told

    def _each(self, step: str, work: Callable[..., dict[str, Any]], count: int) -> None:
        self._run(step, work, [Task(number, (self.turn, number)) for number in range(count)])

    def _groups(self, step: str, work: Callable[..., dict[str, Any]], count: int) -> None:
        tasks = [Task(group, (self.turn, group, count)) for group in range(self.turn.groups)]
        self._run(step, work, tasks)

    def _run(self, step: str, work: Callable[..., dict[str, Any]], tasks: list[Task]) -> None:
        """Run a step's tasks that have no manifest yet."""
        open_ = [task for task in tasks if self.turn.done(step, task.number) is None]
        done = len(tasks) - len(open_)
        self.reporter.step(step, done, len(tasks))
        for result in self.runner.run(step, self.turn.cycle, work, open_):
            if isinstance(result, TaskLost):
                raise Failure(
                    f"step {step} of cycle {self.turn.cycle}, task {result.number}: its worker died too often "
                    f"({result}); give workers more memory ([cluster] memory_bytes) and run the cycle again"
                )
            done += 1
            self.reporter.step(step, done, len(tasks))
            self.ours()

    # --- fetch ---

    def _fetch(self, count: int, planned: int) -> None:
        tasks = [
            Task(number, (fetch.FetchTask(self.turn, number, f"cycle {self.turn.cycle}"),))
            for number in range(count)
            if self.turn.done("fetch", number) is None
        ]
        watching = _Watch(self.turn, self.reporter, planned)
        with watching.running():
            for result in self.runner.run("fetch", self.turn.cycle, fetch_task, tasks):
                if isinstance(result, TaskLost):
                    self._give_up(result)

    def _give_up(self, lost: TaskLost) -> None:
        """Close a partition whose worker died too often with what it has flushed; its other URLs go back to ready."""
        manifest = fetch.salvage(fetch.FetchTask(self.turn, lost.number))
        self.reporter.message(
            f"Partition {lost.number} was given up: its worker died {self.turn.settings.fetch.tries} times. "
            f"{manifest['left']:,} URLs go back to ready."
        )

    # --- the end ---

    def _report(self, row: LedgerRow) -> CycleReport:
        counts = row.counts
        return CycleReport(
            cycle=row.cycle,
            planned=counts["planned"],
            requests=counts["requests"],
            pages=counts["pages"],
            duplicates=counts["duplicates"],
            outcomes=dict(row.outcomes),
            new_urls=counts["new_urls"],
            seconds={name: round(value, 3) for name, value in self.seconds.items()},
            given_up=counts["given_up"],
            unfetched=counts["unfetched"],
            set_aside=counts["planned"] - counts["finished"] - counts["unfetched"],
            resumed=self.turn.resumed,
            stopped=self.stopped,
            dashboard=self.runner.dashboard,
            next_due=_next_due(snapshot.open(self.turn.root)),
        )


def fetch_task(task: fetch.FetchTask) -> dict[str, Any]:
    """Fetch a partition on a Dask worker (or elsewhere): a worker that was removed stops by itself."""
    from distributed import Status, get_worker

    try:
        worker = get_worker()
    except ValueError:  # no worker: the task runs in this process
        return fetch.fetch_partition(task)
    alive = {Status.running, Status.paused}
    return fetch.fetch_partition(task, lambda: worker.status in alive)


class _Watch:
    """Tells the reporter how the fetch goes, from what the running fetchers say of themselves."""

    def __init__(self, turn: Turn, reporter: Reporter, planned: int) -> None:
        self._turn, self._reporter, self._planned = turn, reporter, planned
        self._ended = threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(target=self._watch, name="watch", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()
            self._tell(0, 0.0)

    def _watch(self) -> None:
        pages, at = 0, time.monotonic()
        while not self._ended.wait(LIVE_SECONDS):
            pages, at = self._tell(pages, at)

    def _tell(self, pages: int, at: float) -> tuple[int, float]:
        told = read.lives(self._turn.staging)
        outcomes: dict[str, int] = {}
        for live in told:
            for name, count in live["outcomes"].items():
                outcomes[name] = outcomes.get(name, 0) + count
        now_pages, now = sum(live.get("pages", 0) for live in told), time.monotonic()
        rate = (now_pages - pages) / (now - at) if at and now > at else 0.0
        done = sum(live.get("finished", 0) for live in told)
        self._reporter.fetch(done, self._planned, max(rate, 0.0), outcomes)
        return now_pages, now


def _plan_info(told: dict[str, Any]) -> dict[str, object]:
    info: dict[str, object] = {
        "URLs": told["planned"],
        "hosts": told["hosts"],
        "due": told["due"],
        "partitions": told["partitions"],
        "about": f"{told['seconds']:,} s",
    }
    if told["slowest_host"]:
        reason = told["slowest_delay_reason"] or "floor"
        info["slowest host"] = f"{told['slowest_host']} ({told['slowest_delay_ms'] / 1_000:g} s, {reason})"
    if told["hosts_failing"]:
        info["hosts without an address"] = told["hosts_failing"]
    return info


def _next_due(lake: Lake) -> str | None:
    """Return when the next URL may be asked; "now" while one may be; None = there is none."""
    nothing = open.idle(lake, _now_ms())
    return _words(nothing.next_due) if nothing else "now"
