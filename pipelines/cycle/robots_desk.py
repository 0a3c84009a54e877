"""What an answer to robots.txt means for the hosts of a partition, wherever it was read."""

from __future__ import annotations

from dataclasses import dataclass, field

from pipelines.cycle.hoststate import HostState, Item, RobotsCopy, moment
from pipelines.cycle.queues import Queues
from pipelines.cycle.sitemap_desk import SitemapDesk
from pipelines.net.exchange import Exchange
from pipelines.rules import urls
from pipelines.rules.delay import DelayPolicy
from pipelines.rules.outcome import HOST_FAULTS, Outcome
from pipelines.rules.robots import Rules
from pipelines.rules.robots_policy import (
    RobotsPolicy,
    RobotsState,
    may_follow,
    next_fetch_ms,
    robots_url,
    state_of,
)

SETTLED = HOST_FAULTS | {Outcome.URL_REFUSED}
"""Outcomes of which `Crew.settle` says what they mean for the host and for what is queued."""


@dataclass
class RobotsDesk:
    """Keeps the robots.txt copies of a partition's hosts. Times are epoch ms."""

    policy: RobotsPolicy
    delay: DelayPolicy
    product: str
    queues: Queues
    sitemaps: SitemapDesk
    bodies: dict[str, bytes] = field(default_factory=dict)  # robots.txt by digest, new in this cycle
    apart: set[str] = field(default_factory=set)
    """Sites whose robots.txt redirects to a host of another partition: nothing more is asked of them in this cycle."""

    def item(self, host: HostState, site: str) -> Item:
        """Return the request for a site's robots.txt."""
        url = robots_url(site)
        key = urls.url_key(url, host.name)
        return Item(url, host.name, key, key, kind="robots", site=site, source="robots")

    def came(
        self, item: Item, exchange: Exchange, body: bytes, digest: str | None, *, epoch_ms: int,
        spoilt: bool = False,
    ) -> None:  # fmt: skip
        """Take in an answer to robots.txt: follow its redirect, or settle what holds for the site that was asked.

        Call it before `settle`. The rules belong to the site of the first hop (RFC 9309 2.3.1.2). spoilt: the body
        was cut off on its way or cannot be decoded; half the rules are no rules, so it is as if none had come
        (RFC 9309 2.3.1.4; Google: interrupted connections and chunking errors are server errors).
        """
        owner = self.queues.hosts[urls.host_of(item.site + "/")]
        target = self._robots_target(item, exchange)
        if target is not None and urls.host_of(target) in self.queues.hosts:
            self._follow_robots(item, target, owner, epoch_ms)
            return
        owner.waiting = False
        if target is not None:
            self._ask_together(owner, item, exchange, urls.host_of(target), epoch_ms)
        else:
            state = (
                state_of(exchange.status) if exchange.outcome not in HOST_FAULTS else RobotsState.UNREACHABLE
            )
            state = RobotsState.UNREACHABLE if spoilt and state is RobotsState.RULES else state
            self._learn(owner, item, state, body, exchange, digest, epoch_ms)
        if owner.name != item.host:
            self.queues.wake(owner)

    def leave_unread(self, host: HostState, epoch_ms: int) -> None:
        """Where the rules of other hosts were to be read from a host that is not asked again, nobody can tell them."""
        for item in self.queues.pop_robots(host):
            self._leave_unread(item, item.url, epoch_ms)

    def close(self, host: HostState, site: str, epoch_ms: int) -> None:
        """Note of a port or scheme that cannot be talked to that nobody knows what its robots.txt says now."""
        again = next_fetch_ms(self.policy, state=RobotsState.UNREACHABLE, fetched_ms=epoch_ms, failures=1)
        host.robots[site] = RobotsCopy(
            RobotsState.UNREACHABLE, None, None, None, epoch_ms, again, robots_url(site)
        )
        host.touched = True

    def _robots_target(self, item: Item, exchange: Exchange) -> str | None:
        if exchange.outcome is not Outcome.REDIRECT or not may_follow(self.policy, hops=item.hop):
            return None
        target = urls.resolve_location(item.url, exchange.header("location") or "")
        return None if not target or target in (*item.chain, item.url) else target

    def _ask_together(
        self, owner: HostState, item: Item, exchange: Exchange, stranger: str, epoch_ms: int
    ) -> None:
        """The redirect leads to a host of another partition: the next plan puts the two into one."""
        before = (owner.row["companion"] or "").split() if item.hop else []
        owner.row["companion"] = " ".join([*before, stranger][-self.policy.redirects :])
        self.apart.add(item.site)
        owner.robots[item.site] = RobotsCopy(
            RobotsState.UNREACHABLE, None, exchange.status, None, epoch_ms, epoch_ms, exchange.url
        )
        owner.touched = True
        self.queues.skip_site(owner, item.site)

    def _learn(
        self, owner: HostState, item: Item, state: RobotsState, body: bytes, exchange: Exchange,
        digest: str | None, epoch_ms: int,
    ) -> None:  # fmt: skip
        row = owner.row
        rules = Rules.parse(body, self.policy.max_bytes) if state is RobotsState.RULES else None
        if rules is not None and digest is not None:
            self.bodies[digest] = body
        failures = (row["failures"] or 0) + 1
        expires = next_fetch_ms(self.policy, state=state, fetched_ms=epoch_ms, failures=failures)
        if (
            state is not RobotsState.UNREACHABLE
        ):  # it outlasts the next pause, or nothing else would ever be asked
            wish = rules.crawl_delay_ms(self.product) if rules is not None else None
            expires += max(wish or 0, row["backoff_ms"] or 0)
        owner.robots[item.site] = RobotsCopy(
            state, rules, exchange.status, digest if rules else None, epoch_ms, expires, exchange.url
        )
        owner.touched = True
        if state is RobotsState.UNREACHABLE:
            if exchange.outcome not in SETTLED:
                self._ail(owner, item.site, failures, expires, epoch_ms)
            if exchange.outcome not in SETTLED or urls.site_of(item.url) != item.site:
                self.queues.skip_site(owner, item.site)
            return
        owner.is_well()
        self.sitemaps.note_listed(owner, item.site, epoch_ms=epoch_ms)
        if not item.hop:
            row["companion"] = None
        row["crawl_delay_ms"] = self._crawl_delay_ms(owner, epoch_ms)
        owner.settle_delay(self.delay)

    def _ail(self, host: HostState, site: str, failures: int, expires_ms: int, epoch_ms: int) -> None:
        """Note that a host cannot be asked, unless another of its sites can."""
        if self.has_other_site(host, site, epoch_ms):
            return
        row = host.row
        row["failures"] = min(failures, 32_767)
        row["health"] = Outcome.ROBOTS_UNREACHABLE.value
        row["failing_since"] = row["failing_since"] or moment(epoch_ms)
        row["probe_at"] = moment(expires_ms)

    def has_other_site(self, host: HostState, site: str, epoch_ms: int) -> bool:
        """Return whether a host has another port or scheme that answered when last asked, or that is still to be tried."""
        answering, silent = set[str](), {site}
        for other, copy in host.robots.items():
            if copy.state is not RobotsState.UNREACHABLE:
                answering.add(other)
            elif copy.expires_ms > epoch_ms:
                silent.add(other)
        waiting = {urls.site_of(item.url) for item in host.queue if item.kind == "page"}
        return bool((answering | waiting) - silent)

    def _crawl_delay_ms(self, host: HostState, epoch_ms: int) -> int | None:
        """Return the longest Crawl-delay of a host's sites (ports and schemes) whose rules hold: its clock is one."""
        wishes = (
            copy.rules.crawl_delay_ms(self.product)
            for copy in host.robots.values()
            if copy.rules is not None and copy.expires_ms > epoch_ms
        )
        return max((wish for wish in wishes if wish is not None), default=None)

    def _leave_unread(self, item: Item, url: str, epoch_ms: int) -> None:
        """Settle a site whose rules lie on a host that cannot be asked: they are unreachable."""
        owner = self.queues.hosts[urls.host_of(item.site + "/")]
        owner.waiting = False
        self._learn(owner, item, RobotsState.UNREACHABLE, b"", Exchange(url), None, epoch_ms)
        self.queues.wake(owner)

    def _follow_robots(self, item: Item, target: str, owner: HostState, epoch_ms: int) -> None:
        host = urls.host_of(target)
        if self.queues.hosts[host].down or self.queues.hosts[host].requests_left <= 0:
            self._leave_unread(item, target, epoch_ms)
            return
        hop = Item(
            target, host, urls.url_key(target, host), item.origin, kind="robots", site=item.site, source="robots",
            hop=item.hop + 1, chain=(*item.chain, item.url), via=item.url,
        )  # fmt: skip
        owner.waiting = host != owner.name
        stranger = self.queues.hosts[host]
        self.queues.put(stranger, hop)
        if host != item.host:
            self.queues.wake(stranger)
