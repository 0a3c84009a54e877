"""From settings to the policies of the rules: one function a rule."""

from __future__ import annotations

from pipelines.config import Settings
from pipelines.cycle.crew import CrewPolicy
from pipelines.cycle.sitemaps import SitemapRules
from pipelines.net.policy import DnsPolicy, FetchPolicy
from pipelines.rules.addresses import AddressPolicy
from pipelines.rules.budget import BudgetPolicy
from pipelines.rules.delay import AddressFloors, DelayPolicy
from pipelines.rules.filters import FilterPolicy
from pipelines.rules.pages import PagePolicy
from pipelines.rules.priority import PriorityPolicy
from pipelines.rules.recrawl import ProbePolicy, RecrawlPolicy, RetryPolicy
from pipelines.rules.retry_after import RetryAfterPolicy
from pipelines.rules.robots_policy import RobotsPolicy
from pipelines.rules.sitemaps import SitemapPolicy
from pipelines.rules.traps import YieldPolicy

LAST_YEAR = 9_999
"""Stands for the crawl's year where calendars do not matter."""


def delay_policy(settings: Settings) -> DelayPolicy:
    """Return what settings say of the pause between requests."""
    delay = settings.delay
    return DelayPolicy(
        floor_ms=delay.floor_ms,
        address_floor_ms=delay.address_floor_ms,
        response_factor=delay.response_factor,
        patience_ms=delay.patience_ms,
        backoff_first_ms=delay.backoff_first_ms,
        backoff_max_ms=delay.backoff_max_ms,
        backoff_forgive_percent=delay.backoff_forgive_percent,
    )


def longest_pause_ms(settings: Settings) -> int:
    """Return the longest pause that anything but a crawl-delay can ask for."""
    delay = settings.delay
    return max(delay.floor_ms, delay.patience_ms, delay.backoff_max_ms, delay.retry_after_max_seconds * 1_000)


def budget_policy(settings: Settings) -> BudgetPolicy:
    """Return what settings say of budgets."""
    budget = settings.budget
    return BudgetPolicy(
        requests_per_month=budget.requests_per_month,
        hosts_per_domain=budget.hosts_per_domain,
        pages_per_domain_cycle=budget.pages_per_domain_cycle,
    )


def priority_policy(settings: Settings) -> PriorityPolicy:
    """Return what settings say of scores and bands."""
    score = settings.score
    return PriorityPolicy(
        seed=score.seed,
        depth=score.depth,
        sitemap=score.sitemap,
        host=score.host,
        change=score.change,
        waiting_per_day=score.waiting_per_day,
        band_weights=tuple(settings.plan.bands),
    )


def recrawl_policy(settings: Settings) -> RecrawlPolicy:
    """Return what settings say of the next visit after an answer."""
    recrawl = settings.recrawl
    return RecrawlPolicy(
        first_seconds=round(recrawl.first_days * 86_400),
        min_seconds=round(recrawl.min_hours * 3_600),
        max_seconds=round(recrawl.max_days * 86_400),
        redirect_seconds=round(recrawl.redirect_days * 86_400),
        changes_expected=recrawl.changes_expected,
        price_seconds=max(round(recrawl.price_hours * 3_600), 1),
    )


def retry_policy(settings: Settings) -> RetryPolicy:
    """Return what settings say of the next try after a failure."""
    retry = settings.retry
    return RetryPolicy(
        first_seconds=retry.first_seconds,
        factor=retry.factor,
        max_seconds=retry.max_seconds,
        tries=retry.tries,
        gone_tries=settings.recrawl.not_found_tries,
        robots_denied_seconds=retry.robots_denied_seconds,
    )


def filter_policy(settings: Settings, *, year: int) -> FilterPolicy:
    """Return what settings say of the URLs that are admitted; `year` of the crawl, for calendars."""
    told = settings.filters.model_dump()
    return FilterPolicy(url_chars=settings.limits.url_chars, this_year=year, **told)


