"""Which URLs are asked for at all. The rules are data: `FilterPolicy`; each refusal names its rule.

`refusal` is called for every link of every page, so a URL that no rule can catch is told by a few cheap looks;
`verdicts` asks every rule and is for people (`noria check url`).
"""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from pipelines.rules.addresses import REFUSED_PORTS, port_refusal
from pipelines.rules.extensions import EXTENSIONS
from pipelines.rules.hosts import registrable_domain
from pipelines.rules.traps import TRAPS, Shape, TrapPolicy, shape_of
from pipelines.rules.urls import host_of
from pipelines.rules.whatwg import PLAIN

SEED_KEYS = ("seed_host", "stay", "max_depth", "include", "exclude")
"""Metadata of a seed that these rules read; what is found from the seed inherits it."""


@dataclass(frozen=True)
class FilterPolicy(TrapPolicy):
    """All rules. Patterns are globs over the whole URL, or "re:" and a regular expression that is searched for.

    url_chars: 2,083 is the longest that old browsers took, and Scrapy's default (URLLENGTH_LIMIT).
    path_segments: Heritrix's TooManyPathSegments says 20. query_parameters: in one query.
    extensions: endings of the last segment that are refused. include: if any is given, a URL must match one.
    stay: any, host or domain, measured from the seed (its `seed_host`). max_depth: links from the seed;
    0 = no limit. blocked_hosts: names, and with a leading dot a name and all below it.
    """

    url_chars: int = 2_083
    path_segments: int = 20
    query_parameters: int = 20
    extensions: tuple[str, ...] = EXTENSIONS
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    stay: str = "any"
    max_depth: int = 0
    blocked_hosts: tuple[str, ...] = ()
    credentials: bool = False
    rules_off: tuple[str, ...] = ()

    @cached_property
    def extension_set(self) -> frozenset[str]:
        """The refused endings, for looking up."""
        return frozenset(one.lower().lstrip(".") for one in self.extensions)

    @cached_property
    def blocked_host_set(self) -> frozenset[str]:
        """The blocked hosts, for looking up."""
        return frozenset(one.lower() for one in self.blocked_hosts if not one.startswith((".", "*")))

    @cached_property
    def blocked_suffix_set(self) -> frozenset[str]:
        """The blocked suffixes without their leading dot, for looking up."""
        return frozenset(one.lower().lstrip(".*") for one in self.blocked_hosts if one.startswith((".", "*")))

    @cached_property
    def last_year_text(self) -> str:
        """`last_calendar_year` as it stands in a URL."""
        return f"{self.last_calendar_year:04}"

    @cached_property
    def first_year_text(self) -> str:
        """`first_calendar_year` as it stands in a URL."""
        return f"{self.first_calendar_year:04}"

    @cached_property
    def fewest_doubles(self) -> int:
        """A path with fewer segments that stood in it before has no loop."""
        return min(self.repeated_segments - 1, 2 * self.cycle_repeats - 2, self.segment_uses - 1)

    @cached_property
    def is_open(self) -> bool:
        """No rule looks at the host, the pattern lists or the seed."""
        return not (
            self.include or self.exclude or self.blocked_hosts or self.stay != "any" or self.max_depth
        )


DEFAULT_FILTERS = FilterPolicy()


class Verdict(NamedTuple):
    """What one rule says of a URL; detail: the number, pattern or piece of the URL behind it."""

    rule: str
    ok: bool
    detail: str


class Refusal(NamedTuple):
    """The rule that refuses a URL, and what it saw."""

    rule: str
    detail: str


class Facts(NamedTuple):
    """What is known of a URL beside its text: links from the seed, and the seed's metadata (mapping or JSON text)."""

    depth: int = 0
    meta: Mapping[str, Any] | str | None = None


NO_FACTS = Facts()
STAYS = ("any", "host", "domain")
Check = Callable[[Shape, Facts, FilterPolicy], str | None]


@lru_cache(maxsize=4_096)
def _loads(text: str) -> Mapping[str, Any]:
    found = json.loads(text)
    return found if isinstance(found, dict) else {}


