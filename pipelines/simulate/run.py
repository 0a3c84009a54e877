"""A simulated month: cycles turned on a real lake, all but the network real, and what they add up to."""

from __future__ import annotations

import multiprocessing
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

from lake import inbox, snapshot, staging
from pipelines.cluster import Task, TaskLost, Work, interrupts_ignored
from pipelines.config import Settings
from pipelines.cycle import graph, open
from pipelines.cycle.frontier import column
from pipelines.failure import Failure
from pipelines.simulate.fetching import SimulatedTask, fetch_simulated
from pipelines.simulate.judging import Judge, Waits
from pipelines.simulate.world import World

START_MS = 1_800_000_000_000
"""2027-01-15 08:00 UTC: a month that starts here crosses the end of a calendar month."""
REST_MS = 60_000
"""Pretended time between the window's end and the next cycle."""


class ProcessRunner:
    """Runs tasks in processes of this machine, the same ones for all steps."""

    dashboard: str | None = None

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.cpu_seconds = 0.0  # of all tasks so far
        self._pool = ProcessPoolExecutor(slots, mp_context=multiprocessing.get_context("spawn"))

    def run(
        self, step: str, cycle: int, work: Work, tasks: Sequence[Task]
    ) -> Iterator[dict[str, Any] | TaskLost]:
        """Run the tasks, as many at a time as there are slots."""
        with interrupts_ignored():  # the first tasks start the processes
            given = [self._pool.submit(_measured, work, task.arguments) for task in tasks]
        for future in as_completed(given):
            result, seconds = future.result()
            self.cpu_seconds += seconds
            yield result

    def serve(self, install: Callable[..., str], *arguments: Any) -> str:
        """There is no scheduler."""
        raise Failure("there is no scheduler to serve a page")

    def close(self) -> None:
        """End the processes, each after the task that it is at."""
        self._pool.shutdown(cancel_futures=True)


def _measured(work: Work, arguments: tuple[Any, ...]) -> tuple[dict[str, Any], float]:
    """Run a task; return its result and the CPU seconds that it took."""
    began = time.process_time()
    return work(*arguments), time.process_time() - began


class Silent:
    """A reporter that tells nobody."""

    def plan(self, info: dict[str, object]) -> None:
        """Say nothing."""

    def step(self, name: str, done: int, total: int) -> None:
        """Say nothing."""

    def fetch(self, done: int, planned: int, pages_s: float, outcomes: dict[str, int]) -> None:
        """Say nothing."""

    def message(self, text: str) -> None:
        """Say nothing."""


@dataclass
class Simulation:
    """A lake, a world, and a pretend clock that moves from cycle to cycle."""

    root: Path
    settings: Settings
    world: World
    runner: ProcessRunner
    judge: Judge
    now_ms: int = START_MS
    served: Waits = field(default_factory=Waits)
    cycles: list[dict[str, Any]] = field(default_factory=list)

    def turn(self) -> dict[str, Any]:
        """Turn one cycle and return its figures."""
        lake = snapshot.open(self.root)
        turn = open.begin(lake, self.settings, slots=self.runner.slots, now_ms=self.now_ms)
        wheel = _Wheel(turn, self.runner, Silent(), lambda: None, simulation=self)
        report = wheel.turn_once()
        self.now_ms += self.settings.window.seconds * 1_000 + REST_MS
        told = snapshot.open(self.root).ledger()[-1].counts
        figures = {
            "cycle": report.cycle, "planned": report.planned, "requests": report.requests,
            "pages": report.pages, "new_urls": report.new_urls, "known": told["seen"],
            "ready": told["ready"], "backlog": told["backlog"], "later": told["later"],
            "retired": told["retired"], "outcomes": report.outcomes, "seconds": report.seconds, **wheel.figures,
        }  # fmt: skip
        self.cycles.append(figures)
        return figures

    def waiting(self) -> Waits:
        """Return how long the URLs that still wait have waited."""
        waits, lake = Waits(), snapshot.open(self.root)
        for shelf in ("frontier_ready", "frontier_backlog"):
            rows = lake.read(shelf, columns=["band", "added_at", "due_at"])
            since = np.maximum(column(rows, "added_at"), column(rows, "due_at"))
            waits.add(column(rows, "band"), self.now_ms - since)
        return waits


