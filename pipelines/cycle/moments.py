"""Times of the tables and times of the clocks: datetimes in UTC, and whole milliseconds since 1970."""

from __future__ import annotations

from datetime import UTC, datetime


def moment(epoch_ms: int) -> datetime:
    """Return epoch ms as a time; what no calendar holds becomes its end."""
    return datetime.fromtimestamp(min(max(epoch_ms, 0), 253_402_300_799_000) / 1_000, tz=UTC)


def epoch_ms(time: datetime | None) -> int:
    """Return a time as epoch ms; 0 for None."""
    return 0 if time is None else round(time.timestamp() * 1_000)
