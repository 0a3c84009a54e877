"""`noria simulate`: a simulated month, and what it says of budgets, politeness, fairness and growth."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.app.progress import Bar
from pipelines.failure import Misuse

if TYPE_CHECKING:
    from pipelines.config import Settings

BASE: Mapping[str, Any] = {
    "identity": {"contact": "simulation@example.org"},
    "dns": {"static": {"*.sim": "127.64.0.0/16"}},
    "security": {"allow_addresses": ["127.0.0.0/8"]},
    "sitemaps": {"per_cycle": 0},
    "window": {"seconds": 86_400},
    "budget": {"requests_per_month": 20_000},
    "plan": {"max_pages": 100_000},
}
"""What a simulation sets unless it is told otherwise: names resolve by configuration, a cycle is a day, there are no
sitemaps, and budgets bind."""


@dataclass(frozen=True)
class Asked:
    """What the command line asks for."""

    hosts: int
    urls: int
    days: float
    seed: int
    keep: Path | None
    as_json: bool


def run(settings: Settings, asked: Asked) -> int:
    """Simulate, print the report, and return the exit code: 1 if a promise was broken."""
    from pipelines.simulate.run import simulate  # here, so that a misuse is told at once
    from pipelines.simulate.world import World

    if not 1 <= asked.hosts <= 1_000_000 or asked.urls < asked.hosts:
        raise Misuse(f"--hosts {asked.hosts} --urls {asked.urls}: 1 to 1,000,000 hosts, and a URL for each")
    cycles = max(round(asked.days * 86_400 / settings.window.seconds), 1)
    world = World(asked.hosts, asked.urls, asked.seed)
    with tempfile.TemporaryDirectory(prefix="noria-simulate-") as folder, Bar("simulating", "cycles") as bar:
        told: list[dict[str, Any]] = []

        def tell(figures: dict[str, Any]) -> None:
            told.append(figures)
            bar.show(len(told), cycles, f"{figures['known']:,} URLs known")

        home = asked.keep or Path(folder)
        home.mkdir(parents=True, exist_ok=True)
        slots = max(len(os.sched_getaffinity(0)), 1)
        report = simulate(home, settings, world, cycles=cycles, slots=slots, tell=tell)
    print(json.dumps(report) if asked.as_json else text(report))
    return 1 if broken(report) else 0


def broken(report: Mapping[str, Any]) -> bool:
    """Return whether a promise was broken."""
    names = ("budget_overdraws", "politeness_violations", "address_violations")
    return any(report[name] for name in names)


def text(report: Mapping[str, Any]) -> str:
    """Return the report as lines for people."""
    world, shelves = report["world"], report["shelves"]
    lines = [
        f"web                    {world['hosts']:,} hosts, {world['urls']:,} URLs, seed {world['seed']}",
        f"simulated              {report['cycles']} cycles of {report['window_seconds']:,} s, in {report['seconds']:,.0f} s",
        f"pages                  {report['pages']:,} of {report['requests']:,} requests",
        f"URLs known             {report['known_urls']:,}: "
        + ", ".join(f"{count:,} {name}" for name, count in shelves.items()),
        f"budget overdraws       {report['budget_overdraws']} (host-months that spent all: {report['budgets_spent']:,})",
        f"politeness violations  {report['politeness_violations']} of hosts, {report['address_violations']} of addresses",
        f"planned, not fetched   {report['planned_not_fetched']:,} of {report['planned']:,}"
        f" ({report['planned_not_fetched_percent']} %)",
        f"capacity used          {report['capacity_used_percent']} %",
        "waited, by band        " + _waits(report["waited"]),
        "still waiting          " + _waits(report["still_waiting"]),
        *_growth(report["growth"]),
    ]
    return "\n".join(lines)


def _waits(table: Mapping[str, Mapping[str, float]]) -> str:
    told = (
        f"{band} {row['urls']:,} URLs, mean {row['mean_days']:g} d, longest {row['longest_days']:g} d"
        for band, row in table.items()
    )
    return "; ".join(told) or "none"


def _growth(growth: Mapping[str, Any]) -> list[str]:
    if "known" not in growth:
        return ["growth                 too few cycles of full work to tell"]
    low, high = growth["known"]
    seconds, rows = growth["cpu_seconds"], growth["rows"]
    return [
        f"growth, full cycles    from {low:,} to {high:,} URLs known: plan {seconds['plan'][0]:g} to"
        f" {seconds['plan'][1]:g} s, merge {seconds['merge'][0]:g} to {seconds['merge'][1]:g} s of CPU,"
        f" rows written {rows[0]:,} to {rows[1]:,}"
    ]
