"""Clocks in whole milliseconds: the system's, and one that tests move by hand."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """What the network room asks about time."""

    def now_ms(self) -> int:
        """Return milliseconds since 1970-01-01 UTC; may jump when the system's clock is set."""
        ...

    def monotonic_ms(self) -> int:
        """Return milliseconds since some moment; never goes back."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def now_ms(self) -> int:
        """Return milliseconds since 1970-01-01 UTC."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Return milliseconds since some moment before the process started; never goes back."""
        return time.monotonic_ns() // 1_000_000


class PretendClock:
    """A clock that stands still until it is told to move.

    >>> clock = PretendClock(start_ms=1_000)
    >>> clock.advance(250)
    >>> clock.now_ms()
    1250
    """

    def __init__(self, start_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = start_ms
        self._monotonic_ms = 0

    def now_ms(self) -> int:
        """Return the pretended milliseconds since 1970-01-01 UTC."""
        return self._now_ms

    def monotonic_ms(self) -> int:
        """Return the pretended milliseconds since this clock was made."""
        return self._monotonic_ms

    def advance(self, by_ms: int) -> None:
        """Let `by_ms` milliseconds pass; raises ValueError for a negative number."""
        if by_ms < 0:
            raise ValueError(f"a pretend clock cannot advance by {by_ms} ms; use jump() to set it back")
        self._now_ms += by_ms
        self._monotonic_ms += by_ms

    def jump(self, by_ms: int) -> None:
        """Set the wall clock forward or back, as an operator or NTP would; monotonic time does not move."""
        self._now_ms += by_ms
