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
    governs,
    is_fresh,
    may_follow,
    next_fetch_ms,
    robots_url,
    state_of,
)
from pipelines.rules.robots_tags import RobotsTags, page_tags
from pipelines.rules.robots_text import (
    MAX_BYTES,
    Group,
    Prepared,
    decoded,
    prepare,
    product_token,
    read_lines,
)

__all__ = [
    "ALLOW_ALL",
    "DISALLOW_ALL",
    "RobotsPolicy",
    "RobotsState",
    "RobotsTags",
    "Rules",
    "Verdict",
    "effective_state",
    "governs",
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
        self._judges: dict[str, Judge] = {}

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
        return self.judge(product).verdict(url)

    def judge(self, product: str) -> Judge:
        """Return the judge of the product's group; it is kept, so that asking again costs nothing."""
        judge = self._judges.get(product)
        if judge is None:
            judge = self._judges[product] = Judge(self._group(product))
        return judge

    def crawl_delay_ms(self, product: str) -> int | None:
        """Return the pause that the product's group asks for (whole ms), None if it asks for none.

        That is the longest of its crawl-delay lines, and of its request-rate lines as pauses.

        It is taken as written, however long, but never from another group; absurd values (negative, text,
        endless) are none.
        """
        return self._group(product).delay_ms

    def _group(self, product: str) -> Group:
        groups = self._prepared.groups
        return groups.get(product_token(product)) or groups.get("*") or Group("")


PROTEGO_RULES = 48
"""Groups of more rules than this are judged by the index alone: Protego looks at its rules one by one, which was
measured to take up to 1.3 ms a URL in the largest real file (19,125 rules), where the index takes 2 µs. 84 % of the
4,230 real files have fewer rules."""


class Judge:
    """One group, ready to be asked often. Protego gives the verdict, the index beside it the line."""

    def __init__(self, group: Group) -> None:
        self._agent = group.agent
        self.rules = rules_of(group.rules)
        ranked = list(enumerate(self.rules))
        self._special = [(rank, max(r.parts, key=len), r) for rank, r in ranked if r.anchored or r.parts[1:]]
        self._plain = {r.form: (rank, r) for rank, r in reversed(ranked) if not (r.anchored or r.parts[1:])}
        few = len(self._plain) <= 256  # with more, one test of all prefixes takes longer than all lengths
        self._prefixes = tuple(self._plain) if few else ("",)
        self._lengths = sorted({len(form) for form in self._plain}, reverse=True)
        small = len(self.rules) <= PROTEGO_RULES
        self._protego = protego_of(self.rules) if small and protego_ranks_alike(self.rules) else None
        self._free = Verdict(True, self._agent, None, None)

    def verdict(self, url: str) -> Verdict:
        path = path_form(url)
        if not self.rules or path.spelled == "/robots.txt":
            return self._free
        if path.spelled is not path.folded:
            return self._stated(self._scan(path))
        rule = self.deciding(path.spelled)
        allowed = self.protego_says(path.spelled)
        if allowed is None or allowed is (rule is None or rule.allow):
            return self._stated(rule)
        return self._free if allowed else Verdict(False, self._agent, None, None)

    def protego_says(self, form: str) -> bool | None:
        """Return Protego's verdict about a form, None where the index judges alone."""
        return None if self._protego is None else self._protego.can_fetch(_as_url(form), "*")

    def _stated(self, rule: Rule | None) -> Verdict:
        if rule is None:
            return self._free
        return Verdict(rule.allow, self._agent, rule.line.text, rule.line.number)

    def deciding(self, form: str) -> Rule | None:
        """Return the rule that wins for a form, None if none matches.

        It is the longest plain prefix, or a rule with a wildcard or an anchor that ranks before it.
        """
        prefix = self._longest_prefix(form) if form.startswith(self._prefixes) else None
        limit = len(self.rules) if prefix is None else prefix[0]
        for rank, literal, rule in self._special:
            if rank > limit:
                break
            if literal in form and rule.matches(form):
                return rule
        return None if prefix is None else prefix[1]

    def _longest_prefix(self, form: str) -> tuple[int, Rule] | None:
        for length in self._lengths:
            found = self._plain.get(form[:length])
            if found is not None:
                return found
        return None

    def _scan(self, path: Path) -> Rule | None:
        for rule in self.rules:
            if rule.matches(path.spelled if rule.allow else path.folded):
                return rule
        return None


def _as_url(form: str) -> str:
    """Return a form as Protego takes it: two slashes at the start would look like a host."""
    return form if form[:2] != "//" else f"http://h{form}"


def protego_of(rules: list[Rule]) -> Protego:
    """Return a Protego that has read these rules, in their forms, as the group of everyone."""
    lines = [f"{'Allow' if rule.allow else 'Disallow'}: {rule.form}" for rule in rules]
    return Protego.parse("\n".join(["User-agent: *", *lines]))


def protego_ranks_alike(rules: list[Rule]) -> bool:
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
