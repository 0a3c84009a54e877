"""Which kinds of pages of a host still bring something: yields by path pattern, and quarantine for those that do not.

A trap that no rule of spelling finds is found by what comes back: many fetches of one pattern, and neither a new
payload nor a way out. Such a pattern is set aside, a sample is tried again later, and it returns if that pays.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from functools import lru_cache

import xxhash

from pipelines.rules.whatwg import PLAIN, split

_HEX = re.compile(r"(?=[^g-z]*[0-9])[0-9a-f]{8,}\Z", re.IGNORECASE)
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z", re.IGNORECASE)
_DATE = re.compile(r"(?:19|20)[0-9]{2}[-_.]?(?:0[1-9]|1[0-2])(?:[-_.]?(?:0[1-9]|[12][0-9]|3[01]))?(?![0-9])")
_DIGITS = re.compile(r"[0-9]+")
_MANY_WORDS = re.compile(r"[^-_+%]+(?:[-_+]|%20)[^-_+%]+(?:[-_+]|%20)[^-_+%]+")


@dataclass(frozen=True)
class YieldPolicy:
    """When a pattern is set aside and when it is tried again.

    min_fetches: fetches before a pattern is judged. min_yield: share of its late fetches that must have brought
    something. memory: late means about the last so many fetches. sample_cycles: cycles until a sample is tried,
    doubled with each that brought nothing, at most `longest_cycles`. sample_urls: URLs in one sample.
    patterns: kept for a host at most; the least fetched go. slug_chars: a longer segment is a name, not a place.
    """

    min_fetches: int = 40
    min_yield: float = 0.08
    memory: int = 60
    sample_cycles: int = 4
    longest_cycles: int = 64
    sample_urls: int = 3
    patterns: int = 200
    slug_chars: int = 24


DEFAULT_YIELDS = YieldPolicy()


def path_pattern(url: str, slug_chars: int = DEFAULT_YIELDS.slug_chars) -> str:
    """Return what kind of page a URL names: its path and parameter names with the particulars taken out.

    Digits become 0, dates D, long hexadecimal numbers H, long names S; values of parameters are dropped and
    their names sorted. A dot and what follows stay.

    >>> path_pattern("https://a.example/blog/2024/05/17/a-long-story-about-nothing.html?page=3&id=9f")
    '/blog/0/0/0/S.html?id&page'
    """
    plain = PLAIN.match(url)
    if plain is not None:
        place, query = plain[2], (plain[3] or "")[1:]
    else:
        parts = split(url)
        place, query = parts.path, parts.query
    path = "/".join([_segment(one, slug_chars) for one in place.split("/")])
    if not query:
        return path
    names = {_DIGITS.sub("0", one.partition("=")[0]) for one in query.split("&")}
    return f"{path}?{'&'.join(sorted(names)[:8])}"


@lru_cache(maxsize=16_384)
def _segment(segment: str, slug_chars: int) -> str:
    stem, dot, ending = segment.rpartition(".")
    if not dot or not stem or len(ending) > 5 or ending.isdigit():
        stem, dot, ending = segment, "", ""
    if _UUID.match(stem) or (_HEX.match(stem) and not stem.isdigit()):
        stem = "H"
    else:
        stem = _DATE.sub("D", stem)
        is_name = len(stem) > slug_chars or _MANY_WORDS.match(stem)
        stem = "S" if is_name else _DIGITS.sub("0", stem)
    return f"{stem}{dot}{ending}"


def leads_out(page_url: str, link_urls: Iterable[str], slug_chars: int = DEFAULT_YIELDS.slug_chars) -> int:
    """Return how many links have another pattern than their page.

    Links of the page's own pattern must not count as yield: a trap's pages have nothing but new links to more
    of their kind. `new_links` of `PatternYields.update` is this number, of the links that were new.
    """
    own = path_pattern(page_url, slug_chars)
    return sum(path_pattern(link, slug_chars) != own for link in link_urls)


SKELETONS = 6
"""Payloads of a pattern that are remembered without their digits."""


def skeleton_of(body: bytes) -> int:
    """Return a number that two pages share when they differ in nothing but digits: dates, page numbers, ids.

    Such are the pages of calendars, empty pagers, soft 404s and mirrors; their own links differ in digits too.
    A copy and a hash: some 10 microseconds for 30 kB.

    >>> skeleton_of(b"<title>May 2031</title>") == skeleton_of(b"<title>May 2032</title>")
    True
    """
    return xxhash.xxh3_64_intdigest(body.translate(None, b"0123456789")) >> 1


@dataclass
class Yield:
    """Counts of one pattern. `late` and `late_good` fade with each fetch, `total` and `good` do not.

    skeletons: of the last payloads, newest last.
    """

    late: float = 0.0
    late_good: float = 0.0
    total: int = 0
    good: int = 0
    skeletons: list[int] = field(default_factory=list)

    @property
    def share(self) -> float:
        """The share of late fetches that brought something; 1 where none was made."""
        return self.late_good / self.late if self.late else 1.0


@dataclass
class PatternYields:
    """The yields of one host, as its row's `yields` column keeps them."""

    by_pattern: dict[str, Yield] = field(default_factory=dict)
    policy: YieldPolicy = DEFAULT_YIELDS

    def update(
        self, pattern: str, fetched: int, new_payload: int, new_links: int, *, skeleton: int | None = None
    ) -> None:
        """Count fetches of a pattern: how many brought a new payload, and new links that lead out of it.

        new_payload: without near-duplicates and soft 404s. new_links: see `leads_out`. skeleton: of the one
        page fetched (`skeleton_of`); if the pattern had it lately, its payload is not counted as new.
        A fetch that brought both counts once where fetches are told one by one; told together, they are
        taken to be different ones, which errs on the side of keeping the pattern.
        """
        if fetched <= 0:
            return
        row = self.by_pattern.setdefault(pattern, Yield())
        if skeleton is not None:
            new_payload = 0 if skeleton in row.skeletons else new_payload
            row.skeletons = [*(one for one in row.skeletons if one != skeleton), skeleton][-SKELETONS:]
        good = min(fetched, max(0, new_payload) + max(0, new_links))
        fading = (1 - 1 / self.policy.memory) ** fetched
        added = self.policy.memory * (1 - fading)  # the fetches of one batch fade too
        row.late = row.late * fading + added
        row.late_good = row.late_good * fading + added * good / fetched
        row.total += fetched
        row.good += good
        if len(self.by_pattern) > self.policy.patterns:
            self._forget()

    def discount(self, pattern: str) -> None:
        """Take back that a page of a pattern was something new: it turned out to be another's near duplicate."""
        row = self.by_pattern.get(pattern)
        if row is not None and row.good:
            row.good -= 1
            row.late_good = max(row.late_good - 1, 0.0)

    def _forget(self) -> None:
        ranked = sorted(self.by_pattern.items(), key=lambda item: (-item[1].late, item[0]))
        self.by_pattern = dict(ranked[: self.policy.patterns * 3 // 4])

    def judge(self, pattern: str, policy: YieldPolicy | None = None) -> str | None:
        """Return why a pattern should be set aside; None if it may go on."""
        policy = policy or self.policy
        row = self.by_pattern.get(pattern)
        if row is None or row.total < policy.min_fetches or row.share >= policy.min_yield:
            return None
        return f"{row.share:.1%} of the last fetches of {pattern} brought something (at least {policy.min_yield:.0%} of {policy.min_fetches})"

    def verdict(self, policy: YieldPolicy | None = None) -> dict[str, str]:
        """Return the patterns that should be set aside, each with the reason."""
        found = {pattern: self.judge(pattern, policy) for pattern in sorted(self.by_pattern)}
        return {pattern: why for pattern, why in found.items() if why is not None}

    def to_json(self) -> str | None:
        """Return the column's text; None while nothing was counted."""
        if not self.by_pattern:
            return None
        rows = {
            pattern: [round(row.late, 3), round(row.late_good, 3), row.total, row.good, row.skeletons]
            for pattern, row in sorted(self.by_pattern.items())
        }
        return json.dumps(rows, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | None, policy: YieldPolicy = DEFAULT_YIELDS) -> PatternYields:
        """Return the yields that a column's text holds."""
        rows = json.loads(text) if text else {}
        return cls({pattern: Yield(*row) for pattern, row in rows.items()}, policy)


@dataclass
class Quarantine:
    """One pattern set aside. since, sample: cycles; misses: samples that brought nothing; total, good: counts then."""

    since: int
    why: str
    sample: int
    misses: int = 0
    total: int = 0
    good: int = 0


@dataclass
class Quarantines:
    """The patterns of one host that are set aside, as its row's `traps` column keeps them."""

    by_pattern: dict[str, Quarantine] = field(default_factory=dict)

    def refusal(self, pattern: str, cycle: int) -> str | None:
        """Return why URLs of a pattern are not asked in a cycle; None if they may be, or if a sample is due."""
        found = self.by_pattern.get(pattern)
        return None if found is None or cycle >= found.sample else found.why

    def review(self, yields: PatternYields, cycle: int) -> tuple[list[str], list[str]]:
        """Set aside what yields too little, judge the samples made. Returns patterns (set aside, released)."""
        released = [pattern for pattern in sorted(self.by_pattern) if self._is_well(pattern, yields, cycle)]
        for pattern in released:
            del self.by_pattern[pattern]
            yields.by_pattern.pop(pattern, None)
        fresh = {one: why for one, why in yields.verdict().items() if one not in self.by_pattern}
        for pattern, why in fresh.items():
            row = yields.by_pattern[pattern]
            sample = cycle + yields.policy.sample_cycles
            self.by_pattern[pattern] = Quarantine(cycle, why, sample, 0, row.total, row.good)
        return sorted(fresh), released

    def _is_well(self, pattern: str, yields: PatternYields, cycle: int) -> bool:
        found, row, policy = self.by_pattern[pattern], yields.by_pattern.get(pattern), yields.policy
        fetched = 0 if row is None else row.total - found.total
        if row is None or fetched <= 0:
            return False
        if row.good - found.good >= max(1.0, policy.min_yield * fetched):
            return True
        if cycle >= found.sample:
            found.misses += 1
            found.sample = cycle + min(policy.longest_cycles, policy.sample_cycles << min(found.misses, 16))
        found.total, found.good = row.total, row.good
        return False

    def to_json(self) -> str | None:
        """Return the column's text; None while nothing is set aside."""
        if not self.by_pattern:
            return None
        rows = {pattern: asdict(found) for pattern, found in sorted(self.by_pattern.items())}
        return json.dumps(rows, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | None) -> Quarantines:
        """Return the quarantines that a column's text holds."""
        rows = json.loads(text) if text else {}
        return cls({pattern: Quarantine(**row) for pattern, row in rows.items()})
