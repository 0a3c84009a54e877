"""How long a host is left in peace: the longest wish wins, and its name is kept."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import NamedTuple

from pipelines.rules.outcome import CALM, SLOW_DOWN, Outcome


@dataclass(frozen=True)
class DelayPolicy:
    """What we allow ourselves between two requests to one host."""

    floor_ms: int = 1_000
    address_floor_ms: int = 250
    response_factor: int = 10
    patience_ms: int = 30_000
    backoff_first_ms: int = 5_000
    backoff_max_ms: int = 3_600_000
    backoff_forgive_percent: int = 25


class Delay(NamedTuple):
    """A pause in whole milliseconds, and the wish that set it."""

    ms: int
    reason: str


def next_delay(
    policy: DelayPolicy, *, crawl_delay_ms: int = 0, first_byte_ms: int = 0, backoff_ms: int = 0
) -> Delay:
    """Return the pause between the end of a request to a host and the start of the next.

    The longest wish wins, the first named at a tie: our floor; robots.txt's
    `crawl_delay_ms`, in full; `response_factor` times the last time to the first
    byte, at most `patience_ms`; the back-off after answers that ask to slow down.
    Pass 0 for a wish that is not known.

    >>> next_delay(DelayPolicy(), first_byte_ms=300)
    Delay(ms=3000, reason='response_time')
    """
    wishes = (
        Delay(policy.floor_ms, "floor"),
        Delay(crawl_delay_ms, "crawl_delay"),
        Delay(min(policy.response_factor * first_byte_ms, policy.patience_ms), "response_time"),
        Delay(backoff_ms, "backoff"),
    )
    return max(wishes, key=lambda wish: wish.ms)


def next_backoff_ms(policy: DelayPolicy, *, backoff_ms: int, outcome: Outcome) -> int:
    """Return the back-off after one more outcome: it doubles on trouble and is forgiven a share at a time by calm answers.

    >>> next_backoff_ms(DelayPolicy(), backoff_ms=0, outcome=Outcome.RATE_LIMITED)
    5000
    >>> next_backoff_ms(DelayPolicy(), backoff_ms=8_000, outcome=Outcome.OK)
    6000
    """
    if outcome in SLOW_DOWN:
        return min(max(2 * backoff_ms, policy.backoff_first_ms), policy.backoff_max_ms)
    if outcome in CALM:
        forgiven = backoff_ms * (100 - policy.backoff_forgive_percent) // 100
        return forgiven if forgiven >= policy.backoff_first_ms // 2 else 0
    return backoff_ms


def wait_left_ms(*, next_allowed_ms: int, now_ms: int, longest_ms: int) -> int:
    """Return how long a host must still be left alone, both times epoch ms.

    No wait is longer than the longest pause there can be (`longest_ms`): more was noted by a clock that ran ahead.

    >>> wait_left_ms(next_allowed_ms=900, now_ms=1_000, longest_ms=60), wait_left_ms(next_allowed_ms=9**12, now_ms=0, longest_ms=60)
    (0, 60)
    """
    return min(max(next_allowed_ms - now_ms, 0), longest_ms)


def moving_average_ms(average_ms: int | None, sample_ms: int) -> int:
    """Return the average moved a quarter of the way to the sample; the sample itself when there is none yet.

    >>> moving_average_ms(None, 80), moving_average_ms(100, 200)
    (80, 125)
    """
    return sample_ms if average_ms is None else average_ms + (sample_ms - average_ms) // 4


@dataclass(frozen=True)
class AddressFloors:
    """The least pause between two requests to one address, ms; `exceptions`: (network as text, pause)."""

    usual_ms: int = 250
    exceptions: tuple[tuple[str, int], ...] = ()

    def of(self, address: str) -> int:
        """Return the pause of an address: that of the smallest network it lies in, else the usual one.

        >>> AddressFloors(250, (("192.0.2.0/24", 50), ("192.0.2.7/32", 0))).of("192.0.2.7")
        0
        """
        held = [(one.prefixlen, ms) for one, ms in _networks(self.exceptions) if ip_address(address) in one]
        return max(held)[1] if held else self.usual_ms


@lru_cache(maxsize=16)
def _networks(exceptions: tuple[tuple[str, int], ...]) -> tuple[tuple[IPv4Network | IPv6Network, int], ...]:
    return tuple((ip_network(text, strict=False), ms) for text, ms in exceptions)
