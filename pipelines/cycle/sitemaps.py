"""A host's sitemaps: which it has, which are due, and what an answer means for the next time. No socket, no clock."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from pipelines.cycle.moments import epoch_ms, moment
from pipelines.rules import urls
from pipelines.rules.filters import DEFAULT_FILTERS, FilterPolicy, verdicts
from pipelines.rules.outcome import HOST_FAULTS, SLOW_DOWN, Outcome
from pipelines.rules.sitemaps import SitemapPolicy, may_list

DAY_MS = 86_400_000
HOUR_MS = 3_600_000
MOST_LEVELS = 3
"""Indexes that may stand above a sitemap; the protocol knows one, and a loop must end."""

SCOPE = frozenset({"blocked", "exclude", "stay", "length", "credentials", "host_name"})
"""Filter rules that hold for the address of a sitemap itself; the others are about pages."""

NOT_A_SITEMAP = "not_a_sitemap"
LONGEST_VALIDATOR = 1_024
"""Characters of an ETag or a Last-Modified that are kept in the host table; longer ones are not."""


class Validators(NamedTuple):
    """What an answer gave to ask by another time whether it has changed."""

    etag: str | None = None
    last_modified: str | None = None

    @classmethod
    def of(cls, etag: str | None, last_modified: str | None) -> Validators:
        """Return those of an answer's headers that are short enough to be kept."""
        return cls(
            *(text if text and len(text) <= LONGEST_VALIDATOR else None for text in (etag, last_modified))
        )

    def __bool__(self) -> bool:
        """Whether there is one."""
        return any(self)


NO_VALIDATORS = Validators()


@dataclass(frozen=True)
class SitemapRules:
    """How sitemaps are asked for and believed; times in ms."""

    per_cycle: int = 5
    well_known: bool = True
    per_host: int = 1_000
    ttl_ms: int = 7 * DAY_MS
    missing_ms: int = 30 * DAY_MS
    retry_ms: int = 24 * HOUR_MS
    reading: SitemapPolicy = field(default_factory=SitemapPolicy)
    filters: FilterPolicy = DEFAULT_FILTERS


@dataclass(slots=True)
class SitemapCopy:
    """What is known of one sitemap.

    source: how it was found: robots, well_known, seed, index, redirect. hosts: hosts whose robots.txt names it, for
    whose pages it may speak wherever it lies. meta: what its pages inherit. level: indexes above it. Times are
    epoch ms, 0 = never. status: an outcome's word, or not_a_sitemap; None = not asked yet. validators: of the answer
    that was read to its end, if that came from `url` itself.
    """

    url: str
    source: str
    hosts: tuple[str, ...] = ()
    meta: str | None = None
    level: int = 0
    fetched_ms: int = 0
    expires_ms: int = 0
    entries: int | None = None
    status: str | None = None
    validators: Validators = NO_VALIDATORS

    def vouch(self, hosts: Iterable[str]) -> bool:
        """Let it speak for more hosts; return whether that is new. What it says of those was passed over so far."""
        more = tuple(sorted({*self.hosts, *hosts}))
        new, self.hosts = more != self.hosts, more
        if new:
            self.validators = NO_VALIDATORS
        return new

    def read_anew(self, now_ms: int) -> None:
        """Make it due, to be read even if it has not changed."""
        self.expires_ms, self.validators = min(self.expires_ms, now_ms), NO_VALIDATORS

    def may_speak_for(self, sitemap_url: str, entry_url: str) -> bool:
        """Return whether it may list a URL; `sitemap_url`: where its bytes came from (sitemaps.org, cross submission)."""
        host = urls.host_of(entry_url)
        return may_list(sitemap_url, entry_url, host in self.hosts)

    def settle(
        self, rules: SitemapRules, status: str, *, now_ms: int, entries: int | None = None,
        validators: Validators = NO_VALIDATORS,
    ) -> None:  # fmt: skip
        """Note what came of a request, and when to ask again."""
        self.status, self.fetched_ms = status, now_ms
        if status != Outcome.NOT_MODIFIED.value:
            self.entries, self.validators = entries, validators
        self.expires_ms = now_ms + _pause_ms(rules, status)


