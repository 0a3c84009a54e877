"""One attempt at a fetch partition, alive: the loop, the sockets and the clock; whose turn it is says crew.py."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lake import bloom, lease, staging
from lake.errors import LeaseLost
from lake.snapshot import Lake
from pipelines.cycle import enlist, parts, policies, sitemaps
from pipelines.cycle.crew import Crew
from pipelines.cycle.hoststate import HostState, Item
from pipelines.cycle.keeper import Keeper
from pipelines.cycle.listing import Lister
from pipelines.cycle.turn import Turn
from pipelines.net.clock import Clock, SystemClock
from pipelines.net.exchange import Exchange
from pipelines.net.http import Fetcher
from pipelines.rules import urls
from pipelines.rules.budget import month_of
from pipelines.rules.dates import if_modified_since
from pipelines.rules.outcome import Outcome
from pipelines.rules.schedule import Schedule, Wait

TICK_SECONDS = 0.25
LIVE_SECONDS = 1.0
SLOW_SECONDS = 10.0
"""How often the hosts with most work left are looked up: it walks over all of them."""
SLOW_HOSTS = 10
UNREAD_ANSWERS = 16
"""Answers that may wait to be read: no more is asked in a round of the loop than would fill this up. What has come
goes first, and who is asked next is chosen late, when more hosts are ready."""
SITEMAPS_OPEN = 8
"""Sitemaps asked for and read at once in one fetch slot: each may take [sitemaps] max_bytes of memory."""


@dataclass(frozen=True)
class FetchTask:
    """One fetch partition of a cycle."""

    turn: Turn
    partition: int
    holder: str = "fetcher"

    @property
    def base(self) -> Path:
        """The partition's folder of attempts."""
        return self.turn.staged("fetch", f"p{self.partition:04d}")


