"""The hosts of a toy web: what kinds there are, how they are mixed, and who lives at which address."""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from itertools import accumulate

from pipelines.toyweb.chance import draw, share


class Kind(StrEnum):
    """What is odd about a host. All but NOWHERE and DEAF have ordinary pages too."""

    PLAIN = "plain"
    REDIRECTS = "redirects"  # chains, loops, cross-host, relative and raw UTF-8 Locations
    PRIVATE = "private"  # redirects and links to addresses that are not public
    ERRORS = "errors"  # 401 403 404 410 500 502
    BUSY = "busy"  # 429 and 503, Retry-After in both forms
    SLOW = "slow"  # every answer waits `Mix.slow_ms`
    HANG = "hang"  # silence in the head or the body
    RESET = "reset"  # connections reset or closed early
    TRICKLE = "trickle"  # a few bytes at a time
    HUGE = "huge"  # bodies past every limit, gzip bombs
    DIRTY = "dirty"  # HTTP that breaks the rules but is shown by browsers
    MARKUP = "markup"  # base, refresh, frames, odd hrefs, robots tags
    CALENDAR = "calendar"
    SEGMENTS = "segments"
    SESSIONS = "sessions"
    FACETS = "facets"
    SOFT404 = "soft404"
    PAGER = "pager"
    LOGIN = "login"
    FLOOD = "flood"  # any number of subdomains
    NOWHERE = "nowhere"  # its name does not resolve
    DEAF = "deaf"  # nobody listens at its address


class Robots(StrEnum):
    """What a host answers to /robots.txt."""

    MISSING = "missing"  # 404
    ALLOW = "allow"
    PARTS = "parts"  # /private/ is disallowed, /private/open/ is not
    DELAY = "delay"  # Crawl-delay
    DENY = "deny"  # everything is disallowed
    GROUPS = "groups"  # `*` is denied, noria has a group of its own
    ERROR = "error"  # 500
    FORBIDDEN = "forbidden"  # 403
    BUSY = "busy"  # 429
    SLOW = "slow"
    HTML = "html"  # a page instead of rules
    REDIRECT = "redirect"  # to another path of this host
    AWAY = "away"  # to another host, whose rules then hold
    LOOP = "loop"  # redirects to itself
    HUGE = "huge"  # more than 500 KiB, rules at the start
    DIRTY = "dirty"  # BOM, CR line ends, unknown lines inside a group
    HANG = "hang"
    RESET = "reset"


class Sitemap(StrEnum):
    """What sitemap a host's robots.txt names."""

    NONE = "none"
    XML = "xml"
    INDEX = "index"  # an index of two, one of them gzip
    GZIP = "gzip"
    TEXT = "text"
    FEED = "feed"  # RSS


class Validator(StrEnum):
    """What a host gives for conditional requests."""

    NONE = "none"
    BOTH = "both"
    ETAG = "etag"
    WEAK = "weak"
    BARE = "bare"  # an ETag without its quotes: malformed, to be sent back as received
    DATE = "date"


class Declared(StrEnum):
    """Where a host says which character set it uses."""

    HEADER = "header"
    META = "meta"
    BOM = "bom"
    NONE = "none"


_ODD = (
    Kind.REDIRECTS, Kind.ERRORS, Kind.BUSY, Kind.CALENDAR, Kind.SEGMENTS, Kind.SESSIONS, Kind.FACETS,
    Kind.SOFT404, Kind.PRIVATE, Kind.HUGE, Kind.DIRTY, Kind.MARKUP, Kind.RESET, Kind.SLOW, Kind.TRICKLE,
    Kind.HANG, Kind.NOWHERE, Kind.DEAF, Kind.PAGER, Kind.LOGIN, Kind.FLOOD,
)  # fmt: skip
_ODD_ROBOTS = (
    Robots.DELAY, Robots.DENY, Robots.ERROR, Robots.HTML, Robots.REDIRECT, Robots.HUGE, Robots.SLOW,
    Robots.DIRTY, Robots.GROUPS, Robots.AWAY, Robots.FORBIDDEN,
)  # fmt: skip
_NEVER_QUICK = frozenset({Kind.SLOW, Kind.HANG, Kind.TRICKLE, Kind.RESET, Kind.DEAF, Kind.NOWHERE})
SEVERAL_LANGUAGES = (
    ("en", "utf-8"), ("de", "iso-8859-1"), ("fr", "windows-1252"), ("ru", "windows-1251"), ("ja", "shift_jis"),
    ("el", "iso-8859-7"), ("ru", "koi8-r"), ("ja", "euc-jp"), ("fr", "utf-8"), ("de", "utf-16le"),
)  # fmt: skip


