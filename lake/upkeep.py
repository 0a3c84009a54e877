"""Keeping a lake fit: fewer runs, no dead files, no old staging. For the driver, under the writer's lease."""

from __future__ import annotations

import contextlib
import json
import shutil
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from deltalake import DeltaTable

from lake import commit, ledger, runs, snapshot
from lake.files import Add, DataFile, write_data
from lake.layout import Layout, cycle_of
from lake.ledger import LedgerRow
from lake.schema import BUCKETED, LEDGER, TABLES
from lake.snapshot import Lake

TIERS = 8
"""Runs of about one size before they are merged: at most 8 a tier to look up, a key rewritten once a tier."""

RETENTION_DAYS = 30
"""How long a file lives on that no version in use names: longer than any cycle or notebook session."""

LEDGER_FILES = 64
"""Ledger files (two a cycle) before they are folded into one."""

COMPACTED = ("seen", "contents", "frontier_backlog", "frontier_later", "frontier_retired")
"""Tables kept by bucket to which cycles append."""

COMPACT = "compact"
FOLD = "fold"
_DAY_MS = 86_400_000


@dataclass(frozen=True)
class Compaction:
    """Files of one partition that become one. partition: a value for each partition column of the table."""

    partition: dict[str, int | str]
    merge: tuple[DataFile, ...]


def plan_runs(lake: Lake, table: str, *, tiers: int = TIERS) -> list[Compaction]:
    """Choose what is due for merging in a table kept by bucket: runs, or files that cycles appended."""
    groups = runs.plan_compaction(lake.files(table), tiers=tiers)
    return [Compaction(group[0].partition, tuple(group)) for group in groups]


def compact_partition(lake_root: Path | str, table: str, plan: Compaction, *, cycle: int) -> Add:
    """Merge one partition's files (a task: the same output for the same plan, may run twice)."""
    day = plan.partition.get("due_day")
    return runs.merge_runs(
        lake_root,
        table,
        cycle=cycle,
        partition=int(plan.partition[BUCKETED[table]]),
        files=plan.merge,
        due_day=None if day is None else int(day),
    )


def commit_compaction(
    lake: Lake, table: str, plans: list[Compaction], merged: list[Add], *, cycle: int
) -> int:
    """Put the merged files in place of the old ones, once a cycle; return the table's version after it.

    lake: at the version that the plans were made from. The commit removes whole partitions (for two
    partition columns, all pairs of their values); what stays of them gets a second name, a hard link and
    no copy, since one commit may not both remove and add a path.
    """
    replace = {name: sorted({plan.partition[name] for plan in plans}, key=str) for name in plans[0].partition}
    gone = {file.path for plan in plans for file in plan.merge}
    stay = [file for file in lake.files(table, partitions=replace) if file.path not in gone]
    adds = [
        *merged,
        *(runs.renamed(lake.root, table, file, cycle=cycle, part=f"k{n}") for n, file in enumerate(stay)),
    ]
    return commit.commit_table(
        lake.root,
        table,
        cycle=cycle,
        adds=adds,
        replace=replace,
        expect_version=lake.versions[table],
        app=COMPACT,
    )


def compact_runs(lake_root: Path | str, table: str, *, cycle: int, tiers: int = TIERS) -> int:
    """Merge the runs of a table that are due, and return its version after it, for the cycle's ledger row.

    table: `seen`, `contents`, or a shelf to which cycles append (`frontier_backlog`, `_later`, `_retired`).
    To be called between the cycle's commit to the table and its ledger row: readers then see the merged
    files from this cycle on. The rows stay the same. Nothing due = nothing committed. Twice = once.
    """
    version = commit.newest_version(lake_root, table)
    if commit.committed_cycle(lake_root, table, COMPACT) >= cycle:
        return version
    lake = snapshot.open(lake_root).at({table: version})
    plans = plan_runs(lake, table, tiers=tiers)
    if not plans:
        return version
    merged = [compact_partition(lake_root, table, plan, cycle=cycle) for plan in plans]
    return commit_compaction(lake, table, plans, merged, cycle=cycle)


def compact(lake_root: Path | str, *, cycle: int, tiers: int = TIERS) -> dict[str, int]:
    """Do what `compact_runs` does for every table that grows by appending; return their versions."""
    return {table: compact_runs(lake_root, table, cycle=cycle, tiers=tiers) for table in COMPACTED}


def tidy(
    lake_root: Path | str, *, retention_days: int = RETENTION_DAYS, now_ms: int | None = None
) -> list[Path]:
    """Fold the ledger, sweep staging, vacuum: between cycles, under the lease. Return the files removed."""
    fold_ledger(lake_root)
    sweep_staging(lake_root)
    return vacuum(lake_root, retention_days=retention_days, now_ms=now_ms)


