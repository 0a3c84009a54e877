"""The machine room of a fetch partition: whose turn it is, and what an answer means for its host.

It is told the time and handed exchanges; `fetch_run.py` owns the loop, the socket and the clock. What is queued lies in
`queues.py`, what robots.txt answers mean in `robots_desk.py`, the hosts' sitemaps in `sitemap_desk.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lake.schema import HOSTS
from pipelines.cycle.hoststate import HostState, Item, moment
from pipelines.cycle.queues import Queues
from pipelines.cycle.robots_desk import RobotsDesk
from pipelines.cycle.sitemap_desk import SitemapDesk
from pipelines.cycle.sitemaps import SitemapRules
from pipelines.cycle.watch import Watch
from pipelines.net.exchange import Exchange
from pipelines.rules import urls
from pipelines.rules.delay import Delay, DelayPolicy
from pipelines.rules.outcome import HOST_FAULTS, SITE_FAULTS, Outcome
from pipelines.rules.recrawl import ProbePolicy, probe_seconds
from pipelines.rules.retry_after import RetryAfterPolicy, retry_after_ms
from pipelines.rules.robots_policy import RobotsPolicy, RobotsState
from pipelines.rules.schedule import Ask, Schedule, Wait

GUARD_MS = 3
"""Added to every pause, a host's and an address's: our clock reads whole ms, and a server may note the end of an
answer after we do."""

CUT_OFF_MS = 500
"""Added once more when we hung up in the middle of an answer: the server needs a moment to notice."""

HOST_COLUMNS = [column.name for column in HOSTS.columns]


@dataclass(frozen=True)
class CrewPolicy:
    """The rules that a partition follows."""

    product: str
    delay: DelayPolicy
    robots: RobotsPolicy
    retry_after: RetryAfterPolicy
    redirects: int
    probe: ProbePolicy
    sitemaps: SitemapRules = field(default_factory=SitemapRules)


@dataclass
class Denied:
    """An item that is not asked for: what is written of it instead."""

    item: Item
    outcome: Outcome
    detail: str


class Crew:
    """The hosts of a partition and whose turn it is. Times `now_ms` are monotonic, `epoch_ms` since 1970."""

    def __init__(self, policy: CrewPolicy, schedule: Schedule, *, watch: Watch | None = None) -> None:
        self.policy, self.schedule, self._watch = policy, schedule, watch
        self.queues = Queues(schedule)
        self.hosts = self.queues.hosts
        self.sitemaps = SitemapDesk(policy.sitemaps, self.queues)
        self.robots = RobotsDesk(policy.robots, policy.delay, policy.product, self.queues, self.sitemaps)
        self.denied: list[Denied] = []

    def enlist(self, host: HostState) -> None:
        """Bring a host in with its queue."""
        if self._watch is not None:
            self._watch.enlist(host.row)
        self.queues.enlist(host)

    # --- whose turn ---

    def take(self, now_ms: int, epoch_ms: int) -> Item | Wait | None:
        """Return what to ask for now, or how long to wait; None = nothing until an answer comes.

        Items that robots.txt forbids are put on `denied` on the way; they cost no request.
        """
        while isinstance(turn := self.schedule.take(now_ms), Ask):
            host = self.hosts[turn.host]
            item = self._next_item(host, epoch_ms)
            if item is not None:
                return item
            self.schedule.release(host.name, ready_ms=None)
        return turn

    def _next_item(self, host: HostState, epoch_ms: int) -> Item | None:
        while host.has_work():
            self.sitemaps.call(host)
            item = host.queue[0]
            if item.kind == "robots":
                return self._pop(host)
            if host.fault is not None:
                return self._pop(host)
            site = urls.site_of(item.url)
            copy = host.robots.get(site)
            if site in self.robots.apart:
                self.queues.skip_site(host, site)
                continue
            if copy is None or copy.expires_ms <= epoch_ms:
                return self.robots.item(host, site)
            if copy.state is RobotsState.UNREACHABLE:
                self.queues.skip_site(host, site)
                continue
            item = self._pop(host)
            if self._watch is not None and self._watch.refuses(item):
                continue  # it stays on its shelf, and the merge says why it goes on or not
            if copy.rules is not None and copy.state is RobotsState.RULES:
                verdict = copy.rules.allows(item.url, self.policy.product)
                if not verdict.allowed:
                    line = f"line {verdict.line_no}: {verdict.line}" if verdict.line_no else str(verdict.line)
                    self.denied.append(Denied(item, Outcome.ROBOTS_DENIED, line))
                    host.touched = True
                    if item.kind == "sitemap":
                        self.sitemaps.came(item, Outcome.ROBOTS_DENIED.value, epoch_ms=epoch_ms)
                    continue
            return item
        return None

    def _pop(self, host: HostState) -> Item:
        item = self.queues.pop(host)
        host.turns += item.kind == "page"
        return item

    # --- an answer came ---

    def settle(self, item: Item, exchange: Exchange, *, now_ms: int, epoch_ms: int) -> None:
        """Enter what came of a request into its host's books, and give the host back to the heap."""
        host = self.hosts[item.host]
        outcome, site = exchange.outcome, urls.site_of(item.url)
        site_only = outcome in SITE_FAULTS and self.robots.has_other_site(host, site, epoch_ms)
        host.settle(
            self.policy.delay, outcome, first_byte_ms=exchange.first_byte_ms, total_ms=exchange.total_ms,
            site_only=site_only,
        )  # fmt: skip
        if item.kind != "robots":  # what robots.txt says of a host's health is learnt apart
            host.answered(outcome, exchange.first_byte_ms)
        if item.kind == "page" and outcome is Outcome.OK:
            host.row["pages"] = (host.row["pages"] or 0) + 1
        host.row["body_bytes"] = (host.row["body_bytes"] or 0) + len(exchange.body)
        bad_port = item.kind == "robots" and outcome is Outcome.URL_REFUSED  # a page's is its own
        if site_only or bad_port:
            self._close_site(host, site, exchange, epoch_ms)
        elif outcome in HOST_FAULTS:
            self._ail(host, epoch_ms)
        wish = self._retry_after(exchange, epoch_ms)
        host.pause = host.delay if wish <= host.delay.ms else Delay(wish, "retry_after")
        rest = host.pause.ms + GUARD_MS + (CUT_OFF_MS if exchange.truncated in ("length", "time") else 0)
        host.next_ms, host.next_epoch_ms = now_ms + rest, epoch_ms + rest
        if host.requests_left <= 0:
            self.robots.leave_unread(host, epoch_ms)
        self._give_back(host, now_ms)

    def _close_site(self, host: HostState, site: str, exchange: Exchange, epoch_ms: int) -> None:
        """Ask no more of a port or scheme that cannot be talked to: what is queued for it fails as it did.

        Else its URLs would take the host's share of every cycle and its room on ready, and nothing would come of them.
        Nobody knows what its robots.txt says now.
        """
        self.robots.close(host, site, epoch_ms)
        for item in self.queues.skip_site(host, site):
            if item.kind == "sitemap":
                self.sitemaps.came(item, exchange.outcome.value, epoch_ms=epoch_ms)
            else:
                self.denied.append(Denied(item, exchange.outcome, exchange.error or site))

    def _retry_after(self, exchange: Exchange, epoch_ms: int) -> int:
        if exchange.status not in (429, 503):
            return 0
        wish = retry_after_ms(exchange.header("retry-after"), now_ms=epoch_ms, policy=self.policy.retry_after)
        return wish or 0

    def _ail(self, host: HostState, epoch_ms: int) -> None:
        row = host.row
        row["failing_since"] = row["failing_since"] or moment(epoch_ms)
        row["probe_at"] = moment(
            epoch_ms + 1_000 * probe_seconds(self.policy.probe, failures=row["failures"])
        )
        self.robots.leave_unread(host, epoch_ms)
        self.queues.clear(host)

    def _give_back(self, host: HostState, now_ms: int) -> None:
        goes_on = host.has_work()
        self.schedule.done(
            host.name,
            now_ms=now_ms + GUARD_MS,  # the address's clock; the host's own has it already
            ready_ms=host.next_ms if goes_on else None,
            work_ms=host.work_ms(),
            asks=host.asks(),
        )

    def follow(self, item: Item, *, first: bool) -> None:
        """Queue what an answer led to on a host of this partition; a host that had left the heap waits out its clock."""
        host = self.hosts[item.host]
        self.queues.put(host, item, first=first)
        self.queues.taken.add(item.key)
        self.queues.wake(host)
