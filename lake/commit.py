"""Commits: the driver's alone, one a table and cycle, each exactly once, durable when they return.

Why it is done so, with the measurements: lake/README.md, "How a cycle is committed".
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace as changed
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, CommitProperties, PostCommitHookProperties, Transaction

from lake.errors import CommitConflict, DiskFull, LakeError, LakeMissing
from lake.files import Add, make_folder, sync_file, sync_folder, write_parquet
from lake.layout import Layout
from lake.ledger import LedgerRow, to_table
from lake.schema import BY_NAME, LEDGER, Table
from lake.verify import verify

CHECKPOINT_EVERY = 10
"""Commits between checkpoints: opening a table reads at most this many log entries one by one."""

_RACES = 5
"""How often a commit that lost against another one looks again before it gives up."""

Replace = Mapping[str, Sequence[int | str]]
Filters = list[tuple[str, str, list[str]]]


def commit_table(
    lake_root: Path | str,
    table: str,
    *,
    cycle: int,
    adds: Sequence[Add],
    replace: Replace | None,
    expect_version: int | None = None,
    app: str = "cycle",
) -> int:
    """Commit a cycle's files to one table, exactly once, and return the table's version after it.

    adds: files that are on disk; each is verified before anything is committed. None = an empty commit,
    which still records the cycle.
    replace: remove first every file whose partition values match *all* of these lists; None or an empty
    list = remove nothing. Files may be added to partitions that are not named.
    expect_version: the version that the rows were computed from; a table that moved since then raises
    CommitConflict. None = commit on whatever is newest (right for appends by a single writer).
    A cycle that is committed already is skipped; of two racing committers one commits, both return.
    """
    spec = _spec(table)
    for _ in range(_RACES):
        held = _open(lake_root, table)
        if _done(held, app, cycle):
            return held.version()
        _expect(held, table, expect_version)
        verify(Path(lake_root), spec, adds)
        _refuse_known_paths(held, table, adds)
        if _transact(held, spec, adds, _filters(replace), Transaction(app, cycle)):
            return _settle(lake_root, table, held.version() + 1)
    raise CommitConflict(
        f"table {table}, cycle {cycle}: lost {_RACES} races against another committer; "
        "find the other process that writes to this lake and stop it"
    )


def append_ledger(lake_root: Path | str, row: LedgerRow) -> int:
    """Append a row to the ledger, once a cycle and state, and return the ledger's version after it.

    The row's `versions` gets the ledger's own version too. A row that is there already is left as it is.
    """
    for _ in range(_RACES):
        held = _open(lake_root, LEDGER.name)
        if _done(held, row.state, row.cycle):
            return held.version()
        after = held.version() + 1
        add = _ledger_file(Path(lake_root), changed(row, versions={**row.versions, LEDGER.name: after}))
        if _transact(held, LEDGER, [add], None, Transaction(row.state, row.cycle)):
            return _settle(lake_root, LEDGER.name, after)
    raise CommitConflict(
        f"ledger, cycle {row.cycle}: lost {_RACES} races; stop the other writer of this lake"
    )


def replace_all(
    lake_root: Path | str, table: str, adds: Sequence[Add], *, app: str, number: int, expect_version: int
) -> int:
    """Put `adds` in place of every file of a table, once for `number` of `app`; return the version after it."""
    held = _open(lake_root, table)
    if _done(held, app, number):
        return held.version()
    _expect(held, table, expect_version)
    verify(Path(lake_root), _spec(table), adds)
    if not _transact(held, _spec(table), adds, [], Transaction(app, number)):
        raise CommitConflict(f"table {table} was changed by another process; stop it and run again")
    return _settle(lake_root, table, held.version() + 1)


def _ledger_file(root: Path, row: LedgerRow) -> Add:
    """Write the row under a name of its own: it holds the clock, so two writers' rows differ."""
    relative = f"c{row.cycle:06d}/{row.state}-{uuid.uuid4().hex[:12]}.parquet"
    stats = write_parquet(Layout(root).table(LEDGER.name) / relative, to_table([row]), LEDGER)
    return Add(relative, stats.size, stats.rows, {}, stats.stats)


def committed_cycle(lake_root: Path | str, table: str, app: str = "cycle") -> int:
    """Return the newest cycle that is committed to a table, 0 if none: what a recovery asks first."""
    return _open(lake_root, table).transaction_version(app) or 0


def newest_version(lake_root: Path | str, table: str) -> int:
    """Return the table's newest version, committed by the ledger or not. For writers only."""
    return _open(lake_root, table).version()


def paths(held: DeltaTable) -> list[str]:
    """Return the paths of a table's data files relative to its folder (`file_uris` may percent-encode them)."""
    names: list[str] = pa.table(held.get_add_actions()).column("path").to_pylist()
    return names