@dataclass
class _Wheel(graph._Wheel):
    """A turn whose fetch is simulated."""

    simulation: Simulation = field(kw_only=True)
    figures: dict[str, Any] = field(default_factory=dict)

    @contextmanager
    def _timed(self, step: str) -> Iterator[None]:
        began = time.process_time() + self.simulation.runner.cpu_seconds
        with super()._timed(step):
            yield
        spent = time.process_time() + self.simulation.runner.cpu_seconds - began
        self.figures.setdefault("cpu_seconds", {})[step] = round(spent, 3)

    def _fetch(self, count: int, planned: int) -> None:
        log = self.simulation.root.parent / "log"
        shutil.rmtree(log, ignore_errors=True)
        log.mkdir()
        tasks = [
            Task(
                number, (SimulatedTask(self.turn, number, "noria simulate", self.simulation.world, str(log)),)
            )
            for number in range(count)
        ]
        told = [
            result
            for result in self.runner.run("fetch", self.turn.cycle, fetch_simulated, tasks)
            if not isinstance(result, TaskLost)
        ]
        self.simulation.judge.hear(sorted(log.glob("p*.npy")))
        self.figures["unfetched"] = planned - sum(manifest.get("finished", 0) for manifest in told)
        self.figures["window_ran_out"] = sum(manifest["left"] for manifest in told)
        self._time_waits(count)

    def _time_waits(self, count: int) -> None:
        asked = set()
        for number in range(count):
            base = self.turn.staged("fetch", f"p{number:04d}")
            for path in base.glob("a*/part-*.captures.arrow"):
                rows = staging.read_table(path, columns=["kind", "url_key"])
                asked.update(rows.filter(pc.equal(rows["kind"], "page"))["url_key"].to_pylist())
        keys = np.sort(np.fromiter(asked, dtype=np.int64, count=len(asked)))
        for group in range(self.turn.groups):
            rows = staging.read_table(self.turn.staged("plan", f"urls-{group:04d}.arrow"))
            mine = np.isin(column(rows, "url_key"), keys)
            since = np.maximum(column(rows, "added_at"), column(rows, "due_at"))
            self.simulation.served.add(column(rows, "band")[mine], (self.turn.opened_ms - since)[mine])

    def _groups(self, step: str, work: Callable[..., dict[str, Any]], count: int) -> None:
        super()._groups(step, work, count)
        if step == "merge":
            told = [self.turn.done("merge", group) or {"rows": {}} for group in range(self.turn.groups)]
            written = {
                name: sum(sum(manifest["rows"].get(name, {}).values()) for manifest in told)
                for name in ("ready", "backlog", "later", "retired")
            }
            written["backlog"] -= sum(manifest.get("kept", 0) for manifest in told)  # files that stay
            self.figures["rows_written"] = sum(written.values())
            self.figures["written"] = written


def prepare(root: Path, settings: Settings, world: World, *, seeds: int) -> None:
    """Make a lake whose inbox holds the front pages of the first `seeds` hosts."""
    snapshot.create(root, buckets=settings.lake.buckets, lake_id=f"simulated-{world.seed}")
    rows = [{"url": world.url(host, 0), "source": "seed"} for host in range(seeds)]
    inbox.put(root, rows, kind="seed", now_ms=START_MS)