_READ = frozenset({Outcome.OK.value, Outcome.NOT_MODIFIED.value})
"""Statuses of a sitemap whose entries are known."""
_SOON = frozenset(outcome.value for outcome in HOST_FAULTS | SLOW_DOWN | {Outcome.DISCONNECTED})


def _pause_ms(rules: SitemapRules, status: str) -> int:
    if status in (Outcome.OK.value, Outcome.NOT_MODIFIED.value, Outcome.REDIRECT.value):
        return rules.ttl_ms
    return rules.retry_ms if status in _SOON else rules.missing_ms


@dataclass(slots=True)
class HostSitemaps:
    """The sitemaps of one host. `left`: how many may still be asked for in this cycle."""

    left: int = 0
    copies: dict[str, SitemapCopy] = field(default_factory=dict)
    due: deque[str] = field(default_factory=deque)

    def __bool__(self) -> bool:
        """Whether one may be asked for now."""
        return self.left > 0 and bool(self.due)

    def waiting(self) -> int:
        """Return how many may still be asked for in this cycle."""
        return min(self.left, len(self.due))

    def take(self) -> SitemapCopy:
        """Take the one that is due longest."""
        self.left -= 1
        return self.copies[self.due.popleft()]

    def note(self, rules: SitemapRules, found: SitemapCopy, *, now_ms: int) -> bool:
        """Take in a sitemap that was found; return whether anything is new."""
        known = self.copies.get(found.url)
        if known is not None:
            return known.vouch(found.hosts)
        if len(self.copies) >= rules.per_host or found.level > MOST_LEVELS or not in_scope(rules, found):
            return False
        self.copies[found.url] = found
        if found.expires_ms <= now_ms:
            self.due.append(found.url)
        return True

    def recall(self, url: str, *, changed_ms: int | None, rules: SitemapRules, now_ms: int) -> None:
        """Take an index at its word about one of its sitemaps: changed since it was read, or not."""
        copy = self.copies[url]
        if changed_ms is None or not copy.fetched_ms or copy.status not in _READ:
            return
        if changed_ms <= copy.fetched_ms:
            copy.expires_ms = max(copy.expires_ms, now_ms + rules.ttl_ms)
            if url in self.due:
                self.due.remove(url)
        elif url not in self.due and copy.expires_ms > now_ms:
            copy.expires_ms = now_ms
            self.due.append(url)


def in_scope(rules: SitemapRules, found: SitemapCopy) -> bool:
    """Return whether the filters let a sitemap's own address through."""
    said = verdicts(found.url, policy=rules.filters)
    return all(verdict.ok or verdict.rule not in SCOPE for verdict in said)


def copies_of(
    rows: list[dict[str, Any]] | None, rules: SitemapRules, *, opened_ms: int, now_ms: int
) -> HostSitemaps:
    """Return a host's sitemaps from its row: the longest due first, those asked for since `opened_ms` count."""
    copies = {row["url"]: _copy(row) for row in rows or ()}
    asked = sum(copy.fetched_ms >= opened_ms for copy in copies.values())
    due = sorted((copy.expires_ms, url) for url, copy in copies.items() if copy.expires_ms <= now_ms)
    return HostSitemaps(max(rules.per_cycle - asked, 0), copies, deque(url for _, url in due))


def _copy(row: dict[str, Any]) -> SitemapCopy:
    return SitemapCopy(
        row["url"], row["source"], tuple(row["hosts"] or ()), row["meta"], row["level"] or 0,
        epoch_ms(row["fetched_at"]), epoch_ms(row["expires_at"]), row["entries"], row["status"],
        Validators(row.get("etag"), row.get("last_modified")),
    )  # fmt: skip


def rows_of(sitemaps: HostSitemaps) -> list[dict[str, Any]] | None:
    """Return the sitemaps as the host table holds them, sorted by URL; None for none."""
    return [
        {
            "url": url,
            "source": copy.source,
            "hosts": list(copy.hosts),
            "meta": copy.meta,
            "level": copy.level,
            "fetched_at": _time(copy.fetched_ms),
            "expires_at": _time(copy.expires_ms),
            "entries": copy.entries,
            "status": copy.status,
            "etag": copy.validators.etag,
            "last_modified": copy.validators.last_modified,
        }
        for url, copy in sorted(sitemaps.copies.items())
    ] or None


def _time(ms: int) -> datetime | None:
    return moment(ms) if ms else None
