"""The data files that a Delta log names at a version: read once a process, for what a version names never changes.

Every task of a step opens the lake anew, and a log takes milliseconds to read: a fifth of a small plan's CPU time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

REMEMBERED = 24
"""Tables that are kept in mind: those of a lake, at one version or two."""

LARGEST_BYTES = 16 << 20
"""A table of actions that takes more is read each time: some 60,000 files."""

Entry = tuple[str, int, int, int, int]
"""A log's entry: its folder and version, and what tells its file from another of that name."""

_lock = threading.Lock()
_kept: dict[Entry, pa.Table] = {}


def read(held: DeltaTable) -> pa.Table:
    """Return the data files in a table's log, a row each; `pa.table` would do, but brings in pandas: 0.2 s."""
    return pa.RecordBatchReader.from_stream(held.get_add_actions(flatten=True)).read_all()


def log_entry(folder: Path, version: int) -> Entry | None:
    """Return what names a version of a table, also where another lake lies at its path later; None if it is not there."""
    try:
        found = (folder / "_delta_log" / f"{version:020d}.json").stat()
    except OSError:
        return None
    return str(folder), version, found.st_ino, found.st_mtime_ns, found.st_size


def adds_of(entry: Entry | None, open_log: Callable[[], DeltaTable]) -> pa.Table:
    """Return the data files of a version, a row each; `open_log` is asked where they are not in mind."""
    if entry is None:
        return read(open_log())
    with _lock:
        if entry in _kept:
            return _kept[entry]
    found = read(open_log())
    if found.nbytes <= LARGEST_BYTES:
        with _lock:
            _kept[entry] = found
            while len(_kept) > REMEMBERED:
                del _kept[next(iter(_kept))]
    return found
