"""When the next cycle of `noria run` begins, and the loop that keeps to it: no clock, no process of its own."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from pipelines.failure import Misuse
from pipelines.net.clock import Clock

UNITS_MS = {"s": 1_000, "min": 60_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_PART = re.compile(r"(\d+)\s*(min|[smhd])")


def every_ms(text: str) -> int:
    """Return a duration in ms; raises Misuse for what is none.

    >>> every_ms("90s"), every_ms("1h30min"), every_ms("1d")
    (90000, 5400000, 86400000)
    """
    found = _PART.findall(text)
    if not found or _PART.sub("", text).strip() or not any(int(count) for count, _ in found):
        raise Misuse(f"--every {text}: a duration is wanted, such as 90s, 30min, 1h, 1h30min or 1d")
    return sum(int(count) * UNITS_MS[unit] for count, unit in found)


class End(Enum):
    """How one try at a cycle ended."""

    DONE = "done"
    STOPPED = "stopped"  # it was told to stop, and has committed what it had
    BUSY = "busy"  # another process writes to the lake
    FAILED = "failed"
    MISUSED = "misused"  # it cannot work as it was asked for


@dataclass(frozen=True)
class Pace:
    """How often, and how soon again after a failure: the wait doubles from `retry_ms` up to `retry_most_ms`."""

    every_ms: int
    retry_ms: int = 60_000
    retry_most_ms: int = 3_600_000


def next_start_ms(pace: Pace, *, began_ms: int, ended_ms: int, failures: int) -> int:
    """Return when the next cycle begins.

    From start to start it is `every_ms`; one that took longer is followed at once, and what it overran is not made
    up for. After `failures` in a row: the retry wait, from its end, and never sooner than a failed one began plus it.

    >>> next_start_ms(Pace(3_600_000), began_ms=0, ended_ms=600_000, failures=0)
    3600000
    >>> next_start_ms(Pace(3_600_000), began_ms=0, ended_ms=1_000, failures=3)
    241000
    """
    if not failures:
        return max(began_ms + pace.every_ms, ended_ms)
    wait = min(pace.retry_ms << min(failures - 1, 30), max(pace.retry_most_ms, pace.every_ms))
    return ended_ms + wait


@dataclass
class Rounds:
    """The loop. `turn` tries one cycle, `pause` waits some ms or until a stop, `stopping` tells of a stop."""

    pace: Pace
    turn: Callable[[], End]
    pause: Callable[[int], None]
    stopping: Callable[[], bool]
    say: Callable[[str], None]
    warn: Callable[[str], None]
    clock: Clock

    def run(self, cycles: int | None) -> End:
        """Turn until `cycles` have ended well (None = for ever), or a stop; return how it ended.

        A mistake in what was asked for ends it at the first try only: later it is a failure like any other.
        """
        done = failures = 0
        while not self.stopping():
            began = self.clock.monotonic_ms()
            end = self.turn()
            if end is End.STOPPED or (end is End.MISUSED and not done + failures):
                return end
            done += end is End.DONE
            failures = 0 if end in (End.DONE, End.BUSY) else failures + 1
            if cycles is not None and done >= cycles:
                return End.DONE
            self._wait(end, began, failures)
        return End.STOPPED

    def _wait(self, end: End, began: int, failures: int) -> None:
        ended = self.clock.monotonic_ms()
        begins = next_start_ms(self.pace, began_ms=began, ended_ms=ended, failures=failures)
        wait = begins - ended
        if wait > 0 and not self.stopping():
            begins_in = f"the next cycle begins in {wait / 1_000:,.0f} s"
            (self.warn if end in WHY else self.say)(f"{WHY[end]}; {begins_in}" if end in WHY else begins_in)
            self.pause(wait)


WHY = {
    End.FAILED: "the cycle failed",
    End.MISUSED: "the cycle was refused",
    End.BUSY: "another process writes to the lake",
}
"""What is said of an end that was not a good one."""
