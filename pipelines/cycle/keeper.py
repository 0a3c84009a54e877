"""What is kept of an answer: its records in the spool, its capture row, its links; flushed as parts."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.cycle import parts, policies
from pipelines.cycle.crew import HOST_COLUMNS, Crew, Denied
from pipelines.cycle.hoststate import Item
from pipelines.cycle.papers import spool_name, warc_info
from pipelines.cycle.plugged import plugged
from pipelines.cycle.sieve import Judge, LinkSieve
from pipelines.cycle.turn import Turn
from pipelines.cycle.watch import Seen, Watch
from pipelines.net import bodies, warc
from pipelines.net.exchange import Exchange
from pipelines.rules import metadata, urls
from pipelines.rules.delay import Delay
from pipelines.rules.outcome import Outcome
from pipelines.rules.pages import Page, read_page
from pipelines.rules.quick import Quick
from pipelines.rules.robots_tags import page_tags
from pipelines.rules.sitemaps import Entry, SitemapError, SitemapPolicy, stream

LISTED_DEPTH = 1
"""Links from a seed that a sitemap's page counts as: as if the front page linked to it."""

FEED_TYPES = frozenset({"application/rss+xml", "application/atom+xml"})


@dataclass(slots=True)
class Kept:
    """What the loop must know of an answer that was kept."""

    digest: str | None
    decoded: bytes
    spoilt: bool
    """The body was cut off on its way, or its content coding cannot be taken off."""


@dataclass(frozen=True, slots=True)
class _Taken:
    """What one flush makes durable."""

    rows: dict[str, list[tuple[Any, ...]]]
    spools: list[tuple[warc.Spool, int]]
    """Each spool, and how far it holds the rows' records."""
    reported: list[str]
    """What plug-ins reported, as lines of JSON."""


