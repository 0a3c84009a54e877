"""Endless URL spaces, told by how their URLs look. Each trap is a small function with a name and a reason.

What the spelling does not show is found by what comes back: see yields.py, whose names are to be had here too.
A rule here must not cost good pages; how many real links each refuses is in `tests/rules/test_traps.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from pipelines.rules.whatwg import split
from pipelines.rules.yields import (
    PatternYields,
    Quarantine,
    Quarantines,
    Yield,
    YieldPolicy,
    leads_out,
    path_pattern,
    skeleton_of,
)

__all__ = [
    "TRAPS",
    "PatternYields",
    "Quarantine",
    "Quarantines",
    "Shape",
    "Trap",
    "TrapPolicy",
    "Yield",
    "YieldPolicy",
    "leads_out",
    "path_pattern",
    "same_as_referrer",
    "shape_of",
    "skeleton_of",
    "soft_404_hint",
    "trap_of",
]


class Shape(NamedTuple):
    """A URL cut up for the rules.

    path: lower-case. segments: of it, without empty ones at the ends. parameters: (lower-case name, value).
    has_user: there is a user name in the URL.
    """

    url: str
    host: str
    path: str
    segments: tuple[str, ...]
    parameters: tuple[tuple[str, str], ...]
    has_user: bool


def shape_of(url: str) -> Shape:
    """Return the shape of a URL in wire form."""
    parts = split(url)
    path = parts.path.lower()
    pairs = [one.partition("=") for one in parts.query.split("&")] if parts.query else []
    parameters = tuple((name.lower(), value) for name, _, value in pairs)
    return Shape(url, parts.host, path, tuple(path.strip("/").split("/")), parameters, bool(parts.userinfo))


@dataclass(frozen=True)
class TrapPolicy:
    """The numbers of the traps.

    repeated_segments: equal segments in a row that are refused (Heritrix PathologicalPathDecideRule, Nutch's
    regex-urlfilter and BUbiNG's DuplicateSegmentsLessThan all say 3). cycle_repeats: rounds of a longer run.
    segment_uses: one segment anywhere in the path. parameter_repeats: one parameter name in a query.
    this_year: of the crawl; 0 = not known, then `last_year` bounds dates. calendar_years_ahead/_back: how far
    a calendar is followed. pager_page, pager_offset: the last page of a list that is still asked for.
    facets: sort and filter parameters together that are refused. traps_off: names of traps that are not looked for.
    """

    repeated_segments: int = 3
    cycle_repeats: int = 3
    segment_uses: int = 5
    parameter_repeats: int = 8
    this_year: int = 0
    last_year: int = 2035
    calendar_years_ahead: int = 2
    calendar_years_back: int = 5
    pager_page: int = 1_000
    pager_offset: int = 50_000
    facets: int = 2
    traps_off: tuple[str, ...] = ()

    @property
    def last_calendar_year(self) -> int:
        """The last year whose dates are asked for."""
        return self.this_year + self.calendar_years_ahead if self.this_year else self.last_year

    @property
    def first_calendar_year(self) -> int:
        """The first year of which a calendar is asked for; 0 = all."""
        return self.this_year - self.calendar_years_back if self.this_year else 0


DEFAULT_TRAPS = TrapPolicy()


class Trap(NamedTuple):
    """One trap: `find` returns what it saw, or None."""

    name: str
    reason: str
    find: Callable[[Shape, TrapPolicy], str | None]


def _repeated_segments(shape: Shape, policy: TrapPolicy) -> str | None:
    run, before = 0, ""
    for segment in shape.segments:
        run = run + 1 if segment == before and segment else 1
        before = segment
        if run >= policy.repeated_segments:
            return f"{run} times /{segment} in a row"
    return None


def _cyclic_path(shape: Shape, policy: TrapPolicy) -> str | None:
    segments, rounds = shape.segments, policy.cycle_repeats
    for width in range(2, len(segments) // rounds + 1):
        equal = 0
        for place in range(width, len(segments)):
            equal = equal + 1 if segments[place] == segments[place - width] else 0
            if equal >= width * (rounds - 1):
                return f"{rounds} rounds of /{'/'.join(segments[place - width + 1 : place + 1])}"
    return None


def _often_used_segment(shape: Shape, policy: TrapPolicy) -> str | None:
    if len(shape.segments) <= policy.segment_uses:
        return None
    for segment in shape.segments:
        if not segment.isdigit() and shape.segments.count(segment) >= policy.segment_uses and segment:
            return f"{shape.segments.count(segment)} times /{segment}"
    return None


_HOST_LIKE = re.compile(r"www[0-9]?\.[a-z0-9-]+(?:\.[a-z0-9-]+)*\.?[a-z]{2,}\Z")
_SCHEME_LIKE = ("http:", "https:", "")


def _host_in_path(shape: Shape, policy: TrapPolicy) -> str | None:
    """A link "www.b.example/x" without a scheme is relative; where the server answers it, the path grows."""
    if "www" not in shape.path and shape.host not in shape.path:
        return None
    seen = set()
    for before, segment in zip(("", *shape.segments), shape.segments, strict=False):
        is_bare = segment == shape.host or _HOST_LIKE.match(segment) is not None
        if not is_bare or (before in _SCHEME_LIKE and before):
            continue
        if segment in seen:
            return f"host name {segment} twice in the path"
        seen.add(segment)
    return None


def _parameter_repeats(shape: Shape, policy: TrapPolicy) -> str | None:
    if len(shape.parameters) < policy.parameter_repeats:
        return None
    names = [name for name, _ in shape.parameters]
    most = max(names, key=names.count)
    count = names.count(most)
    return f"{count} times {most}=" if count >= policy.parameter_repeats else None


_SESSION_NAME = re.compile(r"(?:(?:php|j)?sess(?:ion)?(?:[-_]?id)?|sid)\Z")
_SESSION_VALUE = re.compile(r"(?=[^0-9]*[0-9])(?=[^a-z]*[a-z])[0-9a-z]{20,}\Z")


def _session_in_path(shape: Shape, policy: TrapPolicy) -> str | None:
    if "sess" not in shape.path and "sid/" not in shape.path:
        return None
    for name, value in zip(shape.segments, shape.segments[1:], strict=False):
        if _SESSION_NAME.match(name) and _SESSION_VALUE.match(value):
            return f"session id in the path after /{name}"
    return None


_CALENDAR_WORD = re.compile(
    r"(?:[a-z]*(?:calendar|kalender)|calendrier|calendario|cal|ical|agenda|events?|schedule|veranstaltung(?:en)?"
    r"|termine?|months?|weeks?|tribe|eventdate)s?\Z"
)
_CALENDAR_NAME = frozenset(
    {"annee", "caldate", "calmonth", "date", "datum", "day", "eventdate", "from", "ical", "jahr", "mois", "monat",
     "month", "start", "start_date", "startdate", "tribe-bar-date", "viewdate", "week", "y", "year", "yr"}
)  # fmt: skip
_CALENDAR_OR_PLACE = frozenset({"from", "start", "y"})
"""Names of them that are a list's offset or a place as often: a bare number is a year only where words say calendar."""
_ANY_YEAR = re.compile(r"19[0-9]{2}|2[01][0-9]{2}")
_CALENDAR_HINTS = (
    "cal",
    "kal",
    "agenda",
    "event",
    "schedul",
    "veranstalt",
    "termin",
    "month",
    "week",
    "tribe",
)
_YEAR_MONTH = re.compile(
    r"(19[0-9]{2}|2[01][0-9]{2})"
    r"(?:([-_.])(?:0?[1-9]|1[0-2])(?:\2[0-9]{1,2})?|(?:0[1-9]|1[0-2])(?:[0-9]{2})?)(?![0-9]|[-_.][0-9])"
)
_YEAR = re.compile(r"(19[0-9]{2}|2[01][0-9]{2})\Z")
_MONTH = re.compile(r"(?:0?[1-9]|1[0-2])\Z|(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\Z")


def _calendar(shape: Shape, policy: TrapPolicy) -> str | None:
    """Dates far away: where the words say calendar, on both sides; elsewhere only those yet to come."""
    if not _ANY_YEAR.search(shape.url):
        return None
    text = shape.url.lower()
    says_calendar = any(word in text for word in _CALENDAR_HINTS) and _says_calendar(shape)
    years = _years(shape, says_calendar)
    if not years:
        return None
    if max(years) > policy.last_calendar_year:
        return f"a date in {max(years)}, after {policy.last_calendar_year}"
    if says_calendar and min(years) < policy.first_calendar_year:
        return f"a calendar page of {min(years)}, before {policy.first_calendar_year}"
    return None


def _says_calendar(shape: Shape) -> bool:
    words = [word for segment in shape.segments[:-1] for word in re.split(r"[-_.+]", segment)[:3]]
    words += [name for name, _ in shape.parameters]
    if shape.parameters:
        words += re.split(r"[-_.+]", shape.segments[-1])[:3]
    return any(_CALENDAR_WORD.match(word) for word in words)


def _years(shape: Shape, says_calendar: bool) -> list[int]:
    """Return the years of dates: a year with its month, or a calendar's parameter.

    Digits without a dash (201405) are a date only where a word says calendar; article numbers look the same.
    """
    found = [
        int(year)
        for year, month in zip(shape.segments, shape.segments[1:], strict=False)
        if _YEAR.match(year) and _MONTH.match(month)
    ]
    dates = [_YEAR_MONTH.match(segment) for segment in shape.segments]
    found += [int(one[1]) for one in dates if one and (one[2] or says_calendar)]
    for name, value in shape.parameters:
        if name not in _CALENDAR_NAME:
            continue
        bare = None if name in _CALENDAR_OR_PLACE and not says_calendar else _YEAR.match(value)
        hit = _YEAR_MONTH.match(value) or bare
        found += [int(hit[1])] if hit else []
    return found


_PAGER = frozenset(
    {"currentpage", "page", "page_no", "paged", "pageno", "pagenum", "pagina", "pg", "pn", "seite"}
)
_OFFSET = frozenset({"begin", "first", "from", "limitstart", "offset", "skip", "st", "start", "startrow"})
_AN_ID = 100_000  # page=514611 is the number of a page, not a page of a list


def _pager(shape: Shape, policy: TrapPolicy) -> str | None:
    for name, value in shape.parameters:
        if not value.isdecimal() or len(value) > 9:
            continue
        if name in _PAGER and policy.pager_page < int(value) < _AN_ID:
            return f"{name}={value}, after page {policy.pager_page}"
        if (
            name in _OFFSET
            and policy.pager_offset < int(value) < _AN_ID * 100
            and not _YEAR_MONTH.match(value)
        ):
            return f"{name}={value}, after {policy.pager_offset}"
    name, value = shape.segments[-2:] if len(shape.segments) > 1 else ("", "")
    if name in ("page", "seite") and value.isdecimal() and policy.pager_page < int(value[:9]) < _AN_ID:
        return f"/{name}/{value}, after page {policy.pager_page}"
    return None


_FACET = re.compile(
    r"(?:sort|order|filter|facet|refine)(?:[-_.]?(?:by|dir|direction|order|key|field|col|column|type))?(?:\[.*|%5b.*|[0-9]*)\Z"
    r"|(?:direction|view|viewmode|per_?page|page_?size|min_?price|max_?price|price|colou?r|size|brand|rating|availability"
    r"|(?:in_?)?stock)(?:\[.*|%5b.*)?\Z|f(?:\[|%5b).*\Z"
)


def _facets(shape: Shape, policy: TrapPolicy) -> str | None:
    names = [name for name, _ in shape.parameters if _FACET.match(name)]
    return f"{len(names)} facets: {', '.join(names[:5])}" if len(names) >= policy.facets else None


_LOGIN = re.compile(
    r"(?:wp-)?(?:user)?(?:log|sign)[-_]?(?:in|out|off|on|up)\b|register\b|(?:anmeld|einlogg)en\b"
)
_BACK = re.compile(
    r"(?:return|redirect|redir|next|continue|dest|goto|back|ref|origin|target|came_?from|service)|(?:url|r|u)\Z"
)


def _login(shape: Shape, policy: TrapPolicy) -> str | None:
    """A login page that carries the way back: one for every page of the site."""
    if not shape.parameters or not any(_LOGIN.match(one) for one in shape.segments[-2:]):
        return None
    for name, value in shape.parameters:
        if _BACK.match(name) and value:
            return f"login with the way back in {name}="
    return None


_CART_NAME = re.compile(
    r"add[-_]to[-_](?:cart|basket|wishlist|compare)|(?:remove|undo)_item\Z|add_to_wishlist"
)
_CART_VALUE = re.compile(r"(?:add|buy)[-_](?:to[-_](?:cart|basket)|product|now|item)", re.IGNORECASE)
_CART = re.compile(r"(?:shopping|my)?[-_]?(?:cart|basket|wishlist|compare|warenkorb)(?:\.[a-z]+)?\Z")
_CART_PATH = re.compile(
    r"(?:cart|basket|wishlist|compare|warenkorb|checkout/cart)/(?:add|remove|delete|update)"
)


def _cart(shape: Shape, policy: TrapPolicy) -> str | None:
    """A link that puts something somewhere: not a page, and one for every product and visit."""
    for name, value in shape.parameters:
        if _CART_NAME.match(name) or (name in ("action", "do", "cmd") and _CART_VALUE.match(value)):
            return f"{name}={value[:40]}"
        if name in ("add", "remove", "delete") and _CART.match(shape.segments[-1]):
            return f"{shape.segments[-1]}?{name}={value[:40]}"
    found = _CART_PATH.search(shape.path)
    return f"/{found[0]}" if found else None


TRAPS: tuple[Trap, ...] = (
    Trap("repeated_segments", "a relative link that goes one deeper each round", _repeated_segments),
    Trap("cyclic_path", "the same, with a longer run", _cyclic_path),
    Trap("often_used_segment", "the same, with other segments between", _often_used_segment),
    Trap("host_in_path", "links without scheme taken for relative ones", _host_in_path),
    Trap("parameter_repeats", "a query to which each page adds", _parameter_repeats),
    Trap("session_in_path", "each visit makes the whole site anew", _session_in_path),
    Trap("calendar", "there is always a next month", _calendar),
    Trap("pager", "lists that never end, or end in empty pages", _pager),
    Trap("facets", "the same list in every order and selection", _facets),
    Trap("login", "one login page for each page", _login),
    Trap("cart", "links that act instead of showing", _cart),
)


def trap_of(shape: Shape, policy: TrapPolicy = DEFAULT_TRAPS) -> tuple[str, str] | None:
    """Return the first trap a URL looks like, as (name, what was seen); None if it looks like none."""
    for trap in TRAPS:
        if trap.name not in policy.traps_off:
            seen = trap.find(shape, policy)
            if seen is not None:
                return trap.name, seen
    return None


_NOT_FOUND = re.compile(
    r"\b(?:404|page not found|not found|seite nicht gefunden|nicht gefunden|page (?:introuvable|non trouv[ée]e)"
    r"|p[áa]gina no encontrada|no encontrad[oa]|non trovata|does(?: not|n't) exist|no longer (?:exists|available))\b",
    re.IGNORECASE,
)


def soft_404_hint(
    title: str | None, *, status: int = 200, text_chars: int | None = None, redirected_to: str = ""
) -> str | None:
    """Return why an answer of status 200 is likely "not found" in disguise; None if nothing says so.

    title: of the page. text_chars: length of its text; None = not known. redirected_to: path a redirect ended
    at. A hint marks and lowers yields; no page is thrown away for it.
    """
    if status != 200:
        return None
    if title and len(title) < 120 and (found := _NOT_FOUND.search(title)):
        return f"the title says {found[0]!r}"
    if redirected_to and _NOT_FOUND.search(re.sub(r"[-_/]", " ", redirected_to)):
        return f"redirected to {redirected_to}"
    if text_chars is not None and text_chars < 20 and not title:
        return f"{text_chars} letters of text and no title"
    return None


def same_as_referrer(digest: str, referrer_digest: str | None) -> bool:
    """Say whether a page is byte for byte the page that linked to it: its links then lead nowhere new."""
    return referrer_digest is not None and digest == referrer_digest
