"""What a power cut can leave in a Delta log, and its mending: delta-rs writes log and checkpoints without fsync.

Only files that were never acknowledged are touched: `lake.commit` returns after its own fsync, and the
ledger names a version after that. Every log entry is kept, so a checkpoint can be done without.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lake import ledger
from lake.errors import LakeDamaged
from lake.files import sync_folder
from lake.layout import Layout
from lake.schema import LEDGER, TABLES

_ENTRY = re.compile(r"^(\d{20})\.json$")
_CHECKPOINT = re.compile(r"^(\d{20})\.checkpoint\.parquet$")
HINT = "_last_checkpoint"


@dataclass(frozen=True)
class Torn:
    """A file of a log that is not whole. version: of the entry or checkpoint; -1 for the hint file."""

    path: Path
    version: int
    what: str


def mend(root: Path | str) -> list[Torn]:
    """Take torn files out of the lake's logs (they stay beside them as `….torn`) and return them.

    For the writer, before it reads. Raises LakeDamaged where a torn entry is one that the ledger names.
    """
    layout = Layout(Path(root))
    mended = _set_aside(layout.table(LEDGER.name), -1)  # first: the others are held against the ledger
    row = ledger.last(root)
    for table in TABLES:
        if table is not LEDGER:
            mended += _set_aside(layout.table(table.name), row.versions.get(table.name, 0) if row else 0)
    return mended


def torn(folder: Path) -> Iterator[Torn]:
    """Yield what is not whole in a table's log: the newest entry, the newest checkpoint, the hint at it."""
    log = folder / "_delta_log"
    names = [path.name for path in log.iterdir()] if log.is_dir() else []
    newest = max((name for name in names if _ENTRY.match(name)), default=None)
    if newest is not None and not _whole_entry((log / newest).read_bytes()):
        yield Torn(log / newest, int(newest[:20]), "a torn log entry")
    checkpoints = {name for name in names if _CHECKPOINT.match(name)}
    last = max(checkpoints, default=None)
    damaged = last is not None and not _readable(log / last)
    if damaged and last is not None:
        yield Torn(log / last, int(last[:20]), "a torn checkpoint")
    if HINT in names and (damaged or not _leads_to(log / HINT, checkpoints)):
        yield Torn(log / HINT, -1, "a hint at a checkpoint that is not there")


def _set_aside(folder: Path, named: int) -> list[Torn]:
    found = list(torn(folder))
    for one in found:
        if one.what == "a torn log entry" and one.version <= named:
            raise LakeDamaged(f"{one.path} is torn, and the ledger names its version; restore it from a copy")
        one.path.replace(one.path.with_name(one.path.name + ".torn"))
    if found:
        sync_folder(folder / "_delta_log")
    return found


def _whole_entry(data: bytes) -> bool:
    """Whether an entry was written to its end: our writes end with the app transaction of their cycle."""
    try:
        actions = [json.loads(line) for line in data.splitlines()]
    except ValueError:
        return False
    if not actions:
        return False
    writes = any(action.get("commitInfo", {}).get("operation") == "WRITE" for action in actions)
    return not writes or any("txn" in action for action in actions)


def _readable(checkpoint: Path) -> bool:
    try:
        pq.read_metadata(checkpoint)
    except (pa.ArrowInvalid, OSError):
        return False
    return True


def _leads_to(hint: Path, checkpoints: set[str]) -> bool:
    try:
        version = int(json.loads(hint.read_bytes())["version"])
    except (ValueError, KeyError, TypeError):
        return False
    return f"{version:020d}.checkpoint.parquet" in checkpoints