def address_floors(settings: Settings) -> AddressFloors:
    """Return what settings say of the pause between two requests to one address."""
    delay = settings.delay
    return AddressFloors(delay.address_floor_ms, tuple(sorted(delay.address_floors_ms.items())))


def yield_policy(settings: Settings) -> YieldPolicy:
    """Return what settings say of patterns that bring nothing."""
    return YieldPolicy(**settings.traps.model_dump())


def page_policy(settings: Settings) -> PagePolicy:
    """Return what settings say of parsing."""
    limits = settings.limits
    return PagePolicy(
        max_bytes=limits.parse_bytes, max_links=limits.links_per_page, product=settings.identity.product
    )


def crew_policy(settings: Settings) -> CrewPolicy:
    """Return what settings say of the hosts of a fetch partition."""
    robots = settings.robots
    return CrewPolicy(
        product=settings.identity.product,
        delay=delay_policy(settings),
        robots=RobotsPolicy(
            max_bytes=robots.max_bytes,
            ttl_seconds=robots.ttl_seconds,
            redirects=robots.redirects,
            unreachable_retry_seconds=robots.unreachable_retry_seconds,
        ),
        retry_after=RetryAfterPolicy(max_ms=settings.delay.retry_after_max_seconds * 1_000),
        redirects=settings.limits.redirects,
        sitemaps=sitemap_rules(settings),
        probe=ProbePolicy(
            first_seconds=settings.health.probe_first_seconds,
            factor=settings.health.probe_factor,
            max_seconds=settings.health.probe_max_seconds,
        ),
    )


def sitemap_rules(settings: Settings) -> SitemapRules:
    """Return what settings say of sitemaps."""
    conf = settings.sitemaps
    return SitemapRules(
        per_cycle=conf.per_cycle,
        well_known=conf.well_known,
        per_host=conf.per_host,
        ttl_ms=round(conf.ttl_days * 86_400_000),
        missing_ms=round(conf.missing_days * 86_400_000),
        retry_ms=round(conf.retry_hours * 3_600_000),
        reading=SitemapPolicy(
            max_bytes=conf.max_bytes, max_entries=conf.entries, max_url_chars=settings.limits.url_chars
        ),
        filters=filter_policy(settings, year=LAST_YEAR),
    )


def address_policy(settings: Settings) -> AddressPolicy:
    """Return what settings say of the addresses that may be reached.

    Without a contact, or with a pause that the real web is never asked with, public ones may not.
    """
    return AddressPolicy(
        allow=tuple(str(network) for network in settings.security.allow_addresses),
        public=bool(settings.identity.contact) and settings.delay.floor_ms >= 1_000,
    )


def dns_policy(settings: Settings) -> DnsPolicy:
    """Return what settings say of name look-ups."""
    dns = settings.dns
    return DnsPolicy(
        static=dict(dns.static),
        servers=tuple(dns.servers),
        timeout_ms=dns.timeout_ms,
        tries=dns.tries,
        concurrency=dns.concurrency,
        ttl_floor_seconds=dns.ttl_floor_seconds,
        ttl_ceiling_seconds=dns.ttl_ceiling_seconds,
        negative_ttl_seconds=dns.negative_ttl_seconds,
    )


def fetch_policy(settings: Settings) -> FetchPolicy:
    """Return what settings say of one exchange."""
    fetch, limits = settings.fetch, settings.limits
    return FetchPolicy(
        user_agent=settings.user_agent,
        connect_ms=fetch.connect_ms,
        first_byte_ms=fetch.first_byte_ms,
        idle_ms=fetch.idle_ms,
        total_ms=fetch.total_ms,
        body_bytes=limits.body_bytes,
        header_bytes=limits.header_bytes,
        connections=fetch.connections,
        addresses=address_policy(settings),
        verify_tls=fetch.verify_tls,
    )
