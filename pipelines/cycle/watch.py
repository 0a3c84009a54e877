"""What comes back, watched while it comes: a pattern of a host's URLs that brings nothing new is left at once.

The fetch step judges by what it can see of a cycle; the merge judges again by what the whole lake knows, and what it
says stays (see harvest.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipelines.cycle.hoststate import Item
from pipelines.net.exchange import Exchange
from pipelines.rules import sources
from pipelines.rules.outcome import Outcome
from pipelines.rules.traps import (
    PatternYields,
    Quarantines,
    YieldPolicy,
    path_pattern,
    skeleton_of,
    soft_404_hint,
)

SKELETON_BITS = (1 << 31) - 1
REMEMBERED = 100_000
"""Digests kept in mind for a partition; with more, the oldest half is forgotten."""

NEAR_BYTES = 32
"""Pages of a pattern whose sizes are further apart differ in more than digits: they need not be compared."""

LENGTHS = 8
EQUAL_PAGES = 5
"""So many other addresses of a host that gave the same page make it a "not found" that does not say so."""

_LOGIN = re.compile(
    r"/(?:wp-)?(?:log|sign)[-_]?(?:in|on)\b|/(?:login|anmeld\w*|register)\b|/(?:cart|basket|warenkorb)\b",
    re.IGNORECASE,
)
NO_PAGE, UNLIKE = 0, -1
COUNTED = frozenset({Outcome.OK, Outcome.NOT_FOUND, Outcome.GONE, Outcome.CLIENT_ERROR})


@dataclass(slots=True)
class Seen:
    """What the watch makes of an answer.

    skeleton: see `skeleton_of`; NO_PAGE = nothing worth counting came, UNLIKE = no page of its size was seen before,
    None = the answer does not count. leads_away: a link to another host was let through. notes: for the capture.
    """

    skeleton: int | None = None
    leads_away: bool = False
    notes: str | None = None


NOTHING = Seen()


@dataclass(slots=True)
class _Host:
    """A host as the watch knows it. trapped: the patterns left, with the reason; sampled: those tried again."""

    yields: PatternYields
    trapped: dict[str, str]
    sampled: frozenset[str] = frozenset()
    pages: dict[int | str, int] = field(default_factory=dict)
    sizes: dict[str, list[int]] = field(default_factory=dict)  # of the last pages, by pattern
    payloads: set[str] = field(default_factory=set)  # of the host's pages in this attempt, by digest


class Watch:
    """Watches the answers of one attempt at a partition."""

    def __init__(self, cycle: int, policy: YieldPolicy) -> None:
        self._cycle, self._policy = cycle, policy
        self._hosts: dict[str, _Host] = {}
        self._digests: dict[str, str] = {}  # by URL
        self.is_new: Callable[[int], bool] = lambda key: True
        """Says whether nobody has seen a URL key; a wrong no is borne."""

    def enlist(self, row: dict[str, Any]) -> None:
        """Take in what a host's row tells of its patterns."""
        if row["yields"] or row["traps"]:
            traps = Quarantines.from_json(row["traps"])
            trapped = {
                pattern: why
                for pattern in traps.by_pattern
                if (why := traps.refusal(pattern, self._cycle)) is not None
            }
            yields = PatternYields.from_json(row["yields"], self._policy)
            sampled = frozenset(traps.by_pattern) - frozenset(trapped)
            self._hosts[row["host"]] = _Host(yields, trapped, sampled)

    def refuses(self, item: Item) -> bool:
        """Say whether a URL is of a pattern that was left. Seeds are asked all the same."""
        host = self._hosts.get(item.host)
        if host is None or not host.trapped or item.kind != "page" or item.source in sources.SEEDS:
            return False
        return item.last_visit_ms is None and path_pattern(item.url, self._policy.slug_chars) in host.trapped

    def see(
        self,
        item: Item,
        exchange: Exchange,
        body: bytes | None,
        *,
        digest: str | None,
        title: str | None,
        links: Sequence[tuple[Any, ...]],
    ) -> Seen:
        """Note an answer to a URL that was never visited before.

        body: decoded, None where nothing could be read. links: (key, URL, host, ...) of those that were let through
        as perhaps new; they are looked at only where the payload itself is nothing new.
        """
        if item.kind != "page" or item.last_visit_ms is not None or exchange.outcome not in COUNTED:
            return NOTHING
        host = self._hosts.get(item.host)
        if host is None:
            host = self._hosts[item.host] = _Host(PatternYields(policy=self._policy), {})
        pattern = path_pattern(item.url, self._policy.slug_chars)
        ok = exchange.outcome is Outcome.OK
        skeleton = self._skeleton(host, pattern, body) if ok and body else NO_PAGE
        notes = self._notes(host, item, skeleton, digest, title) if ok else None
        new = skeleton != NO_PAGE and notes is None and digest not in host.payloads
        if digest is not None:
            host.payloads.add(digest)
            self._remember(item.url, digest)
        repeated = skeleton > 0 and (row := host.yields.by_pattern.get(pattern)) and skeleton in row.skeletons
        away, out = self._ways_out(host, item, pattern, links) if repeated or not new else (False, False)
        host.yields.update(pattern, 1, new, out or away, skeleton=skeleton if skeleton > 0 else None)
        judged = pattern in host.trapped or pattern in host.sampled
        if not judged and (why := host.yields.judge(pattern)) is not None:
            host.trapped[pattern] = why
        return Seen(NO_PAGE if notes else skeleton, away, notes)

    def _skeleton(self, host: _Host, pattern: str, body: bytes) -> int:
        """Return a page's skeleton if it may be that of another: most pages are not even of another's size."""
        size, sizes = len(body), host.sizes.setdefault(pattern, [])
        row = None if sizes else host.yields.by_pattern.get(pattern)
        like = any(abs(size - other) <= NEAR_BYTES for other in sizes) or bool(row and row.skeletons)
        sizes.append(size)
        if len(sizes) > LENGTHS:
            del sizes[0]
        return skeleton_of(body) & SKELETON_BITS or 1 if like else UNLIKE

    def _ways_out(
        self, host: _Host, item: Item, pattern: str, links: Sequence[tuple[Any, ...]]
    ) -> tuple[bool, bool]:
        """Say whether new links lead to another host, and to a pattern of the host's own that is another and not left."""
        away = False
        for key, link, name, *_ in links:
            if name == item.host:
                other = path_pattern(link, self._policy.slug_chars)
                if other != pattern and other not in host.trapped and self.is_new(key):
                    return away, True
            elif not away:
                away = self.is_new(key)
        return away, False

    def _notes(
        self, host: _Host, item: Item, skeleton: int, digest: str | None, title: str | None
    ) -> str | None:
        """Return why a page is hardly one of its own, in words that begin with a name."""
        if hint := soft_404_hint(title):
            return f"soft_404: {hint}"
        if digest is not None and item.via is not None and self._digests.get(item.via) == digest:
            return "same_as_referrer"
        if item.hop and (found := _LOGIN.search(item.url.partition("?")[0])):
            return f"login: redirected to {found[0]}"
        mark = skeleton if skeleton > 0 else digest if digest in host.payloads else None
        if mark is not None:
            count = host.pages[mark] = host.pages.pop(mark, -1) + 1
            if len(host.pages) > 4 * EQUAL_PAGES:
                del host.pages[next(iter(host.pages))]
            if count >= EQUAL_PAGES:
                return f"soft_404: {count} other addresses gave this page, digits aside"
        return None

    def _remember(self, url: str, digest: str) -> None:
        self._digests[url] = digest
        if len(self._digests) > REMEMBERED:
            for old in list(self._digests)[: REMEMBERED // 2]:
                del self._digests[old]
