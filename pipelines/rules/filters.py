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

from pipelines.rules.hosts import registrable_domain
from pipelines.rules.traps import TRAPS, Shape, TrapPolicy, shape_of
from pipelines.rules.urls import host_of
from pipelines.rules.whatwg import PLAIN, split

EXTENSIONS = (
    # pictures
    "ai", "avif", "bmp", "cr2", "dng", "eps", "gif", "heic", "ico", "jfif", "jpe", "jpeg", "jpg", "nef", "png",
    "ps", "psd", "svg", "svgz", "tif", "tiff", "webp", "xcf",
    # sound and film
    "3gp", "aac", "aif", "aiff", "asf", "avi", "f4v", "flac", "flv", "m3u8", "m4a", "m4v", "mid", "midi", "mkv",
    "mov", "mp2", "mp3", "mp4", "mpeg", "mpg", "oga", "ogg", "ogv", "opus", "swf", "ts", "wav", "weba", "webm",
    "wma", "wmv",
    # archives, programs, disks
    "7z", "apk", "appimage", "bin", "bz2", "cab", "deb", "dll", "dmg", "exe", "gz", "img", "iso", "jar", "lz", "lzma",
    "msi", "pkg", "rar", "rpm", "sit", "tar", "tgz", "war", "whl", "xpi", "xz", "zip", "zst",
    # what pages are made of
    "css", "eot", "js", "less", "map", "mjs", "otf", "scss", "ttf", "wasm", "woff", "woff2",
    # data of programs
    "bak", "blend", "class", "dat", "db", "dwg", "h5", "hdf", "mdb", "nc", "npy", "npz", "o", "parquet", "pyc", "shp",
    "so", "sqlite", "stl", "torrent",
)  # fmt: skip
"""Endings whose bytes are not read as text here. Documents (pdf, doc, epub ...), feeds and XML are fetched.

Made from the kinds that Nutch's regex-urlfilter and suffix-urlfilter and Heritrix's default rules leave out.
"""

SEED_KEYS = ("seed_host", "stay", "max_depth", "include", "exclude")
"""Metadata of a seed that these rules read; what is found from the seed inherits it."""


@dataclass(frozen=True)
class FilterPolicy(TrapPolicy):
    """All rules. Patterns are globs over the whole URL, or "re:" and a regular expression that is searched for.

    url_chars: 2,083 is the longest that old browsers took, and Scrapy's default (URLLENGTH_LIMIT).
    path_depth: segments; Heritrix's TooManyPathSegments says 20. parameters: in one query.
    extensions: endings of the last segment that are refused. include: if any is given, a URL must match one.
    stay: any, host or domain, measured from the seed (its `seed_host`). max_depth: links from the seed;
    -1 = no limit. blocked_hosts: names; blocked_suffixes: a name and all below it.
    """

    url_chars: int = 2_083
    path_depth: int = 20
    parameters: int = 20
    extensions: tuple[str, ...] = EXTENSIONS
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    stay: str = "any"
    max_depth: int = -1
    blocked_hosts: tuple[str, ...] = ()
    blocked_suffixes: tuple[str, ...] = ()
    credentials: bool = False
    rules_off: tuple[str, ...] = ()

    @cached_property
    def extension_set(self) -> frozenset[str]:
        """The refused endings, for looking up."""
        return frozenset(one.lower().lstrip(".") for one in self.extensions)

    @cached_property
    def blocked(self) -> frozenset[str]:
        """The blocked names and suffixes, for looking up."""
        return frozenset((*self.blocked_hosts, *(one.lstrip(".*") for one in self.blocked_suffixes)))

    @cached_property
    def is_open(self) -> bool:
        """No rule looks at the host, the pattern lists or the seed."""
        return not (self.include or self.exclude or self.blocked or self.stay != "any" or self.max_depth >= 0)


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
    """What is known of a URL beside its text: links from the seed, its metadata (mapping or JSON text), its host."""

    depth: int = 0
    meta: Mapping[str, Any] | str | None = None
    host: str | None = None


NO_FACTS = Facts()
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
    except re.error as error:
        raise ValueError(f"filter pattern {text!r} is no regular expression: {error}") from None


def check_patterns(policy: FilterPolicy) -> None:
    """Raise ValueError if a pattern of the policy cannot be read."""
    for text in (*policy.include, *policy.exclude):
        _pattern(text)


def _matching(url: str, patterns: tuple[str, ...]) -> str | None:
    return next((text for text in patterns if _pattern(text).search(url)), None)


def _words(value: Any) -> tuple[str, ...]:
    """Return patterns from metadata: a list, or text with blanks between."""
    return tuple(value.split()) if isinstance(value, str) else tuple(str(one) for one in value or ())


def _length(shape: Shape, facts: Facts, policy: FilterPolicy) -> str | None:
    size = len(shape.url)
    return f"{size} characters, at most {policy.url_chars}" if size > policy.url_chars else None


def _credentials(shape: Shape, facts: Facts, policy: FilterPolicy) -> str | None:
    if policy.credentials or not split(shape.url).userinfo:
        return None
    return "a user name in the URL"


def _host_name(shape: Shape, facts: Facts, policy: FilterPolicy) -> str | None:
    labels = shape.host.split(".")
    if shape.host.startswith("["):
        return None
    if len(shape.host) > 253 or max(map(len, labels)) > 63 or min(map(len, labels)) < 1:
        return "no name that DNS can hold (RFC 1035 section 2.3.4)"
    return None


