"""The sitemaps of a partition's hosts: which are known, whose turn it is, and what became of each."""

from __future__ import annotations

from dataclasses import dataclass, field

from pipelines.cycle.hoststate import HostState, Item
from pipelines.cycle.queues import Queues
from pipelines.cycle.sitemaps import NO_VALIDATORS, SitemapCopy, SitemapRules, Validators, in_scope
from pipelines.rules import urls
from pipelines.rules.outcome import Outcome
from pipelines.rules.robots_policy import RobotsState, robots_url
from pipelines.rules.sitemaps import WELL_KNOWN_PATHS


@dataclass
class SitemapDesk:
    """Keeps the sitemaps of a partition's hosts. Times are epoch ms."""

    rules: SitemapRules
    queues: Queues
    strangers: dict[tuple[str, str], SitemapCopy] = field(default_factory=dict)
    """Sitemaps found that lie on another host than the one that names them, by (that host, address): merge tells it."""

    def call(self, host: HostState) -> None:
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
        self.queues.put(host, item)

    def note_listed(self, host: HostState, site: str, *, epoch_ms: int) -> None:
        """Take in the sitemaps that a site's robots.txt names, or try the usual place where it names none."""
        copy, rules = host.robots[site], self.rules
        if not rules.per_cycle or copy.state is RobotsState.UNREACHABLE:
            return
        base = copy.url or robots_url(site)
        listed = copy.rules.sitemaps[: rules.per_host] if copy.rules else ()
        found = [url for line in listed if (url := urls.resolve(base, line)) is not None]
        meta = host.queue[0].meta if host.queue else None
        vouching = tuple(sorted({host.name, urls.host_of(base)}))
        for url in found:
            self.note(host, SitemapCopy(url, "robots", vouching, meta), epoch_ms=epoch_ms)
        if not found and rules.well_known:
            usual = SitemapCopy(f"{site}{WELL_KNOWN_PATHS[0]}", "well_known", meta=meta)
            self.note(host, usual, epoch_ms=epoch_ms)

    def note(self, host: HostState, found: SitemapCopy, *, epoch_ms: int) -> None:
        """Take in a sitemap that a host names: its own at once, another host's through the merge."""
        where = urls.host_of(found.url)
        if where == host.name:
            host.touched |= host.sitemaps.note(self.rules, found, now_ms=epoch_ms)
        elif in_scope(self.rules, found):
            self.strangers.setdefault((where, found.url), found).vouch(found.hosts)

    def came(
        self, item: Item, status: str, *, epoch_ms: int, entries: int | None = None,
        validators: Validators = NO_VALIDATORS,
    ) -> None:  # fmt: skip
        """Note what came of a sitemap; its host is told when it is due again. validators: of what was read whole."""
        host = self.queues.hosts[urls.host_of(item.site)]
        host.sitemaps.copies[item.site].settle(
            self.rules, status, now_ms=epoch_ms, entries=entries, validators=validators
        )
        host.touched = True

    def moved(self, item: Item, target: str, *, epoch_ms: int) -> None:
        """Follow a sitemap's redirect: on its own host at once, elsewhere through the merge."""
        host = self.queues.hosts[item.host]
        if urls.host_of(target) == item.host:
            key = urls.url_key(target, item.host)
            hop = Item(
                target, item.host, key, item.origin, kind="sitemap", site=item.site, source=item.source,
                meta=item.meta, hop=item.hop + 1, chain=(*item.chain, item.url), via=item.url,
            )  # fmt: skip
            self.queues.put(host, hop)
            return
        copy = host.sitemaps.copies[item.site]
        found = SitemapCopy(target, "redirect", copy.hosts, copy.meta, copy.level + 1)
        self.note(host, found, epoch_ms=epoch_ms)
        self.came(item, Outcome.REDIRECT.value, epoch_ms=epoch_ms)
