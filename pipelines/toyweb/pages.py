"""Ordinary pages: their paths, links, words, bytes and versions."""

from __future__ import annotations

import gzip
import re
import zlib
from dataclasses import dataclass
from functools import lru_cache
from html import escape

from pipelines.toyweb import schedule, words
from pipelines.toyweb.answer import Answer, Ask, End, Framing, http_date, origin
from pipelines.toyweb.chance import draw, share
from pipelines.toyweb.hosts import Declared, Host, Plan, Robots, Sitemap, Validator

FANOUT = 4
"""Pages of the next level that a page links to, so that every page is a few links from the root."""
SECTIONS = ("docs", "news", "archive", "notes", "guide", "blog")
_NUMBER = re.compile(r"(\d+)(?:\.html|/)?$")
_HOUR = 3_600_000
GAPS_MS = (0, 0, 0, 0, 0, 90 * 24 * _HOUR, 30 * 24 * _HOUR, 7 * 24 * _HOUR, 24 * _HOUR, 6 * _HOUR)
"""Mean times between changes that pages draw from: half of them never change."""
DOUBLES = 4.2
"""URLs that share one document, on average."""

EXTRA_PATHS: dict[str, tuple[str, ...]] = {}
"""Paths that the root page of a host kind links to beside its ordinary pages; odd.py and traps.py fill it."""


@dataclass(frozen=True, slots=True)
class Link:
    """One link: as it is spelt in the page, and the absolute URL that it means (fragment dropped)."""

    href: str
    url: str


def path(plan: Plan, host: Host, index: int) -> str:
    """Return the path of a page; the root is page 0."""
    if index == 0:
        return "/"
    key = draw(plan.seed, host.index, index, "path")
    section = "private" if is_private(plan, host, index) else SECTIONS[key % len(SECTIONS)]
    slug = words.slug(str(key))
    return (f"/{section}/{slug}-{index}.html", f"/{section}/{slug}/{index}/", f"/{section}?id={index}")[
        host.index % 3
    ]


def index_of(plan: Plan, host: Host, target: str) -> int | None:
    """Return the page that a target names, None if it is not an ordinary page."""
    if target == "/":
        return 0
    found = _NUMBER.search(target)
    index = int(found[1][:12]) if found else 0
    if 0 < index < host.size and path(plan, host, index) == target:
        return index
    return None


def is_leaf(host: Host, index: int) -> bool:
    """Return True if no other page depends on this one to be found."""
    return FANOUT * index + 1 >= host.linked


def is_private(plan: Plan, host: Host, index: int) -> bool:
    """Return True if the page lies where robots.txt of some kinds forbids it."""
    denied = host.robots in (
        Robots.PARTS,
        Robots.DELAY,
        Robots.GROUPS,
        Robots.DIRTY,
        Robots.HUGE,
        Robots.REDIRECT,
    )
    return denied and is_leaf(host, index) and share(plan.seed, host.index, index, "private") < 0.15


def document(plan: Plan, host: Host, index: int) -> int | None:
    """Return the number of the shared document that this page is a copy of, None if it is an original."""
    if index == 0 or not is_leaf(host, index) or not plan.mix.duplicates:
        return None
    wanted = plan.mix.duplicates / (1 - 1 / DOUBLES) * FANOUT / (FANOUT - 1)
    if share(plan.seed, host.index, index, "copy") >= wanted:
        return None
    return draw(plan.seed, host.index, index, "document") % documents(plan)


def documents(plan: Plan) -> int:
    """Return how many shared documents a web has."""
    pages = plan.mix.pages * len(plan.hosts)
    return max(1, round(pages * plan.mix.duplicates / (1 - 1 / DOUBLES) / DOUBLES))


def gap_ms(plan: Plan, host: Host, index: int) -> int:
    """Return the mean time between changes of a page, ms; 0 = it never changes."""
    if document(plan, host, index) is not None or not plan.mix.change:
        return 0
    base = _HOUR if index == 0 else GAPS_MS[draw(plan.seed, host.index, index, "gap") % len(GAPS_MS)]
    return max(1, round(base / plan.mix.change)) if base else 0


def change_key(plan: Plan, host: Host, index: int) -> str:
    """Return the key of a page's change process."""
    return f"{plan.seed}:{host.index}:{index}"


def version(plan: Plan, host: Host, index: int, now_ms: int) -> int:
    """Return the time of the page's last change, ms since 1970."""
    return schedule.changed_at(change_key(plan, host, index), gap_ms(plan, host, index), now_ms)