@dataclass(frozen=True)
class Mix:
    """Which kinds of hosts a web has, and the figures of its oddities.

    kinds, robots: each appears once for every 40 hosts, as far as room is left for plain hosts.
    pages: mean pages a host; sizes fall as rank^-`skew`. duplicates: share of pages whose bytes are stored elsewhere.
    sharing: one host in so many lives at another's address; 0 = none.
    steady: an answer never depends on how often a URL was asked (429 and 503 stay for ever).
    change: how fast pages change, 1 = gaps of hours to months, 0 = never.
    hang_ms: silence before a hanging connection is reset; 0 = until the client goes.
    """

    kinds: tuple[Kind, ...] = ()
    robots: tuple[Robots, ...] = ()
    pages: int = 30
    skew: float = 0.6
    duplicates: float = 0.29
    sharing: int = 10
    languages: tuple[tuple[str, str], ...] = SEVERAL_LANGUAGES
    codings: tuple[str, ...] = ("identity", "gzip", "identity", "deflate")
    steady: bool = False
    change: float = 1.0
    slow_ms: int = 300
    hang_ms: int = 4_000
    trickle_ms: int = 50
    robots_slow_ms: int = 1_000
    crawl_delay_s: int = 2
    retry_after_s: int = 3
    huge_bytes: int = 64 * 2**20
    bomb_bytes: int = 256 * 2**20

    @classmethod
    def demo(cls) -> Mix:
        """Everything, but in small doses: nothing waits longer than a few seconds."""
        return cls(kinds=_ODD, robots=_ODD_ROBOTS, duplicates=0.32)

    @classmethod
    def plain(cls) -> Mix:
        """Only clean hosts that answer at once: duplicates, links and changes, but no oddity."""
        return cls(languages=(("en", "utf-8"),), steady=True)

    @classmethod
    def quick(cls) -> Mix:
        """Every oddity that costs no waiting, and no answer that depends on earlier requests."""
        kinds = tuple(kind for kind in _ODD if kind not in _NEVER_QUICK)
        robots = tuple(state for state in _ODD_ROBOTS if state not in (Robots.SLOW, Robots.DELAY))
        return cls(kinds=kinds, robots=robots, duplicates=0.32, steady=True, retry_after_s=1)

    @classmethod
    def steady_demo(cls) -> Mix:
        """The demo without memory: two crawls that ask in different order get the same answers."""
        return replace(cls.demo(), steady=True, change=0.0)

    @classmethod
    def full(cls) -> Mix:
        """All that there is, at full strength: hosts that hang hang for ever."""
        more = (*_ODD_ROBOTS, Robots.BUSY, Robots.LOOP, Robots.RESET, Robots.HANG)
        return cls(
            kinds=_ODD, robots=more, duplicates=0.32, slow_ms=2_000, hang_ms=0, trickle_ms=500, robots_slow_ms=5_000,
            crawl_delay_s=5, retry_after_s=10,
        )  # fmt: skip


MIXES = {
    "demo": Mix.demo, "plain": Mix.plain, "quick": Mix.quick, "steady": Mix.steady_demo, "full": Mix.full,
}  # fmt: skip
"""The mixes by the name that the command line uses."""

_MOST_PAGES = {
    Kind.SLOW: 8, Kind.HANG: 6, Kind.TRICKLE: 6, Kind.RESET: 8, Kind.NOWHERE: 4, Kind.DEAF: 4, Kind.HUGE: 8,
}  # fmt: skip
"""Kinds whose answers cost so much time that a few pages are enough."""


@dataclass(frozen=True, slots=True)
class Host:
    """One host: all that its answers depend on, beside the seed and the mix."""

    index: int
    name: str
    address: str
    kind: Kind
    robots: Robots
    size: int
    sitemap: Sitemap
    validator: Validator
    language: str
    charset: str
    declared: Declared
    coding: str
    chunked: bool
    closes: bool  # ends the connection after each page, and says so

    @property
    def linked(self) -> int:
        """Pages that links lead to; the rest are orphans, named only by the sitemap."""
        return self.size if self.sitemap is Sitemap.NONE else self.size - self.size // 8

    @property
    def resolves(self) -> bool:
        """True if the DNS table has its name."""
        return self.kind is not Kind.NOWHERE

    @property
    def listens(self) -> bool:
        """True if the server is bound at its address."""
        return self.kind not in (Kind.NOWHERE, Kind.DEAF)

    @property
    def open(self) -> bool:
        """True if it is quick and ordinary pages of it may be fetched: a good neighbour to be named in seeds."""
        return self.kind is Kind.PLAIN and self.robots in (Robots.ALLOW, Robots.PARTS, Robots.MISSING)


@dataclass(frozen=True, eq=False)
class Plan:
    """A web's hosts and what they were drawn from; compared by identity, so that it can be a cache's key.

    open: hosts of ordinary pages; seeded: every second of them; turns: index of a host -> its place in `seeded`.
    lodging: hosts whose robots.txt AWAY hosts point to. weights: popularity, summed up.
    """

    seed: int
    mix: Mix
    hosts: tuple[Host, ...]
    by_name: dict[str, Host] = field(repr=False)
    open: tuple[Host, ...] = field(repr=False)
    seeded: tuple[Host, ...] = field(repr=False)
    turns: dict[int, int] = field(repr=False)
    lodging: tuple[Host, ...] = field(repr=False)
    weights: tuple[float, ...] = field(repr=False)

    def popular(self, chance: float) -> Host:
        """Return a host for a number in [0, 1): host k is chosen as 1 / (k + 1)."""
        return self.hosts[bisect(self.weights, chance * self.weights[-1])]

    def find(self, name: str) -> Host | None:
        """Return the host that answers for a name: itself, or the flood host above it."""
        host = self.by_name.get(name)
        while host is None and "." in name:
            name = name.partition(".")[2]
            host = self.by_name.get(name)
            if host and host.kind is not Kind.FLOOD:
                return None
        return host


