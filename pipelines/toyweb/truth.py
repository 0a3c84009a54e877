"""The toy web itself: what every URL answers at any time, and what a crawler should make of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from pipelines.rules.outcome import Outcome, of_status
from pipelines.toyweb import odd, pages, robots, schedule, sitemaps, traps
from pipelines.toyweb.answer import Answer, Ask, End, origin
from pipelines.toyweb.hosts import Host, Kind, Mix, Plan, Robots, plan

OUTCOMES = {
    "/dirty/not-http": Outcome.BAD_HTTP, "/go/nowhere": Outcome.REDIRECT_LIMIT, "/go/nothing": Outcome.REDIRECT_LIMIT,
    "/go/mail": Outcome.REDIRECT_LIMIT,
}  # fmt: skip
"""Outcomes that the status alone does not tell."""
DEBATABLE = frozenset({"/huge/header", "/dirty/bodied-204", "/dirty/colonless", "/dirty/latin-header"})
"""Targets on which good clients differ: no outcome is expected."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is true about one URL.

    sort: page, redirect, error, file, robots, sitemap, trap. status: null if no answer head comes.
    outcome: what a crawler should note when it asks; None = good crawlers differ. allowed: robots.txt permits it.
    links: absolute URLs on it, without doubles. trap: name of the trap it belongs to, None = a good URL.
    document: number of the shared document whose bytes it has, None = bytes of its own.
    """

    url: str
    host: str
    target: str
    sort: str
    status: int | None
    outcome: Outcome | None
    location: str | None
    links: tuple[str, ...]
    allowed: bool
    trap: str | None
    document: int | None

    @property
    def good(self) -> bool:
        """True if a complete crawl should have this page: it answers 200, may be fetched, and is no trap."""
        return self.allowed and self.status == 200 and self.outcome is Outcome.OK and self.trap is None


class ToyWeb:
    """A web of `hosts` hosts, the same for the same `seed` and `mix`.

    Nothing is stored: a host, a page and its bytes are made when they are asked for.
    """

    def __init__(self, hosts: int = 40, seed: int = 1, mix: Mix | None = None) -> None:
        self.plan: Plan = plan(hosts, seed, mix or Mix.demo())

    @property
    def hosts(self) -> tuple[Host, ...]:
        """All hosts, the most popular first."""
        return self.plan.hosts

    @property
    def mix(self) -> Mix:
        """The mix that the hosts were drawn from."""
        return self.plan.mix

    def host(self, name: str) -> Host | None:
        """Return the host that answers for a name, a flood host for its subdomains; None if there is none."""
        return self.plan.find(name)

    def addresses(self) -> tuple[str, ...]:
        """Return the addresses at which a server listens, without doubles."""
        return tuple(dict.fromkeys(host.address for host in self.hosts if host.listens))

    def names(self) -> dict[str, str]:
        """Return the DNS table: name or `*.suffix` -> address; hosts that do not resolve are not in it."""
        table = {host.name: host.address for host in self.hosts if host.resolves}
        table |= {f"*.{host.name}": host.address for host in self.hosts if host.kind is Kind.FLOOD}
        return table

    def seeds(self, port: int, *, pages_each: int = 1, all_hosts: bool = False) -> list[str]:
        """Return start URLs: good pages from which everything else is found.

        pages_each: at most so many of a host, its root first. all_hosts: of every host, also of those that do not
        resolve or answer; else of every second open host only.
        """
        return [
            origin(host.name, port) + pages.path(self.plan, host, index)
            for host in (self.hosts if all_hosts else self.plan.seeded)
            for index in range(min(pages_each, host.linked))
            if all_hosts or robots.allowed(self.plan, host, pages.path(self.plan, host, index))
        ]

    def answer(
        self,
        host: str,
        target: str,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        now_ms: int = 0,
        *,
        visit: int = 0,
    ) -> Answer:
        """Return what the web says to a request at a time.

        host: the name asked for, with or without a port. headers: lower-case names; the port of links is taken from
        `host`, else from the Host header, else 80. visit: how often this URL was asked before; only BUSY hosts look.
        """
        headers = headers or {}
        name, port = _split(host if ":" in host else headers.get("host") or host)
        found = self.plan.find(host.partition(":")[0].lower() or name)
        if found is None:
            return pages.simple("No such host here", {}, status=421)
        asked = Ask(found, host.partition(":")[0].lower(), target, method, headers, port, now_ms, visit)
        return odd.delayed(self.plan.mix, asked, self._route(asked))

    def _route(self, asked: Ask) -> Answer:
        plan = self.plan
        if asked.path in ("/robots.txt", robots.MOVED):
            return robots.answer(plan, asked)
        special = traps.answer(plan, asked) or odd.answer(plan, asked) or sitemaps.answer(plan, asked)
        if special:
            return special
        if asked.path.startswith("/img/"):
            return Answer(200, (("Content-Type", "image/png"),), odd.png(len(asked.path)), sort="file")
        index = pages.index_of(plan, asked.host, asked.target)
        if index is not None:
            return pages.answer(plan, asked, index)
        if asked.host.kind is Kind.SOFT404:
            return pages.simple("Page not found", {}, text="Sorry, it is not here.", trap="soft404")
        return replace(pages.simple("Not found", {}, status=404), sort="error")

    def known(
        self, url: str, *, now_ms: int = schedule.BORN_MS, product: str = robots.PRODUCT
    ) -> Known | None:
        """Return the truth about a URL at a time; None if no host here has its name."""
        parts = urlsplit(url)
        name, target = (
            (parts.hostname or "").lower(),
            (parts.path or "/") + (f"?{parts.query}" if parts.query else ""),
        )
        host = self.host(name)
        if host is None:
            return None
        index = pages.index_of(self.plan, host, target) if name == host.name else None
        if index is None:
            made = self.answer(f"{name}:{parts.port or 80}", target, now_ms=now_ms)
        else:  # without the words of the page
            made = Answer(links=pages.linked_urls(self.plan, host, index, parts.port or 80))
        outcome = self._outcome(host, target, made)
        headless = outcome not in (None, of_status(made.status), Outcome.REDIRECT_LIMIT)
        return Known(
            url=url,
            host=name,
            target=target,
            sort="trap" if made.trap else made.sort,
            status=None if headless else made.status,
            outcome=outcome,
            location=made.location,
            links=made.links,
            allowed=robots.allowed(self.plan, host, target, product),
            trap=made.trap,
            document=None if index is None else pages.document(self.plan, host, index),
        )

    def _outcome(self, host: Host, target: str, made: Answer) -> Outcome | None:
        """Return what asking gives, robots.txt left aside."""
        if not host.resolves:
            return Outcome.DNS_NXDOMAIN
        if not host.listens:
            return Outcome.CONNECT_REFUSED
        if target in DEBATABLE:
            return None
        if made.cut is not None and made.cut < len(made.head_bytes("x" * 29)):
            hangs = made.end is End.HANG and not made.hang_ms
            return Outcome.READ_TIMEOUT if hangs else Outcome.DISCONNECTED
        return OUTCOMES.get(target, of_status(made.status))

    def urls(
        self, port: int, *, product: str = robots.PRODUCT, now_ms: int = schedule.BORN_MS
    ) -> Iterator[Known]:
        """Yield the truth about every URL outside the traps, host by host, and about the entrance of each trap.

        robots.txt and sitemaps are included. Of a flood host only the host itself is listed.
        """
        for host in self.hosts:
            base = origin(host.name, port)
            for target in dict.fromkeys(self.targets(host)):
                known = self.known(base + target, now_ms=now_ms, product=product)
                assert known is not None
                yield known

    def targets(self, host: Host) -> Iterator[str]:
        """Yield the targets of a host: robots.txt, sitemaps, ordinary pages, oddities, what those lead to."""
        yield "/robots.txt"
        if host.robots is Robots.REDIRECT:
            yield robots.MOVED
        yield from sitemaps.targets(host)
        yield from (pages.path(self.plan, host, index) for index in range(host.size))
        yield from pages.EXTRA_PATHS.get(host.kind, ())
        yield from traps.good_targets(host.kind)
        yield from odd.further_targets(host.kind)

    def payload(self, url: str, now_ms: int) -> bytes:
        """Return the payload of a URL at a time, content coding applied; endless bodies give one block."""
        parts = urlsplit(url)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        made = self.answer(f"{parts.hostname}:{parts.port or 80}", target, now_ms=now_ms)
        return made.body * max(made.repeat, 1)

    def changes(self, url: str, start_ms: int, end_ms: int) -> list[int]:
        """Return the times (ms) in `(start_ms, end_ms]` at which a page changed."""
        host, index = self._page(url)
        key, gap = pages.change_key(self.plan, host, index), pages.gap_ms(self.plan, host, index)
        return schedule.changes_between(key, gap, start_ms, end_ms)

    def changes_per_day(self, url: str) -> float:
        """Return the true rate of change of a page; 0 = never."""
        gap = pages.gap_ms(self.plan, *self._page(url))
        return 86_400_000 / gap if gap else 0.0

    def crawl_delay_ms(self, name: str) -> int:
        """Return the Crawl-delay of a host, ms; 0 = none."""
        host = self.host(name)
        return robots.crawl_delay_ms(self.plan, host) if host else 0

    def _page(self, url: str) -> tuple[Host, int]:
        """Return the host and number of an ordinary page; raises ValueError for any other URL."""
        parts = urlsplit(url)
        host = self.host((parts.hostname or "").lower())
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        index = None if host is None else pages.index_of(self.plan, host, target)
        if host is None or index is None:
            raise ValueError(f"{url!r} is not an ordinary page of this toy web")
        return host, index


def _split(authority: str) -> tuple[str, int]:
    """Return name and port of `name:port`; a port that cannot be read counts as 80."""
    name, _, port = authority.partition(":")
    return name.lower(), int(port) if port.isdecimal() and len(port) < 6 else 80
