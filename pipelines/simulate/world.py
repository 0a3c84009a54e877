"""A web that is only computed: its hosts, their pages, and what each answers at any time. No socket, no clock."""

from __future__ import annotations

from bisect import bisect
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from pipelines.rules.priority import uniform

DAY_MS = 86_400_000
HOUR_MS = 3_600_000
CHILDREN = 2
"""Page j leads to 2j + 1 and 2j + 2, so that every page is found from the root."""
NEIGHBOURS = 8
"""Pages of its host that a page leads to besides, drawn from all of them."""

GAPS_MS = (0, 0, 0, 0, 90 * DAY_MS, 30 * DAY_MS, 7 * DAY_MS, DAY_MS, 6 * HOUR_MS)
"""Mean times between changes that pages draw from; 0 = never."""

_MASK = 2**64 - 1


class Kind(IntEnum):
    """How a host behaves."""

    PLAIN = 0
    FLAKY = 1  # one answer in ten is a 500
    BUSY = 2  # one answer in twenty is a 429 with a Retry-After
    DEAD = 3  # refuses connections, always
    FADING = 4  # refuses connections for days at a time
    SHUT = 5  # its robots.txt answers 503 for days at a time
    CLOSED = 6  # its robots.txt forbids all


SHARES = ((Kind.FLAKY, 0.03), (Kind.BUSY, 0.02), (Kind.DEAD, 0.02), (Kind.FADING, 0.02), (Kind.SHUT, 0.01),
          (Kind.CLOSED, 0.01))  # fmt: skip
CRAWL_DELAYS = ((0.85, 0), (0.10, 5), (0.03, 30), (0.015, 300), (0.005, 20_000))
"""Shares of hosts by the Crawl-delay, seconds, of their robots.txt."""


@dataclass(frozen=True)
class World:
    """The arguments that a web is computed from. skew: host sizes fall as rank^-skew. flood: share of hosts of one domain."""

    hosts: int
    urls: int
    seed: int
    skew: float = 0.8
    flood: float = 0.1

    def name(self, host: int) -> str:
        """Return a host's name; the flood's hosts are spread over all ranks."""
        flooded = self.flood and host % round(1 / self.flood) == 7
        return f"h{host:07d}.flood.sim" if flooded else f"h{host:07d}.sim"

    def url(self, host: int, page: int) -> str:
        """Return a page's URL; page 0 is the root."""
        return f"http://{self.name(host)}/p{page}"


@dataclass(frozen=True, eq=False)
class Facts:
    """What is fixed about the hosts, an entry a host."""

    sizes: list[int]
    kinds: list[int]
    crawl_delay_s: list[int]
    first_byte_ms: list[int]
    targets: list[float]  # popularity, summed up: whom links of other hosts lead to


@lru_cache(maxsize=2)
def facts(world: World) -> Facts:
    """Draw the hosts of a world."""
    number = np.arange(world.hosts, dtype=np.int64)
    raw = (number + 1.0) ** -world.skew
    sizes = np.maximum(np.round(raw * world.urls / raw.sum()), 1).astype(np.int64)
    chance, delay = uniform(number, salt=world.seed * 3 + 1), uniform(number, salt=world.seed * 3 + 2)
    kinds = np.zeros(world.hosts, dtype=np.int64)
    reach = 0.0
    for kind, share in SHARES:
        kinds[(chance > reach) & (chance <= reach + share)] = kind
        reach += share
    kinds[0] = Kind.PLAIN
    bounds = np.cumsum([share for share, _ in CRAWL_DELAYS])
    waits = np.array([seconds for _, seconds in CRAWL_DELAYS])
    crawl_delay = waits[np.searchsorted(bounds, np.minimum(delay, 1.0), side="left").clip(max=len(waits) - 1)]
    pace = 20.0 * np.exp(2.5 * uniform(number, salt=world.seed * 3 + 3))  # 20 to 240 ms
    return Facts(
        sizes.tolist(),
        kinds.tolist(),
        crawl_delay.tolist(),
        pace.astype(np.int64).tolist(),
        np.cumsum(raw).tolist(),
    )


