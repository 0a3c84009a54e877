"""Where crash tests run: a small toy web, a reference lake that nothing disturbed, and what a disturbed one must keep."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import lake
from pipelines.config import Settings
from pipelines.toyweb import Kind, Mix, RunningServer, ToyWeb, judge, serve_in_thread
from pipelines.toyweb.hosts import Robots
from pipelines.toyweb.log import Row
from tests.cycle import compare, crash_driver
from tests.cycle.crash_driver import Death, Job
from tests.cycle.wheels import QUICK, faults, new_lake, settings_for

PACE = {
    "window.seconds": "900",  # no run of kills lasts so long: what is planned is fetched
    "delay.floor_ms": "150",
    "delay.address_floor_ms": "10",
    "lake.buckets": "4",
    "recrawl.min_hours": "1",
    "fetch.first_byte_ms": "20000",
    "fetch.lease_seconds": "6",
    "fetch.lease_renew_seconds": "2",
}
NOON_MS = 1_764_590_400_000
"""The web's clock stands still: a page that is fetched again is the same page."""

MIX = replace(
    Mix.plain(),
    kinds=(Kind.REDIRECTS, Kind.ERRORS, Kind.MARKUP, Kind.PRIVATE),
    robots=(Robots.REDIRECT, Robots.AWAY),
    pages=6,
    change=0.0,
    crawl_delay_s=1,
)


@dataclass
class Ground:
    """A web being served, settings to crawl it, and the lake after each of the undisturbed reference's cycles."""

    web: ToyWeb
    server: RunningServer
    settings: Settings
    folder: Path
    pace: Mapping[str, str]
    slots: int = 2
    reference: list[Path] = field(default_factory=list)
    logged: list[int] = field(default_factory=list)  # requests logged when each was copied
    _copies: int = 0

    def job(self, path: Path) -> Job:
        """Return the job of one cycle on a lake."""
        return Job(path, self.settings.to_json(), self.slots)

    def words(self, path: Path) -> list[str]:
        """Return the words of a command line that mean the same lake and settings; workers of a cluster are the slots."""
        more = {"cluster.workers": str(self.slots), "cluster.dashboard_port": "0"}
        pairs = [f"--set={name}={value}" for name, value in {**QUICK, **self.pace, **more}.items()]
        return ["--lake", str(path), "--conf", str(self.folder / "toy.toml"), *pairs]

    def new_lake(self) -> Path:
        """Make a lake with every host's front page in its inbox; all are equal."""
        self._copies += 1
        seeds = self.web.seeds(self.server.port, all_hosts=True)
        return new_lake(self.folder / f"lake-{self._copies}", self.settings, seeds)

    def turn_reference(self, cycles: int) -> None:
        """Turn cycles on the reference lake, undisturbed, and keep a copy of each state."""
        path = self.new_lake()
        self._keep(path, 0)
        for cycle in range(1, cycles + 1):
            ended = crash_driver.run(self.job(path))
            assert ended.word == "done", ended
            self._keep(path, cycle)

    def _keep(self, path: Path, cycle: int) -> None:
        kept = self.folder / f"reference-{cycle}"
        shutil.copytree(path, kept)
        self.reference.append(kept)
        self.logged.append(len(self.server.log.rows()))

    def copy(self, cycle: int) -> Path:
        """Return a lake of its own, equal to the reference after so many cycles."""
        self._copies += 1
        path = self.folder / f"copy-{self._copies}"
        shutil.copytree(self.reference[cycle], path)
        return path

    def fetched(self) -> Path:
        """Return a lake of its own whose second cycle was killed when all was fetched and nothing sorted yet."""
        kept = self.folder / "fetched"
        if not kept.exists():
            shutil.copytree(self.reference[1], kept)
            assert (
                crash_driver.run(replace(self.job(kept), death=Death(("before finish sort",)))).word
                == "killed"
            )
        self._copies += 1
        path = self.folder / f"copy-{self._copies}"
        shutil.copytree(kept, path)
        return path

    def mark(self) -> int:
        """Return where the server's log ends now."""
        return len(self.server.log.rows())

    def rows(self, mark: int) -> list[Row]:
        """Return what the server logged since a mark."""
        return [row for row in self.server.log.rows() if row.id > mark]

    def impolite(self, mark: int) -> list[str]:
        """Return a line for each request since a mark that came too soon, or while another was open."""
        rows = self.rows(mark)
        delays = judge.delays(self.web, floor_ms=self.settings.delay.floor_ms)
        overlaps = [
            f"{after.host}: {after.target} overlaps {before.target}" for before, after in judge.overlaps(rows)
        ]
        return [*overlaps, *map(str, judge.violations(rows, delays))]

    def unequal(self, path: Path, cycle: int) -> list[str]:
        """Return what is wrong with a lake of so many cycles: its own faults, and what the reference has otherwise."""
        return [
            *faults(path),
            *compare.warc_faults(path),
            *compare.differences(self.reference[cycle], path),
        ]

    def books(self, path: Path, mark: int, *, since_cycle: int = 0) -> Mapping[str, tuple[int, int]]:
        """Return for each host its requests by the lake's books and by the server's log.

        since_cycle: the lake was a copy of the reference after this cycle, whose requests count too.
        """
        rows = [row for row in self.server.log.rows() if row.id > mark or row.id <= self.logged[since_cycle]]
        saw = Counter(row.host for row in rows)
        told = lake.open(path).read("hosts", columns=["host", "month_requests"]).to_pylist()
        return {row["host"]: (row["month_requests"] or 0, saw[row["host"]]) for row in told}


@contextmanager
def ground(
    folder: Path, *, hosts: int = 10, mix: Mix = MIX, cycles: int = 2, slots: int = 2,
    pace: Mapping[str, str] | None = None,
) -> Iterator[Ground]:  # fmt: skip
    """Serve a web and turn the reference's cycles on it. slots: fetch partitions of a cycle."""
    web = ToyWeb(hosts=hosts, seed=5, mix=mix)
    with serve_in_thread(web, clock=lambda: NOON_MS) as server:
        paced = {**PACE, **(pace or {})}
        made = Ground(web, server, settings_for(web, folder, paced), folder, paced, slots)
        made.turn_reference(cycles)
        yield made
