"""The graph of extract: which WARC files of which cycles are read, and each cycle's one commit."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pyarrow.compute as pc

from lake import commit, ledger, snapshot
from lake.files import Add
from lake.layout import Layout
from lake.ledger import COMMITTED
from lake.mend import mend
from lake.schema import DERIVED, PAGES
from lake.snapshot import Lake, crawl_name
from pipelines import cluster
from pipelines.cluster import Runner, Task, TaskLost
from pipelines.config import Settings
from pipelines.extract import near
from pipelines.extract.page import VERSION
from pipelines.extract.warcfile import WarcFile, done, extract_file, folder
from pipelines.failure import Failure


class Reporter(Protocol):
    """Is told how far the files are."""

    def files(self, done: int, total: int, pages: int) -> None: ...
    def message(self, text: str) -> None: ...


@dataclass
class ExtractReport:
    """What was done. cycles: those committed now. left: cycles that were extracted before."""

    cycles: list[int] = field(default_factory=list)
    files: int = 0
    pages: int = 0
    unread: int = 0
    left: int = 0


def app(cycle: int) -> str:
    """Return the app transaction under which a cycle's pages are committed; its version is that of the extraction."""
    return f"extract-c{cycle:06d}"


def run_extract(
    lake_path: Path,
    settings: Settings,
    *,
    reporter: Reporter,
    cycles: Iterable[int] | None = None,
    scheduler: str | None = None,
    runner: Runner | None = None,
) -> ExtractReport:
    """Bring `pages` up to date with the committed cycles (or those given), a commit a cycle, each exactly once.

    Stopped at any moment, the next run reads only the WARC files that were not finished. Readers see a cycle's
    pages whole or not at all. runner: as in `run_cycle`. Raises Failure for a cycle that is not committed, a WARC
    file that is not there, or a worker that dies again and again.
    """
    commit.make_table(Layout(lake_path.absolute()).table(PAGES.name), PAGES)
    for torn in mend(lake_path, DERIVED):
        reporter.message(torn.put_aside)
    lake = snapshot.open(lake_path)
    wanted = _wanted(lake, cycles)
    todo = [cycle for cycle in wanted if (lake.transaction(PAGES.name, app(cycle)) or 0) < VERSION]
    report = ExtractReport(left=len(wanted) - len(todo))
    for cycle in set(wanted) - set(todo):
        shutil.rmtree(folder(lake.root, cycle), ignore_errors=True)
    if not todo:
        return report
    ours = runner is None
    runner = runner or _start(settings, scheduler)
    if runner.dashboard:
        reporter.message(f"Dashboard: {runner.dashboard}")
    try:
        for cycle in todo:
            _one(lake, settings, cycle, runner, reporter, report)
    finally:
        if ours:
            runner.close()
    return report


def _start(settings: Settings, scheduler: str | None) -> Runner:
    conf = settings.cluster
    return cluster.start(
        scheduler=scheduler or conf.scheduler or None,
        workers=conf.workers,
        memory_bytes=conf.memory_bytes,
        dashboard_port=conf.dashboard_port,
        tries=settings.fetch.tries,
    )


def _wanted(lake: Lake, cycles: Iterable[int] | None) -> list[int]:
    committed = sorted(row.cycle for row in ledger.read(lake.root) if row.state == COMMITTED)
    if cycles is None:
        return committed
    wanted = sorted(set(cycles))
    strange = [cycle for cycle in wanted if cycle not in committed]
    if strange:
        last = f"cycles 1 to {committed[-1]} are" if committed else "none is yet"
        raise Failure(f"{lake.root}: cycle {strange[0]} is not committed; {last}")
    return wanted


def _one(
    lake: Lake, settings: Settings, cycle: int, runner: Runner, reporter: Reporter, report: ExtractReport
) -> None:
    tasks = files(lake, settings, cycle)
    manifests = [found for task in tasks if (found := done(task))]
    waiting = [Task(number, (task,)) for number, task in enumerate(tasks) if not done(task)]
    _refuse_missing(lake, [task.arguments[0] for task in waiting])
    reporter.files(len(manifests), len(tasks), report.pages)
    for result in runner.run("extract", cycle, extract_file, waiting):
        if isinstance(result, TaskLost):
            raise Failure(
                f"extract of cycle {cycle}, {tasks[result.number].filename}: its worker died too often ({result}); "
                "give workers more memory ([cluster] memory_bytes) and run again, what is done is kept"
            )
        manifests.append(result)
        reporter.files(len(manifests), len(tasks), report.pages + _sum(manifests, "rows"))
    commit_pages(lake, cycle, manifests)
    near.mark(lake.root, cycle)
    report.cycles.append(cycle)
    report.files += len(tasks)
    report.pages += _sum(manifests, "rows")
    report.unread += _sum(manifests, "unread")


def _sum(manifests: list[dict[str, Any]], name: str) -> int:
    return sum(manifest[name] for manifest in manifests)


def files(lake: Lake, settings: Settings, cycle: int) -> list[WarcFile]:
    """Return the tasks of a cycle: the WARC files in which its captures have payloads, by name."""
    rows = lake.dataset("captures", partitions={"crawl": [crawl_name(cycle)], "subset": ["warc"]}).to_table(
        columns=["warc_filename"],
        filter=(pc.field("record_type") == "response") & (pc.field("kind") == "page"),
    )
    names = sorted(pc.unique(rows["warc_filename"]).to_pylist())
    return [WarcFile(str(lake.root), cycle, name, settings.limits.decoded_bytes) for name in names]


def _refuse_missing(lake: Lake, tasks: list[WarcFile]) -> None:
    for task in tasks:
        path = lake.layout.warc_file(task.filename)
        if not path.is_file():
            raise Failure(
                f"{path} is missing; restore it from a copy (`noria check` lists all), then run again: "
                "what is extracted already is kept"
            )


def commit_pages(lake: Lake, cycle: int, manifests: list[dict[str, Any]]) -> int:
    """Commit a cycle's pages in place of those of an older extraction, once; return the table's version after it."""
    version = commit.commit_table(
        lake.root,
        PAGES.name,
        cycle=VERSION,
        adds=sorted((Add(**manifest["add"]) for manifest in manifests), key=lambda add: add.path),
        replace={"crawl": [crawl_name(cycle)]},
        app=app(cycle),
    )
    shutil.rmtree(folder(lake.root, cycle), ignore_errors=True)
    return version
