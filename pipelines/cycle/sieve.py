"""The links of a page on their way to the lake: refused, seen a moment ago, or a candidate."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pipelines.rules import urls
from pipelines.rules.filters import FilterPolicy, refusal


class Found(NamedTuple):
    """A candidate: its key, its URL in wire form, its host."""

    key: int
    url: str
    host: str


class LinkSieve:
    """Drops what it let through lately, and counts links between hosts.

    Most links of a page stand on its host's other pages too. The sieve remembers up to two generations of
    `capacity` URLs and lets one through again only from a better place (fewer links from a seed, then the
    smaller key of the page), so that the best sighting is always among those let through, whatever the order
    of pages.
    """

    def __init__(self, policy: FilterPolicy, *, capacity: int = 200_000) -> None:
        self._policy, self._capacity = policy, capacity
        self._young: dict[str, tuple[int, int]] = {}
        self._old: dict[str, tuple[int, int]] = {}
        self.pairs: dict[tuple[str, str], int] = {}

    def sift(
        self, links: Iterable[str], *, host: str, depth: int, via_key: int, meta: str | None = None
    ) -> list[Found]:
        """Return the candidates among a page's links (wire form, each once); `depth` is theirs.

        meta: the seed's metadata that they inherit.
        """
        found = []
        place = (depth, via_key)
        inside = 0
        for url in links:
            target = urls.host_of(url)
            if target == host:
                inside += 1
            else:
                self._count(host, target)
            best = self._young.get(url) or self._old.get(url)
            if best is not None and best <= place:
                continue
            self._remember(url, place)
            if refusal(url, self._policy, depth=depth, meta=meta, host=target) is None:
                found.append(Found(urls.url_key(url, target), url, target))
        if inside:
            self._count(host, host, inside)
        return found

    def _count(self, source: str, target: str, links: int = 1) -> None:
        pair = (source, target)
        self.pairs[pair] = self.pairs.get(pair, 0) + links

    def _remember(self, url: str, place: tuple[int, int]) -> None:
        if len(self._young) >= self._capacity:
            self._old, self._young = self._young, {}
        self._young[url] = place