def fold_ledger(lake_root: Path | str, *, above: int = LEDGER_FILES) -> int:
    """Rewrite the ledger as one file where it has more than `above`; return its version after it."""
    root = Path(lake_root)
    folder = Layout(root).table(LEDGER.name)
    version = commit.newest_version(root, LEDGER.name)
    rows = ledger.read(root, version=version)
    if len(commit.paths(DeltaTable(folder, version=version))) <= above:
        return version
    relative = f"c{rows[-1].cycle:06d}/folded-v{version}.parquet"
    add = write_data(folder, relative, ledger.to_table(rows), LEDGER)
    return commit.replace_all(root, LEDGER.name, [add], app=FOLD, number=version + 1, expect_version=version)


def sweep_staging(lake_root: Path | str) -> list[int]:
    """Remove the staging folders of committed cycles, and the WARC and CDXJ files that killed tasks left
    half-written (`….open`); return the cycles' numbers.

    A fetcher that was frozen may still write there: a folder gets another name first, so that nothing can
    come into it while it is removed, and what comes under the old name goes with the next sweep.
    """
    last = ledger.last(lake_root)
    staging = Path(lake_root) / "staging"
    removed = []
    for folder in sorted(staging.glob("cycle=*")):
        number = folder.name.removeprefix("cycle=")
        if last is not None and number.isdigit() and int(number) <= last.cycle:
            _drop_half_written(lake_root, int(number))
            folder.rename(staging / f"gone-{number}-{uuid.uuid4().hex[:12]}")
            removed.append(int(number))
    for gone in staging.glob("gone-*"):
        shutil.rmtree(gone)
    return removed


def _drop_half_written(lake_root: Path | str, cycle: int) -> None:
    layout = Layout(Path(lake_root))
    for folder in (layout.warc(cycle), layout.cdxj(cycle)):
        for path in folder.glob("*.open"):
            path.unlink(missing_ok=True)


def vacuum(
    lake_root: Path | str,
    *,
    retention_days: int = RETENTION_DAYS,
    now_ms: int | None = None,
    dry_run: bool = False,
) -> list[Path]:
    """Remove data files that no version in use names, and return them.

    In use: the newest version of each table, those of the last committed cycle and of a planned one, and
    those of every cycle committed in the last `retention_days`. A file younger than that, or of a cycle
    that is not committed yet, stays in any case. Cycles before that cannot be opened any more.
    """
    root = Path(lake_root)
    now = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    edge_ms = now - retention_days * _DAY_MS
    rows = ledger.read(root)
    last = max((row.cycle for row in rows if row.state == ledger.COMMITTED), default=0)
    oldest = _oldest_in_use(rows, last, edge_ms)
    removed = []
    for table in TABLES:
        folder = Layout(root).table(table.name)
        if not (folder / "_delta_log").is_dir():  # a derived table that an older lake lacks
            continue
        used = _named_since(folder, oldest.get(table.name, 0))
        for path in _dead(folder, used, last, edge_ms):
            removed.append(path)
            if not dry_run:
                path.unlink(missing_ok=True)
        if not dry_run:
            _drop_empty(folder)
    return removed


def _oldest_in_use(rows: list[LedgerRow], last: int, edge_ms: int) -> dict[str, int]:
    """Return the oldest version of each table that a row of the ledger keeps in use."""
    kept = [row for row in rows if row.cycle >= last or row.written_at.timestamp() * 1000 >= edge_ms]
    oldest: dict[str, int] = {}
    for row in kept:
        for name, version in row.versions.items():
            oldest[name] = min(version, oldest.get(name, version))
    return oldest


def _named_since(folder: Path, version: int) -> set[str]:
    """Return every path that a version from this one on names: those it holds, and those added later."""
    newest = DeltaTable(folder).version()
    named = set(commit.paths(DeltaTable(folder, version=version)))
    for later in range(version + 1, newest + 1):
        for line in (folder / "_delta_log" / f"{later:020d}.json").read_text().splitlines():
            if line.startswith('{"add"'):
                named.add(json.loads(line)["add"]["path"])
    return named


def _dead(folder: Path, used: set[str], last: int, edge_ms: int) -> Iterator[Path]:
    """Yield the files of a table that nothing names, old enough, and not of a cycle under way."""
    for path in sorted(folder.glob("c*/*")):
        cycle = cycle_of(path)
        if cycle is None or cycle > last or str(path.relative_to(folder)) in used:
            continue
        if path.stat().st_mtime_ns // 1_000_000 < edge_ms:
            yield path


def _drop_empty(folder: Path) -> None:
    for one in folder.glob("c*"):
        with contextlib.suppress(OSError):
            one.rmdir()