def _meta(facts: Facts) -> Mapping[str, Any]:
    return _loads(facts.meta) if isinstance(facts.meta, str) else facts.meta or {}


@lru_cache(maxsize=4_096)
def _pattern(text: str) -> re.Pattern[str]:
    """Return the compiled pattern; ValueError names one that is no regular expression."""
    try:
        return re.compile(text[3:] if text.startswith("re:") else rf"\A(?:{fnmatch.translate(text)})")
    except (re.error, OverflowError) as error:
        raise ValueError(f"filter pattern {text!r} is no regular expression: {error}") from None
    except RecursionError:
        raise ValueError(f"filter pattern {text[:60]!r} … is nested too deep") from None


def check_patterns(policy: FilterPolicy) -> None:
    """Raise ValueError if a pattern of the policy cannot be read."""
    for text in (*policy.include, *policy.exclude):
        _pattern(text)


def _matching(url: str, patterns: tuple[str, ...]) -> str | None:
    return next((text for text in patterns if _pattern(text).search(url)), None)


def _words(value: Any) -> tuple[str, ...]:
    """Return patterns from metadata: a list, or text with blanks between."""
    return (
        tuple(str(one) for one in value)
        if isinstance(value, list | tuple)
        else tuple(str(value or "").split())
    )


def unusable(meta: Mapping[str, Any]) -> str | None:
    """Return why a seed's metadata cannot be obeyed, as a clause; None = it can.

    >>> unusable({"stay": "hsot"})
    'stay=hsot: it is one of any, host, domain'
    """
    for name in ("include", "exclude"):
        for text in _words(meta.get(name)):
            try:
                _pattern(text)
            except ValueError as error:
                return f"{name}: {error}"
    if "stay" in meta and meta["stay"] not in STAYS:
        return f"stay={meta['stay']}: it is one of {', '.join(STAYS)}"
    if "max_depth" in meta and not str(meta["max_depth"]).isdecimal():
        return f"max_depth={meta['max_depth']}: it is a whole number of links"
    return None


def _whole(value: Any, default: int) -> int:
    """Return a number from metadata, whose values may be text; what is no number is as if it were absent."""
    return int(value) if str(value).isdecimal() else default


def _length(shape: Shape, facts: Facts, policy: FilterPolicy) -> str | None:
    size = len(shape.url)
    return f"{size} characters, at most {policy.url_chars}" if size > policy.url_chars else None


def _credentials(shape: Shape, facts: Facts, policy: FilterPolicy) -> str | None:
    return "a user name in the URL" if shape.has_user and not policy.credentials else None


def _host_name(shape: Shape, facts: Facts, policy: FilterPolicy) -> str | None:
    labels = shape.host.split(".")
    if shape.host.startswith("["):
        return None
    if len(shape.host) > 253 or max(map(len, labels)) > 63 or min(map(len, labels)) < 1:
        return "no name that DNS can hold (RFC 1035 section 2.3.4)"
    return None


_PORT = re.compile(r"https?://[^/?#]*:([0-9]{1,5})(?=[/?#]|\Z)")
_REFUSED_PORTS = frozenset(map(str, REFUSED_PORTS))


def _port(shape: Shape, facts: Facts, policy: FilterPolicy) -> str | None:
    found = _PORT.match(shape.url)
    return port_refusal(int(found[1])) if found else None


def _blocked(shape: Shape, facts: Facts, policy: FilterPolicy) -> str | None:
    if not policy.blocked_hosts:
        return None
    return _blocked_by(shape.host, policy.blocked_host_set, policy.blocked_suffix_set)


@lru_cache(maxsize=16_384)
def _blocked_by(host: str, hosts: frozenset[str], names: frozenset[str]) -> str | None:
    if host in hosts:
        return f"host {host}"
    labels = host.split(".")
    below = (".".join(labels[start:]) for start in range(len(labels)))
    return next((f"suffix {name}" for name in below if name in names), None)