def plan(hosts: int, seed: int, mix: Mix) -> Plan:
    """Draw the hosts of a web; the same arguments give the same web."""
    if hosts < 1:
        raise ValueError(f"a toy web needs at least one host, not {hosts}")
    made = tuple(
        _host(index, kind, robots, hosts, seed, mix)
        for index, (kind, robots) in enumerate(_cast(hosts, seed, mix))
    )
    open_hosts = tuple(host for host in made if host.open)
    seeded = open_hosts[: (len(open_hosts) + 1) // 2]
    return Plan(
        seed=seed,
        mix=mix,
        hosts=made,
        by_name={host.name: host for host in made},
        open=open_hosts,
        seeded=seeded,
        turns={host.index: turn for turn, host in enumerate(seeded)},
        lodging=tuple(host for host in open_hosts if host.robots is Robots.PARTS) or open_hosts,
        weights=tuple(accumulate(1 / (rank + 1) for rank in range(hosts))),
    )


def _cast(hosts: int, seed: int, mix: Mix) -> Iterator[tuple[Kind, Robots]]:
    """Yield each host's kind and robots.txt; the first host is always plain and open."""
    once = [(kind, Robots.ALLOW) for kind in mix.kinds]
    for place, state in enumerate(mix.robots):
        once.insert(min(2 * place + 1, len(once)), (Kind.PLAIN, state))
    odd = (once * max(1, hosts // 40))[: hosts - max(1, hosts // 8)]
    usual = (Robots.ALLOW, Robots.PARTS, Robots.ALLOW, Robots.MISSING)
    plain = [(Kind.PLAIN, usual[n % 4]) for n in range(hosts - len(odd))]
    rest = plain[1:] + odd
    order = sorted(range(len(rest)), key=lambda place: draw(seed, "cast", place))
    yield plain[0]
    yield from (rest[place] for place in order)


def _host(index: int, kind: Kind, robots: Robots, hosts: int, seed: int, mix: Mix) -> Host:
    """Return the host of a rank: low ranks are large and popular."""
    language, charset = mix.languages[index % len(mix.languages)]
    declared = tuple(Declared)[draw(seed, index, "declared") % 3 if charset != "utf-8" else index % 4]
    return Host(
        index=index,
        name=f"w{index + 1:03}.test",
        address=_address(index, kind, mix.sharing),
        kind=kind,
        robots=robots,
        size=min(
            _size(index, hosts, mix),
            _MOST_PAGES.get(kind, 1 << 40),
            18 if robots is Robots.DELAY else 1 << 40,
        ),
        sitemap=_sitemap(index, robots),
        validator=tuple(Validator)[draw(seed, index, "validator") % len(Validator)],
        language=language,
        charset=charset,
        declared=_declared(declared, charset),
        coding=mix.codings[index % len(mix.codings)],
        chunked=share(seed, index, "chunked") < 0.3,
        closes=share(seed, index, "closes") < 0.15,
    )


def _size(index: int, hosts: int, mix: Mix) -> int:
    """Return the pages of the host of a rank, so that the mean is about `mix.pages`."""
    scale = mix.pages * hosts / _skewed(hosts, mix.skew)
    return max(2, round(scale * math.pow(index + 1, -mix.skew)))


@lru_cache
def _skewed(hosts: int, skew: float) -> float:
    """Return the sum of rank^-skew over all hosts."""
    return math.fsum(math.pow(rank + 1, -skew) for rank in range(hosts))


def _address(index: int, kind: Kind, sharing: int) -> str:
    """Return the loopback address of a host; those of DEAF hosts are in a network of their own."""
    lodger = sharing and index % sharing == sharing - 1 and kind is not Kind.DEAF
    place = (index - sharing // 2 if lodger else index) % 65_534 + 1
    return f"127.{21 if kind is Kind.DEAF else 20}.{place >> 8}.{place & 255}"


def _sitemap(index: int, robots: Robots) -> Sitemap:
    """Return the sitemap of a host: only a robots.txt that is read can name one."""
    if robots not in (Robots.ALLOW, Robots.PARTS, Robots.DELAY):
        return Sitemap.NONE
    return (Sitemap.XML, Sitemap.NONE, Sitemap.INDEX, Sitemap.GZIP, Sitemap.NONE, Sitemap.TEXT, Sitemap.FEED)[
        index % 7
    ]


def _declared(declared: Declared, charset: str) -> Declared:
    """Return how a charset is told: UTF-16 needs a BOM or a header, and only Unicode has a BOM."""
    if charset == "utf-16le":
        return Declared.BOM
    return Declared.HEADER if declared is Declared.BOM and charset != "utf-8" else declared
