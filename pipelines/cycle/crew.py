"""The machine room of a fetch partition: whose turn it is, what an answer means for its host, what is kept.

It is told the time and handed exchanges; `fetch_run.py` owns the loop, the socket and the clock.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import Any

from lake.schema import HOSTS
from pipelines.cycle.hoststate import HostState, Item, RobotsCopy, moment
from pipelines.cycle.sitemaps import NO_VALIDATORS, SitemapCopy, SitemapRules, Validators, in_scope
from pipelines.cycle.watch import Watch
from pipelines.net.exchange import Exchange
from pipelines.rules import urls
from pipelines.rules.delay import Delay, DelayPolicy
from pipelines.rules.outcome import HOST_FAULTS, SITE_FAULTS, Outcome
from pipelines.rules.recrawl import ProbePolicy, probe_seconds
from pipelines.rules.retry_after import RetryAfterPolicy, retry_after_ms
from pipelines.rules.robots import Rules
from pipelines.rules.robots_policy import (
    RobotsPolicy,
    RobotsState,
    may_follow,
    next_fetch_ms,
    robots_url,
    state_of,
)
from pipelines.rules.schedule import Ask, Schedule, Wait
from pipelines.rules.sitemaps import WELL_KNOWN_PATHS

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


@dataclass
class Crew:
    """The hosts of a partition and whose turn it is. Times `now_ms` are monotonic, `epoch_ms` since 1970."""

    policy: CrewPolicy
    schedule: Schedule
    hosts: dict[str, HostState] = field(default_factory=dict)
    taken: set[int] = field(default_factory=set)  # keys planned, queued or done in this partition
    denied: list[Denied] = field(default_factory=list)
    bodies: dict[str, bytes] = field(default_factory=dict)  # robots.txt by digest, new in this cycle
    strangers: dict[tuple[str, str], SitemapCopy] = field(default_factory=dict)
    """Sitemaps found that lie on another host than the one that names them, by (that host, address): merge tells it."""
    left: int = 0  # items queued
    watch: Watch | None = None
    apart: set[str] = field(default_factory=set)
    """Sites whose robots.txt redirects to a host of another partition: nothing more is asked of them in this cycle."""

    def enlist(self, host: HostState) -> None:
        """Bring a host in with its queue; it enters the heap at its `next_ms` if it has something to do."""
        self.hosts[host.name] = host
        if self.watch is not None:
            self.watch.enlist(host.row)
        self.left += len(host.queue)
        self.taken.update(item.key for item in host.queue)
        if host.has_work():
            self._enter(host)

    def _enter(self, host: HostState) -> None:
        self.schedule.add(
            host.name,
            ready_ms=host.next_ms,
            work_ms=host.work_ms(),
            asks=host.asks(),
            address=host.address,
        )

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
            self._call_sitemap(host)
            item = host.queue[0]
            if item.kind == "robots":
                return self._pop(host)
            if host.fault is not None:
                return self._pop(host)
            site = urls.site_of(item.url)
            copy = host.robots.get(site)
            if site in self.apart:
                self._skip_site(host, site)
                continue
            if copy is None or copy.expires_ms <= epoch_ms:
                return self._robots_item(host, site)
            if copy.state is RobotsState.UNREACHABLE:
                self._skip_site(host, site)
                continue
            item = self._pop(host)
            if self.watch is not None and self.watch.refuses(item):
                continue  # it stays on its shelf, and the merge says why it goes on or not
            if copy.rules is not None and copy.state is RobotsState.RULES:
                verdict = copy.rules.allows(item.url, self.policy.product)
                if not verdict.allowed:
                    line = f"line {verdict.line_no}: {verdict.line}" if verdict.line_no else str(verdict.line)
                    self.denied.append(Denied(item, Outcome.ROBOTS_DENIED, line))
                    host.touched = True
                    if item.kind == "sitemap":
                        self.sitemap_came(item, Outcome.ROBOTS_DENIED.value, epoch_ms=epoch_ms)
                    continue
            return item
        return None

    def _pop(self, host: HostState) -> Item:
        self.left -= 1
        item = host.queue.popleft()
        host.turns += item.kind == "page"
        return item

    def _call_sitemap(self, host: HostState) -> None:
        """Put a sitemap that is due at the head of the queue if it is its turn: a page, a sitemap, a page, ..."""
        if not host.sitemaps or (host.queue and (host.turns <= 0 or host.queue[0].kind != "page")):
            return
        copy = host.sitemaps.take()
        key = urls.url_key(copy.url, host.name)
        item = Item(
            copy.url, host.name, key, key, kind="sitemap", site=copy.url, source=copy.source, meta=copy.meta,
            etag=copy.validators.etag, last_modified=copy.validators.last_modified,
            last_visit_ms=copy.fetched_ms if copy.validators else None,
        )  # fmt: skip
        host.turns -= 1
        host.queue.appendleft(item)
        self.left += 1

    def _robots_item(self, host: HostState, site: str) -> Item:
        url = robots_url(site)
        key = urls.url_key(url, host.name)
        return Item(url, host.name, key, key, kind="robots", site=site, source="robots")

    def _skip_site(self, host: HostState, site: str) -> list[Item]:
        """Leave out what is queued for a site whose rules nobody can tell, and return it: it stays on its shelf."""
        queued = list(host.queue)
        kept = [item for item in queued if item.kind == "robots" or urls.site_of(item.url) != site]
        self.left -= len(queued) - len(kept)
        host.queue.clear()
        host.queue.extend(kept)
        return [item for item in queued if item.kind != "robots" and urls.site_of(item.url) == site]

    def drop(self, host: HostState, epoch_ms: int) -> None:
        """Leave out all that is queued for a host: it stays on its shelf."""
        self._leave_robots(host, epoch_ms)
        self.left -= len(host.queue)
        host.queue.clear()

    def _leave_robots(self, host: HostState, epoch_ms: int) -> None:
        """Where the rules of other hosts were to be read from a host that is not asked again, nobody can tell them."""
        unread = [item for item in host.queue if item.kind == "robots"]
        for item in unread:
            host.queue.remove(item)
            self.left -= 1
            self._leave_unread(item, item.url, epoch_ms)

    def slowest(self, most: int) -> list[dict[str, Any]]:
        """Return the hosts whose queues take longest, with what makes them slow; those with nothing to do aside."""
        busy = (host for host in self.hosts.values() if host.queue and not host.down)
        return [host.told() for host in heapq.nlargest(most, busy, key=HostState.work_ms)]

    def planned_left(self) -> int:
        """Return how many planned URLs are still queued: they go back to ready. Hops on the way do not count."""
        queued = (item for host in self.hosts.values() for item in host.queue)
        return sum(1 for item in queued if item.kind == "page" and item.key == item.origin and not item.hop)

    # --- an answer came ---

    def settle(self, item: Item, exchange: Exchange, *, now_ms: int, epoch_ms: int) -> None:
        """Enter what came of a request into its host's books, and give the host back to the heap."""
        host = self.hosts[item.host]
        outcome, site = exchange.outcome, urls.site_of(item.url)
        site_only = outcome in SITE_FAULTS and self._has_other_site(host, site, epoch_ms)
        host.settle(
            self.policy.delay, outcome, first_byte_ms=exchange.first_byte_ms, total_ms=exchange.total_ms,
            site_only=site_only,
        )  # fmt: skip
        if item.kind != "robots":  # what robots.txt says of a host's health is learnt apart
            host.answered(outcome, exchange.first_byte_ms)
        if item.kind == "page" and outcome is Outcome.OK:
            host.row["pages"] = (host.row["pages"] or 0) + 1
        host.row["body_bytes"] = (host.row["body_bytes"] or 0) + len(exchange.body)
        if site_only:
            self._close_site(host, site, exchange, epoch_ms)
        elif outcome in HOST_FAULTS:
            self._ail(host, epoch_ms)
        wish = self._retry_after(exchange, epoch_ms)
        host.pause = host.delay if wish <= host.delay.ms else Delay(wish, "retry_after")
        rest = host.pause.ms + GUARD_MS + (CUT_OFF_MS if exchange.truncated in ("length", "time") else 0)
        host.next_ms, host.next_epoch_ms = now_ms + rest, epoch_ms + rest
        if host.requests_left <= 0:
            self._leave_robots(host, epoch_ms)
        self._give_back(host, now_ms)

    def _has_other_site(self, host: HostState, site: str, epoch_ms: int) -> bool:
        """Return whether a host has another port or scheme that answers, or that is still to be tried."""
        answering, silent = set[str](), {site}
        for other, copy in host.robots.items():
            if copy.expires_ms > epoch_ms:
                (silent if copy.state is RobotsState.UNREACHABLE else answering).add(other)
        waiting = {urls.site_of(item.url) for item in host.queue if item.kind == "page"}
        return bool((answering | waiting) - silent)

    def _close_site(self, host: HostState, site: str, exchange: Exchange, epoch_ms: int) -> None:
        """Ask no more of a port or scheme that cannot be talked to: what is queued for it fails as it did.

        Else its URLs would take the host's share of every cycle and its room on ready, and nothing would come of them.
        Nobody knows what its robots.txt says now.
        """
        again = next_fetch_ms(
            self.policy.robots, state=RobotsState.UNREACHABLE, fetched_ms=epoch_ms, failures=1
        )
        host.robots[site] = RobotsCopy(
            RobotsState.UNREACHABLE, None, None, None, epoch_ms, again, robots_url(site)
        )
        host.touched = True
        for item in self._skip_site(host, site):
            if item.kind == "sitemap":
                self.sitemap_came(item, exchange.outcome.value, epoch_ms=epoch_ms)
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
        self.drop(host, epoch_ms)

    def _give_back(self, host: HostState, now_ms: int) -> None:
        goes_on = host.has_work()
        self.schedule.done(
            host.name,
            now_ms=now_ms + GUARD_MS,  # the address's clock; the host's own has it already
            ready_ms=host.next_ms if goes_on else None,
            work_ms=host.work_ms(),
            asks=host.asks(),
        )

    def put_back(self, item: Item, now_ms: int) -> None:
        """Undo a take whose request was never sent."""
        host = self.hosts[item.host]
        if item.kind != "robots" or item.hop:
            host.queue.appendleft(item)
            self.left += 1
        self.schedule.release(
            host.name, ready_ms=max(host.next_ms, now_ms), work_ms=host.work_ms(), asks=host.asks()
        )

    # --- more to ask ---

    def queue(self, item: Item, *, first: bool) -> None:
        """Queue an item for a host of this partition; a host that had left the heap waits out its clock."""
        host = self.hosts[item.host]
        (host.queue.appendleft if first else host.queue.append)(item)
        self.left += 1
        self.taken.add(item.key)
        self.wake(host)

    def wake(self, host: HostState) -> None:
        """Bring a host with something to do back into the heap, unless it is there or being asked."""
        if host.has_work() and host.name not in self.schedule:
            self._enter(host)

    # --- robots.txt ---

    def robots_came(
        self, item: Item, exchange: Exchange, body: bytes, digest: str | None, *, epoch_ms: int,
        spoilt: bool = False,
    ) -> None:  # fmt: skip
        """Take in an answer to robots.txt: follow its redirect, or settle what holds for the site that was asked.

        Call it before `settle`. The rules belong to the site of the first hop (RFC 9309 2.3.1.2). spoilt: the body
        was cut off on its way or cannot be decoded; half the rules are no rules, so it is as if none had come
        (RFC 9309 2.3.1.4; Google: interrupted connections and chunking errors are server errors).
        """
        owner = self.hosts[urls.host_of(item.site + "/")]
        target = self._robots_target(item, exchange)
        if target is not None and urls.host_of(target) in self.hosts:
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
            self.wake(owner)

    def _robots_target(self, item: Item, exchange: Exchange) -> str | None:
        if exchange.outcome is not Outcome.REDIRECT or not may_follow(self.policy.robots, hops=item.hop):
            return None
        target = urls.resolve_location(item.url, exchange.header("location") or "")
        return None if not target or target in (*item.chain, item.url) else target

    def _ask_together(
        self, owner: HostState, item: Item, exchange: Exchange, stranger: str, epoch_ms: int
    ) -> None:
        """The redirect leads to a host of another partition: the next plan puts the two into one."""
        before = (owner.row["companion"] or "").split() if item.hop else []
        owner.row["companion"] = " ".join([*before, stranger][-self.policy.robots.redirects :])
        self.apart.add(item.site)
        owner.robots[item.site] = RobotsCopy(
            RobotsState.UNREACHABLE, None, exchange.status, None, epoch_ms, epoch_ms, exchange.url
        )
        owner.touched = True
        self._skip_site(owner, item.site)

    def _learn(
        self, owner: HostState, item: Item, state: RobotsState, body: bytes, exchange: Exchange,
        digest: str | None, epoch_ms: int,
    ) -> None:  # fmt: skip
        row = owner.row
        rules = Rules.parse(body, self.policy.robots.max_bytes) if state is RobotsState.RULES else None
        if rules is not None and digest is not None:
            self.bodies[digest] = body
        failures = (row["failures"] or 0) + 1
        expires = next_fetch_ms(self.policy.robots, state=state, fetched_ms=epoch_ms, failures=failures)
        if (
            rules is not None
        ):  # a copy must outlast the pause that it asks for, or nothing but it would be asked
            expires += rules.crawl_delay_ms(self.policy.product) or 0
        owner.robots[item.site] = RobotsCopy(
            state, rules, exchange.status, digest if rules else None, epoch_ms, expires, exchange.url
        )
        owner.touched = True
        if state is RobotsState.UNREACHABLE:
            if exchange.outcome not in HOST_FAULTS:  # `settle` enters those
                row["failures"] = min(failures, 32_767)
                row["health"] = Outcome.ROBOTS_UNREACHABLE.value
                row["failing_since"] = row["failing_since"] or moment(epoch_ms)
                row["probe_at"] = moment(expires)
            if exchange.outcome not in HOST_FAULTS or urls.site_of(item.url) != item.site:
                self._skip_site(owner, item.site)
            return
        owner.is_well()
        self.note_listed(owner, item.site, epoch_ms=epoch_ms)
        if not item.hop:
            row["companion"] = None
        row["crawl_delay_ms"] = self._crawl_delay_ms(owner, epoch_ms)
        owner.settle_delay(self.policy.delay)

    def _crawl_delay_ms(self, host: HostState, epoch_ms: int) -> int | None:
        """Return the longest Crawl-delay of a host's sites (ports and schemes) whose rules hold: its clock is one."""
        wishes = (
            copy.rules.crawl_delay_ms(self.policy.product)
            for copy in host.robots.values()
            if copy.rules is not None and copy.expires_ms > epoch_ms
        )
        return max((wish for wish in wishes if wish is not None), default=None)

    def _leave_unread(self, item: Item, url: str, epoch_ms: int) -> None:
        """Settle a site whose rules lie on a host that cannot be asked: they are unreachable."""
        owner = self.hosts[urls.host_of(item.site + "/")]
        owner.waiting = False
        self._learn(owner, item, RobotsState.UNREACHABLE, b"", Exchange(url), None, epoch_ms)
        self.wake(owner)

    def _follow_robots(self, item: Item, target: str, owner: HostState, epoch_ms: int) -> None:
        host = urls.host_of(target)
        if self.hosts[host].down or self.hosts[host].requests_left <= 0:
            self._leave_unread(item, target, epoch_ms)
            return
        hop = Item(
            target, host, urls.url_key(target, host), item.origin, kind="robots", site=item.site, source="robots",
            hop=item.hop + 1, chain=(*item.chain, item.url), via=item.url,
        )  # fmt: skip
        owner.waiting = host != owner.name
        stranger = self.hosts[host]
        stranger.queue.appendleft(hop)
        self.left += 1
        if host != item.host:
            self.wake(stranger)

    # --- sitemaps ---

    def note_listed(self, host: HostState, site: str, *, epoch_ms: int) -> None:
        """Take in the sitemaps that a site's robots.txt names, or try the usual place where it names none."""
        copy, rules = host.robots[site], self.policy.sitemaps
        if not rules.per_cycle or copy.state is RobotsState.UNREACHABLE:
            return
        base = copy.url or robots_url(site)
        listed = copy.rules.sitemaps[: rules.per_host] if copy.rules else ()
        found = [url for line in listed if (url := urls.resolve(base, line)) is not None]
        meta = host.queue[0].meta if host.queue else None
        vouching = tuple(sorted({host.name, urls.host_of(base)}))
        for url in found:
            self.note_sitemap(host, SitemapCopy(url, "robots", vouching, meta), epoch_ms=epoch_ms)
        if not found and rules.well_known:
            usual = SitemapCopy(f"{site}{WELL_KNOWN_PATHS[0]}", "well_known", meta=meta)
            self.note_sitemap(host, usual, epoch_ms=epoch_ms)

    def note_sitemap(self, host: HostState, found: SitemapCopy, *, epoch_ms: int) -> None:
        """Take in a sitemap that a host names: its own at once, another host's through the merge."""
        where = urls.host_of(found.url)
        if where == host.name:
            host.touched |= host.sitemaps.note(self.policy.sitemaps, found, now_ms=epoch_ms)
        elif in_scope(self.policy.sitemaps, found):
            self.strangers.setdefault((where, found.url), found).vouch(found.hosts)

    def sitemap_came(
        self, item: Item, status: str, *, epoch_ms: int, entries: int | None = None,
        validators: Validators = NO_VALIDATORS,
    ) -> None:  # fmt: skip
        """Note what came of a sitemap; its host is told when it is due again. validators: of what was read whole."""
        host = self.hosts[urls.host_of(item.site)]
        host.sitemaps.copies[item.site].settle(
            self.policy.sitemaps, status, now_ms=epoch_ms, entries=entries, validators=validators
        )
        host.touched = True

    def sitemap_moved(self, item: Item, target: str, *, epoch_ms: int) -> None:
        """Follow a sitemap's redirect: on its own host at once, elsewhere through the merge."""
        host = self.hosts[item.host]
        if urls.host_of(target) == item.host:
            key = urls.url_key(target, item.host)
            hop = Item(
                target, item.host, key, item.origin, kind="sitemap", site=item.site, source=item.source,
                meta=item.meta, hop=item.hop + 1, chain=(*item.chain, item.url), via=item.url,
            )  # fmt: skip
            host.queue.appendleft(hop)
            self.left += 1
            return
        copy = host.sitemaps.copies[item.site]
        moved = SitemapCopy(target, "redirect", copy.hosts, copy.meta, copy.level + 1)
        self.note_sitemap(host, moved, epoch_ms=epoch_ms)
        self.sitemap_came(item, Outcome.REDIRECT.value, epoch_ms=epoch_ms)
