"""Every setting: its section, name, default, bounds and meaning.

One frozen model a section; the unit is in the name. `conf/default.toml` is made from this file
(`python -m pipelines.config`), and a test holds it to that. Reading files, variables and flags is `config.py`.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from importlib import metadata
from typing import Any, get_type_hints

from pipelines.rules.extensions import EXTENSIONS
from pipelines.setting_kinds import (
    DAY_MS,
    DAY_SECONDS,
    YEAR_SECONDS,
    Buckets,
    Contact,
    Counts,
    HostTable,
    Networks,
    NetworkTable,
    SchedulerAddress,
    Section,
    Servers,
    Texts,
    Weights,
    listing,
    number,
    switch,
    table,
    text,
    whole,
)  # fmt: skip


class Identity(Section):
    """Who crawls."""

    product: str = text(
        "Noria",
        "name in the User-Agent, and the group looked for in robots.txt (RFC 9309, 2.2.1: letters, _ and -)",
        pattern=r"^[A-Za-z_-]{1,64}$",
    )
    contact: Contact = text(
        "",
        "web page or mail address of whoever answers for the crawl; part of the User-Agent. A real crawl needs it",
    )


class Delay(Section):
    """How long a host is left alone between two requests: the longest wish wins."""

    floor_ms: int = whole(
        1000,
        0,
        DAY_MS,
        "least pause between the end of a request to a host and the next; under 1000 only on loopback",
    )
    address_floor_ms: int = whole(
        250,
        0,
        DAY_MS,
        "least pause between two requests to one address, whatever their hosts; 0 = off (BUbiNG: 500)",
    )
    address_floors_ms: NetworkTable = table(
        {}, 'exceptions to it: a table of network to pause, e.g. {"192.0.2.0/24" = 50} for a large hoster'
    )
    response_factor: int = whole(10, 0, 1000, "pause as a multiple of the host's last time to first byte")
    patience_ms: int = whole(30_000, 0, DAY_MS, "the longest pause that a slow answer alone can cause")
    backoff_first_ms: int = whole(
        5_000, 0, DAY_MS, "extra pause after a first 429, 5xx or time-out; doubles with each more"
    )
    backoff_max_ms: int = whole(3_600_000, 0, 7 * DAY_MS, "the longest such extra pause")
    backoff_forgive_percent: int = whole(
        25, 1, 100, "share of the extra pause that each good answer takes away"
    )
    retry_after_max_seconds: int = whole(
        7 * DAY_SECONDS, 0, YEAR_SECONDS, "a Retry-After beyond this counts as this"
    )


class Window(Section):
    """How long a cycle may fetch."""

    seconds: int = whole(
        3600, 1, 31 * DAY_SECONDS, "time for the fetch step; what was not reached goes back to ready"
    )


class Budget(Section):
    """How much one host, domain or label may get."""

    requests_per_month: int = whole(
        0,
        0,
        2_592_000,
        "requests a host gets in a calendar month (UTC); 0 = what its delay allows (2,592,000 / delay in seconds)",
    )
    hosts_per_domain: int = whole(
        1000,
        0,
        10**9,
        "hosts of one registrable domain in a cycle, against floods of subdomains; 0 = no limit",
    )
    pages_per_domain_cycle: int = whole(
        0, 0, 10**9, "pages of one registrable domain in a cycle; 0 = no limit"
    )
    labels: Counts = table(
        {}, 'requests in a cycle by seed label, a table, e.g. {"dk" = 100000}; others have no limit'
    )


class Plan(Section):
    """What a cycle takes on."""

    max_pages: int = whole(0, 0, 10**10, "URLs planned in a cycle; 0 = no limit but the window")
    max_bytes: int = whole(
        0,
        0,
        10**15,
        "body bytes fetched in a cycle, each partition an equal share; what is under way comes on top; 0 = no limit",
    )
    bands: Weights = listing(
        (16.0, 8.0, 4.0, 2.0, 1.0),
        "weights of the priority bands f1, f2, …: a URL of weight 2 is drawn twice as readily as one of weight 1",
    )
    ready_windows: int = whole(
        3, 1, 1000, "how many windows' worth of URLs a host keeps on the ready shelf; the rest is backlog"
    )
    partitions: int = whole(0, 0, 8000, "fetch partitions of a cycle; 0 = by the work and the slots")
    pages_per_second: int = whole(
        500, 1, 100_000, "what one fetch slot is trusted to fetch: bounds the plan when all is due at once"
    )


class Score(Section):
    """Terms of a URL's priority score; their sum chooses the band, a band a unit."""

    seed: float = number(4.0, 0, 1000, "added for a seed")
    depth: float = number(1.0, 0, 1000, "times log2(1 + links from the nearest seed), taken off")
    sitemap: float = number(1.0, 0, 1000, "added for a URL that a sitemap lists")
    host: float = number(1.0, 0, 1000, "times log2 of the host's score in the host table (1 = usual), added")
    change: float = number(1.0, 0, 1000, "times the share of visits that found a change, added")
    waiting_per_day: float = number(0.1, 0, 1000, "added for each day since it could have been asked")


