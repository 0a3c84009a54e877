"""Reading the sitemaps of a fetch partition: their entries become candidates, their sitemaps are asked for later.

A file is read in slices, so that the clocks of the other hosts go on; what it takes in memory is its bytes as sent
and the candidates of a few seconds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from datetime import datetime

from pipelines.cycle.crew import Crew
from pipelines.cycle.hoststate import Item, epoch_ms
from pipelines.cycle.keeper import Keeper
from pipelines.cycle.sitemaps import NO_VALIDATORS, NOT_A_SITEMAP, SitemapCopy, Validators
from pipelines.net import bodies
from pipelines.net.exchange import Exchange
from pipelines.rules import urls
from pipelines.rules.outcome import Outcome
from pipelines.rules.sitemaps import Entry, SitemapError, stream

SLICE_SECONDS = 0.01
"""How long the loop is held at a time."""

HEAVY_ROWS = 100_000
"""Candidates that wait for the next flush; with more, it comes at once."""


class Lister:
    """Reads sitemaps as they come, for one attempt at a partition."""

    def __init__(self, crew: Crew, keeper: Keeper) -> None:
        self._crew, self._keeper = crew, keeper

    async def take_in(self, item: Item, exchange: Exchange, *, now_ms: int) -> None:
        """Enter what came of a sitemap into its host's books; now_ms: epoch. Call it when all else is settled."""
        if exchange.outcome is Outcome.REDIRECT:
            target = urls.resolve_location(item.url, exchange.header("location") or "")
            if target is not None:
                self._crew.sitemaps.moved(item, target, epoch_ms=now_ms)
        elif exchange.outcome is Outcome.OK:
            await self._read(item, exchange, now_ms)
        else:
            self._crew.sitemaps.came(item, exchange.outcome.value, epoch_ms=now_ms)
        self._crew.queues.wake(self._crew.hosts[item.host])

    async def _read(self, item: Item, exchange: Exchange, now_ms: int) -> None:
        reading = self._crew.policy.sitemaps.reading
        entries = stream(
            _bytes_of(exchange, reading.max_bytes), url=exchange.url, policy=reading, now_ms=now_ms
        )
        taken, status, rest = 0, Outcome.OK.value, time.monotonic() + SLICE_SECONDS
        whole = exchange.truncated is None and not item.hop  # a redirect may lead elsewhere another time
        while True:
            try:
                entry = next(entries, None)
            except SitemapError:
                status, whole = Outcome.OK.value if taken else NOT_A_SITEMAP, False
                break
            if entry is None:
                break
            taken += self._take(item, exchange.url, entry, now_ms)
            if self._keeper.waiting_candidates >= HEAVY_ROWS:
                await self._keeper.flush(self._crew)
            if time.monotonic() >= rest:
                await asyncio.sleep(0)
                rest = time.monotonic() + SLICE_SECONDS
        validators = Validators.of(exchange.header("etag"), exchange.header("last-modified"))
        self._crew.sitemaps.came(
            item, status, epoch_ms=now_ms, entries=taken, validators=validators if whole else NO_VALIDATORS
        )

    def _take(self, item: Item, address: str, entry: Entry, now_ms: int) -> bool:
        """Take in an entry; False for one that the sitemap may not speak for or that a filter refuses."""
        host = self._crew.hosts[item.host]
        copy = host.sitemaps.copies[item.site]
        if entry.kind == "sitemap":
            return self._take_sitemap(item, copy, entry, now_ms)
        if not copy.may_speak_for(address, entry.url):
            self._keeper.counts["sitemap_foreign"] += 1
            return False
        return self._keeper.list_entry(item, entry)

    def _take_sitemap(self, item: Item, index: SitemapCopy, entry: Entry, now_ms: int) -> bool:
        """Take in a sitemap that an index lists: of the index's own host, or of one that vouches for the index."""
        host = self._crew.hosts[item.host]
        where = urls.host_of(entry.url)
        if where != item.host and where not in index.hosts:
            self._keeper.counts["sitemap_foreign"] += 1
            return False
        found = SitemapCopy(entry.url, "index", index.hosts, index.meta, index.level + 1)
        self._crew.sitemaps.note(host, found, epoch_ms=now_ms)
        if entry.url in host.sitemaps.copies:
            changed_ms = _ms(entry.lastmod)
            host.sitemaps.recall(
                entry.url, changed_ms=changed_ms, rules=self._crew.policy.sitemaps, now_ms=now_ms
            )
        return True


def _bytes_of(exchange: Exchange, limit: int) -> Iterable[bytes]:
    """Return the bytes of an answer; gzip is left on, since the reader takes it off piece by piece."""
    coding = (exchange.header("content-encoding") or "").strip().lower()
    if coding in ("", "identity", "gzip", "x-gzip"):
        return [exchange.body]
    return [bodies.decode(exchange.body, coding, limit=limit).data]


def _ms(time_: datetime | None) -> int | None:
    return None if time_ is None else epoch_ms(time_)
