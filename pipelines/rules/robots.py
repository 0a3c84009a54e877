"""What robots.txt allows: the verdict about a URL, with the group and the line that decided.

Protego judges; `robots_text` prepares what it reads, `robots_match` finds the line, which Protego does not tell.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

from protego import Protego

from pipelines.rules.robots_match import Path, Rule, path_form, rules_of
from pipelines.rules.robots_policy import (
    RobotsPolicy,
    RobotsState,
    effective_state,
    is_fresh,
    may_follow,
    next_fetch_ms,
    robots_url,
    state_of,
)
from pipelines.rules.robots_tags import RobotsTags, page_tags
from pipelines.rules.robots_text import MAX_BYTES, Group, Prepared, decoded, prepare, product_token, read_lines

__all__ = [
    "ALLOW_ALL",
    "DISALLOW_ALL",
    "RobotsPolicy",
    "RobotsState",
    "RobotsTags",
    "Rules",
    "Verdict",
    "effective_state",
    "is_fresh",
    "may_follow",
    "next_fetch_ms",
    "page_tags",
    "robots_url",
    "state_of",
]


class Verdict(NamedTuple):
    """Whether a URL may be asked for, and who says so.

    group: the product token of the group that applies, "*" for everyone's, "" when no group does.
    line, line_no: the deciding line as spelled and its number (1 = first); None when no line matches.
    """

    allowed: bool
    group: str
    line: str | None
    line_no: int | None


class Rules:
    """The rules of one robots.txt, from its bytes. Pickles as those bytes; equal bytes are equal rules."""

    def __init__(self, body: bytes, max_bytes: int = MAX_BYTES) -> None:
        self.body = body
        self._max_bytes = max_bytes
        self._judges: dict[str, _Judge] = {}

    @classmethod
    def parse(cls, body: bytes, max_bytes: int = MAX_BYTES) -> Rules:
        """Return the rules that `body` states; never raises, reads no more than `max_bytes`."""
        return cls(body[: max_bytes + 1], max_bytes)

    def __reduce__(self) -> tuple[type[Rules], tuple[bytes, int]]:
        return (Rules, (self.body, self._max_bytes))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rules) and (self.body, self._max_bytes) == (other.body, other._max_bytes)

    def __hash__(self) -> int:
        return hash((self.body, self._max_bytes))

    @cached_property
    def _prepared(self) -> Prepared:
        return prepare(read_lines(decoded(self.body, self._max_bytes)))

    @property
    def sitemaps(self) -> tuple[str, ...]:
        """The values of the sitemap lines, each once, in order; relative ones as they stand."""
        return self._prepared.sitemaps

    def allows(self, url: str, product: str) -> Verdict:
        """Return whether `product` (a token, or a User-Agent header that begins with it) may ask for `url`.

        A group for the product itself applies alone; else the group "*"; without either all is allowed. The
        longest matching line decides, allow before disallow of the same length. robots.txt itself is allowed.
        """
        judge = self._judges.get(product)
        if judge is None:
            judge = self._judges[product] = _Judge(self._group(product))
        return judge.verdict(url)

    def crawl_delay_ms(self, product: str) -> int | None:
        """Return the crawl-delay that the product's group asks for (whole ms), None if it asks for none.

        It is taken as written, however long, but never from another group; absurd values (negative, text,
        endless) are none.
        """
        return self._group(product).delay_ms

    def _group(self, product: str) -> Group:
        groups = self._prepared.groups
        return groups.get(product_token(product)) or groups.get("*") or Group("")


class _Judge:
    """One group, ready to be asked often. Protego gives the verdict, the index beside it the line."""

    def __init__(self, group: Group) -> None:
        self._agent = group.agent
        self._rules = rules_of(group.rules)
        self._rank = {id(rule): rank for rank, rule in enumerate(self._rules)}
        plain = [rule for rule in self._rules if len(rule.parts) == 1 and not rule.anchored]
        self._special = [rule for rule in self._rules if len(rule.parts) > 1 or rule.anchored]
        self._plain = {rule.form: rule for rule in reversed(plain)}
        self._prefixes = tuple(self._plain)
        self._lengths = sorted({len(form) for form in self._plain}, reverse=True)
        self._protego = _protego(self._rules) if _protego_ranks_alike(self._rules) else None
        self._free = Verdict(True, self._agent, None, None)

    def verdict(self, url: str) -> Verdict:
        path = path_form(url)
        if not self._rules or path.spelled == "/robots.txt":
            return self._free
        one_form = path.spelled is path.folded
        rule = self._deciding(path.spelled) if one_form else self._scan(path)
        allowed = rule is None or rule.allow
        if one_form and self._protego is not None:
            url = path.spelled if path.spelled[:2] != "//" else f"http://h{path.spelled}"
            allowed = self._protego.can_fetch(url, "*")
        if rule is None or rule.allow is not allowed:
            return self._free if allowed else Verdict(False, self._agent, None, None)
        return Verdict(allowed, self._agent, rule.line.text, rule.line.number)

    def _deciding(self, form: str) -> Rule | None:
        best = self._longest_prefix(form) if form.startswith(self._prefixes) else None
        rank = len(self._rules) if best is None else self._rank[id(best)]
        for rule in self._special:
            if self._rank[id(rule)] > rank:
                break
            if rule.matches(form):
                return rule
        return best

    def _longest_prefix(self, form: str) -> Rule | None:
        for length in self._lengths:
            rule = self._plain.get(form[:length])
            if rule is not None:
                return rule
        return None

    def _scan(self, path: Path) -> Rule | None:
        for rule in self._rules:
            if rule.matches(path.spelled if rule.allow else path.folded):
                return rule
        return None


def _protego(rules: list[Rule]) -> Protego:
    lines = [f"{'Allow' if rule.allow else 'Disallow'}: {rule.form}" for rule in rules]
    return Protego.parse("\n".join(["User-agent: *", *lines]))


def _protego_ranks_alike(rules: list[Rule]) -> bool:
    """Return whether Protego weighs these rules (best first) as RFC 9309 does.

    It counts the characters of a form, where `=3F` is three, RFC 9309 the octets of the path, where `?` is one.
    Where an allow and a disallow line would change places, our own index judges alone.
    """
    least = {True: (1 << 60, True), False: (1 << 60, True)}
    for rule in rules:
        weight = (len(rule.form), rule.allow)
        if weight > least[not rule.allow]:
            return False
        least[rule.allow] = min(least[rule.allow], weight)
    return True


ALLOW_ALL = Rules.parse(b"")
DISALLOW_ALL = Rules.parse(b"User-agent: *\nDisallow: /\n")