class Fetch(Section):
    """The fetch step, one long task a partition."""

    connections: int = whole(200, 1, 10_000, "open requests of one fetch slot (one worker process)")
    flush_seconds: int = whole(
        5, 1, 600, "how often what was fetched becomes durable: a kill loses no more than this"
    )
    connect_ms: int = whole(10_000, 100, 600_000, "time-out for the connection, TLS included")
    first_byte_ms: int = whole(30_000, 100, 600_000, "time-out for the first byte of the answer")
    idle_ms: int = whole(20_000, 100, 600_000, "time-out for silence in the middle of an answer")
    total_ms: int = whole(120_000, 100, DAY_MS, "time-out for the whole exchange; what came is kept")
    lease_seconds: int = whole(
        45, 6, 3600, "how long a fetch partition belongs to an attempt that gives no sign of life"
    )
    lease_renew_seconds: int = whole(5, 1, 600, "how often it gives one; at most a third of lease_seconds")
    tries: int = whole(
        3, 1, 100, "attempts at a partition before it is given up and its URLs go back to ready"
    )
    verify_tls: bool = switch(True, "whether a bad certificate ends the request (outcome tls_certificate)")


class Limits(Section):
    """Bounds on what the web may send (promise P9)."""

    body_bytes: int = whole(
        10 * 2**20, 1, 2**32, "body bytes kept as sent; the rest is cut and marked truncated"
    )
    decoded_bytes: int = whole(20 * 2**20, 1, 2**32, "body bytes after gzip, br, zstd: bombs stop here")
    header_bytes: int = whole(65_536, 1024, 2**24, "answer head")
    redirects: int = whole(10, 0, 50, "hops followed in one cycle from one URL (browsers: 20)")
    url_chars: int = whole(
        2_083, 64, 100_000, "characters of a URL; longer ones are refused (Nutch: 512, Scrapy: 2083)"
    )
    links_per_page: int = whole(2_000, 0, 1_000_000, "links taken from a page, in page order")
    parse_bytes: int = whole(2 * 2**20, 1024, 2**30, "bytes of a page that are parsed for links")


class Robots(Section):
    """robots.txt, RFC 9309. It is always obeyed: there is no setting for that."""

    ttl_seconds: int = whole(
        DAY_SECONDS, 60, DAY_SECONDS, "age at which a copy is fetched anew (RFC 9309, 2.4: 24 h at most)"
    )
    max_bytes: int = whole(
        512_000, 512_000, 2**26, "bytes that are read of it (RFC 9309, 2.5: at least 500 KiB)"
    )
    redirects: int = whole(5, 5, 50, "hops followed (RFC 9309, 2.3.1.2: at least five)")
    unreachable_retry_seconds: int = whole(
        3600,
        60,
        31 * DAY_SECONDS,
        "pause before an unreachable robots.txt is tried again; until then nothing is fetched",
    )
    page_nofollow: bool = switch(True, "whether nofollow in a page or X-Robots-Tag keeps its links out")
    page_noarchive: bool = switch(False, "whether noarchive keeps a page's bytes out of the WARC")


