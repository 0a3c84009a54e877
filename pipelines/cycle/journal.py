"""The journal of an attempt: what must not be lost between two flushes, written before it matters.

A line for each request that is about to be sent, and one for each pause longer than the floor. It is not
synced: it outlives a killed process, and a power cut loses what the disk had not taken.
"""

from __future__ import annotations

import os
import struct
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import xxhash

from pipelines.rules.budget import month_of

_LINE = struct.Struct("<BQqq")
_INTENT, _HOLD = 1, 2


def host_id(host: str) -> int:
    """Return 64 bits that stand for a host."""
    return xxhash.xxh3_64_intdigest(host.encode())


class Journal:
    """The writing side."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def intend(self, host: int, url_key: int, epoch_ms: int) -> None:
        """Note that a request is about to be sent."""
        os.write(self._file, _LINE.pack(_INTENT, host, url_key, epoch_ms))

    def hold(self, host: int, until_epoch_ms: int) -> None:
        """Note that a host is not to be asked before a time."""
        os.write(self._file, _LINE.pack(_HOLD, host, 0, until_epoch_ms))

    def sync(self) -> None:
        """Make durable what was noted: a part must not outlive the requests that it tells of."""
        os.fsync(self._file)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


@dataclass
class Told:
    """What journals say of each host, by its id: requests by calendar month, and until when it is to be left alone."""

    spent: dict[int, Counter[int]] = field(default_factory=dict)
    holds: dict[int, int] = field(default_factory=dict)


def read(paths: Iterable[Path]) -> Told:
    """Read the journals of earlier attempts, oldest first; a torn last line is left out."""
    told = Told()
    for path in paths:
        data = path.read_bytes() if path.exists() else b""
        for kind, host, _, at in _LINE.iter_unpack(data[: len(data) - len(data) % _LINE.size]):
            if kind == _INTENT:
                told.spent.setdefault(host, Counter())[month_of(at)] += 1
            else:
                told.holds[host] = max(at, told.holds.get(host, 0))
    return told