def _blocked(shape: Shape, facts: Facts, policy: FilterPolicy) -> str | None:
    if shape.host in policy.blocked_hosts:
        return f"host {shape.host}"
    labels = shape.host.split(".")
    for start in range(len(labels)):
        name = ".".join(labels[start:])
        if any(name == suffix.lstrip(".*") for suffix in policy.blocked_suffixes):
            return f"suffix {name}"
    return None


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
    limit = int(_meta(facts).get("max_depth", policy.max_depth))
    return f"{facts.depth} links from the seed, at most {limit}" if 0 <= limit < facts.depth else None


def _excluded(shape: Shape, facts: Facts, policy: FilterPolicy) -> str | None:
    return _matching(shape.url, (*policy.exclude, *_words(_meta(facts).get("exclude"))))


def _not_included(shape: Shape, facts: Facts, policy: FilterPolicy) -> str | None:
    patterns = _words(_meta(facts).get("include")) or policy.include
    return "matches no include pattern" if patterns and not _matching(shape.url, patterns) else None


_TITLES = frozenset({"wiki", "tag", "tags", "tagged", "topic", "topics", "search", "package", "packages"})


def _extension(shape: Shape, facts: Facts, policy: FilterPolicy) -> str | None:
    """A colon before it (File:Moon.jpg) or a segment like /wiki makes it a page about such a thing."""
    last = shape.segments[-1]
    dot = last.rfind(".")
    if dot <= 0 or last[dot + 1 :] not in policy.extension_set or ":" in last:
        return None
    if len(shape.segments) > 1 and shape.segments[-2] in _TITLES:
        return None
    return last[dot:]


def _path_depth(shape: Shape, facts: Facts, policy: FilterPolicy) -> str | None:
    size = len(shape.segments)
    return f"{size} segments, at most {policy.path_depth}" if size > policy.path_depth else None


def _parameters(shape: Shape, facts: Facts, policy: FilterPolicy) -> str | None:
    size = len(shape.parameters)
    return f"{size} parameters, at most {policy.parameters}" if size > policy.parameters else None


def _trap_check(find: Callable[[Shape, TrapPolicy], str | None], name: str) -> Check:
    return lambda shape, facts, policy: None if name in policy.traps_off else find(shape, policy)


RULES: tuple[tuple[str, Check], ...] = (
    ("length", _length),
    ("credentials", _credentials),
    ("host_name", _host_name),
    ("blocked", _blocked),
    ("stay", _stay),
    ("max_depth", _too_deep),
    ("exclude", _excluded),
    ("include", _not_included),
    ("extension", _extension),
    ("path_depth", _path_depth),
    ("parameters", _parameters),
    *((trap.name, _trap_check(trap.find, trap.name)) for trap in TRAPS),
)
"""Every rule by name, cheapest and plainest first: the first that refuses gives the reason."""


def verdicts(url: str, facts: Facts = NO_FACTS, policy: FilterPolicy = DEFAULT_FILTERS) -> list[Verdict]:
    """Return what every rule says of a URL in wire form."""
    shape = shape_of(url)
    found = [(name, None if name in policy.rules_off else check(shape, facts, policy)) for name, check in RULES]
    return [Verdict(name, seen is None, seen or "") for name, seen in found]


_SUSPECT = re.compile(
    r"(?i:log|sign|regist|anmeld|einlogg)[-_a-z]*[?/]|cart|basket|wishlist|compare|sess|[/?&]sid[=/]"
    r"|[?&](?:date|day|month|year|week|from|start|jahr|monat|datum|y)"
    r"|(?:page|p|pg|seite|offset|skip)[^/?&]{0,8}[=/][0-9]{4}|[/=][12][0-9]{3}[-_/.&]?[0-9a-z]|www"
)


def _is_plainly_good(url: str, policy: FilterPolicy) -> bool:
    """Say whether no rule that reads the URL's text alone can refuse it; False may mean anything."""
    found = PLAIN.match(url)
    if found is None or len(url) > policy.url_chars:
        return False
    _, path, query = found.groups()
    segments = path.split("/")
    if len(segments) > 6 and (len(segments) > policy.path_depth or len(set(segments)) < len(segments) - 1):
        return False
    if "." in segments[-1] and segments[-1].rpartition(".")[2].lower() in policy.extension_set:
        return False
    if query is not None and (query.count("&") >= 2 or ";" in query):
        return False
    return _SUSPECT.search(url, found.end(1)) is None


def refusal(
    url: str,
    policy: FilterPolicy = DEFAULT_FILTERS,
    *,
    depth: int = 0,
    meta: Mapping[str, Any] | str | None = None,
    host: str | None = None,
) -> Refusal | None:
    """Return the rule that refuses a URL in wire form, and what it saw; None if none does.

    depth: links from the seed. meta: the seed's metadata, see `SEED_KEYS`.

    >>> refusal("https://a.example/moon.jpg")
    Refusal(rule='extension', detail='.jpg')
    """
    if policy.is_open and meta is None and _is_plainly_good(url, policy):
        return None
    shape, facts = shape_of(url), Facts(depth, meta, host)
    for name, check in RULES:
        seen = check(shape, facts, policy)
        if seen is not None and name not in policy.rules_off:
            return Refusal(name, seen)
    return None


def seed_meta(url: str, meta: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a seed's metadata with its host added, from which `stay` is measured."""
    return {**(meta or {}), "seed_host": host_of(url)}