@lru_cache(maxsize=65_536)
def _linked_pages(seed: int, host_index: int, linked: int, index: int) -> tuple[int, ...]:
    """Return the pages of the same host that a page links to: its children, its parent, popular ones."""
    children = range(FANOUT * index + 1, min(FANOUT * index + FANOUT + 1, linked))
    parent = [(index - 1) // FANOUT] if index else []
    popular = [int(linked * share(seed, host_index, index, "in", n) ** 3) for n in range(4)]
    return tuple(page for page in dict.fromkeys([*children, *parent, *popular]) if page != index)


def links(plan: Plan, host: Host, index: int, port: int) -> list[Link]:
    """Return a page's links in the order drawn; only a shared document may name a URL twice."""
    number = document(plan, host, index)
    if number is not None:
        return _document_links(plan, host, number, port)
    base = origin(host.name, port)
    here = path(plan, host, index)
    found = [
        _spelt(base, here, path(plan, host, page), draw(plan.seed, host.index, index, page))
        for page in _linked_pages(plan.seed, host.index, host.linked, index)
    ]
    if index == 0:
        found += [Link(extra, base + extra) for extra in EXTRA_PATHS.get(host.kind, ())]
        found += [Link(url, url) for url in _neighbours(plan, host, port)]
    found += [Link(url, url) for url in _abroad(plan, host, index, port)]
    return list({link.url: link for link in reversed(found)}.values())[::-1]


def _neighbours(plan: Plan, host: Host, port: int) -> list[str]:
    """Return the roots that a seeded host links to, so that every host can be found from the seeds."""
    turn = plan.turns.get(host.index)
    if turn is None:
        return []
    return [
        origin(other.name, port) + "/" for other in plan.hosts[turn :: len(plan.seeded)] if other is not host
    ]


def _abroad(plan: Plan, host: Host, index: int, port: int) -> list[str]:
    """Return links to other hosts: popular hosts, and their first pages, are linked to most."""
    urls = []
    for n in range(draw(plan.seed, host.index, index, "abroad") % 4):
        other = plan.popular(share(plan.seed, host.index, index, "host", n))
        page = int(other.linked * share(plan.seed, host.index, index, "page", n) ** 4)
        if other is not host:
            urls.append(origin(other.name, port) + path(plan, other, page))
    return urls


def _document_links(plan: Plan, host: Host, number: int, port: int) -> list[Link]:
    """Return the links of a shared document: the same spelling on every host, the root of each its own."""
    others = [plan.open[draw(plan.seed, "document", number, n) % len(plan.open)] for n in range(2)]
    urls = dict.fromkeys(origin(other.name, port) + "/" for other in others)
    return [Link("/", origin(host.name, port) + "/"), *(Link(url, url) for url in urls)]


def _spelt(base: str, here: str, there: str, chance: int) -> Link:
    """Return a link to a page of the same host in one of the spellings that pages use."""
    url = base + there
    folder = here.partition("?")[0].rpartition("/")[0]
    match chance % 8:
        case 0:
            return Link(url, url)
        case 1:
            return Link(f"{there}#top", url)
        case 2:
            return Link("../" * folder.count("/") + there[1:] or url, url)
        case 3:
            return Link(url.removeprefix("http:"), url)
        case 4:
            return Link(url.replace("http://", "HTTP://", 1).replace(".test", ".TEST", 1), url)
        case 5:
            return Link(f"  {there}\n", url)
    return Link(there, url)


def _html(
    language: str, charset: str, meta: bool, key: str, updated: int, hrefs: tuple[str, ...], foot: str
) -> bytes:
    """Return the bytes of a page before content coding. `updated` changes one paragraph and the date."""
    count = 3 + draw(key, "paragraphs") % 6
    texts = [words.paragraph(language, f"{key}:{n}", 2 + draw(key, n) % 4) for n in range(count)]
    texts[updated % count] = words.paragraph(language, f"{key}:{updated}", 3)
    anchors = [f'<a href="{escape(href)}">{escape(words.phrase(language, href, 2))}</a>' for href in hrefs]
    title = escape(words.phrase(language, f"{key}:title", 4 + draw(key) % 4))
    body = "\n".join(f"<p>{text}</p>" for text in texts)
    page = (
        f'<!DOCTYPE html>\n<html lang="{language}"><head>'
        + (f'<meta charset="{charset}">' if meta else "")
        + f"<title>{title}</title>\n"
        f'<meta name="description" content="{escape(words.sentence(language, draw(key) % words.SENTENCES))}">\n'
        f"</head><body>\n<nav>{' '.join(anchors[::2])}</nav>\n<main><h1>{title}</h1>\n{body}\n"
        f"<p>{' '.join(anchors[1::2])}</p></main>\n<footer>{foot} {http_date(updated)}</footer>\n</body></html>\n"
    )
    return page.encode(charset, "xmlcharrefreplace")


def ordered(found: list[Link]) -> list[Link]:
    """Return links in the order in which `_html` writes them."""
    return found[::2] + found[1::2]


def linked_urls(plan: Plan, host: Host, index: int, port: int) -> tuple[str, ...]:
    """Return the absolute URLs that a page links to, in document order, without doubles."""
    return tuple(dict.fromkeys(link.url for link in ordered(links(plan, host, index, port))))


def payload(plan: Plan, host: Host, index: int, port: int, now_ms: int) -> tuple[bytes, str]:
    """Return a page's bytes at a time, content coding applied, and that coding."""
    number = document(plan, host, index)
    hrefs = tuple(link.href for link in links(plan, host, index, port))
    if number is not None:
        body = _html(
            "en", "utf-8", True, f"{plan.seed}:document:{number}", schedule.BORN_MS, hrefs, "A toy document."
        )
        return coded(body, ("identity", "gzip")[number % 2])
    meta = host.declared is Declared.META
    key = change_key(plan, host, index)
    body = _html(host.language, host.charset, meta, key, version(plan, host, index, now_ms), hrefs, host.name)
    if host.declared is Declared.BOM:
        body = (b"\xff\xfe" if host.charset == "utf-16le" else b"\xef\xbb\xbf") + body
    return coded(body, host.coding)


def coded(body: bytes, coding: str) -> tuple[bytes, str]:
    """Return a body with a content coding applied, and the coding."""
    if coding == "gzip":
        return gzip.compress(body, 4, mtime=0), coding
    if coding == "deflate":
        return zlib.compress(body, 4), coding
    return body, "identity"


def answer(plan: Plan, ask: Ask, index: int) -> Answer:
    """Return the answer for an ordinary page: 304 if the client's copy is fresh, else the page."""
    changed = version(plan, ask.host, index, ask.now_ms)
    made = _page(plan, ask.host.index, index, ask.port, changed)
    if is_fresh(ask, made.headers):
        return Answer(304, tuple(header for header in made.headers if header[0] in ("ETag", "Last-Modified")))
    return made


@lru_cache(maxsize=16_384)
def _page(plan: Plan, host_index: int, index: int, port: int, changed: int) -> Answer:
    """Return a page in the version that came into being at `changed`."""
    host = plan.hosts[host_index]
    body, coding = payload(plan, host, index, port, changed)
    headers = [_content_type(plan, host, index), *validators(host, change_key(plan, host, index), changed)]
    if coding != "identity":
        headers.append(("Content-Encoding", coding))
    if host.closes:
        headers.append(("Connection", "close"))
    framing, end = Framing.CHUNKED if host.chunked else Framing.LENGTH, End.CLOSE if host.closes else End.KEEP
    return Answer(200, tuple(headers), body, framing, end=end, links=linked_urls(plan, host, index, port))


def _content_type(plan: Plan, host: Host, index: int) -> tuple[str, str]:
    if document(plan, host, index) is not None:
        return "Content-Type", "text/html; charset=utf-8"
    return "Content-Type", "text/html" + (
        f"; charset={host.charset}" if host.declared is Declared.HEADER else ""
    )


def validators(host: Host, key: str, changed: int) -> list[tuple[str, str]]:
    """Return the ETag and Last-Modified headers that a host gives."""
    tag = f"{draw(key, changed):016x}"
    etags = {
        Validator.BOTH: f'"{tag}"',
        Validator.ETAG: f'"{tag}"',
        Validator.WEAK: f'W/"{tag}"',
        Validator.BARE: tag,
    }
    headers = [("ETag", etags[host.validator])] if host.validator in etags else []
    if host.validator in (Validator.BOTH, Validator.DATE):
        headers.append(("Last-Modified", http_date(changed)))
    return headers


def is_fresh(ask: Ask, headers: tuple[tuple[str, str], ...]) -> bool:
    """Return True if the request's conditions say that the client has the version with these headers.

    If-None-Match rules where both are sent (RFC 9110, 13.2.2). A date is compared as text: it must come back as sent.
    """
    wanted, since = ask.headers.get("if-none-match"), ask.headers.get("if-modified-since")
    if wanted is None and since is None:
        return False
    known = dict(headers)
    if wanted is not None:
        tag = known.get("ETag", "")
        return bool(tag) and tag.removeprefix("W/") in [
            one.strip().removeprefix("W/") for one in wanted.split(",")
        ]
    return since == known.get("Last-Modified", "")


def simple(
    title: str, hrefs: dict[str, str], *, text: str = "", status: int = 200, trap: str | None = None
) -> Answer:
    """Return a small page in UTF-8. hrefs: link as spelt -> absolute URL that it means."""
    anchors = "\n".join(f'<li><a href="{escape(href)}">{escape(href)}</a></li>' for href in hrefs)
    body = f"<!DOCTYPE html>\n<title>{escape(title)}</title>\n<h1>{escape(title)}</h1>\n<p>{text}</p>\n<ul>{anchors}</ul>\n"
    headers = (("Content-Type", "text/html; charset=utf-8"),)
    return Answer(status, headers, body.encode(), links=tuple(dict.fromkeys(hrefs.values())), trap=trap)


def sitemap_pages(host: Host) -> range:
    """Return the pages that a host's sitemap names: all, the orphans too."""
    return range(0 if host.sitemap is Sitemap.NONE else host.size)