def mix(*numbers: int) -> int:
    """Return 64 bits hashed from some numbers: splitmix64 (Steele and others, 2014)."""
    state = 0x243F6A8885A308D3
    for number in numbers:
        state = (state ^ number) * 0x9E3779B97F4A7C15 & _MASK
        state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
        state ^= state >> 27
    return state


class Said(NamedTuple):
    """One answer. status None: the connection was refused. digest: of the page's version. hold_ms: a Retry-After."""

    status: int | None
    first_byte_ms: int
    total_ms: int
    digest: str | None = None
    hold_ms: int = 0


def page(world: World, host: int, number: int, now_ms: int) -> Said:
    """Return what a host answers when one of its pages is asked for."""
    known = facts(world)
    kind = known.kinds[host]
    if _refuses(world, host, kind, now_ms):
        return Said(None, 0, 5)
    roll = mix(world.seed, host, number, now_ms)
    first = known.first_byte_ms[host] * (60 + roll % 81) // 100
    total = first + 2 + (roll >> 8) % 60
    chance = (roll >> 20) % 1_000
    if kind == Kind.FLAKY and chance < 100:
        return Said(500, first, total)
    if kind == Kind.BUSY and chance < 50:
        return Said(429, first, total, hold_ms=1_000 * (30 + (roll >> 32) % 600))
    if number >= known.sizes[host] or mix(world.seed, host, number) % 100 == 0:
        return Said(404, first, total)
    return Said(200, first, total, f"{host}-{number}-{version(world, host, number, now_ms)}")


def robots(world: World, host: int, now_ms: int) -> tuple[Said, bytes]:
    """Return what a host answers when its robots.txt is asked for, and the body."""
    known = facts(world)
    kind = known.kinds[host]
    if _refuses(world, host, kind, now_ms):
        return Said(None, 0, 5), b""
    first = known.first_byte_ms[host]
    if kind == Kind.SHUT and mix(world.seed, host, now_ms // (3 * DAY_MS)) % 2:
        return Said(503, first, first + 2), b""
    return Said(200, first, first + 5), rules_text(world, host)


def rules_text(world: World, host: int) -> bytes:
    """Return a host's robots.txt."""
    known = facts(world)
    closed, delay = known.kinds[host] == Kind.CLOSED, known.crawl_delay_s[host]
    lines = ["User-agent: *", "Disallow: /" if closed else "Disallow: /private/"]
    return "\n".join([*lines, *([f"Crawl-delay: {delay}"] if delay else []), ""]).encode()


def _refuses(world: World, host: int, kind: int, now_ms: int) -> bool:
    if kind == Kind.FADING:
        return mix(world.seed, host, now_ms // (2 * DAY_MS)) % 3 == 0
    return kind == Kind.DEAD


def version(world: World, host: int, number: int, now_ms: int) -> int:
    """Return which version of a page stands at a time: one change a gap, at a place in it drawn anew each time."""
    drawn = mix(world.seed, host, number, 1)
    gap = GAPS_MS[drawn % len(GAPS_MS)]
    if not gap:
        return 0
    cell = (now_ms + drawn % gap) // gap
    place = mix(world.seed, host, number, cell) % gap
    return cell if (now_ms + drawn % gap) % gap >= place else cell - 1


def links(world: World, host: int, number: int) -> list[tuple[int, int]]:
    """Return the pages that a page leads to: its children, the root, and a page of a popular host."""
    size = facts(world).sizes[host]
    first = CHILDREN * number + 1
    found = [(host, child) for child in range(first, min(first + CHILDREN, size))]
    draw = mix(world.seed, host, number, 3)
    for _ in range(min(NEIGHBOURS, size)):
        draw = mix(draw)
        found.append((host, draw % size))
    targets = facts(world).targets
    other = bisect(targets, mix(draw) / 2**64 * targets[-1])
    return [*found, (host, 0), (other, 0)]