class Sitemaps(Section):
    """Sitemaps and feeds: a host's own lists of its pages, asked for at its clock as everything is."""

    per_cycle: int = whole(
        5, 0, 1000, "sitemaps asked of one host in a cycle, in turns with its pages; 0 = none"
    )
    well_known: bool = switch(
        True, "whether /sitemap.xml is tried on sites whose robots.txt names no sitemap"
    )
    per_host: int = whole(1_000, 1, 50_000, "sitemaps kept in mind for one host; more are passed over")
    entries: int = whole(50_000, 1, 10**6, "entries taken from one sitemap (sitemaps.org: 50,000)")
    max_bytes: int = whole(
        52_428_800, 1024, 2**32, "bytes of a sitemap, as sent and decoded (sitemaps.org: 50 MiB)"
    )
    ttl_days: float = number(7.0, 0, 3660, "age at which a sitemap is asked for anew; 0 = in every cycle")
    missing_days: float = number(
        30.0, 0.001, 3660, "pause before one that is missing, forbidden or no sitemap is looked at again"
    )
    retry_hours: float = number(24.0, 0.01, 8760, "pause after a server error or a time-out")
    feeds: bool = switch(
        False,
        "whether RSS and Atom feeds met as pages (link rel=alternate) are read for links; seeds always are",
    )


class Dns(Section):
    """Name look-ups."""

    static: HostTable = table(
        {},
        'names that are not looked up: a table of name or *.suffix to address, e.g. {"*.test" = "127.0.0.1"}',
    )
    servers: Servers = listing(
        (), "the name servers, ADDRESS, ADDRESS:PORT or [IPV6]:PORT each; empty = the system's"
    )
    timeout_ms: int = whole(5_000, 100, 60_000, "time-out for one try")
    tries: int = whole(2, 1, 10, "tries of one look-up")
    concurrency: int = whole(64, 1, 10_000, "look-ups under way at once in one process")
    ttl_floor_seconds: int = whole(60, 0, DAY_SECONDS, "an answer is trusted at least this long")
    ttl_ceiling_seconds: int = whole(DAY_SECONDS, 1, 31 * DAY_SECONDS, "and at most this long")
    negative_ttl_seconds: int = whole(600, 0, DAY_SECONDS, "how long 'no such name' is trusted")


class Security(Section):
    """What may be reached (promise P9)."""

    allow_addresses: Networks = listing(
        (), 'networks that may be reached although they are not public, e.g. ["127.0.0.0/8", "::1/128"]'
    )
    scan_networks: Networks = listing(
        (), "networks that `noria seeds scan` may look through; empty = it looks at none"
    )
    scan_per_second: float = number(10.0, 0.01, 10_000, "connections a second that a scan makes")
    scan_connections: int = whole(32, 1, 1000, "connections of a scan open at once, one an address")


class LakePlace(Section):
    """Where the tables and WARC files lie."""

    path: str = text("data/lake", "folder of the lake; --lake is short for it", min_length=1)
    buckets: Buckets = whole(
        64,
        1,
        32_768,
        "slices of the hosts, a power of two, fixed when a lake is made: about one for 40 M URLs",
    )


class Retry(Section):
    """When a URL that failed is tried again."""

    first_seconds: int = whole(3600, 1, YEAR_SECONDS, "pause after the first failure")
    factor: int = whole(4, 1, 100, "each more failure in a row multiplies the pause by this")
    max_seconds: int = whole(14 * DAY_SECONDS, 1, YEAR_SECONDS, "the longest pause")
    tries: int = whole(6, 1, 1000, "failures in a row after which the URL is retired (Nutch: 3)")
    robots_denied_seconds: int = whole(
        30 * DAY_SECONDS, 60, YEAR_SECONDS, "pause before a URL that robots.txt forbids is looked at again"
    )


class Health(Section):
    """When a host that cannot be talked to is probed again, one URL at a time."""

    probe_first_seconds: int = whole(3600, 1, YEAR_SECONDS, "pause before the first probe")
    probe_factor: int = whole(2, 1, 100, "each failed probe multiplies the pause by this")
    probe_max_seconds: int = whole(7 * DAY_SECONDS, 1, YEAR_SECONDS, "the longest pause")
    retire_days: int = whole(60, 1, 36_500, "days of failing after which a host's URLs are retired")


