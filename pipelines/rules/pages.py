"""What a page says: title, description, language, canonical URL, robots words, and its links.

Parsing is lexbor's (WHATWG tree construction). One walk finds the anchors, one the few other elements.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser, LexborNode, SelectolaxError

from pipelines.rules.charset import DEFAULT, charset_of, codec_of, decode
from pipelines.rules.links import (
    Collector,
    Link,
    add_header_links,
    base_of,
    link_kind,
    refresh_of,
    srcset_urls,
)
from pipelines.rules.sniff import HTML_TYPES, junk_of, sniff_type


@dataclass(frozen=True)
class PagePolicy:
    """What is read of a page, and the bounds: the rest of a longer page, list or text is left out.

    forms: take the action of GET forms; images: take img src; srcset: take srcset of img and source.
    noscript: read what stands inside noscript, a meta refresh too. Browsers with scripts see it as text; on
    106 real pages it held advertisers' click counters and "enable JavaScript" hints, no link of a page's own.
    product: our name in robots meta tags (`<meta name="noria" ...>` beside name="robots"); "" = none.
    """

    max_bytes: int = 4_194_304
    max_links: int = 10_000
    href_chars: int = 8_192
    title_chars: int = 300
    description_chars: int = 1_000
    text_chars: int = 200
    robots_words: int = 64
    forms: bool = False
    images: bool = False
    srcset: bool = False
    noscript: bool = False
    product: str = ""


@dataclass(slots=True)
class Page:
    """What was read. None = not said; `junk` says why nothing was parsed (links of the header are there).

    mime: told from the bytes. charset_how: bom, header, meta, detected, default; "" if not parsed.
    base: what references were joined to. robots: directive words, lower case. canonical: absolute or None.
    refresh_seconds: of the meta refresh, also of one that only reloads the page.
    cut: which bounds held something back: "bytes", "links".
    """

    mime: str
    base: str
    title: str | None = None
    description: str | None = None
    language: str | None = None
    canonical: str | None = None
    robots: tuple[str, ...] = ()
    refresh_seconds: int | None = None
    charset: str = ""
    charset_how: str = ""
    links: list[Link] = field(default_factory=list)
    junk: str | None = None
    cut: tuple[str, ...] = ()


def read_page(
    body: bytes,
    *,
    url: str,
    content_type: str | None,
    link_header: str | None,
    policy: PagePolicy,
    with_text: bool = False,
) -> Page:
    """Return what a response says as a page; never raises, whatever the bytes.

    body: content coding removed. url: the page's own, absolute. with_text: keep anchor texts.
    Not parsed, with `junk` saying why: "type: application/pdf" and the like, "empty", "binary", "nesting",
    "formatting", "attributes" (see sniff.junk_of), "unreadable" (the parser gave up).
    """
    page = Page(sniff_type(body, content_type), url)
    header_canonical = _read_header(page, link_header, url, policy) if link_header else None
    if len(body) > policy.max_bytes:
        body, page.cut = body[: policy.max_bytes], ("bytes",)
    page.junk = _junk(page.mime, body)
    if page.junk is None:
        page.charset, page.charset_how = charset_of(body, content_type=content_type)
        _parse_into(page, body, url, policy, with_text)
    page.canonical = page.canonical or header_canonical
    return page


def _read_header(page: Page, field: str, url: str, policy: PagePolicy) -> str | None:
    """Take the links of a Link field; return the canonical URL that it names, or None."""
    into = Collector(url, limit=policy.max_links, longest=policy.href_chars)
    canonical = add_header_links(into, field, url=url)
    page.links = into.found
    return canonical


def _junk(mime: str, body: bytes) -> str | None:
    if not body or body.isspace():
        return "empty"
    return junk_of(body) if mime in HTML_TYPES else f"type: {mime}"


def _parse_into(page: Page, body: bytes, url: str, policy: PagePolicy, with_text: bool) -> None:
    """Parse and fill in what the document says, links behind those that are there."""
    try:
        tree = LexborHTMLParser(
            _source(body, page.charset), options=_AS_WRITTEN, scripting=not policy.noscript
        )
    except (SelectolaxError, RuntimeError, ValueError, MemoryError):
        page.junk = "unreadable"
        return
    reader = _Reader(page, policy)
    reader.read(tree, url, with_text)


_AS_WRITTEN: Final = LexborDocumentOptions.WO_EVENTS.value  # nothing is cloned into <selectedcontent>


def _source(body: bytes, charset: str) -> bytes | str:
    """Return what the parser takes: UTF-8 as it is, anything else decoded."""
    if charset == "utf-8" or (charset == DEFAULT and body.isascii()):
        return body.removeprefix(b"\xef\xbb\xbf")
    return decode(body, charset)


_OTHERS: Final = "base,link,meta,area,iframe"  # each name costs 5 µs a page of 30 KB
_FORMS: Final = "form[action]"
_IMAGES: Final = "img,source"


class _Reader:
    """Walks one document and fills one page."""

    __slots__ = ("_into", "_page", "_policy", "_refreshed", "_rels")

    def __init__(self, page: Page, policy: PagePolicy) -> None:
        self._page, self._policy = page, policy
        self._refreshed = False
        self._rels: dict[str, str] = {}

    def read(self, tree: LexborHTMLParser, url: str, with_text: bool) -> None:
        """Read everything that the policy wants, the head's links before the anchors."""
        page, policy = self._page, self._policy
        others = [(node.tag or "", node.attributes) for node in tree.css(_OTHERS)]
        hrefs = (said["href"] for tag, said in others if tag == "base" and said.get("href") is not None)
        page.base = base_of(url, next(hrefs, None))
        self._into = Collector(
            page.base,
            codec=codec_of(page.charset),
            limit=policy.max_links - len(page.links),
            longest=policy.href_chars,
        )
        self._head(tree)
        for tag, said in others:
            self._other(tag, said)
        if tree.body is None:  # a page of frames has no body
            for node in tree.css("frame[src]"):
                self._into.add(node.attributes["src"] or "", "frame")
        if policy.max_links:
            self._anchors(tree, with_text)
            self._extras(tree)
        page.links = page.links + self._into.found
        if self._into.full:
            page.cut = (*page.cut, "links")

    def _head(self, tree: LexborHTMLParser) -> None:
        """Read the title and the language."""
        page, root = self._page, tree.root
        title = _title(tree)
        page.title = (title and collapse(title.text(), self._policy.title_chars)) or None
        if root is not None:
            said = root.attributes
            page.language = collapse(said.get("lang") or said.get("xml:lang") or "", 35) or None

    def _other(self, tag: str, said: dict[str, str | None]) -> None:
        if tag == "link":
            self._link(said)
        elif tag == "meta":
            self._meta(said)
        elif tag == "area":
            href = said.get("href")
            if href is not None:
                self._into.add(href, "area", self._rel(said.get("rel")))
        elif tag == "iframe" and said.get("src"):
            self._into.add(said["src"] or "", "iframe")

    def _rel(self, raw: str | None) -> str:
        if not raw:
            return ""
        rel = self._rels.get(raw)
        if rel is None:
            rel = self._rels[raw] = " ".join(raw[:1024].lower().split())
        return rel

    def _link(self, said: dict[str, str | None]) -> None:
        rel, href = self._rel(said.get("rel")), said.get("href")
        kind = link_kind(rel) if href else None
        if kind is None or href is None:
            return
        self._into.add(href, kind, rel, said.get("hreflang") or "")
        if kind == "canonical" and self._page.canonical is None:
            self._page.canonical = self._into.join(href)

    def _meta(self, said: dict[str, str | None]) -> None:
        content = said.get("content")
        if content is None:
            return
        name = (said.get("name") or "").strip().lower()
        if name == "robots" or (name and name == self._policy.product.lower()):
            words = (word.strip().lower() for word in content[:4096].split(","))
            self._page.robots = (*self._page.robots, *filter(None, words))[: self._policy.robots_words]
        elif name == "description" and self._page.description is None:
            self._page.description = collapse(content, self._policy.description_chars) or None
        elif said.get("http-equiv"):
            self._pragma((said["http-equiv"] or "").strip().lower(), content)

    def _pragma(self, pragma: str, content: str) -> None:
        if pragma == "content-language" and self._page.language is None and "," not in content:
            self._page.language = collapse(content, 35) or None
        elif pragma == "refresh" and not self._refreshed:
            said = refresh_of(content)
            if said is None:
                return
            self._refreshed = True
            self._page.refresh_seconds = said.seconds
            if said.url:
                self._into.add(said.url, "refresh")

    def _anchors(self, tree: LexborHTMLParser, with_text: bool) -> None:
        into, waiting = self._into, []  # those without rel words, most of all, are taken together
        for node in tree.tags("a"):
            said = node.attributes
            href = said.get("href")
            if href is None:
                href = said.get("xlink:href")
                if href is None:
                    continue
            rel = said.get("rel")
            if not (rel or with_text):
                waiting.append(href)
                continue
            into.add_anchors(waiting)
            waiting.clear()
            if into.add(href, "a", self._rel(rel)) and with_text:
                into.found[-1] = into.found[-1]._replace(text=anchor_text(node, self._policy.text_chars))
        into.add_anchors(waiting)

    def _extras(self, tree: LexborHTMLParser) -> None:
        policy, add = self._policy, self._into.add
        if policy.forms:
            for node in tree.css(_FORMS):
                said = node.attributes
                if (said.get("method") or "get").strip().lower() == "get" and said["action"]:
                    add(said["action"], "form")
        if not (policy.images or policy.srcset):
            return
        for node in tree.css(_IMAGES):
            said = node.attributes
            source = said.get("src")
            if policy.images and node.tag == "img" and source:
                add(source, "img")
            if policy.srcset:
                for candidate in srcset_urls(said.get("srcset") or ""):
                    add(candidate, "srcset")


