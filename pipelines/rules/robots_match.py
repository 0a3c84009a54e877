"""Which rule line of a group decides about a URL (RFC 9309 sections 2.2.2 and 2.2.3).

Paths and patterns are compared in a *form*: ASCII letters, digits and `/ . - _` stand for themselves, a
percent-escape becomes `~XX`, any other character `=XX`. Two spellings that mean the same have one form, two
that do not have two, and Protego takes a form as it is, without its own, coarser decoding (which takes `%3F`
for `?`, and every octet that is not UTF-8 for every other).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pipelines.rules.robots_text import Line

_PLAIN = re.compile(r"/[A-Za-z0-9/._-]*").fullmatch
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*").fullmatch
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_ODD_ESCAPE = re.compile(
    r"%(?:[a-f][0-9A-Fa-f]|[0-9A-F][a-f]|2[DE]|3[0-9]|[46][1-9A-F]|[57][0-9A]|5F|7E)"
).search  # lower-case digits, or an escape of an unreserved character
_RESERVED = "!&'()+,:;=?@[]#"
_NEEDS_ESCAPE = ' "<>\\^`{|}*$'


def _table(kept: str) -> dict[int, str]:
    table = {ord(char): f"={ord(char):02X}" for char in _RESERVED + "~"}
    table |= {ord(char): f"~{ord(char):02X}" for char in _NEEDS_ESCAPE if char not in kept}
    table |= {octet: f"~{octet:02X}" for octet in [*range(32), 127]}
    return table | {ord("%"): "~"}


_PATH_TABLE = _table(kept="")
_PATTERN_TABLE = _table(kept="*")
_UNRESERVED = re.compile(r"[A-Za-z0-9._-]").fullmatch


def _respelled(text: str, *, letters: bool) -> str:
    """Return `text` with its escapes in upper case and those of `~` (and of letters, if so asked) decoded."""

    def respell(found: re.Match[str]) -> str:
        char = chr(int(found[1], 16))
        if char == "~" or (letters and _UNRESERVED(char)):
            return char
        return found[0].upper()

    return _ESCAPE.sub(respell, text)


def path_of(url: str) -> str:
    """Return what rules are compared with: the path and query of a URL as spelled, "/" if there is none.

    A text without a scheme counts as a path if it begins with one slash, else as host and path.

    >>> path_of("http://www.example.com/a/b?c=d&e=f#fragment")
    '/a/b?c=d&e=f'
    """
    url = url.partition("#")[0]
    mark = url.find("//")
    if mark == 0 or (mark > 0 and url[mark - 1] == ":" and _SCHEME(url[: mark - 1])):
        url = url[mark + 2 :]
    elif url.startswith("/"):
        return url
    slash, query = url.find("/"), url.find("?")
    if query >= 0 and not 0 <= slash < query:
        return "/" + url[query:]
    return url[slash:] if slash >= 0 else "/"


class Path(NamedTuple):
    """A path in two forms: as spelled, and with escaped letters and digits decoded; mostly the same one."""

    spelled: str
    folded: str


def path_form(url: str) -> Path:
    """Return the form of a URL's path and query.

    Disallow lines meet the folded form (RFC 9309 2.2.2: escapes of unreserved characters are decoded first),
    allow lines the spelled one, as in Google's parser: who wants to allow a spelling has to write that spelling,
    and no spelling slips past a disallow line.
    """
    path = path_of(url)
    if _PLAIN(path):
        return Path(path, path)
    if path.isascii() and not _ODD_ESCAPE(path):
        form = path.translate(_PATH_TABLE)
        return Path(form, form)
    escaped = _escaped(path.encode("utf-8", "surrogatepass"))
    spelled = _respelled(path, letters=False).translate(_PATH_TABLE)
    folded = _respelled(escaped, letters=True).translate(_PATH_TABLE)
    return Path(spelled, spelled) if spelled == folded else Path(spelled, folded)


def pattern_form(value: str, *, allow: bool) -> str:
    """Return the form of a rule's value; `*` stays a wildcard, and `$` an anchor at the end only.

    Octets that are not ASCII are escaped first. A value that begins with neither slash nor wildcard covers
    nothing: that is what RFC 9309's grammar and Google's parser make of it.
    """
    octets = value.encode("utf-8", "surrogateescape")
    text = value if octets.isascii() else _escaped(octets)
    anchor = "$" if text.endswith("$") else ""
    body = _respelled(text[: len(text) - len(anchor)], letters=not allow)
    return body.translate(_PATTERN_TABLE) + anchor


def _escaped(octets: bytes) -> str:
    return "".join(chr(octet) if octet < 128 else f"%{octet:02X}" for octet in octets)


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule line ready to be compared. `octets` is its length as RFC 9309 counts: the longest match wins."""

    line: Line
    allow: bool
    form: str
    octets: int
    parts: tuple[str, ...]
    anchored: bool

    def matches(self, form: str) -> bool:
        """Return whether the path with this form is covered by the rule."""
        first, *rest = self.parts
        if not form.startswith(first):
            return False
        at = len(first)
        if not rest:
            return not self.anchored or at == len(form)
        last = rest.pop()
        for part in rest:
            at = form.find(part, at)
            if at < 0:
                return False
            at += len(part)
        if self.anchored:
            return len(form) - len(last) >= at and form.endswith(last)
        return form.find(last, at) >= 0


def rule_of(line: Line, *, form: str | None = None) -> Rule:
    """Return the rule that a line of field allow or disallow states (or, with `form`, one that it implies)."""
    allow = line.field == "allow"
    form = pattern_form(line.value, allow=allow) if form is None else form
    anchored = form.endswith("$")
    body = form[:-1] if anchored else form
    parts = tuple(re.sub(r"\*+", "*", body).split("*"))
    return Rule(line, allow, form, len(form) - 2 * form.count("="), parts, anchored)


def rules_of(lines: Sequence[Line]) -> list[Rule]:
    """Return a group's rules, the one that wins first: more octets, then allow, then the earlier line.

    An allow line for `/index.html` allows its folder too (Google's documentation; Protego does so).
    """
    rules = []
    for line in lines:
        rule = rule_of(line)
        rules.append(rule)
        if rule.allow and rule.form.endswith("/index.html"):
            rules.append(rule_of(line, form=rule.form.removesuffix("index.html") + "$"))
    return sorted(rules, key=lambda rule: (-rule.octets, not rule.allow, rule.line.number))
