"""Which cycles a command means: `--cycle 3`, `--cycle 2-5`, `--cycle last`."""

from __future__ import annotations

import re

from pipelines.failure import Misuse


def cycles_of(text: str | None, *, last: int) -> list[int] | None:
    """Return the cycles that an option names, None for all of them (not given, or "all").

    last: the last committed cycle, 0 = none. Raises Misuse for what names no cycles, or cycles that are not there.

    >>> cycles_of("2-4", last=9), cycles_of("last", last=9), cycles_of(None, last=9)
    ([2, 3, 4], [9], None)
    """
    if text is None or text == "all":
        return None
    if not last:
        raise Misuse(f"--cycle {text}: no cycle is committed yet")
    if text == "last":
        return [last]
    found = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", text)
    if found is None:
        raise Misuse(f"--cycle {text}: name a cycle (3), a range (2-5), last or all")
    low, high = int(found[1]), int(found[2] or found[1])
    if low > high:
        raise Misuse(f"--cycle {text}: the first is after the last; a range is named as {high}-{low}")
    if not 1 <= low <= high <= last:
        raise Misuse(f"--cycle {text}: committed are the cycles 1 to {last}")
    return list(range(low, high + 1))


def one_cycle(text: str | None, *, last: int) -> int:
    """Return the one cycle that an option names, the last if it is not given; raises Misuse as `cycles_of` does."""
    found = cycles_of(text or "last", last=last)
    if found is None or len(found) != 1:
        raise Misuse(f"--cycle {text}: name one cycle, or last")
    return found[0]