@dataclass
class FetchRun:
    """One attempt at a partition, alive."""

    task: FetchTask
    lease: lease.Lease
    still_wanted: Callable[[], bool]
    clock: Clock = field(default_factory=SystemClock)

    async def run(self, *, ask: bool = True) -> dict[str, Any]:
        """Fetch until the queue is empty, the window closes, or a stop is asked for.

        ask: False = give the partition up: close it with what earlier attempts left.
        """
        self._prepare()
        try:
            await self.fetcher.open()
            self._enlist(self.lake)
            if ask:
                await self._crawl()
            await self.keeper.flush(self.crew, final=True)
        finally:
            try:
                await self.keeper.settled()
            finally:
                await self.fetcher.close()
                self.keeper.close()
        return {**self._manifest(), "given_up": not ask}

    # --- setting up ---

    def _prepare(self) -> None:
        turn, settings = self.task.turn, self.task.turn.settings
        self.started_ms = self.clock.monotonic_ms()
        self.started_epoch_ms = self.clock.now_ms()
        self.attempt = parts.Attempt.begin(self.task.base)
        lake = turn.lake()
        self.keeper = Keeper(turn, self.task.partition, self.attempt, lake.lake_id)
        self.crew = Crew(
            policies.crew_policy(settings),
            Schedule(floor_of=policies.address_floors(settings).of),
            watch=self.keeper.watch,
        )
        self.keeper.watch.is_new = self._surely_new
        self.lister, self.sitemaps_open = Lister(self.crew, self.keeper), asyncio.Semaphore(SITEMAPS_OPEN)
        self.fetcher = Fetcher(policies.fetch_policy(settings), policies.dns_policy(settings))
        self.blooms: dict[int, bloom.Bloom] = {}
        self.lake = lake
        spent = self._earlier_ms()
        self.most_bytes = self._share_of_bytes()
        self.deadline_ms = self.started_ms + max(settings.window.seconds * 1_000 - spent, 0)
        self.stop_path = turn.staged("stop")
        self.stopped = False
        self.open = self.unread = 0
        self.tasks: set[asyncio.Task[None]] = set()
        self.failure: BaseException | None = None
        self.wakeup = asyncio.Event()
        self.alarm: asyncio.TimerHandle | None = None
        self.desk = asyncio.Lock()  # one page a round of the loop: what arrives meanwhile is noted in time
        self.flushing: asyncio.Task[None] | None = None
        self.renewed = self.flushed = time.monotonic()
        self.slow_hosts: list[dict[str, Any]] = []

    def _share_of_bytes(self) -> int:
        """Body bytes that the partition may take, of [plan] max_bytes: the partitions have equal shares."""
        partitions = (self.task.turn.done("allot") or {}).get("partitions") or 1
        return -(-self.task.turn.settings.plan.max_bytes // partitions)

    def _earlier_ms(self) -> int:
        """Time that earlier attempts spent fetching, so that a resumed window is not longer than a whole one."""
        told = (staging.read_manifest(path) or {} for path in self.task.base.glob("a*/live.json"))
        return sum(int(live.get("elapsed_ms", 0)) for live in told)

    def _enlist(self, lake: Lake) -> None:
        ceiling = self.task.turn.settings.dns.ttl_ceiling_seconds * 1_000
        roster = enlist.read(self.task.turn, self.task.partition, self.task.base, self.attempt, lake)
        for host in roster.hosts(
            self.crew.policy.delay, now_ms=self.started_ms, epoch_ms=self.started_epoch_ms
        ):
            self._list_sitemaps(host)
            self.crew.enlist(host)
            if host.address:
                self.fetcher.resolver.prime(host.name, (host.address,), self.started_epoch_ms + ceiling)
        self.crew.queues.taken.update(roster.earlier.done)
        self.keeper.planned = self.crew.queues.left
        self.keeper.resume(roster.earlier.captures)
        for item, target in roster.earlier.hops:
            self._follow(item, target)

    def _list_sitemaps(self, host: HostState) -> None:
        """Tell a host which sitemaps it has: those of its row, and those of robots.txt copies that still hold."""
        rules, now = self.crew.policy.sitemaps, self.started_epoch_ms
        opened = self.task.turn.opened_ms
        host.sitemaps = sitemaps.copies_of(host.row["sitemaps"], rules, opened_ms=opened, now_ms=now)
        for site, copy in host.robots.items():
            if copy.expires_ms > now:
                self.crew.sitemaps.note_listed(host, site, epoch_ms=now)

    # --- the loop ---

    async def _crawl(self) -> None:
        keeping = asyncio.create_task(self._keep_house())
        keeping.add_done_callback(self._house_fell)
        try:
            while not self.stopped and self.failure is None:
                if not await self._step():
                    break
            self.stopped = True
            await self._last_answers()
        finally:
            keeping.cancel()
            if self.alarm is not None:
                self.alarm.cancel()
        if self.failure is not None:
            raise self.failure

    async def _last_answers(self) -> None:
        """Wait for what is open; where the attempt has failed, nobody can keep the answers, so they are cut off."""
        while self.tasks:
            if self.failure is not None:
                for task in self.tasks:
                    task.cancel()
            await asyncio.wait(self.tasks, return_when=asyncio.FIRST_COMPLETED)

    async def _step(self) -> bool:
        """Send what may be sent now, then sleep until something can change. False = there is no more to do."""
        limit = self.task.turn.settings.fetch.connections
        now = self.clock.monotonic_ms()
        if now >= self.deadline_ms or 0 < self.most_bytes <= self.keeper.counts["body_bytes"]:
            return False
        until = self.deadline_ms
        limit = min(limit, self.open + UNREAD_ANSWERS - self.unread)
        while self.open < limit:
            item = self.crew.take(now, self.clock.now_ms())
            self.keeper.note_denied(self.crew.denied)
            if isinstance(item, Item):
                self._send(item)
                now = self.clock.monotonic_ms()
                continue
            if item is None and not self.open:
                return False
            if isinstance(item, Wait):
                if item.until_ms >= self.deadline_ms and not self.open:
                    return False
                until = min(until, item.until_ms)
            break
        self.wakeup.clear()
        await self._sleep(until - self.clock.monotonic_ms())
        return True

    async def _sleep(self, ms: int) -> None:
        """Sleep for so long, or until an answer came. One alarm serves many sleeps: an early one does no harm."""
        loop = asyncio.get_running_loop()
        due = loop.time() + max(ms, 0) / 1_000 + 0.001
        if self.alarm is None or self.alarm.when() > due:
            if self.alarm is not None:
                self.alarm.cancel()
            self.alarm = loop.call_at(due, self._ring)
        await self.wakeup.wait()

    def _ring(self) -> None:
        self.alarm = None
        self.wakeup.set()

    def _send(self, item: Item) -> None:
        self.open += 1
        visit = self._visit_sitemap if item.kind == "sitemap" else self._visit
        task: asyncio.Task[Any] = asyncio.create_task(visit(item))
        self.tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self.open -= 1
        self.tasks.discard(task)
        if not task.cancelled() and task.exception() is not None and self.failure is None:
            self.failure = task.exception()
        self.wakeup.set()

    async def _visit_sitemap(self, item: Item) -> None:
        """Ask for a sitemap and read it; few at once, since one may be large."""
        async with self.sitemaps_open:
            exchange = await self._visit(item)
            await self.lister.take_in(item, exchange, now_ms=self.clock.now_ms())

    async def _visit(self, item: Item) -> Exchange:
        sent: list[int] = []
        host = self.crew.hosts[item.host]
        pause = host.pause

        def before_send() -> None:
            now = self.clock.now_ms()
            if not self.lease.alive(now) or not self.still_wanted():
                raise LeaseLost(f"partition {self.task.partition} of {self.task.turn.crawl}: lease lost")
            self.attempt.journal.intend(host.id, item.key, now)
            host.spend(month_of(now))
            sent.append(now)

        if host.fault is not None:
            outcome, detail = host.fault
            exchange = Exchange(
                item.url, outcome=Outcome(outcome), error=detail, started_ms=self.clock.now_ms()
            )
        else:
            most = self.crew.policy.sitemaps.reading.max_bytes if item.kind == "sitemap" else None
            conditions = _conditional(item)
            exchange = await self.fetcher.fetch(
                item.url, headers=conditions, before_send=before_send, body_bytes=most
            )
            if exchange.outcome is Outcome.NOT_MODIFIED and not conditions:
                exchange.outcome, exchange.error = Outcome.BAD_HTTP, "304 to a request without a condition"
        now, epoch = self.clock.monotonic_ms() + 1, self.clock.now_ms() + 1
        self.unread += 1
        try:
            async with self.desk:
                capture = self.keeper.keep(item, exchange, pause, asked=bool(sent))
                if item.kind == "robots":
                    self.crew.robots.came(
                        item, exchange, capture.decoded, capture.digest, epoch_ms=epoch, spoilt=capture.spoilt
                    )
                elif exchange.outcome is Outcome.REDIRECT and item.kind == "page":
                    self._redirect(item, exchange)
                self.crew.settle(item, exchange, now_ms=now, epoch_ms=epoch)
                await asyncio.sleep(0)  # the next one in the next round of the loop
        finally:
            self.unread -= 1
        if host.pause.ms > self.crew.policy.delay.floor_ms:
            self.attempt.journal.hold(host.id, host.next_epoch_ms)
        return exchange

    def _redirect(self, item: Item, exchange: Exchange) -> None:
        """Follow a redirect where that may be done in this cycle; its target is a candidate in any case."""
        target = urls.resolve_location(item.url, exchange.header("location") or "")
        if target is not None and item.hop < self.crew.policy.redirects:
            self._follow(item, target)

    def _follow(self, item: Item, target: str) -> None:
        """Queue a redirect's target if the filters admit it, it is surely new, and its host is ours."""
        host = urls.host_of(target)
        key = urls.url_key(target, host)
        state = self.crew.hosts.get(host)
        again = key == item.key and target not in (*item.chain, item.url)
        if state is None or state.down or not (again or self._surely_new(key)):
            return
        if not self.keeper.admits(item, target):
            return
        hop = Item(
            target, host, key, item.origin, depth=item.depth, via=item.url, source="redirect", meta=item.meta,
            hop=item.hop + 1, chain=(*item.chain, item.url), feed=item.feed,
        )  # fmt: skip
        self.crew.follow(hop, first=host == item.host)

    def _surely_new(self, key: int) -> bool:
        if key in self.crew.queues.taken:
            return False
        bucket = urls.bucket_of(key, self.task.turn.buckets)
        if bucket not in self.blooms:
            self.blooms[bucket] = bloom.ensure(self.lake, "seen", bucket)
        return not self.blooms[bucket].maybe_one(key)

    # --- housekeeping ---

    async def _keep_house(self) -> None:
        """Renew the lease, flush, tell how it goes, and hear whether to stop."""
        settings = self.task.turn.settings.fetch
        self.renewed = self.flushed = told = slow = time.monotonic()
        while True:
            await asyncio.sleep(TICK_SECONDS)
            now = time.monotonic()
            if now - self.renewed >= settings.lease_renew_seconds:
                self._renew()
                self.renewed = now
            if self.stop_path.exists():
                self.stopped = True
                self.wakeup.set()
            if now - self.flushed >= settings.flush_seconds and not self.flushing:
                self.flushing = asyncio.create_task(self._flush())
                self.flushing.add_done_callback(self._house_fell)
            if now >= slow:
                self.slow_hosts = self.crew.queues.slowest(SLOW_HOSTS)
                slow = now + SLOW_SECONDS
            if now - told >= LIVE_SECONDS:
                self._tell()
                told = now

    async def _flush(self) -> None:
        await self.keeper.flush(self.crew)
        for held in self.blooms.values():
            held.unload()
        self.flushed, self.flushing = time.monotonic(), None

    def _house_fell(self, keeping: asyncio.Task[None]) -> None:
        """Housekeeping ends with the attempt, or by what ends the attempt: a full disk, say."""
        if not keeping.cancelled() and self.failure is None:
            self.failure = keeping.exception()
        self.wakeup.set()

    def _renew(self) -> None:
        try:
            self.lease.renew()
        except LeaseLost as lost:
            self.failure = self.failure or lost
            self.wakeup.set()

    def _tell(self) -> None:
        now = self.clock.monotonic_ms()
        ready, waiting, asked = self.crew.schedule.counts(now)
        live = {
            **self.keeper.live(),
            "partition": self.task.partition,
            "attempt": self.attempt.number,
            "elapsed_ms": now - self.started_ms,
            "window_left_ms": max(self.deadline_ms - now, 0),
            "open": self.open,
            "left": self.crew.queues.left,
            "hosts_ready": ready,
            "hosts_waiting": waiting,
            "hosts_asked": asked,
            "hosts_finished": len(self.crew.hosts) - ready - waiting - asked,
            "told_ms": self.clock.now_ms(),
            "flush_lag_ms": round((time.monotonic() - self.flushed) * 1_000),
            "lease_age_ms": round((time.monotonic() - self.renewed) * 1_000),
            "slow_hosts": self.slow_hosts,
        }
        staging.write_manifest(
            parts.folder(self.task.base, self.attempt.number) / "live.json", live, durable=False
        )

    def _manifest(self) -> dict[str, Any]:
        self.slow_hosts, self.flushed = [], time.monotonic()
        self._tell()
        told = self.keeper.live()
        return {
            **told,
            "partition": self.task.partition,
            "attempt": self.attempt.number,
            "parts": [[part.attempt, part.number] for part in self.attempt.written()],
            "left": self.crew.queues.planned_left(),
            "stopped": self.stop_path.exists(),
            "elapsed_ms": self.clock.monotonic_ms() - self.started_ms,
        }


def _conditional(item: Item) -> dict[str, str]:
    """Return the validators of the last visit: the tag as received, the date as the RFC writes it."""
    headers = {}
    if item.etag:
        headers["If-None-Match"] = item.etag
    if since := if_modified_since(item.last_modified):
        headers["If-Modified-Since"] = since
    return headers
