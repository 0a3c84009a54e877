"""robots.txt of every kind, and what each of them allows: the truth is made, not parsed."""

from __future__ import annotations

from dataclasses import replace

from pipelines.toyweb.answer import Answer, Ask, End, origin
from pipelines.toyweb.hosts import Host, Plan, Robots, Sitemap
from pipelines.toyweb.pages import simple

PRODUCT = "noria"
SITEMAP_PATHS = {
    Sitemap.XML: "/sitemap.xml", Sitemap.INDEX: "/sitemaps/index.xml", Sitemap.GZIP: "/sitemap.xml.gz",
    Sitemap.TEXT: "/sitemap.txt", Sitemap.FEED: "/feed.rss",
}  # fmt: skip
_PARTS = "User-agent: *\nDisallow: /private/\nDisallow: /private?\nAllow: /private/open/\n"
_TEXT = {
    Robots.ALLOW: "# welcome\nUser-agent: *\nDisallow:\n",
    Robots.PARTS: _PARTS,
    Robots.REDIRECT: _PARTS,
    Robots.DENY: "User-agent: *\nDisallow: /\n",
    Robots.GROUPS: f"User-agent: *\nDisallow: /\n\nUser-agent: other\nUser-agent: {PRODUCT.upper()}\nDisallow: /private\n",
    Robots.DIRTY: "\ufeffUser-agent: *\rNoise: here\rUser-agent: spare\rCrawl-delay: soon\rdisallow : /private # all of it\r",
    Robots.HUGE: _PARTS + "# filler that nobody needs to read\n" * 20_000 + "Disallow: /\n",
}
_STATUS = {Robots.MISSING: 404, Robots.ERROR: 500, Robots.FORBIDDEN: 403, Robots.BUSY: 429}
UNREACHABLE = frozenset({Robots.ERROR, Robots.BUSY, Robots.HANG, Robots.RESET})
"""Kinds that end in "unreachable": nothing may be fetched (RFC 9309, 2.3.1.4)."""
MOVED = "/robots/real.txt"


def text(plan: Plan, host: Host, port: int) -> bytes:
    """Return the rules of a host as text, with the sitemap's address where it has one."""
    rules = _TEXT.get(host.robots, _TEXT[Robots.ALLOW])
    if host.robots is Robots.DELAY:
        rules = f"{_PARTS}Crawl-delay: {plan.mix.crawl_delay_s}\n"
    if host.sitemap is not Sitemap.NONE:
        rules += f"\nSitemap: {origin(host.name, port)}{SITEMAP_PATHS[host.sitemap]}\n"
    return rules.encode()


def answer(plan: Plan, ask: Ask) -> Answer:
    """Return the answer to /robots.txt, or to the path that it redirects to."""
    return replace(_answer(plan, ask), sort="robots")


def _answer(plan: Plan, ask: Ask) -> Answer:
    host = ask.host
    plain = Answer(200, (("Content-Type", "text/plain"),), text(plan, host, ask.port))
    if ask.path == MOVED:
        return plain
    match host.robots:
        case Robots.MISSING | Robots.ERROR | Robots.FORBIDDEN:
            return simple("No rules here", {}, status=_STATUS[host.robots])
        case Robots.BUSY:
            hold = plan.mix.retry_after_s
            return Answer(429, (("Retry-After", str(hold)),), b"busy\n", hold_ms=1000 * hold)
        case Robots.SLOW:
            return replace(plain, before_ms=plan.mix.robots_slow_ms)
        case Robots.HTML:
            return simple(
                "Welcome", {"/": ask.origin + "/"}, text="User-agent: * <br> Disallow: nothing at all"
            )
        case Robots.REDIRECT:
            return Answer(301, (("Location", MOVED),), location=ask.origin + MOVED)
        case Robots.AWAY:
            url = origin(landlord(plan, host).name, ask.port) + "/robots.txt"
            return Answer(302, (("Location", url),), location=url)
        case Robots.LOOP:
            return Answer(302, (("Location", "/robots.txt"),), location=ask.origin + "/robots.txt")
        case Robots.HANG:
            return replace(plain, cut=0, end=End.HANG, hang_ms=plan.mix.hang_ms)
        case Robots.RESET:
            return replace(plain, cut=0, end=End.RESET)
    return plain


def landlord(plan: Plan, host: Host) -> Host:
    """Return the host to which an AWAY host's robots.txt redirects."""
    return plan.lodging[host.index % len(plan.lodging)]


def allowed(plan: Plan, host: Host, target: str, product: str = PRODUCT) -> bool:
    """Return whether a crawler that calls itself `product` may ask for a target of a host.

    /robots.txt itself may always be asked for.
    """
    if target == "/robots.txt":
        return True
    if host.robots in UNREACHABLE:
        return False
    if host.robots is Robots.AWAY:
        return allowed(plan, landlord(plan, host), target, product)
    if host.robots is Robots.DENY:
        return False
    if host.robots is Robots.GROUPS:
        return product.lower() in (PRODUCT, "other") and not target.startswith("/private")
    if host.robots is Robots.DIRTY:
        return not target.startswith("/private")
    if host.robots in (Robots.PARTS, Robots.REDIRECT, Robots.DELAY, Robots.HUGE):
        return not target.startswith(("/private/", "/private?")) or target.startswith("/private/open/")
    return True


def crawl_delay_ms(plan: Plan, host: Host) -> int:
    """Return the Crawl-delay that a host's robots.txt asks of everyone, ms; 0 = none."""
    return 1000 * plan.mix.crawl_delay_s if host.robots is Robots.DELAY else 0
