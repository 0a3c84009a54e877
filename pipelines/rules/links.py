"""Places that a page names, before a parser is needed: Link fields, meta refresh, srcset, base.

Also the `Link` itself and the collector that makes raw references into links, each raw text joined once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple

import ada_url

from pipelines.rules.urls import resolve, resolve_encoded
from pipelines.rules.whatwg import PLAIN

_BLANK: Final = "\t\n\x0c\r "


class Link(NamedTuple):
    """One reference of a page.

    url: absolute, in wire form. kind: a, area, canonical, alternate, next, prev, frame, iframe, refresh,
    header, img, srcset, form. rel: the rel words in lower case, as found (nofollow, ugc, sponsored stay
    visible). text: anchor text, blanks collapsed; "" unless asked for. lang: hreflang; "" = none.
    """

    url: str
    kind: str
    rel: str = ""
    text: str = ""
    lang: str = ""


FOLLOWED_RELS: Final = ("canonical", "alternate", "next", "prev")
"""The rel words of link elements and Link fields that lead to pages; "previous" is read as "prev"."""
UNFOLLOWED: Final = frozenset({"nofollow", "ugc", "sponsored"})
"""The rel words by which a page says that it does not vouch for a link."""


@lru_cache(maxsize=4096)
def link_kind(rel: str) -> str | None:
    """Return which kind of link a rel value (lower case) makes of a link element; None if of no interest.

    >>> link_kind("shortcut icon"), link_kind("nofollow previous")
    (None, 'prev')
    """
    words = ["prev" if word == "previous" else word for word in rel.split()]
    if "stylesheet" in words:  # rel="alternate stylesheet"
        return None
    return next((kind for kind in FOLLOWED_RELS if kind in words), None)


def base_of(url: str, href: str | None) -> str:
    """Return the base of a page's references: the first base element's `href` against the page's own URL.

    A base that does not parse, or is a data: or javascript: URL, counts for nothing (HTML, "set the frozen
    base URL"). A base of another scheme, ftp say, is kept: what is relative to it leads nowhere on the web.
    """
    if href is None:
        return url
    base = resolve(url, href)
    if base is not None:
        return base
    try:
        other = str(ada_url.join_url(url, href))
    except ValueError:
        return url
    return url if other.startswith(("data:", "javascript:")) else other


# --- meta refresh --------------------------------------------------------------------------------------


class Refresh(NamedTuple):
    """A declared refresh: after how many whole seconds, to which raw URL (None: the page itself)."""

    seconds: int
    url: str | None


_REFRESH_TIME: Final = re.compile(r"[\t\n\x0c\r ]*([0-9]+|(?=\.))[0-9.]*(?=[;,\t\n\x0c\r ]|\Z)")
_REFRESH_SEPARATOR: Final = re.compile(r"[\t\n\x0c\r ]*[;,]?[\t\n\x0c\r ]*")
_REFRESH_URL: Final = re.compile(r"url[\t\n\x0c\r ]*=[\t\n\x0c\r ]*", re.I)
_LONGEST_REFRESH: Final = 16_384


def refresh_of(content: str) -> Refresh | None:
    """Return what the content of a meta refresh (or a Refresh field) says; None if it is not valid.

    Source: HTML, "shared declarative refresh steps".

    >>> refresh_of("5; URL='http://other.example/'")
    Refresh(seconds=5, url='http://other.example/')
    """
    content = content[:_LONGEST_REFRESH]
    time = _REFRESH_TIME.match(content)
    if time is None:
        return None
    seconds = int(time[1][:9] or 0)
    separator = _REFRESH_SEPARATOR.match(content, time.end())
    rest = content[separator.end() if separator else len(content) :]
    if not rest:
        return Refresh(seconds, None)
    word = _REFRESH_URL.match(rest)
    target = rest[word.end() :] if word else rest
    if target[:1] in ("'", '"'):
        target = target[1:].partition(target[0])[0]
    return Refresh(seconds, target)


# --- srcset --------------------------------------------------------------------------------------------

_CANDIDATE: Final = re.compile(r"[\t\n\x0c\r ,]*([^\t\n\x0c\r ]+)")
_DESCRIPTORS: Final = re.compile(r"(?:[^(,]|\([^)]*(?:\)|\Z))*,?")
_DENSITY: Final = re.compile(r"-?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?x")
_SIZE: Final = re.compile(r"0*[1-9][0-9]*([wh])")


def srcset_urls(value: str) -> list[str]:
    """Return the raw URLs of the valid candidates of a srcset attribute, in order, each once.

    Source: HTML, "parse a srcset attribute": a candidate with a bad descriptor is passed over.

    >>> srcset_urls("small.jpg 300w, big.jpg 2x, bad.jpg 3q, plain.jpg")
    ['small.jpg', 'big.jpg', 'plain.jpg']
    """
    found: dict[str, None] = {}
    at = 0
    while (candidate := _CANDIDATE.match(value, at)) is not None:
        url, at = candidate[1], candidate.end()
        words: list[str] = []
        if url.endswith(","):
            url = url.rstrip(",")
        else:
            descriptors = _DESCRIPTORS.match(value, at)
            assert descriptors is not None
            at = descriptors.end()
            words = descriptors[0].removesuffix(",").split()
        if url and _good_descriptors(words):
            found[url] = None
    return list(found)


def _good_descriptors(words: list[str]) -> bool:
    """Tell whether the descriptors of a candidate go together: none, one width (and height), or one density."""
    sizes = "".join(sorted(match[1] for word in words if (match := _SIZE.fullmatch(word))))
    densities = [word for word in words if _DENSITY.fullmatch(word)]
    if len(sizes) + len(densities) != len(words) or any(float(word[:-1]) < 0 for word in densities):
        return False
    return sizes in ("", "w", "hw") if not densities else len(densities) == 1 and not sizes


# --- Link field ----------------------------------------------------------------------------------------


class HeaderLink(NamedTuple):
    """One value of a Link field: raw target, rel words in lower case, hreflang, anchor (None: the page)."""

    target: str
    rel: str
    lang: str
    anchor: str | None


_TARGET: Final = re.compile(r"[\s,]*<([^>]*)>")
_PARAMETER: Final = re.compile(
    r"\s*;[\s;]*([^\s=;,\"]*)(?:\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"?|([^;,\s\"]*)))?", re.S
)
_LONGEST_FIELD: Final = 65_536


def header_links(value: str) -> list[HeaderLink]:
    """Return the links of a Link field, or of several joined by commas (RFC 8288 section 3, appendix B).

    The first rel of a value counts, and the first hreflang; a value without rel has rel "".

    >>> header_links('</p2>; rel="next", <x>; rel=preload')[0]
    HeaderLink(target='/p2', rel='next', lang='', anchor=None)
    """
    value = value[:_LONGEST_FIELD]
    found: list[HeaderLink] = []
    at = 0
    while (target := _TARGET.search(value, at)) is not None:
        parameters: dict[str, str] = {}
        at = target.end()
        while (match := _PARAMETER.match(value, at)) is not None:
            at = match.end()
            quoted = match[2] is not None
            text = re.sub(r"\\(.)", r"\1", match[2], flags=re.S) if quoted else match[3] or ""
            parameters.setdefault(match[1].lower(), text)
        rel = " ".join(parameters.get("rel", "").lower().split())
        found.append(HeaderLink(target[1], rel, parameters.get("hreflang", ""), parameters.get("anchor")))
    return found


# --- the collector -------------------------------------------------------------------------------------

_ELSEWHERE: Final = ("javascript:", "mailto:", "data:", "tel:")


_SIMPLE: Final = re.compile(
    r"((?:\.\./)*+|/)(?![./])[A-Za-z0-9_\-.~!$&'()*+,;=@/]+(?:\?[A-Za-z0-9_\-.~!$&()*+,/:;=@%?]*)?\Z"
)
"""A relative reference whose letters all stay as they are, where no "/." is in it. Group: the steps up, or to the root."""


_new_tuple: Final = tuple.__new__  # spares a call a link: 1.5 % of reading a page


class Collector:
    """Makes raw references into links: each raw text is joined once, each link is kept once.

    base, codec: of the page; codec is the Python name of its encoding, in which non-ASCII queries are sent.
    Links that differ in kind or rel are different links. `full` is set when the limit stopped something.
    """

    __slots__ = (
        "_codec", "_folders", "_limit", "_longest", "_raw", "_seen", "_urls", "base", "found", "full",
    )  # fmt: skip

    def __init__(self, base: str, *, codec: str = "utf-8", limit: int, longest: int) -> None:
        self.base = base
        self.found: list[Link] = []
        self.full = False
        self._codec = codec if codec != "utf-8" else ""
        self._limit, self._longest = limit, longest
        self._folders = folders_of(base)
        self._urls: dict[str, str | None] = {}
        self._seen: set[tuple[str, str, str] | str] = set()  # of anchors without rel words: the URL alone
        self._raw: set[str] = set()

    def add(self, raw: str, kind: str, rel: str = "", lang: str = "") -> bool:
        """Take a reference; return whether it made a new link, the last of `found`."""
        if raw in self._urls:
            url = self._urls[raw]
        else:
            url = self._urls[raw] = self.join(raw)
        if url is None:
            return False
        key = url if kind == "a" and not rel else (url, kind, rel)
        if key in self._seen:
            return False
        if len(self.found) >= self._limit:
            self.full = True
            return False
        self._seen.add(key)
        self.found.append(_new_tuple(Link, (url, kind, rel, "", lang)))
        return True

    def add_anchors(self, hrefs: Iterable[str]) -> None:
        """Take the references of anchors without rel words: what `add(href, "a")` would do, at half its cost."""
        raws, seen, found, limit = self._raw, self._seen, self.found, self._limit
        for raw in hrefs:
            at = raw.find("#")
            if at >= 0 and (at == 0 or raw[at - 1] > " "):  # a blank before the hash sign is part of the URL
                raw = raw[:at]
            if raw in raws:  # half of a page's links are such repetitions
                continue
            raws.add(raw)
            url = self.join(raw)
            if url is None or url in seen:
                continue
            if len(found) >= limit:
                self.full = True
                return
            seen.add(url)
            found.append(_new_tuple(Link, (url, "a", "", "", "")))

    def join(self, raw: str) -> str | None:
        """Return the wire form of a reference; None if it leads nowhere on the web or is too long."""
        if len(raw) > self._longest:
            return None
        if self._folders:
            plain = raw[: raw.index("#")] if "#" in raw else raw
            simple = _SIMPLE.match(plain)
            if simple is not None:
                up = simple.end(1)
                if plain.find("/.", up) < 0:  # a third of the cost of `resolve`
                    return self._folder(up) + plain[up:]
        if ":" in raw[:16] and raw[:16].lstrip(_BLANK).lower().startswith(_ELSEWHERE):
            return None
        if self._codec and not raw.isascii():
            return resolve_encoded(self.base, raw, self._codec)
        return resolve(self.base, raw)

    def _folder(self, up: int) -> str:
        """Return the folder that a reference starts from; `up`: the letters of its way there, "../../" or "/" or none."""
        steps = up // 3 if up != 1 else len(self._folders)
        return self._folders[steps if steps < len(self._folders) else -1]


def folders_of(base: str) -> tuple[str, ...]:
    """Return the folder of a base URL and those above it, up to the site's root; none for an unusual base.

    >>> folders_of("http://a.example/b/c/d.html?e")
    ('http://a.example/b/c/', 'http://a.example/b/', 'http://a.example/')
    """
    plain = PLAIN.match(base)
    if plain is None or "/." in base or "xn--" in base:
        return ()
    site, folder = plain[1], plain[2][: plain[2].rindex("/") + 1]
    found = [site + folder]
    while folder != "/":
        folder = folder[: folder.rindex("/", 0, -1) + 1]
        found.append(site + folder)
    return tuple(found)


def add_header_links(into: Collector, field: str, *, url: str) -> str | None:
    """Add the links of a Link field that lead to pages, as kind "header"; return the canonical URL, or None.

    They are relative to the page's own URL, whatever its base element says (RFC 8288 section 3.2); a link
    whose anchor is another page says nothing about this one.
    """
    canonical: str | None = None
    for link in _relevant(header_links(field), url):
        kind = link_kind(link.rel)
        if kind is None:
            continue
        if into.add(link.target, "header", link.rel, link.lang) and kind == "canonical":
            canonical = canonical or into.found[-1].url
    return canonical


def _relevant(links: Iterable[HeaderLink], url: str) -> Iterable[HeaderLink]:
    return (link for link in links if link.anchor is None or resolve(url, link.anchor) == resolve(url, ""))
