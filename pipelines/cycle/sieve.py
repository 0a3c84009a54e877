"""The links of a page on their way to the lake: refused, seen a moment ago, or a candidate."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from pipelines.rules.filters import FilterPolicy
from pipelines.rules.quick import Quick


class Judge(Protocol):
    """What `Quick.judge` is."""

    def __call__(self, url: str, *, depth: int, meta: str | None) -> tuple[str, int | None]:
        """Return a URL's host, and its key if it is admitted."""


class Found(NamedTuple):
    """A candidate: its key, its URL in wire form, its host."""

    key: int
    url: str
    host: str


_Seen = tuple[int, int, str]
"""The best place in which a URL was seen: links from a seed, key of the page; and the URL's host. A plain tuple: the
garbage collector soon leaves those alone, and there are hundreds of thousands."""


_LAST = "\U0010ffff"
"""Sorts behind every host: what was seen from here is not seen from a worse place."""
_new_tuple = tuple.__new__  # spares a call a candidate


class LinkSieve:
    """Drops what it let through lately, and counts links between hosts.

    Most links of a page stand on its host's other pages too. The sieve remembers up to two generations of
    `capacity` URLs and lets one through again only from a better place (fewer links from a seed, then the
    smaller key of the page), so that the best sighting is always among those let through, whatever the order
    of pages. judge: says of a URL its host, and its key if it is admitted; None = the rules of `policy`.
    """

    def __init__(self, policy: FilterPolicy, *, capacity: int = 200_000, judge: Judge | None = None) -> None:
        self._judge, self._capacity = judge or Quick(policy).judge, capacity
        self._young: dict[str, _Seen] = {}
        self._old: dict[str, _Seen] = {}
        self.pairs: dict[tuple[str, str], int] = {}

    def sift(
        self, links: Iterable[str], *, host: str, depth: int, via_key: int, meta: str | None = None
    ) -> list[Found]:
        """Return the candidates among a page's links (wire form, each once); `depth` is theirs.

        meta: the seed's metadata that they inherit.
        """
        found: list[Found] = []
        young, old, judge, pairs = self._young, self._old, self._judge, self.pairs
        here, inside = (depth, via_key, _LAST), 0
        for url in links:
            seen = young.get(url) or old.get(url)
            if seen is not None and seen < here:
                target = seen[2]
            else:
                target, key = judge(url, depth=depth, meta=meta)
                if key is not None:
                    found.append(_new_tuple(Found, (key, url, target)))
                if key is not None or seen is None:
                    young[url] = (depth, via_key, target)
            if target == host:
                inside += 1
            else:
                pairs[host, target] = pairs.get((host, target), 0) + 1
        if inside:
            pairs[host, host] = pairs.get((host, host), 0) + inside
        if len(young) > self._capacity:
            self._old, self._young = young, {}
        return found
