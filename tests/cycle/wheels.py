"""Small lakes on small toy webs, and cycles turned in this process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lake.snapshot
from lake import fsck, inbox
from lake.snapshot import Lake
from pipelines import config
from pipelines.cluster import InlineRunner
from pipelines.config import Settings
from pipelines.cycle.graph import CycleReport, run_cycle
from pipelines.toyweb import RunningServer, ToyWeb, conf

QUICK = {
    "delay.floor_ms": "100",
    "delay.address_floor_ms": "20",
    "delay.response_factor": "0",
    "delay.backoff_first_ms": "200",
    "window.seconds": "30",
    "fetch.flush_seconds": "1",
    "fetch.connect_ms": "2000",
    "fetch.first_byte_ms": "15000",
    "lake.buckets": "8",
    "warc.revisit_min_bytes": "0",
    "recrawl.min_hours": "0.01",
    "dns.timeout_ms": "200",
    "dns.tries": "1",
}
"""Settings under which a toy cycle takes a second or two."""


@dataclass
class Quiet:
    """A reporter that remembers what it was told."""

    messages: list[str] = field(default_factory=list)
    plans: list[dict[str, object]] = field(default_factory=list)

    def plan(self, info: dict[str, object]) -> None:
        self.plans.append(info)

    def step(self, name: str, done: int, total: int) -> None:
        pass

    def fetch(self, done: int, planned: int, pages_s: float, outcomes: dict[str, int]) -> None:
        pass

    def message(self, text: str) -> None:
        self.messages.append(text)


def settings_for(web: ToyWeb, folder: Path, overrides: Mapping[str, str] | None = None) -> Settings:
    """Return settings that reach a toy web, quickened."""
    path = folder / "toy.toml"
    folder.mkdir(parents=True, exist_ok=True)
    conf.write_conf(path, web)
    return config.load([path], environ={}, overrides={**QUICK, **(overrides or {})})


def new_lake(folder: Path, settings: Settings, seeds: list[str]) -> Path:
    """Make a lake with seeds in its inbox; two lakes made so have equal plans."""
    path = folder / "lake"
    lake.snapshot.create(path, buckets=settings.lake.buckets, lake_id="test")
    inbox.put(path, [{"url": url, "source": "seed"} for url in seeds], kind="seed", now_ms=0)
    return path


def turn(path: Path, settings: Settings, *, slots: int = 2) -> CycleReport:
    """Run one cycle in this process."""
    return run_cycle(path, settings, reporter=Quiet(), runner=InlineRunner(slots))


@dataclass
class Crawl:
    """A lake after some cycles on a toy web, and the server's log."""

    web: ToyWeb
    server: RunningServer
    settings: Settings
    path: Path
    reports: list[CycleReport]

    @property
    def lake(self) -> Lake:
        """The lake as its last cycle left it."""
        return lake.snapshot.open(self.path)

    def rows(self, query: str) -> list[dict[str, Any]]:
        """Return the rows of a query."""
        rows: list[dict[str, Any]] = self.lake.sql(query).to_pylist()
        return rows


def crawl(
    web: ToyWeb,
    server: RunningServer,
    folder: Path,
    *,
    cycles: int = 2,
    overrides: Mapping[str, str] | None = None,
) -> Crawl:
    """Crawl a toy web for some cycles from all its hosts' front pages."""
    settings = settings_for(web, folder, overrides)
    path = new_lake(folder, settings, web.seeds(server.port, all_hosts=True))
    return Crawl(web, server, settings, path, [turn(path, settings) for _ in range(cycles)])


def faults(path: Path) -> list[str]:
    """Return what the lake's own deep check finds."""
    return [str(fault) for fault in fsck.check(path, deep=True)]
