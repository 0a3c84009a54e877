"""From what a running cycle says of itself to the figures that are shown: pure."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pipelines.dashboard.read import BY_PARTITION, STEPS, Sample

SILENT_MS = 10_000
"""A running partition that has told nothing for so long is called silent: it tells about once a second."""

RATE_MS = 5_000
"""Rates are taken over so long."""

KEPT = 3_600
"""Points of the curves: an hour at one a second."""

SLOW_HOSTS = 10
HOST_STATES = ("ready", "waiting", "asked", "finished")
STEP_WORDS = {
    "sift": "plan",
    "demand": "plan",
    "resolve": "plan",
    "allot": "plan",
    "select": "plan",
    "contents": "seal",
}
"""Parts of a step, and the step under whose name they are shown."""


@dataclass(frozen=True)
class Figures:
    """How a cycle stands at one moment. Times in ms, sizes in bytes; `cycle` 0 = no cycle is open.

    planned = done + left + put_off: `left` waits in a queue, `put_off` went back to its shelf (its host is
    down, or its partition has ended before its turn came). hosts: by state. partitions: fetch partitions
    running, ended, not begun, and silent (running, but not heard of). The lags are the worst of any partition.
    """

    at_ms: int
    cycle: int = 0
    step: str = ""
    step_done: int = 0
    step_total: int = 0
    opened_ms: int = 0
    planned: int = 0
    done: int = 0
    left: int = 0
    put_off: int = 0
    requests: int = 0
    pages: int = 0
    wire_bytes: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)
    open: int = 0
    hosts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(HOST_STATES, 0))
    partitions: dict[str, int] = field(default_factory=dict)
    window_left_ms: int = 0
    flush_lag_ms: int = 0
    lease_age_ms: int = 0
    slow_hosts: tuple[dict[str, Any], ...] = ()
    stopping: bool = False
    writer: str = ""
    writer_left_ms: int = 0


def fold(sample: Sample) -> Figures:
    """Return the figures of a sample."""
    writer = sample.writer
    holder = f"{writer.holder} on {writer.host}, process {writer.pid}" if writer else ""
    held_ms = max(writer.expires_ms - sample.at_ms, 0) if writer else 0
    if not sample.cycle:
        return Figures(sample.at_ms, writer=holder, writer_left_ms=held_ms)
    lives = sample.lives
    running = [live for live in lives if live["partition"] not in sample.ended]
    planned = sample.plan.get("planned", 0)
    done = sum(live.get("finished", 0) for live in lives)
    left = sum(live["left"] for live in running)
    left += max(planned - sum(live.get("planned", 0) for live in lives), 0)
    outcomes: Counter[str] = Counter()
    for live in lives:
        outcomes.update(live["outcomes"])
    step, step_done, step_total = _step(sample)
    return Figures(
        at_ms=sample.at_ms, cycle=sample.cycle, step=step, step_done=step_done, step_total=step_total,
        opened_ms=sample.opened.get("opened_ms", 0), planned=planned, done=done, left=min(left, max(planned - done, 0)),
        put_off=max(planned - done - left, 0), requests=sum(live.get("requests", 0) for live in lives),
        pages=sum(live.get("pages", 0) for live in lives), wire_bytes=sum(live.get("wire_bytes", 0) for live in lives),
        outcomes=dict(outcomes), open=sum(live["open"] for live in running), hosts=_hosts(lives, running),
        partitions=_partitions(sample, running), window_left_ms=max((live["window_left_ms"] for live in running), default=0),
        flush_lag_ms=_worst(sample.at_ms, running, "flush_lag_ms"),
        lease_age_ms=_worst(sample.at_ms, running, "lease_age_ms"),
        slow_hosts=_slowest(running), stopping=sample.stopping, writer=holder, writer_left_ms=held_ms,
    )  # fmt: skip


def _step(sample: Sample) -> tuple[str, int, int]:
    """Return the step that runs, and its tasks done and in all; the total is 0 where it is not known yet."""
    for name in STEPS:
        total = _total(sample, name)
        if name == "sift" and not total:
            continue  # nothing waits in the inbox
        if not total or sample.done.get(name, 0) < total:
            return STEP_WORDS.get(name, name), sample.done.get(name, 0), total
    return "commit", 0, 1


def _total(sample: Sample, step: str) -> int:
    if step == "allot":
        return 1
    if step == "sift":
        return len(sample.opened.get("inbox", ()))
    found = sample.plan.get("partitions", 0) if step in BY_PARTITION else sample.opened.get("groups", 0)
    return int(found)


def _hosts(lives: Iterable[dict[str, Any]], running: Iterable[dict[str, Any]]) -> dict[str, int]:
    """Return hosts by state; those of a partition that has ended are finished, whatever it told last."""
    going = {id(live) for live in running}
    found = dict.fromkeys(HOST_STATES, 0)
    for live in lives:
        for state in HOST_STATES:
            found[state if id(live) in going else "finished"] += live[f"hosts_{state}"]
    return found


def _partitions(sample: Sample, running: list[dict[str, Any]]) -> dict[str, int]:
    silent = sum(sample.at_ms - live.get("told_ms", 0) > SILENT_MS for live in running)
    ended, total = len(sample.ended), sample.plan.get("partitions", 0)
    return {
        "running": len(running) - silent,
        "ended": ended,
        "not_begun": max(total - ended - len(running), 0),
        "silent": silent,
    }


def _worst(at_ms: int, running: Iterable[dict[str, Any]], name: str) -> int:
    """Return the worst lag of any partition, grown by the time since it was told."""
    return max(
        (live.get(name, 0) + max(at_ms - live.get("told_ms", at_ms), 0) for live in running), default=0
    )


def _slowest(running: Iterable[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    hosts = [host for live in running for host in live.get("slow_hosts", ())]
    return tuple(sorted(hosts, key=lambda host: (-host["work_ms"], host["host"]))[:SLOW_HOSTS])


@dataclass(frozen=True)
class Point:
    """One moment of the curves; rates are per second."""

    at_ms: int
    pages_s: float
    bytes_s: float
    open: int
    ready: int
    waiting: int
    asked: int


class Trail:
    """The last hour of a cycle, a point a sample, and the rates between them."""

    def __init__(self) -> None:
        self.points: deque[Point] = deque(maxlen=KEPT)
        self._recent: deque[Figures] = deque()
        self._cycle = 0

    def add(self, figures: Figures) -> Point:
        """Take in the next figures; those of another cycle begin a new trail."""
        if figures.cycle and figures.cycle != self._cycle:
            self.points.clear()
            self._recent.clear()
            self._cycle = figures.cycle
        self._recent.append(figures)
        while len(self._recent) > 2 and self._recent[1].at_ms <= figures.at_ms - RATE_MS:
            self._recent.popleft()
        hosts = figures.hosts
        point = Point(
            figures.at_ms, self._rate("pages"), self._rate("wire_bytes"), figures.open, hosts["ready"], hosts["waiting"],
            hosts["asked"],
        )  # fmt: skip
        if figures.step == "fetch":
            self.points.append(point)
        return point

    def since(self, at_ms: int) -> list[Point]:
        """Return the points later than a moment, oldest first."""
        return [point for point in self.points if point.at_ms > at_ms]

    @property
    def done_s(self) -> float:
        """URLs finished a second, of late."""
        return self._rate("done")

    def _rate(self, name: str) -> float:
        if not self._recent:
            return 0.0
        first, last = self._recent[0], self._recent[-1]
        passed = last.at_ms - first.at_ms
        gained: int = getattr(last, name) - getattr(first, name)
        return max(gained, 0) * 1_000 / passed if passed > 0 else 0.0


def left_ms(figures: Figures, *, done_s: float) -> int | None:
    """Return the time that the fetch still needs, ms; None = not known.

    The longer of what is left at the present rate and the work of the slowest host, which nobody can
    hurry; at most what is left of the window. done_s: URLs finished a second.
    """
    if figures.step != "fetch":
        return None
    if not figures.left and not figures.open:
        return 0
    by_rate = figures.left / done_s * 1_000 if done_s > 0 else None
    slowest = max((host["work_ms"] for host in figures.slow_hosts), default=0)
    if by_rate is None and not slowest:
        return figures.window_left_ms or None
    return min(round(max(by_rate or 0, slowest)), figures.window_left_ms)


class Totals:
    """Counts that only grow, over all cycles that were seen: what Prometheus calls counters."""

    def __init__(self) -> None:
        self._before: Counter[str] = Counter()
        self._now: Counter[str] = Counter()
        self._cycle = 0

    def add(self, figures: Figures) -> None:
        """Take in the next figures."""
        if not figures.cycle:
            return
        now = Counter({"pages": figures.pages, "wire_bytes": figures.wire_bytes})
        now.update({f"outcome {name}": count for name, count in figures.outcomes.items()})
        if figures.cycle != self._cycle:
            self._before.update(self._now)
            self._cycle, self._now = figures.cycle, Counter()
        self._now |= now  # a new attempt may tell less for a moment than the one before it

    def __getitem__(self, name: str) -> int:
        """Return a count: pages, wire_bytes."""
        return self._before[name] + self._now[name]

    def outcomes(self) -> dict[str, int]:
        """Return the answers by outcome."""
        names = {name for name in (*self._before, *self._now) if name.startswith("outcome ")}
        return {name.removeprefix("outcome "): self[name] for name in sorted(names)}