def _stay(shape: Shape, facts: Facts, policy: FilterPolicy) -> str | None:
    meta = _meta(facts)
    mode, seed = str(meta.get("stay", policy.stay)), str(meta.get("seed_host", ""))
    if mode == "any" or not seed:
        return None
    if mode == "host" and shape.host.removeprefix("www.") != seed.removeprefix("www."):
        return f"host {shape.host}, the seed's is {seed}"
    if mode == "domain" and registrable_domain(shape.host) != registrable_domain(seed):
        return f"domain {registrable_domain(shape.host)}, the seed's is {registrable_domain(seed)}"
    return None


def _too_deep(shape: Shape, facts: Facts, policy: FilterPolicy) -> str | None:
    limit = _whole(_meta(facts).get("max_depth"), policy.max_depth)
    return f"{facts.depth} links from the seed, at most {limit}" if 0 < limit < facts.depth else None


def _excluded(shape: Shape, facts: Facts, policy: FilterPolicy) -> str | None:
    return _matching(shape.url, (*policy.exclude, *_words(_meta(facts).get("exclude"))))


def _not_included(shape: Shape, facts: Facts, policy: FilterPolicy) -> str | None:
    patterns = _words(_meta(facts).get("include")) or policy.include
    return "matches no include pattern" if patterns and not _matching(shape.url, patterns) else None


_TITLES = frozenset({"wiki", "tag", "tags", "tagged", "topic", "topics", "search", "package", "packages"})


def _extension(shape: Shape, facts: Facts, policy: FilterPolicy) -> str | None:
    """A colon before it (File:Moon.jpg) or a segment like /wiki makes it a page about such a thing; sitemaps pass."""
    last = shape.segments[-1]
    dot = last.rfind(".")
    if (
        dot < 0
        or last[dot + 1 :] not in policy.extension_set
        or ":" in last
        or shape.path.endswith("/")
        or last.endswith(".xml.gz")
    ):
        return None
    if len(shape.segments) > 1 and shape.segments[-2] in _TITLES:
        return None
    return last[dot:]


def _path_segments(shape: Shape, facts: Facts, policy: FilterPolicy) -> str | None:
    size = len(shape.segments)
    return f"{size} segments, at most {policy.path_segments}" if size > policy.path_segments else None


def _query_parameters(shape: Shape, facts: Facts, policy: FilterPolicy) -> str | None:
    size = len(shape.parameters)
    return f"{size} parameters, at most {policy.query_parameters}" if size > policy.query_parameters else None


def _trap_check(find: Callable[[Shape, TrapPolicy], str | None], name: str) -> Check:
    return lambda shape, facts, policy: None if name in policy.traps_off else find(shape, policy)


SCOPE_RULES: tuple[tuple[str, Check], ...] = (
    ("blocked", _blocked),
    ("stay", _stay),
    ("max_depth", _too_deep),
    ("exclude", _excluded),
    ("include", _not_included),
)
"""Rules that look at the host, the lists of patterns and the seed; they read `url` and `host` of a shape."""

TEXT_RULES: tuple[tuple[str, Check], ...] = (
    ("length", _length),
    ("credentials", _credentials),
    ("host_name", _host_name),
    ("port", _port),
    ("extension", _extension),
    ("path_segments", _path_segments),
    ("query_parameters", _query_parameters),
    *((trap.name, _trap_check(trap.find, trap.name)) for trap in TRAPS),
)
"""Rules that read nothing but the URL."""

RULES = (*SCOPE_RULES, *TEXT_RULES)
"""Every rule by name, in the order in which they are asked: the first that refuses gives the reason."""


def verdicts(url: str, facts: Facts = NO_FACTS, policy: FilterPolicy = DEFAULT_FILTERS) -> list[Verdict]:
    """Return what every rule says of a URL in wire form."""
    shape = shape_of(url)
    found = [
        (name, None if name in policy.rules_off else check(shape, facts, policy)) for name, check in RULES
    ]
    return [Verdict(name, seen is None, seen or "") for name, seen in found]