class Keeper:
    """Writes one attempt's spools and parts."""

    def __init__(self, turn: Turn, partition: int, attempt: parts.Attempt, lake_id: str) -> None:
        settings = turn.settings
        self._turn, self._partition, self._attempt, self._lake_id = turn, partition, attempt, lake_id
        self._limits = settings.limits
        self._pages = policies.page_policy(settings)
        self._product = settings.identity.product
        self._nofollow, self._noarchive = settings.robots.page_nofollow, settings.robots.page_noarchive
        filters = policies.filter_policy(settings, year=turn.opened_at.year)
        self._plugged = plugged(turn, partition, attempt.number, filters)
        self._judge: Judge = self._plugged.judge if self._plugged else Quick(filters).judge
        self._sieve = LinkSieve(filters, judge=self._judge)
        self._feeds, self._robots_redirects = settings.sitemaps.feeds, settings.robots.redirects
        if self._plugged:
            self._pages = self._plugged.plugins.page_policy(self._pages)
        self._spools: list[warc.Spool] = []
        self._rows: dict[str, list[tuple[Any, ...]]] = {kind: [] for kind in parts.KINDS}
        self._serial = 0
        self._writing: asyncio.Future[None] | None = None
        self.watch = Watch(turn.cycle, policies.yield_policy(settings))
        self._bodies_written: set[str] = set()
        self.planned = 0
        self.counts: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()

    # --- one answer ---

    def keep(self, item: Item, exchange: Exchange, pause: Delay, *, asked: bool) -> Kept:
        """Store an answer and note it; the same call for a failure, of which only the row is kept."""
        self._serial += 1
        decoded, page = self._read(item, exchange)
        tags = page_tags(
            [*exchange.header_all("x-robots-tag"), *(page.robots if page else ())], self._product
        )
        stored = self._store(item, exchange, archive=not (tags.noarchive and self._noarchive))
        known = len(self._rows["candidates"])
        self._settle_redirect(item, exchange)
        if page and decoded and self._plugged:
            self._plugged.see(item, exchange, decoded.data, page)
        if page and not (tags.nofollow and self._nofollow):
            self._links(item, page)
            if decoded and (item.feed or (self._feeds and page.mime in FEED_TYPES)):
                self._feed(item, exchange, decoded.data)
        if self._plugged:
            exchange.error = exchange.error or self._plugged.settle(self.counts)
        seen = self.watch.see(
            item, exchange, (decoded.data or exchange.body) if decoded else None,
            digest=stored[1].payload_digest if stored else None, title=page.title if page else None,
            links=self._rows["candidates"][known:],
        )  # fmt: skip
        self._note(item, exchange, pause, asked, (decoded, page), stored, tags, seen)
        return Kept(
            stored[1].payload_digest if stored else None,
            decoded.data if decoded else b"",
            bodies.is_spoilt(exchange.truncated, decoded, limit=self._limits.decoded_bytes),
        )

    def admits(self, item: Item, url: str) -> bool:
        """Say whether the filters let through what an item redirects to, in wire form."""
        return self._judge(url, depth=item.depth, meta=item.meta)[1] is not None

    def _read(self, item: Item, exchange: Exchange) -> tuple[bodies.Decoded | None, Page | None]:
        if exchange.outcome is not Outcome.OK or not exchange.body or item.kind == "sitemap":
            return None, None
        limit = self._limits.decoded_bytes
        decoded = bodies.decode(exchange.body, exchange.header("content-encoding"), limit=limit)
        if item.kind == "robots" or (decoded.error and not decoded.data):
            return decoded, None
        page = read_page(
            decoded.data,
            url=exchange.url,
            content_type=exchange.header("content-type"),
            link_header=exchange.header("link"),
            policy=self._pages,
        )
        return decoded, page

    def _store(self, item: Item, exchange: Exchange, *, archive: bool) -> tuple[int, warc.Stored] | None:
        if not archive or not warc.storable(exchange):
            return None
        spool = self._spool()
        revisit = None
        if exchange.outcome is Outcome.NOT_MODIFIED and item.last_visit_ms:
            revisit = warc.Revisit(item.url, warc.warc_date(item.last_visit_ms), item.last_digest)
        record_id = warc.uuid_urn(
            self._lake_id,
            self._turn.crawl,
            str(self._partition),
            str(self._attempt.number),
            str(self._serial),
        )
        stored = spool.add(
            exchange, record_date=warc.warc_date(exchange.started_ms), record_id=record_id, revisit=revisit
        )
        return len(self._spools) - 1, stored

    def _spool(self) -> warc.Spool:
        if not self._spools or self._spools[-1].size >= self._turn.settings.warc.file_bytes:
            number = len(self._spools)
            path = parts.spool_path(self._attempt.base, self._attempt.number, number)
            info = warc_info(
                self._turn, self._lake_id, spool_name(self._partition, self._attempt.number, number)
            )
            self._spools.append(warc.Spool(path, info))
        return self._spools[-1]

    def _settle_redirect(self, item: Item, exchange: Exchange) -> None:
        """Make a redirect that leads nowhere an outcome of its own, and its target a candidate otherwise."""
        if exchange.outcome is not Outcome.REDIRECT:
            return
        target = urls.resolve_location(item.url, exchange.header("location") or "")
        most = self._robots_redirects if item.kind == "robots" else self._limits.redirects
        if target is None or item.hop >= most or target in (*item.chain, item.url):
            exchange.outcome = Outcome.REDIRECT_LIMIT
            exchange.error = f"after {item.hop} hops: Location {exchange.header('location') or 'is missing'}"
            return
        if item.kind == "page":
            self._candidates(item, [target], depth=item.depth, source="redirect", feed=item.feed)

    def _links(self, item: Item, page: Page) -> None:
        self._candidates(item, [link.url for link in page.links], depth=item.depth + 1, source="link")

    def _feed(self, item: Item, exchange: Exchange, body: bytes) -> None:
        """Take the items of a feed as links, the newest first as they stand, no more than of a page."""
        reading = SitemapPolicy(max_bytes=self._limits.parse_bytes, max_entries=self._limits.links_per_page)
        found: dict[str, None] = {}
        try:
            for entry in stream([body], url=exchange.url, policy=reading):
                found[entry.url] = None
        except SitemapError as error:
            exchange.error = exchange.error or f"feed: {error}"
        self._candidates(item, list(found), depth=item.depth + 1, source="feed")

    @property
    def waiting_candidates(self) -> int:
        """Candidates that wait for the next flush."""
        return len(self._rows["candidates"])

    def list_entry(self, item: Item, entry: Entry) -> bool:
        """Make a sitemap's entry a candidate with what the sitemap says of it; False if a filter refuses it."""
        host, key = self._judge(entry.url, depth=LISTED_DEPTH, meta=item.meta)
        if key is None:
            return False
        meta = metadata.with_hints(
            item.meta, lastmod=entry.lastmod, changefreq=entry.changefreq, priority=entry.priority
        )
        self._rows["candidates"].append(
            (key, entry.url, host, item.url, item.key, LISTED_DEPTH, "sitemap", meta)
        )
        return True

    def _candidates(
        self, item: Item, links: list[str], *, depth: int, source: str, feed: bool = False
    ) -> None:
        rows = self._rows["candidates"]
        meta = metadata.written({**metadata.read(item.meta), "feed": True}) if feed else item.meta
        for key, url, host in self._sieve.sift(
            links, host=item.host, depth=depth, via_key=item.key, meta=item.meta
        ):
            rows.append((key, url, host, item.url, item.key, depth, source, meta))

    def _note(
        self, item: Item, exchange: Exchange, pause: Delay, asked: bool,
        read: tuple[bodies.Decoded | None, Page | None], stored: tuple[int, warc.Stored] | None, tags: Any, seen: Seen,
    ) -> None:  # fmt: skip
        decoded, page = read
        outcome = exchange.outcome.value
        self.outcomes[outcome] += 1
        self.counts["requests"] += asked
        self.counts["pages"] += item.kind == "page" and exchange.outcome is Outcome.OK
        self.counts["finished"] += item.kind == "page" and not item.hop
        self.counts["wire_bytes"] += exchange.wire_bytes
        self.counts["body_bytes"] += len(exchange.body)
        spool, record = stored or (-1, None)
        target = exchange.header("location") if exchange.outcome is Outcome.REDIRECT else None
        content_type = exchange.header("content-type")
        said = [
            name for name, set_ in zip(("noindex", "nofollow", "noarchive"), tags[:3], strict=True) if set_
        ]
        whole = page is not None
        self._rows["captures"].append(
            (
                item.url, _moment(exchange.started_ms), exchange.status,
                urls.resolve_location(item.url, target) if target else None,
                record.payload_digest if record else None,
                content_type.partition(";")[0].strip().lower()[:200] if content_type else None,
                page.mime if page else None, (page.charset or None) if page else None, exchange.truncated, item.key,
                item.host, item.kind, outcome, _short(exchange.error or (decoded.error if decoded else None)),
                record.record_id if record else None,
                ("revisit" if exchange.outcome is Outcome.NOT_MODIFIED and item.last_visit_ms else "response")
                if record else None,
                exchange.address, exchange.started_ms if asked else None, exchange.first_byte_ms,
                exchange.total_ms if asked else None, pause.ms, pause.reason, len(exchange.body),
                exchange.wire_bytes, len(decoded.data) if decoded else None,
                (page.title or None) if page else None, len(page.links) if whole and page else None, item.depth, item.via,
                item.source, item.hop, exchange.header("etag"), exchange.header("last-modified"),
                exchange.header("retry-after"), ",".join(said) or None, self._attempt.number, _short(seen.notes), item.meta,
                item.origin, spool, record.offset if record else None, record.length if record else None,
                record.total - record.length if record else None, seen.skeleton, seen.leads_away,
            )
        )  # fmt: skip

    def note_denied(self, denied: list[Denied]) -> None:
        """Write a row for each item that was not asked for, and empty the list."""
        for refusal in denied:
            exchange = Exchange(
                refusal.item.url,
                outcome=refusal.outcome,
                error=refusal.detail,
                started_ms=self._turn.opened_ms,
            )
            self.keep(refusal.item, exchange, Delay(0, "floor"), asked=False)
        denied.clear()

    # --- flushing ---

    async def flush(self, crew: Crew, *, final: bool = False) -> None:
        """Make durable what was kept since the last flush; the disk is waited for in a thread, the clocks go on.

        Flushes follow each other in order: a part's spool sizes cover what its rows and the earlier ones name.
        """
        await self.settled()
        taken = self._take(crew, final=final)
        if taken is not None:
            self.counts["flushes"] += 1
            self._writing = asyncio.get_running_loop().run_in_executor(None, self._write, taken)
            await self.settled()

    async def settled(self) -> None:
        """Wait for the flush that is under way, also if the waiting is given up meanwhile; raises what it raised."""
        while self._writing is not None:
            writing = self._writing
            await asyncio.shield(writing)
            if self._writing is writing:
                self._writing = None

    def _take(self, crew: Crew, *, final: bool) -> _Taken | None:
        """Take what was kept since the last flush: answers come in while the disk is written to."""
        for host in crew.hosts.values():
            if host.touched:
                self._rows["hosts"].append(host.as_row(HOST_COLUMNS, self._turn.cycle))
                host.touched = False
        fresh = {
            digest: body for digest, body in crew.robots.bodies.items() if digest not in self._bodies_written
        }
        self._bodies_written |= set(fresh)
        self._rows["robots"] += list(fresh.items())
        self._rows["links"] += [
            (source, target, count) for (source, target), count in self._sieve.pairs.items()
        ]
        self._sieve.pairs.clear()
        self._rows["sitemaps"] += [
            (urls.host_key(host), host, url, copy.source, list(copy.hosts), copy.meta, copy.level)
            for (host, url), copy in crew.sitemaps.strangers.items()
        ]
        crew.sitemaps.strangers.clear()
        if not final and not any(self._rows.values()):
            return None
        rows, self._rows = self._rows, {kind: [] for kind in parts.KINDS}
        reported = self._plugged.take() if self._plugged else []
        return _Taken(rows, [(spool, spool.size) for spool in self._spools], reported)

    def _write(self, taken: _Taken) -> None:
        """Write a flush, in a thread: it touches what was taken, and nothing that the loop goes on changing."""
        for spool, _ in taken.spools:
            spool.flush()
        if self._plugged:
            self._plugged.flush(taken.reported)
        self._attempt.flush(taken.rows, {number: size for number, (_, size) in enumerate(taken.spools)})

    def resume(self, captures: pa.Table) -> None:
        """Count what earlier attempts brought."""
        self.outcomes.update(captures["outcome"].to_pylist())
        pages = captures.filter(pc.equal(captures["kind"], "page"))
        self.counts["requests"] += captures.num_rows - captures["request_ms"].null_count
        self.counts["pages"] += pages.filter(pc.equal(pages["outcome"], Outcome.OK.value)).num_rows
        self.counts["wire_bytes"] += pc.sum(captures["wire_bytes"]).as_py() or 0
        self.counts["body_bytes"] += pc.sum(captures["body_bytes"]).as_py() or 0
        finished = pc.sum(pc.equal(pages["hop"], 0)).as_py() or 0
        self.counts["finished"] += finished
        self.planned += finished

    def live(self) -> dict[str, Any]:
        """Return the counts so far."""
        return {"planned": self.planned, **self.counts, "outcomes": dict(self.outcomes)}

    def close(self) -> None:
        """Close files; what was not flushed is lost."""
        self._attempt.close()
        for spool in self._spools:
            spool.close()


def _moment(epoch_ms: int) -> datetime:
    return datetime.fromtimestamp(epoch_ms / 1_000, tz=UTC)


def _short(text: str | None) -> str | None:
    return None if text is None else text[:500]