def simulate(
    folder: Path, settings: Settings, world: World, *, cycles: int, slots: int, tell: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:  # fmt: skip
    """Turn `cycles` cycles in `folder` and return the report; `tell` hears the figures of each."""
    root = folder / "lake"
    none = settings.sitemaps.model_copy(update={"per_cycle": 0})  # the pretended web has no sitemaps
    settings = replace(settings, sitemaps=none)
    prepare(root, settings, world, seeds=world.hosts)
    delay = settings.delay
    judge = Judge(
        world, floor_ms=delay.floor_ms, address_floor_ms=delay.address_floor_ms, factor=delay.response_factor,
        patience_ms=delay.patience_ms, budget=settings.budget.requests_per_month,
    )  # fmt: skip
    runner = ProcessRunner(slots)
    try:
        simulation = Simulation(root, settings, world, runner, judge)
        for _ in range(cycles):
            tell(simulation.turn())
    finally:
        runner.close()
    return report(simulation)


def report(simulation: Simulation) -> dict[str, Any]:
    """Return what a simulation adds up to. All but `seconds` and `growth.cpu_seconds` follow from the seed."""
    cycles, judge = simulation.cycles, simulation.judge
    planned = sum(cycle["planned"] for cycle in cycles)
    unfetched = sum(cycle["unfetched"] for cycle in cycles)
    settings = simulation.settings
    most = settings.plan.max_pages or settings.plan.pages_per_second * 2 * settings.window.seconds
    outcomes: dict[str, int] = {}
    for cycle in cycles:
        for name, count in cycle["outcomes"].items():
            outcomes[name] = outcomes.get(name, 0) + count
    return {
        "world": {
            "hosts": simulation.world.hosts,
            "urls": simulation.world.urls,
            "seed": simulation.world.seed,
        },
        "cycles": len(cycles),
        "window_seconds": settings.window.seconds,
        "requests": judge.requests,
        "pages": sum(cycle["pages"] for cycle in cycles),
        "known_urls": cycles[-1]["known"],
        "shelves": {name: cycles[-1][name] for name in ("ready", "backlog", "later", "retired")},
        "outcomes": dict(sorted(outcomes.items())),
        "budget_overdraws": judge.overdraws(),
        "budgets_spent": judge.spent_out(),
        "politeness_violations": judge.too_soon,
        "address_violations": judge.too_soon_for_address,
        "examples": judge.examples,
        "planned": planned,
        "planned_not_fetched": unfetched,
        "planned_not_fetched_percent": round(100 * unfetched / max(planned, 1), 2),
        "capacity_used_percent": round(100 * planned / (most * len(cycles)), 1),
        "waited": simulation.served.table(),
        "still_waiting": simulation.waiting().table(),
        "growth": growth(cycles, most),
        "seconds": round(sum(sum(cycle["seconds"].values()) for cycle in cycles), 1),
    }


def growth(cycles: list[dict[str, Any]], most: int) -> dict[str, Any]:
    """Return how plan and merge grow with known URLs over the cycles of full work: fitted straight lines.

    CPU seconds of all processes; `rows`: written by merge. Each line is told by its value at the least and the most known URLs of those cycles.
    """
    full = [cycle for cycle in cycles if cycle["planned"] >= 0.9 * most][1:]
    if len(full) < 3:
        return {"cycles": len(full)}
    known = np.array([cycle["known"] for cycle in full], dtype=np.float64)
    ends = np.array([known.min(), known.max()])
    lines = {
        "plan": [cycle["cpu_seconds"]["plan"] for cycle in full],
        "merge": [cycle["cpu_seconds"]["merge"] for cycle in full],
        "rows": [cycle["rows_written"] for cycle in full],
    }
    fitted = {
        name: np.polyval(np.polyfit(known, np.array(values), 1), ends) for name, values in lines.items()
    }
    return {
        "cycles": len(full),
        "known": [int(end) for end in ends],
        "cpu_seconds": {name: [round(float(end), 2) for end in fitted[name]] for name in ("plan", "merge")},
        "rows": [int(end) for end in fitted["rows"]],
    }