_UNREAD: Final = ["script", "style", "noscript", "template", "svg", "iframe", "object", "select", "textarea"]


def page_text(body: bytes, charset: str, *, max_chars: int = 200_000) -> str:
    """Return the visible text of a page, a line for each run of text, at most `max_chars`; "" if there is none.

    body, charset: as `read_page` took and named them. For near duplicates: 0.3 ms a page, not for the fetch loop.
    """
    if junk_of(body):
        return ""
    try:
        tree = LexborHTMLParser(_source(body, charset), scripting=True)
    except (SelectolaxError, RuntimeError, ValueError, MemoryError):
        return ""
    if tree.body is None:
        return ""
    tree.strip_tags(_UNREAD)
    lines = (" ".join(line.split()) for line in tree.body.text(separator="\n").splitlines())
    return "\n".join(filter(None, lines))[:max_chars]


def collapse(text: str, longest: int) -> str:
    """Return the text with runs of blanks as one space, none at the ends, at most `longest` characters.

    >>> collapse("  a \\n b ", 300)
    'a b'
    """
    return " ".join(text[: 16 * longest + 1024].split())[:longest].rstrip()


def anchor_text(node: LexborNode, longest: int) -> str:
    """Return the text of an anchor, blanks collapsed; that of a picture in it where it has none."""
    text = collapse(node.text(separator=" "), longest)
    if text:
        return text
    picture = node.css_first("img[alt]")
    return collapse(picture.attributes["alt"] or "", longest) if picture is not None else ""


def _title(tree: LexborHTMLParser) -> LexborNode | None:
    """Return the first title element that is not part of a drawing; a walk of the head mostly finds it."""
    node = tree.head.child if tree.head is not None else None
    while node is not None:
        if node.tag == "title":
            return node
        node = node.next
    return next((title for title in tree.tags("title") if not _inside(title, "svg")), None)


def _inside(node: LexborNode, tag: str) -> bool:
    above = node.parent
    while above is not None:
        if above.tag == tag:
            return True
        above = above.parent
    return False
