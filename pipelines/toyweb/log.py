"""The server's log: a row a request, written before anything else can happen, readable while it grows."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, fields
from operator import attrgetter
from pathlib import Path


@dataclass(slots=True)
class Row:
    """One request as the server saw it; all times are whole milliseconds.

    id: number of the request, from 1. t_ms: its first byte arrived (monotonic clock of the machine).
    first_ms: first byte of the answer was written; None = none yet. end_ms: last byte was written, or the
    connection ended; None = still open. wall_ms: `t_ms` as ms since 1970, by the clock that the web is served by.
    host, method, target: as asked, host in lower case without port. status: of the answer; None if it has no head.
    bytes: written, head included. whole: the answer was written to its end. hold_ms: what Retry-After asked.
    peer: client's address and port. address: ours. connection: number of the connection, from 1. turn: place of the
    request on it, from 1.
    """

    id: int
    t_ms: int
    first_ms: int | None
    end_ms: int | None
    wall_ms: int
    host: str
    method: str
    target: str
    status: int | None
    bytes: int
    whole: bool
    hold_ms: int
    peer: str
    address: str
    connection: int
    turn: int
    agent: str = ""


_NAMES = tuple(field.name for field in fields(Row))
_values = attrgetter(*_NAMES)
_encode = json.JSONEncoder(separators=(",", ":")).encode


class Log:
    """Rows of requests: kept in memory, and appended to a file of JSON lines where a path is given.

    A line is one `write` to the file, so that a kill loses nothing and readers never see half of two lines. A request
    whose answer takes time has two lines, the first when it arrives: the later one counts.
    """

    def __init__(self, path: Path | None = None, *, keep: bool = True) -> None:
        self._rows: dict[int, Row] = {}
        self._keep = keep
        self._file = None if path is None else os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self.path = path

    def write(self, row: Row) -> None:
        """Note a request, or what has become of it since."""
        if self._keep:
            self._rows[row.id] = row
        if self._file is not None:
            os.write(self._file, _line(row))

    def rows(self) -> list[Row]:
        """Return the rows so far, by time of arrival."""
        return sorted(self._rows.copy().values(), key=lambda row: (row.t_ms, row.id))

    def close(self) -> None:
        """Close the file; rows stay readable."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _line(row: Row) -> bytes:
    return _encode(dict(zip(_NAMES, _values(row), strict=True))).encode() + b"\n"


def read(path: Path) -> list[Row]:
    """Return the rows of a log file, by time of arrival; a torn last line is left out, also while it grows.

    A file to which several servers wrote one after the other keeps the rows of all of them.
    """
    found: dict[tuple[int, int, str], Row] = {}
    for row in _parsed(path):
        found[row.id, row.t_ms, row.peer] = row
    return sorted(found.values(), key=lambda row: (row.t_ms, row.id))


def _parsed(path: Path) -> Iterator[Row]:
    with path.open("rb") as lines:
        for line in lines:
            if line.endswith(b"\n"):
                yield Row(**json.loads(line))