_LONGEST_LABEL = 63
_YEARS = re.compile(r"/((?:19|2[01])[0-9][0-9])")
_CALENDAR = re.compile(r"cal|kal|agenda|event|schedul|veranstalt|termin|month|week|tribe")
_QUERY = re.compile(
    r"add|buy|remove|undo|[?&](?:current|pag|pg|pn|seite|begin|first|from|limit|offset|skip|st)[^=&]*=[0-9]{4}|[?&](?:[a-z]*"
    r"dat|day|from|jahr|mo|start|view|week|y|annee|ical|tribe)[^=&]*=(?:19|2[01])[0-9]{2}"
)
_LOGIN = re.compile(r"log|sign|regist|anmeld")
_FACETS = re.compile(
    r"sort|order|filt|facet|refi|direc|view|pag|price|colo|size|brand|rat|avail|stock|[?&]f[%\[]"
)


def _is_plainly_good(url: str, policy: FilterPolicy) -> bool:
    """Say whether no text rule can refuse a URL; False may mean anything. A few cheap looks, then the rules."""
    found = PLAIN.match(url)
    if found is None or found.end(1) > _LONGEST_LABEL or len(url) > policy.url_chars:
        return False
    path, query = found[2].lower(), found[3]
    segments = path.strip("/").split("/")
    if len(segments) > policy.path_segments or found[1].rpartition(":")[2] in _REFUSED_PORTS:
        return False
    doubles = len(segments) - len(set(segments))
    if doubles and (doubles >= policy.fewest_doubles or _may_hold_a_host(path, found[1])):
        return False
    if "." in segments[-1] and segments[-1].rpartition(".")[2] in policy.extension_set:
        return False
    if "cart" in path or "basket" in path or "/add" in path or "/remove" in path or "/delete" in path:
        return False
    if "/update" in path or "sess" in path or "sid/" in path or "/page/" in path or "/seite/" in path:
        return False
    for year in _YEARS.findall(path):
        if year > policy.last_year_text or (year < policy.first_year_text and _CALENDAR.search(url.lower())):
            return False
    return query is None or _is_plain_query(query.lower(), path, policy)


def _may_hold_a_host(path: str, site: str) -> bool:
    return "www" in path or ("." in path and site.partition("://")[2].partition(":")[0] in path)


def _is_plain_query(query: str, path: str, policy: FilterPolicy) -> bool:
    if "&" in query:
        others = query.count("&")
        if (
            others >= policy.query_parameters
            or others + 1 >= policy.parameter_repeats
            or _FACETS.search(query)
        ):
            return False
    return not _QUERY.search(query) and not _LOGIN.search(path)


def refusal(
    url: str,
    policy: FilterPolicy = DEFAULT_FILTERS,
    *,
    depth: int = 0,
    meta: Mapping[str, Any] | str | None = None,
    host: str | None = None,
) -> Refusal | None:
    """Return the rule that refuses a URL in wire form, and what it saw; None if none does.

    depth: links from the seed. meta: the seed's metadata, see `SEED_KEYS`. host: of the URL, if at hand.

    >>> refusal("https://a.example/moon.jpg")
    Refusal(rule='extension', detail='.jpg')
    """
    if not policy.is_open or meta is not None:
        shape = Shape(url, host_of(url) if host is None else host, "", (), (), False)
        refused = _first(SCOPE_RULES, shape, Facts(depth, meta), policy)
        if refused is not None:
            return refused
    if _is_plainly_good(url, policy):
        return None
    return _first(TEXT_RULES, shape_of(url), NO_FACTS, policy)


def _first(
    rules: tuple[tuple[str, Check], ...], shape: Shape, facts: Facts, policy: FilterPolicy
) -> Refusal | None:
    for name, check in rules:
        seen = check(shape, facts, policy)
        if seen is not None and name not in policy.rules_off:
            return Refusal(name, seen)
    return None


def seed_meta(url: str, meta: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a seed's metadata with its host added, from which `stay` is measured."""
    return {**(meta or {}), "seed_host": host_of(url)}
