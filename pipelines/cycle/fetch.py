"""Fetch: one long task a partition, tried until an attempt keeps its lease to the end (fetch_run.py is one attempt)."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvloop

from lake import lease
from lake.errors import LeaseHeld, LeaseLost
from lake.layout import Layout
from pipelines.cycle.fetch_run import FetchRun
from pipelines.cycle.fetch_run import FetchTask as FetchTask
from pipelines.cycle.litter import collected_rarely
from pipelines.net.loop import FetchLoop


def fetch_partition(task: FetchTask, still_wanted: Callable[[], bool] = lambda: True) -> dict[str, Any]:
    """Fetch a partition and return its manifest: counts and the parts that count.

    Waits for an earlier attempt's lease to expire, takes over its parts, and goes on with what they lack. An
    attempt that loses its lease (the process was frozen, the disk slow) makes place for the next one.
    `still_wanted` is asked before each request: False (the worker was removed) ends it as a lost lease does.
    Raises LeaseLost.
    """
    for left in reversed(range(task.turn.settings.fetch.tries)):
        try:
            return _attempt(task, still_wanted)
        except LeaseLost:
            if not left or not still_wanted():
                raise
    raise AssertionError("fetch.tries is at least 1")


def _attempt(task: FetchTask, still_wanted: Callable[[], bool]) -> dict[str, Any]:
    if found := task.turn.done("fetch", task.partition):
        return found
    with await_lease(
        lease_path(task), holder=task.holder, seconds=task.turn.settings.fetch.lease_seconds
    ) as held:
        if found := task.turn.done("fetch", task.partition):
            return found
        with collected_rarely():
            manifest = uvloop.run(FetchRun(task, held, still_wanted).run(), loop_factory=FetchLoop)
    return task.turn.finish("fetch", task.partition, manifest)


def salvage(task: FetchTask) -> dict[str, Any]:
    """Close a partition that is given up with what its attempts flushed, and return its manifest.

    Waits for the lease as an attempt does. Nothing is asked; the hosts' books count the requests of all attempts.
    """
    with await_lease(
        lease_path(task), holder="noria cycle, giving up", seconds=task.turn.settings.fetch.lease_seconds
    ) as held:
        if found := task.turn.done("fetch", task.partition):
            return found
        manifest = uvloop.run(FetchRun(task, held, lambda: False).run(ask=False), loop_factory=FetchLoop)
    return task.turn.finish("fetch", task.partition, manifest)


def lease_path(task: FetchTask) -> Path:
    """Return the path of the partition's lease."""
    return Layout(Path(task.turn.root)).partition_lease(task.turn.cycle, task.partition)


def await_lease(path: Path, *, holder: str, seconds: int) -> lease.Lease:
    """Return the lease as soon as the one who holds it now has let it go, or let it run out."""
    while True:
        try:
            return lease.Lease.acquire(path, holder=holder, seconds=seconds)
        except LeaseHeld as held:
            time.sleep(min(max(held.until_ms / 1_000 - time.time(), 0.05), 1.0))