def make_table(folder: Path, spec: Table) -> None:
    """Make an empty Delta table, durably; one that is there already is left alone, also in a race."""
    make_folder(folder)
    if not (folder / "_delta_log" / _entry(0)).exists():
        try:
            DeltaTable.create(
                folder,
                spec.arrow,
                name=spec.name,
                partition_by=list(spec.partitions),
                configuration={
                    "delta.checkpointInterval": str(CHECKPOINT_EVERY),
                    # the ledger pins versions for ever, so their log entries must stay
                    "delta.enableExpiredLogCleanup": "false",
                },
            )
        except DeltaError as error:
            if not (folder / "_delta_log" / _entry(0)).exists():
                raise _as_lake_error(error, spec.name) from error
    _sync_log(folder, [_entry(0)])


def _spec(table: str) -> Table:
    if table not in BY_NAME:
        raise LakeError(f"no table '{table}'; the tables are {', '.join(BY_NAME)}")
    return BY_NAME[table]


def _open(lake_root: Path | str, table: str) -> DeltaTable:
    folder = Layout(Path(lake_root)).table(table)
    try:
        return DeltaTable(folder)
    except TableNotFoundError as error:
        raise LakeMissing(f"{folder}: table {table} is not there; restore it or make a new lake") from error


def _done(held: DeltaTable, app: str, cycle: int) -> bool:
    at = held.transaction_version(app)
    return at is not None and at >= cycle


def _expect(held: DeltaTable, table: str, version: int | None) -> None:
    if version is not None and held.version() != version:
        raise CommitConflict(
            f"table {table} is at version {held.version()}, the rows were made from version {version}; "
            "plan the cycle again from the newest version"
        )


def _refuse_known_paths(held: DeltaTable, table: str, adds: Sequence[Add]) -> None:
    """A path both removed and added in one commit is against Delta's protocol, and twice added is a mistake."""
    if not adds:
        return
    known = set(paths(held))
    again = sorted(add.path for add in adds if add.path in known)
    if again:
        raise CommitConflict(f"table {table} holds {again[0]} already; a new cycle needs files of its own")


def _transact(
    held: DeltaTable, spec: Table, adds: Sequence[Add], removes: Filters | None, once: Transaction
) -> bool:
    """Commit through the very object whose app transaction was checked; False = somebody was faster.

    A commit by URI would reload the table and void the check: Delta itself accepts an app version twice.
    removes: the conjunction of partition filters whose files go; None = none go, empty = all go.
    """
    try:
        held.create_write_transaction(
            [_action(add) for add in adds],
            mode="append" if removes is None else "overwrite",
            schema=spec.arrow,
            partition_by=list(spec.partitions),
            partition_filters=removes or None,
            commit_properties=CommitProperties(app_transactions=[once], max_commit_retries=0),
            post_commithook_properties=PostCommitHookProperties(
                create_checkpoint=False, cleanup_expired_logs=False
            ),
        )
    except CommitFailedError:
        return False
    except DeltaError as error:
        raise _as_lake_error(error, spec.name) from error
    return True


def _filters(replace: Replace | None) -> Filters | None:
    """Return the conjunction that selects the files to remove, None if it can select none (never empty)."""
    if not replace or not all(replace.values()):
        return None
    return [(name, "in", [str(value) for value in values]) for name, values in replace.items()]


def _action(add: Add) -> AddAction:
    stats = json.dumps({"numRecords": add.rows, **add.stats})
    return AddAction(add.path, add.size, add.partition, time.time_ns() // 1_000_000, True, stats)


def _settle(lake_root: Path | str, table: str, version: int) -> int:
    """Make the commit durable and write the checkpoint that is due; return the version."""
    folder = Layout(Path(lake_root)).table(table)
    _sync_log(folder, [_entry(version)])
    if version % CHECKPOINT_EVERY == 0:
        DeltaTable(folder, version=version).create_checkpoint()
        _sync_log(folder, [f"{version:020d}.checkpoint.parquet", "_last_checkpoint"])
    return version


def _sync_log(folder: Path, names: list[str]) -> None:
    """delta-rs never calls fsync: its files and their names would not survive a power cut."""
    log = folder / "_delta_log"
    for name in names:
        if (log / name).exists():
            sync_file(log / name)
    sync_folder(log)
    sync_folder(folder)


def _entry(version: int) -> str:
    return f"{version:020d}.json"


def _as_lake_error(error: DeltaError, table: str) -> LakeError:
    text: Any = " ".join(str(error).split())[:300]
    if "No space left" in text or "quota" in text.lower():
        return DiskFull(f"cannot commit to table {table}: no space left on the disk; free some and run again")
    return LakeError(f"table {table}: the commit was refused: {text}")