class Recrawl(Section):
    """When a fetched URL is visited again."""

    first_days: float = number(7.0, 0.001, 36_500, "next visit of a page seen once")
    min_hours: float = number(1.0, 0.01, 876_000, "no page is visited more often")
    max_days: float = number(90.0, 0.001, 36_500, "no page is visited more seldom (Nutch: 90)")
    redirect_days: float = number(30.0, 0.001, 36_500, "next visit of a URL that redirects")
    not_found_tries: int = whole(
        2,
        1,
        1000,
        "failures in a row, 404 the last two, after which a URL is retired (1: the first 404); seeds are kept",
    )
    changes_expected: float = number(
        0.7, 0.01, 100, "where nothing is scarce, a fast page comes again when so many changes are due"
    )
    price_hours: float = number(
        6.0, 0.01, 87_600, "freshness that a visit must bring; scarce budgets ask for more"
    )


class Warc(Section):
    """The WARC files."""

    prefix: str = text("NORIA", "first part of every file name", pattern=r"^[A-Za-z0-9_-]{1,40}$")
    operator: str = text("", "who runs the crawl, for the warcinfo record; empty = identity.contact")
    description: str = text("", "a sentence about the crawl for the warcinfo record")
    file_bytes: int = whole(10**9, 10**6, 2**40, "size at which the next file is begun")
    revisit_min_bytes: int = whole(
        1024, 0, 2**24, "smaller bodies are stored again instead of a revisit record (as warcprox and gowarc)"
    )


class Filters(Section):
    """Which URLs are admitted (limits.url_chars holds too). A seed's metadata may set the first four for itself."""

    stay: str = text(
        "any", "how far links may lead from their seed: any, domain, host", pattern="^(any|domain|host)$"
    )
    max_depth: int = whole(0, 0, 30_000, "links from the nearest seed; 0 = no limit")
    include: Texts = listing(
        (), "patterns of which a URL must match one; globs, or re: and a regular expression"
    )
    exclude: Texts = listing((), "patterns of which a URL must match none; written as for include")
    blocked_hosts: Texts = listing((), "hosts that are never asked; with a leading dot, all below it too")
    extensions: Texts = listing(EXTENSIONS, "endings of a path that are not fetched")
    path_segments: int = whole(20, 1, 1000, "parts of a path; more is refused (Heritrix: 20)")
    query_parameters: int = whole(20, 0, 1000, "parameters of a query; more is refused")
    credentials: bool = switch(False, "whether URLs with a user name in them are fetched")
    repeated_segments: int = whole(
        3, 2, 100, "equal path parts in a row that make a trap (Heritrix, Nutch: 3)"
    )
    cycle_repeats: int = whole(3, 2, 100, "rounds of a longer run of path parts that make a trap")
    segment_uses: int = whole(5, 2, 1000, "uses of one part anywhere in a path that make a trap")
    parameter_repeats: int = whole(8, 1, 1000, "uses of one parameter name in a query that make a trap")
    calendar_years_ahead: int = whole(2, 0, 1000, "how many years ahead a calendar is followed")
    calendar_years_back: int = whole(5, 0, 1000, "how many years back a calendar is followed")
    pager_page: int = whole(1_000, 1, 10**9, "last page of a list that is asked for")
    pager_offset: int = whole(50_000, 1, 10**9, "last offset into a list that is asked for")
    facets: int = whole(2, 1, 100, "sort and filter parameters together that make a trap")
    rules_off: Texts = listing((), "names of filter rules that are switched off (noria check url names them)")
    traps_off: Texts = listing((), "names of traps that are not looked for (noria check url names them)")


class Traps(Section):
    """Path patterns of a host that bring nothing new: they are set aside, and tried again later."""

    min_fetches: int = whole(40, 10, 100_000, "fetches of one pattern before its yield is judged")
    min_yield: float = number(
        0.08, 0, 1, "share of a pattern's late fetches that must bring something new; 0 = none is set aside"
    )
    memory: int = whole(60, 10, 100_000, "late means about the last so many fetches of the pattern")
    sample_cycles: int = whole(
        4, 1, 10_000, "cycles until a sample of it is tried; doubles each time the sample brings nothing"
    )
    sample_urls: int = whole(3, 1, 1000, "URLs in such a sample")


class Plugins(Section):
    """Code of others in the crawl: see pipelines/plugins.py; two are there: images and monitor."""

    enabled: Texts = listing((), "names of the plug-ins that are at work, in this order")
    options: dict[str, str] = table(
        {}, 'their options, a table of NAME.OPTION to text, e.g. {"monitor.text" = "noria"}'
    )


