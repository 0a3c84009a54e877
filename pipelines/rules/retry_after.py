"""Retry-After: how long a server that answers 429 or 503 asks us to stay away (RFC 9110 section 10.2.3)."""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.rules.dates import http_date_ms


@dataclass(frozen=True)
class RetryAfterPolicy:
    """What a Retry-After may ask for."""

    max_ms: int = 30 * 86_400_000  # a longer wish (a date in ten years, 1e18 seconds) is cut to this


def retry_after_ms(value: str | None, *, now_ms: int, policy: RetryAfterPolicy | None = None) -> int | None:
    """Return how many ms from `now_ms` (epoch) the server wants to be left alone.

    Both forms are read: seconds, and an HTTP date in its three formats. A date that has passed is 0, a wish
    beyond `max_ms` is `max_ms`, and what is neither form (text, a sign, nothing) is None. Of several values
    joined by commas (two header lines) the longest holds.

    >>> retry_after_ms("120", now_ms=0), retry_after_ms("Thu, 01 Jan 1970 00:01:00 GMT", now_ms=0)
    (120000, 60000)
    """
    longest = (policy or RetryAfterPolicy()).max_ms
    wishes = [wish for part in _values(value or "") if (wish := _wish_ms(part, now_ms)) is not None]
    return min(max(*wishes, 0), longest) if wishes else None


def _values(text: str) -> list[str]:
    """Return a header's values; the comma after a weekday parts nothing."""
    values: list[str] = []
    for part in text[:1000].split(","):
        if values and values[-1].isalpha():
            values[-1] += "," + part
        else:
            values.append(part.strip())
    return values


def _wish_ms(value: str, now_ms: int) -> int | None:
    whole, dot, fraction = value.partition(".")
    if value.isascii() and whole.isdigit() and (fraction.isdigit() if dot else True):
        return int(whole[:18]) * 1000 + (1000 if fraction.strip("0") else 0)
    date_ms = http_date_ms(value)
    return None if date_ms is None else date_ms - now_ms
