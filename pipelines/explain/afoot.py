"""What is under way and not in any committed cycle: the inbox, and the plan of a cycle that is open."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow.compute as pc

from lake import inbox, lease, staging
from lake.snapshot import Lake
from pipelines.cycle import open as opening
from pipelines.explain.spelling import Spelling, spelling_of

INBOX_BYTES = 2**26
"""Inbox files are looked through up to this size in all; beyond it they are only counted."""


@dataclass(frozen=True)
class OpenCycle:
    """A cycle that is not committed yet. partition: of the URL in its plan, None = it is not in it."""

    cycle: int
    running: bool
    partition: int | None


def open_cycle(lake: Lake, spelling: Spelling) -> OpenCycle | None:
    """Return the cycle that is under way, and whether the URL is in its plan."""
    turn = opening.unfinished(lake)
    if turn is None:
        return None
    running = lease.held_by(lake.layout.lease) is not None
    group = next(n for n in range(turn.groups) if spelling.bucket in turn.bucket_range(n))
    path = turn.staged("plan", f"urls-{group:04d}.arrow")
    if not path.exists():
        return OpenCycle(turn.cycle, running, None)
    rows = staging.read_table(path, columns=["url_key", "partition"])
    mine = rows.filter(pc.equal(rows["url_key"], spelling.key))
    return OpenCycle(turn.cycle, running, mine["partition"][0].as_py() if mine.num_rows else None)


def in_inbox(lake: Lake, key: int) -> tuple[int, int]:
    """Return how often the inbox mentions the URL, and how many of its files were too large to look through."""
    names = inbox.pending(lake.root)
    left, mentions, unread = INBOX_BYTES, 0, 0
    for name in names:
        left -= (lake.layout.inbox / name).stat().st_size
        if left < 0:
            unread += 1
            continue
        for url in inbox.read(lake.root, [name])["url"].to_pylist():
            found = spelling_of(url, 1)
            mentions += found is not None and found.key == key
    return mentions, unread
