"""A host while its partition is fetched: its queue, clock, robots.txt and spendings. No socket, no clock."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pipelines.cycle.moments import epoch_ms as epoch_ms
from pipelines.cycle.moments import moment as moment
from pipelines.cycle.sitemaps import HostSitemaps, rows_of
from pipelines.rules.budget import booking_month
from pipelines.rules.delay import Delay, DelayPolicy, moving_average_ms, next_backoff_ms, next_delay
from pipelines.rules.outcome import HOST_FAULTS, UNASKED, Outcome
from pipelines.rules.robots import Rules
from pipelines.rules.robots_policy import RobotsState

NEVER = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class Item:
    """One request to make. `key` of the canonical URL; `origin`: key of the planned URL that led here."""

    url: str
    host: str
    key: int
    origin: int
    kind: str = "page"  # page, robots, sitemap
    depth: int = 0
    via: str | None = None
    source: str = "link"
    meta: str | None = None
    hop: int = 0
    chain: tuple[str, ...] = ()  # URLs of the hops before
    site: str = ""  # robots: the site whose rules this brings; sitemap: the address that its host has it by
    feed: bool = False  # a seed's feed: its items are links
    etag: str | None = None
    last_modified: str | None = None
    last_digest: str | None = None
    last_visit_ms: int | None = None


@dataclass(slots=True)
class RobotsCopy:
    """What is known of a site's robots.txt."""

    state: RobotsState
    rules: Rules | None
    status: int | None
    digest: str | None
    fetched_ms: int
    expires_ms: int
    url: str


@dataclass(slots=True)
class HostState:
    """One host's queue and books. `row` is its line of the host table, brought up to date by `as_row`."""

    row: dict[str, Any]
    address: str | None
    requests_left: int
    fault: tuple[str, str] | None = None  # its name has no usable address: outcome and sentence
    queue: deque[Item] = field(default_factory=deque)
    robots: dict[str, RobotsCopy] = field(default_factory=dict)
    delay: Delay = field(default_factory=lambda: Delay(0, "floor"))
    pause: Delay = field(default_factory=lambda: Delay(0, "floor"))  # what holds before the next request
    next_ms: int = 0  # monotonic: not to be asked before
    next_epoch_ms: int = 0
    touched: bool = False
    down: bool = False  # nothing more is asked in this cycle
    asked: int = 0  # requests made in this cycle
    id: int = 0  # stands for the host in the journal
    waiting: bool = False  # its robots.txt is being fetched from another host
    sitemaps: HostSitemaps = field(default_factory=HostSitemaps)
    turns: int = 0  # pages taken from the queue less sitemaps asked: they go in turns, a page first

    @property
    def name(self) -> str:
        """The host name."""
        return str(self.row["host"])

    def work_ms(self) -> int:
        """Return how long the queue will take at the present pace."""
        return self.asks() * (self.delay.ms + (self.row["response_ms"] or 0))

    def asks(self) -> int:
        """Return how many requests it has left."""
        return len(self.queue) + self.sitemaps.waiting()

    def has_work(self) -> bool:
        """Return whether there is something that it may be asked now."""
        more = self.queue or self.sitemaps
        return bool(more) and not self.down and not self.waiting and self.requests_left > 0

    def told(self) -> dict[str, Any]:
        """Return how the host stands: URLs left, the pause between requests and its reason, times in ms."""
        return {
            "host": self.name, "left": len(self.queue), "pause_ms": self.pause.ms, "reason": self.pause.reason,
            "response_ms": self.row["response_ms"] or 0, "work_ms": self.work_ms(),
        }  # fmt: skip

    def settle_delay(self, policy: DelayPolicy) -> None:
        """Set the pause from what is known of the host."""
        self.delay = next_delay(
            policy,
            crawl_delay_ms=self.row["crawl_delay_ms"] or 0,
            first_byte_ms=self.row["last_first_byte_ms"] or 0,
            backoff_ms=self.row["backoff_ms"] or 0,
        )

    def settle(
        self, policy: DelayPolicy, outcome: Outcome, *, first_byte_ms: int | None, total_ms: int,
        site_only: bool = False,
    ) -> None:  # fmt: skip
        """Enter one outcome into the books: back-off, averages, health, and the pause that follows.

        site_only: the fault is of one port or scheme, and the host has others.
        """
        row = self.row
        row["backoff_ms"] = next_backoff_ms(policy, backoff_ms=row["backoff_ms"] or 0, outcome=outcome)
        if first_byte_ms is not None:
            row["last_first_byte_ms"] = first_byte_ms
            row["first_byte_ms"] = moving_average_ms(row["first_byte_ms"], first_byte_ms)
            row["response_ms"] = moving_average_ms(row["response_ms"], total_ms)
        if outcome in HOST_FAULTS and not site_only:
            self.down = True
            row["failures"] = min((row["failures"] or 0) + 1, 32_767)
            row["health"] = outcome.value
        self.settle_delay(policy)
        self.touched = True

    def answered(self, outcome: Outcome, first_byte_ms: int | None) -> None:
        """Note that the host talks to us: an answer of any kind ends its failures."""
        if first_byte_ms is not None and outcome not in UNASKED and outcome not in HOST_FAULTS:
            self.is_well()

    def is_well(self) -> None:
        """Forget the failures of the host itself."""
        row = self.row
        row["failures"], row["health"], row["failing_since"], row["probe_at"] = 0, "ok", None, None

    def spend(self, month: int) -> None:
        """Count a request that is about to be sent."""
        row = self.row
        booked = booking_month(row["month"], month)
        if (row["month"] or 0) < booked:
            row["month_requests"] = 0
        row["month"] = booked
        row["month_requests"] = (row["month_requests"] or 0) + 1
        row["requests"] = (row["requests"] or 0) + 1
        self.requests_left -= 1
        self.asked += 1
        self.touched = True

    def as_row(self, names: list[str], cycle: int) -> tuple[Any, ...]:
        """Return the line of the host table as a tuple in the order of `names`, `requests_left` last."""
        row = self.row
        row["next_allowed_at"] = moment(self.next_epoch_ms) if self.next_epoch_ms else row["next_allowed_at"]
        row["delay_ms"], row["delay_reason"] = self.delay.ms, self.delay.reason
        row["robots"] = [
            {
                "site": site,
                "state": copy.state.value,
                "status": copy.status,
                "digest": copy.digest,
                "fetched_at": moment(copy.fetched_ms),
                "expires_at": moment(copy.expires_ms),
                "url": copy.url,
            }
            for site, copy in sorted(self.robots.items())
        ]
        row["sitemaps"] = rows_of(self.sitemaps)
        row["last_cycle"] = cycle
        return (*(row[name] for name in names), self.requests_left)
