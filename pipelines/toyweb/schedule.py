"""When a page changes: a Poisson process that can be asked about any instant without walking through time.

Time is cut into cells of one mean gap. Each cell holds a Poisson(1) number of changes at uniform places,
all drawn from (page, cell): together an exact Poisson process, and a pure function of the page and the time.
"""

from __future__ import annotations

from pipelines.toyweb.chance import share

_LIMITS = (0.36787944, 0.73575888, 0.91969860, 0.98101184, 0.99634015, 0.99940582)
"""Cumulative Poisson(1): the chance of at most 0, 1, 2, ... changes in a cell."""
BORN_MS = 1_735_689_600_000
"""2025-01-01 UTC: no page is older, and one that never changes is as old as this."""


def changes_in(key: str, gap_ms: int, cell: int) -> list[int]:
    """Return the times (ms since 1970, ascending) at which a page changes in one cell of `gap_ms`."""
    chance = share(key, "count", cell)
    count = sum(chance >= limit for limit in _LIMITS)
    return sorted(int((cell + share(key, "at", cell, n)) * gap_ms) for n in range(count))


def changed_at(key: str, gap_ms: int, now_ms: int) -> int:
    """Return the time of the last change at or before `now_ms`: the page's version.

    gap_ms: mean time between changes; 0 = it never changes, and the answer is `BORN_MS`.
    """
    if not gap_ms or now_ms <= BORN_MS:
        return BORN_MS
    cell = now_ms // gap_ms
    while (cell + 1) * gap_ms > BORN_MS:
        past = [at for at in changes_in(key, gap_ms, cell) if at <= now_ms]
        if past:
            return max(past[-1], BORN_MS)
        cell -= 1
    return BORN_MS


def changes_between(key: str, gap_ms: int, start_ms: int, end_ms: int) -> list[int]:
    """Return all times of change in `(start_ms, end_ms]`, ascending: what a perfect observer would see."""
    if not gap_ms:
        return []
    cells = range(start_ms // gap_ms, end_ms // gap_ms + 1)
    return [
        at for cell in cells for at in changes_in(key, gap_ms, cell) if max(start_ms, BORN_MS) < at <= end_ms
    ]
