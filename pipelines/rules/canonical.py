"""The key form of a URL: what two spellings of one page have in common. Never what is requested.

`CANONICAL_STEPS` is the whole policy: small functions in this order, each with its reason and its switch in
`CanonPolicy`. A step may fold what servers treat alike; order of the query, letter case of the path, trailing
slashes and default page names stay apart, for servers do tell those apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from pipelines.rules.whatwg import PLAIN, Url, parse

TRACKING = (
    "_branch_match_id", "_bta_c", "_bta_tid", "_ga", "_gl", "_hsenc", "_hsmi", "_openstat", "__hsfp", "__hssc",
    "__hstc", "at_campaign", "at_custom1", "at_medium", "cmpid", "dclid", "dm_i", "ef_id", "epik", "fb_action_ids",
    "fb_action_types", "fb_ref", "fb_source", "fbclid", "gad_source", "gbraid", "gclid", "gclsrc", "hsctatracking",
    "igsh", "igshid", "li_fat_id", "mc_cid", "mc_eid", "mkt_tok", "ml_subscriber", "ml_subscriber_hash", "msclkid",
    "oly_anon_id", "oly_enc_id", "pk_campaign", "pk_cid", "pk_content", "pk_keyword", "pk_kwd", "pk_medium", "pk_source",
    "rb_clickid", "s_kwcid", "scid", "srsltid", "trk_contact", "trk_module", "trk_msg",
    "trk_sid", "ttclid", "twclid", "vero_conv", "vero_id", "wbraid", "wickedid", "wt_mc", "wt_zmc", "xtor",
    "yclid", "ymclid", "ysclid",
)  # fmt: skip
"""Parameters that advertisers and mailers add to count clicks (their own documentation names them)."""

TRACKING_PREFIXES = ("utm_", "mtm_", "piwik_", "matomo_", "hsa_", "itm_")
"""Families of such parameters: Google Analytics, Matomo and Piwik, HubSpot ads, in-page campaigns. Not all of `pk_`: that
is a primary key to many sites."""

SESSIONS = (
    "_sessionid", "bv_sessionid", "jsessionid", "phpsessid", "sessionid", "session_id", "sessid", "aspsessionid", "cfid", "cftoken", "oscsid",
    "zenid", "xtcsid", "mscssid",
)  # fmt: skip
"""Session ids under names that nothing else uses: Java, PHP, ASP, ColdFusion, osCommerce, Zen Cart, xt:Commerce."""

WEAK_SESSIONS = ("sid", "_sid", "s", "session", "osid", "psid")
"""Names that are session ids only where the value looks like one: letters and digits, both of them, 24 to 64; or 8 and
more where all are hexadecimal. "?s=noria" is a search and "?sid=12" a section."""


@dataclass(frozen=True)
class CanonPolicy:
    """Which steps are on, and the lists that two of them read. Names are compared in lower case."""

    fragment: bool = True
    route_fragments: bool = False
    userinfo: bool = True
    escapes: bool = True
    session_ids: bool = True
    tracking: bool = True
    empty_query: bool = True
    double_slashes: bool = False
    default_pages: bool = False
    sort_query: bool = False
    www: bool = False
    scheme: bool = False
    sessions: tuple[str, ...] = SESSIONS
    weak_sessions: tuple[str, ...] = WEAK_SESSIONS
    trackers: tuple[str, ...] = TRACKING
    tracker_prefixes: tuple[str, ...] = TRACKING_PREFIXES

    @cached_property
    def folds_site_or_path(self) -> bool:
        """A step is on that may change what no look at single letters shows."""
        return self.double_slashes or self.default_pages or self.www or self.scheme

    @cached_property
    def dropped(self) -> frozenset[str]:
        """Names that are dropped whatever their value."""
        names = (self.sessions if self.session_ids else ()) + (self.trackers if self.tracking else ())
        return frozenset(name.lower() for name in names)

    @cached_property
    def suspects(self) -> re.Pattern[str]:
        """A query (with its question mark) that this finds nothing in loses no parameter."""
        whole = self.dropped.union(self.weak_sessions if self.session_ids else ())
        # ASP adds eight letters of its own to the name: aspsessionidQQABCDEF.
        begun = (self.tracker_prefixes if self.tracking else ()) + (
            ("aspsessionid",) if self.session_ids else ()
        )
        if not whole and not begun:
            return re.compile(r"(?!)")
        first = "".join(re.escape(letter) for letter in sorted({name[0] for name in (*whole, *begun)}))
        names = [rf"{re.escape(name)}(?:[=&]|\Z)" for name in sorted(whole)] + [
            re.escape(name) for name in begun
        ]
        return re.compile(rf"[?&](?=[{first}])(?:{'|'.join(names)})", re.IGNORECASE)


DEFAULT = CanonPolicy()


@dataclass(frozen=True)
class Step:
    """One step: its name is its switch in `CanonPolicy`."""

    name: str
    reason: str
    run: Callable[[Url, CanonPolicy], Url]


_SLASHES = re.compile(r"//+")
_DEFAULT_PAGE = re.compile(
    r"/(?:index|default)\.(?:[sp]?html?|php[0-9]?|aspx?|cfm|cgi|jsp[ax]?|jsf)\Z", re.IGNORECASE
)
_WWW = re.compile(r"\Awww[0-9]*\.(?=[^.]+\.)")
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})?|[\"<>\\^`{|}\[\] ]")
_SESSION_PATH = re.compile(r";(?:jsessionid|phpsessid|sessionid|sid)=[^/;&]*", re.IGNORECASE)
_SESSION_NET = re.compile(r"/(?:\((?:[a-z]\([0-9a-z]{24}\))+\)|\([0-9a-z]{24}\))(?=/)", re.IGNORECASE)
_SESSION_VALUE = re.compile(
    r"(?=[^=]*[0-9])(?=[^=]*[A-Za-z])(?:[0-9A-Za-z,-]{24,64}|[0-9a-f]{8,64}|[0-9A-F]{8,64})\Z"
)


_UNFOLDED = re.compile(r"%(?:(?![0-9A-F]{2})|2[DE]|3[0-9]|[46][1-9A-F]|[57][0-9A]|5F|7E)")
"""An escape that `_escape` would change, or a percent sign that is none."""


def _escape(found: re.Match[str]) -> str:
    digits = found[1]
    if digits is None:
        return f"%{ord(found[0]):02X}"
    octet = int(digits, 16)
    return chr(octet) if octet in _UNRESERVED else f"%{digits.upper()}"


def _fold_escapes(text: str) -> str:
    return _ESCAPE.sub(_escape, text)


def _drop_fragment(url: Url, policy: CanonPolicy) -> Url:
    is_route = url.fragment is not None and url.fragment.startswith(("!", "/"))
    return url if policy.route_fragments and is_route else url._replace(fragment=None)


def _drop_userinfo(url: Url, policy: CanonPolicy) -> Url:
    return url._replace(userinfo="")


def _fold_escapes_of(url: Url, policy: CanonPolicy) -> Url:
    query = None if url.query is None else _fold_escapes(url.query)
    return url._replace(path=_fold_escapes(url.path), query=query)


def _is_session(parameter: str, policy: CanonPolicy) -> bool:
    name, _, value = parameter.partition("=")
    name = name.lower()
    if name in policy.sessions or name.startswith("aspsessionid"):
        return True
    return name in policy.weak_sessions and _SESSION_VALUE.match(value) is not None


def _drop_sessions(url: Url, policy: CanonPolicy) -> Url:
    path = _SESSION_NET.sub("", _SESSION_PATH.sub("", url.path))
    query = None if url.query is None else _SESSION_PATH.sub("", url.query)
    return url._replace(path=path, query=_without(query, lambda one: _is_session(one, policy)))


def _is_tracker(parameter: str, policy: CanonPolicy) -> bool:
    name = parameter.partition("=")[0].lower()
    return name in policy.trackers or name.startswith(policy.tracker_prefixes)


def _drop_trackers(url: Url, policy: CanonPolicy) -> Url:
    return url._replace(query=_without(url.query, lambda one: _is_tracker(one, policy)))


def _without(query: str | None, is_dropped: Callable[[str], bool]) -> str | None:
    if not query:
        return query
    return "&".join(one for one in query.split("&") if not is_dropped(one))


def _drop_empty_query(url: Url, policy: CanonPolicy) -> Url:
    if url.query is None:
        return url
    return url._replace(query="&".join(one for one in url.query.split("&") if one) or None)


def _fold_slashes(url: Url, policy: CanonPolicy) -> Url:
    return url._replace(path=_SLASHES.sub("/", url.path))


def _drop_default_page(url: Url, policy: CanonPolicy) -> Url:
    return url._replace(path=_DEFAULT_PAGE.sub("/", url.path))


def _drop_www(url: Url, policy: CanonPolicy) -> Url:
    return url._replace(host=_WWW.sub("", url.host, count=1))


def _fold_scheme(url: Url, policy: CanonPolicy) -> Url:
    return url._replace(scheme="http", port=None if url.port == 80 else url.port)


def _sort_query(url: Url, policy: CanonPolicy) -> Url:
    return url._replace(query="&".join(sorted(url.query.split("&")))) if url.query else url


CANONICAL_STEPS: tuple[Step, ...] = (
    Step("fragment", "not part of the request (RFC 9110 section 4.2.5); `route_fragments` keeps #!x and #/x", _drop_fragment),
    Step("userinfo", "credentials name the asker, not the page (RFC 9110 section 4.2.4)", _drop_userinfo),
    Step("escapes", "%7e, %7E and ~ are one (RFC 3986 section 6.2.2); characters no URL may hold are escaped", _fold_escapes_of),
    Step("session_ids", "a session id names the visit, not the page", _drop_sessions),
    Step("tracking", "click counters name the way to the page", _drop_trackers),
    Step("empty_query", "a bare question mark and a bare ampersand add nothing", _drop_empty_query),
    Step("double_slashes", "off: most servers take // for /, but an archive's /web/http://x is another page", _fold_slashes),
    Step("default_pages", "off: /index.html is mostly /, but which name it is the server alone knows", _drop_default_page),
    Step("sort_query", "off: few applications care about the order, but some do", _sort_query),
    Step("www", "off: www.a.example and a.example are often one site, but not always", _drop_www),
    Step("scheme", "off: http and https are often one site, but not always", _fold_scheme),
)  # fmt: skip
"""Case of scheme and host, default port, trailing dot, dot segments and IDNA are the WHATWG parser's work."""


