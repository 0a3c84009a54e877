"""Sitemaps of every form: XML, an index, gzip, text, RSS; they name every page of a host, orphans too."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from xml.sax.saxutils import escape

from pipelines.toyweb import pages
from pipelines.toyweb.answer import Answer, Ask, http_date
from pipelines.toyweb.hosts import Host, Plan, Sitemap
from pipelines.toyweb.robots import SITEMAP_PATHS
from pipelines.toyweb.schedule import BORN_MS

_PARTS = ("/sitemaps/part-0.xml", "/sitemaps/part-1.xml.gz")
_SPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'


def answer(plan: Plan, ask: Ask) -> Answer | None:
    """Return the sitemap that a target names, None if it names none of this host."""
    form = ask.host.sitemap
    if form is Sitemap.NONE:
        return None
    if ask.target == SITEMAP_PATHS[form]:
        numbers = pages.sitemap_pages(ask.host)
        if form is Sitemap.INDEX:
            return _conditional(_index(ask), ask, BORN_MS)
        return _conditional(_urls(plan, ask, form, numbers), ask, _changed(plan, ask, numbers))
    if form is Sitemap.INDEX and ask.target in _PARTS:
        part = _PARTS.index(ask.target)
        numbers = pages.sitemap_pages(ask.host)[part::2]
        made = _urls(plan, ask, Sitemap.GZIP if part else Sitemap.XML, numbers)
        return _conditional(made, ask, _changed(plan, ask, numbers))
    return None


def _changed(plan: Plan, ask: Ask, numbers: range) -> int:
    """Return when one of the listed pages changed last, and with it what is said of it."""
    return max((pages.version(plan, ask.host, index, ask.now_ms) for index in numbers), default=BORN_MS)


def _conditional(made: Answer, ask: Ask, changed: int) -> Answer:
    """Return the sitemap with its host's validators, or 304 if the client has it as it is."""
    validators = tuple(pages.validators(ask.host, f"sitemap {ask.origin}{ask.target}", changed))
    if pages.is_fresh(ask, validators):
        return Answer(304, validators, sort="sitemap")
    return replace(made, headers=(*made.headers, *validators), sort="sitemap")


def _index(ask: Ask) -> Answer:
    urls = [ask.origin + part for part in _PARTS]
    rows = "".join(f"<sitemap><loc>{escape(url)}</loc></sitemap>\n" for url in urls)
    body = f'<?xml version="1.0" encoding="UTF-8"?>\n<sitemapindex {_SPACE}>\n{rows}</sitemapindex>\n'
    return Answer(200, (("Content-Type", "application/xml"),), body.encode(), links=tuple(urls))


def _urls(plan: Plan, ask: Ask, form: Sitemap, numbers: Iterable[int]) -> Answer:
    """Return a sitemap of some pages; its `links` are their URLs."""
    rows = [
        (ask.origin + pages.path(plan, ask.host, index), pages.version(plan, ask.host, index, ask.now_ms))
        for index in numbers
    ]
    links = tuple(url for url, _ in rows)
    if form is Sitemap.TEXT:
        return Answer(200, (("Content-Type", "text/plain"),), "\n".join(links).encode() + b"\n", links=links)
    if form is Sitemap.FEED:
        return Answer(200, (("Content-Type", "application/rss+xml"),), _feed(ask, rows), links=links)
    body = _xml(rows)
    if form is Sitemap.GZIP:
        return Answer(
            200, (("Content-Type", "application/gzip"),), gzip.compress(body, 6, mtime=0), links=links
        )
    return Answer(200, (("Content-Type", "application/xml"),), body, links=links)


def _xml(rows: list[tuple[str, int]]) -> bytes:
    entries = "".join(
        f"<url><loc>{escape(url)}</loc><lastmod>{_w3c_date(changed)}</lastmod></url>\n"
        for url, changed in rows
    )
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<urlset {_SPACE}>\n{entries}</urlset>\n'.encode()


def _feed(ask: Ask, rows: list[tuple[str, int]]) -> bytes:
    items = "".join(
        f"<item><link>{escape(url)}</link><pubDate>{http_date(changed)}</pubDate></item>\n"
        for url, changed in rows
    )
    head = f"<title>{ask.name}</title><link>{ask.origin}/</link><description>All pages</description>"
    return f'<?xml version="1.0"?>\n<rss version="2.0"><channel>{head}\n{items}</channel></rss>\n'.encode()


def _w3c_date(ms: int) -> str:
    return datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def targets(host: Host) -> tuple[str, ...]:
    """Return the targets of a host's sitemaps; empty if it has none."""
    if host.sitemap is Sitemap.NONE:
        return ()
    return (SITEMAP_PATHS[host.sitemap], *(_PARTS if host.sitemap is Sitemap.INDEX else ()))