class Cluster(Section):
    """The processes."""

    scheduler: SchedulerAddress = text(
        "", "address of a running Dask scheduler, tcp://…; empty = a local cluster"
    )
    workers: int = whole(0, 0, 10_000, "worker processes of the local cluster; 0 = one a core")
    memory_bytes: int = whole(
        0, 0, 2**44, "memory of each; 0 = a fair share, at least 1 GB where there is as much"
    )
    dashboard_port: int = whole(8787, 0, 65_535, "port of the Dask dashboard on 127.0.0.1; 0 = any free one")


class Log(Section):
    """What is told, and where."""

    level: str = text("info", "debug, info, warning, error", pattern="^(debug|info|warning|error)$")
    folder: str = text("logs", "folder of the JSON lines; empty = none are written")


@dataclass(frozen=True)
class Settings:
    """All settings, frozen. `origins` says where each that is not a default came from, by dotted name."""

    identity: Identity = field(default_factory=Identity)
    delay: Delay = field(default_factory=Delay)
    window: Window = field(default_factory=Window)
    budget: Budget = field(default_factory=Budget)
    plan: Plan = field(default_factory=Plan)
    score: Score = field(default_factory=Score)
    fetch: Fetch = field(default_factory=Fetch)
    limits: Limits = field(default_factory=Limits)
    robots: Robots = field(default_factory=Robots)
    sitemaps: Sitemaps = field(default_factory=Sitemaps)
    dns: Dns = field(default_factory=Dns)
    security: Security = field(default_factory=Security)
    lake: LakePlace = field(default_factory=LakePlace)
    retry: Retry = field(default_factory=Retry)
    health: Health = field(default_factory=Health)
    recrawl: Recrawl = field(default_factory=Recrawl)
    warc: Warc = field(default_factory=Warc)
    filters: Filters = field(default_factory=Filters)
    traps: Traps = field(default_factory=Traps)
    plugins: Plugins = field(default_factory=Plugins)
    cluster: Cluster = field(default_factory=Cluster)
    log: Log = field(default_factory=Log)
    origins: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    def section(self, name: str) -> Section:
        """Return a section by name."""
        found: Section = getattr(self, name)
        return found

    def values(self) -> dict[str, dict[str, Any]]:
        """Return plain values by section and name, fit for JSON."""
        return {name: self.section(name).model_dump(mode="json") for name in sections()}

    def to_json(self) -> str:
        """Return all values and origins as JSON; `from_json` reads them back."""
        return json.dumps({"values": self.values(), "origins": dict(self.origins)}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Settings:
        """Return the settings that `to_json` wrote."""
        found = json.loads(text)
        built: dict[str, Any] = {
            name: model.model_validate(found["values"][name]) for name, model in sections().items()
        }
        return cls(**built, origins=found["origins"])

    def digest(self) -> str:
        """Return 16 hex digits that change when any setting does, those of `log` and `cluster` aside."""
        told = {name: values for name, values in self.values().items() if name not in ("log", "cluster")}
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def user_agent(self) -> str:
        """The User-Agent line: product, version and, where given, the contact."""
        contact = f" (+{self.identity.contact})" if self.identity.contact else ""
        return f"{self.identity.product}/{version()}{contact}"

    @property
    def loopback_only(self) -> bool:
        """Whether [security] names networks and all of them are this machine's own: a toy or a test."""
        return is_loopback(self.security.allow_addresses)


def is_loopback(networks: tuple[str, ...]) -> bool:
    """Return whether there are networks, and each lies in 127.0.0.0/8 or ::1.

    >>> is_loopback(("127.0.0.0/8", "::1/128")), is_loopback(())
    (True, False)
    """
    return bool(networks) and all(ipaddress.ip_network(text).is_loopback for text in networks)


@cache
def sections() -> dict[str, type[Section]]:
    """Return the sections by name, in the order of conf/default.toml."""
    kinds = get_type_hints(Settings)
    return {spec.name: kinds[spec.name] for spec in fields(Settings) if spec.name != "origins"}


@cache
def version() -> str:
    """Return Noria's version; "0" where it is not installed."""
    try:
        return metadata.version("noria")
    except metadata.PackageNotFoundError:
        return "0"
