"""The files through which the steps of an open cycle meet: Arrow tables and small JSON manifests.

Everything lies under `staging/cycle=N/` and goes when the cycle is committed. A file is there whole or
not at all; running a task twice writes the same file twice.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc as ipc

from lake.layout import Layout


def folder(root: Path | str, cycle: int) -> Path:
    """Return the staging folder of a cycle."""
    return Layout(Path(root)).staging(cycle)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _temporary(path: Path) -> Iterator[Path]:
    """Give a name beside `path` to write to; what is left there at the end is removed: a full disk needs the room."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.tmp")
    try:
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def write_table(path: Path, table: pa.Table, *, durable: bool = False) -> None:
    """Write a table as an Arrow file that can be mapped into memory; `durable` survives a power cut."""
    with _temporary(path) as temporary:
        with pa.OSFile(str(temporary), "wb") as sink, ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        if durable:
            _sync(temporary)
        temporary.rename(path)
    if durable:
        _sync(path.parent)


def read_table(path: Path, *, columns: list[str] | None = None) -> pa.Table:
    """Map a table into memory. Raises FileNotFoundError if no task wrote it."""
    with pa.memory_map(str(path)) as source:
        table = ipc.open_file(source).read_all()
    return table.select(columns) if columns else table


def write_manifest(path: Path, content: dict[str, Any], *, durable: bool = True) -> None:
    """Write a JSON manifest; the last writer wins."""
    with _temporary(path) as temporary:
        with open(temporary, "w", encoding="utf-8") as sink:
            json.dump(content, sink, sort_keys=True)
            sink.flush()
            if durable:
                os.fsync(sink.fileno())
        temporary.rename(path)
    if durable:
        _sync(path.parent)


def claim_manifest(path: Path, content: dict[str, Any]) -> bool:
    """Write a JSON manifest if none is there; False if another was first. Survives a power cut."""
    with _temporary(path) as temporary:
        with open(temporary, "w", encoding="utf-8") as sink:
            json.dump(content, sink, sort_keys=True)
            sink.flush()
            os.fsync(sink.fileno())
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
    _sync(path.parent)
    return True


def read_manifest(path: Path) -> dict[str, Any] | None:
    """Return a manifest, or None if nobody wrote it."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    content: dict[str, Any] = json.loads(text)
    return content
