"""Read what a running cycle says of itself: the small files that fetchers and steps leave in `staging/`.

Only files are asked, so it works wherever the lake can be seen: on the driver, on a scheduler far away, in
another terminal. Nothing here waits for a task to end.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lake import lease, staging
from lake.layout import Layout

STEPS = ("sift", "demand", "resolve", "allot", "select", "fetch", "sort", "gate", "seal", "contents", "merge")
"""Names of the folders in which the tasks of a cycle report that they are done, in the order of running."""

BY_PARTITION = ("fetch", "sort", "seal")
"""Steps of a task a fetch partition; the others have one a bucket group, `sift` one a file of the inbox, `allot` one only."""

_CYCLE = re.compile(r"^cycle=(\d+)$")
_PARTITION = re.compile(r"^done-(\d+)\.json$")


@dataclass(frozen=True)
class Sample:
    """What was read at one moment; times in ms since 1970.

    cycle: the open one, 0 = none. opened: its `open.json`. plan: what `allot` told; empty before. done: by
    step, how many tasks have finished. ended: fetch partitions that have. lives: what each fetch partition
    told last. writer: who holds the lake; None = nobody.
    """

    at_ms: int
    cycle: int = 0
    opened: dict[str, Any] = field(default_factory=dict)
    plan: dict[str, Any] = field(default_factory=dict)
    done: dict[str, int] = field(default_factory=dict)
    ended: frozenset[int] = frozenset()
    lives: tuple[dict[str, Any], ...] = ()
    writer: lease.Holder | None = None
    stopping: bool = False


def sample(root: Path, *, now_ms: int) -> Sample:
    """Read how the lake's open cycle stands. A file that goes away meanwhile counts as not there."""
    writer = lease.held_by(Layout(root).lease, now=lambda: now_ms)
    cycle = open_cycle(root)
    if not cycle:
        return Sample(now_ms, writer=writer)
    folder = Layout(root).staging(cycle)
    ended = _ended(folder / "fetch")
    return Sample(
        at_ms=now_ms,
        cycle=cycle,
        opened=staging.read_manifest(folder / "open.json") or {},
        plan=staging.read_manifest(folder / "allot" / "done.json") or {},
        done={step: len(ended) if step == "fetch" else _count(folder / step) for step in STEPS},
        ended=frozenset(ended),
        lives=tuple(lives(folder)),
        writer=writer,
        stopping=(folder / "stop").exists(),
    )


def open_cycle(root: Path) -> int:
    """Return the number of the cycle that is opened and not yet cleared away, 0 if there is none."""
    folder = Layout(root).staging(0).parent
    try:
        found = [(int(match[1]), path) for path in folder.iterdir() if (match := _CYCLE.match(path.name))]
    except FileNotFoundError:
        return 0
    return max((cycle for cycle, path in found if (path / "open.json").exists()), default=0)


def lives(folder: Path) -> list[dict[str, Any]]:
    """Return how each partition's latest attempt stands, as it told last (about once a second).

    folder: a cycle's staging folder.
    """
    told = []
    for base in sorted(folder.joinpath("fetch").glob("p[0-9]*")):
        for path in sorted(base.glob("a*/live.json"), reverse=True)[:1]:
            live = _json(path)
            if live is not None:
                told.append(live)
    return told


def _json(path: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:  # the cycle was committed and swept while we looked
        return None
    return found


def _ended(folder: Path) -> list[int]:
    return [int(match[1]) for name in _names(folder) if (match := _PARTITION.match(name))]


def _count(folder: Path) -> int:
    return sum(name.startswith("done") and name.endswith(".json") for name in _names(folder))


def _names(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return []