def _text(url: Url) -> str:
    userinfo = f"{url.userinfo}@" if url.userinfo else ""
    port = "" if url.port is None else f":{url.port}"
    query = "" if url.query is None else f"?{url.query}"
    fragment = "" if url.fragment is None else f"#{url.fragment}"
    return f"{url.scheme}://{userinfo}{url.host}{port}{url.path}{query}{fragment}"


def _nothing_to_fold(url: str, policy: CanonPolicy) -> bool:
    """Say whether no step can change the URL: one regular expression and a few looks for single letters."""
    found = PLAIN.match(url)
    if found is None or ";" in url or "/." in url or "/(" in url or "xn--" in url:
        return False
    if "%" in url and _UNFOLDED.search(url) is not None:
        return False
    if policy.folds_site_or_path:
        return False
    query = found[3]
    return query is None or _no_parameter_to_fold(query, policy)


def _no_parameter_to_fold(query: str, policy: CanonPolicy) -> bool:
    if "&" in query and (policy.sort_query or "&&" in query or query.startswith("?&") or query.endswith("&")):
        return False
    return len(query) > 1 and policy.suspects.search(query) is None


def canonical(url: str, policy: CanonPolicy = DEFAULT) -> str:
    """Return the key form of a URL: doing it twice is doing it once. What is no http(s) URL comes back as it is.

    >>> canonical("HTTP://Example.org:80/%7Ea/?b=1&utm_source=x&a=#top")
    'http://example.org/~a/?b=1&a='
    """
    if _nothing_to_fold(url, policy):
        return url
    found = parse(url)
    if found is None:
        return url
    for step in CANONICAL_STEPS:
        if getattr(policy, step.name):
            found = step.run(found, policy)
    return _text(found)
