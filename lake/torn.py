"""Files of a Delta log that are not whole, as a power cut leaves them: delta-rs writes log and checkpoints without fsync."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

_ENTRY = re.compile(r"^(\d{20})\.json$")
_CHECKPOINT = re.compile(r"^(\d{20})\.checkpoint\.parquet$")
HINT = "_last_checkpoint"
ENTRY = "a torn log entry"


@dataclass(frozen=True)
class Torn:
    """A file of a log that is not whole. version: of the entry or checkpoint; -1 for the hint file."""

    path: Path
    version: int
    what: str

    @property
    def put_aside(self) -> str:
        """The sentence for people when it was mended."""
        return f"A power cut left {self.what}: {self.path} was put aside; nothing that was committed is lost."


def torn(folder: Path) -> Iterator[Torn]:
    """Yield what is not whole in a table's log: the newest entry, the newest checkpoint, the hint at it."""
    log = folder / "_delta_log"
    names = [path.name for path in log.iterdir()] if log.is_dir() else []
    newest = max((name for name in names if _ENTRY.match(name)), default=None)
    if newest is not None and not _whole_entry((log / newest).read_bytes()):
        yield Torn(log / newest, int(newest[:20]), ENTRY)
    checkpoints = {name for name in names if _CHECKPOINT.match(name)}
    last = max(checkpoints, default=None)
    damaged = last is not None and not _readable(log / last)
    if damaged and last is not None:
        yield Torn(log / last, int(last[:20]), "a torn checkpoint")
    if HINT in names and (damaged or not _leads_to(log / HINT, checkpoints)):
        yield Torn(log / HINT, -1, "a hint at a checkpoint that is not there")


def newest_whole(folder: Path) -> int | None:
    """Return the newest version of a table whose log entry is whole, None where there is none.

    What is torn behind it was never acknowledged: readers of a table that no ledger pins do without.
    """
    log = folder / "_delta_log"
    names = sorted((path.name for path in log.iterdir() if _ENTRY.match(path.name)), reverse=True)
    return next((int(name[:20]) for name in names if _whole_entry((log / name).read_bytes())), None)


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
