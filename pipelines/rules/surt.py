"""SURT: a URL turned round so that sorting brings a domain's hosts and pages together.

`surt` is the key of CDXJ and of Common Crawl's index (the "wayback key"): case folded, "www." and session ids
dropped, query sorted. The other forms are those of the IIPC's tools; they fold nothing.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from pipelines.rules.hosts import normal_host
from pipelines.rules.whatwg import PLAIN

_SESSION_QUERY = re.compile(
    r"(?:(?:jsessionid|phpsessid|sid)=[0-9a-z]{32}|aspsessionid[a-z]{8}=[a-z]{24}|cfid=[^&]+&cftoken=[^&]+)(?:&|\Z)",
    re.IGNORECASE,
)
_SESSION_NET = re.compile(
    r"/(?:\((?:[a-z]\([0-9a-z]{24}\))+\)|\([0-9a-z]{24}\))(?=/[^?]+\.aspx)", re.IGNORECASE
)
_WWW = re.compile(r"\Awww[0-9]*\.")
_PARTS = re.compile(
    r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://)?(?:(?P<userinfo>[^/?#@]*)@)?"
    r"(?P<host>\[[^\]/?#]*\]|[^:/?#]*)(?::(?P<port>[0-9]*))?"
    r"(?P<path>[^?#]*)(?P<query>\?[^#]*)?(?P<fragment>#.*)?\Z",
    re.DOTALL,
)
_SESSION_HINT = re.compile(r"sessid=|sessionid|sid=|cfid=")
_KEPT = re.compile(r"filedesc|warcinfo")
_DEFAULT_PORTS = {"http": "80", "https": "443"}
_IPV4 = re.compile(r"[0-9]+(?:\.[0-9]+){3}\Z|0[xX][0-9a-fA-F]+\Z|[0-9]+\Z")


class Parts(NamedTuple):
    """A URL split and not changed; query and fragment with their marks, "" where there is none."""

    scheme: str
    userinfo: str
    host: str
    port: str
    path: str
    query: str
    fragment: str


def _split(url: str) -> Parts | None:
    found = _PARTS.match(url)
    return None if found is None else Parts(*(part or "" for part in found.groups()))


def surt(url: str) -> str:
    """Return the SURT key of a URL, as Common Crawl and pywb make it.

    >>> surt("https://www.Example.org/B/?z=1&a=2#top")
    'org,example)/b?a=2&z=1'
    """
    found = PLAIN.match(url)
    rest = None if found is None else plain_surt_path(found[2], found[3])
    if found is None or rest is None:
        return _surt(url)
    return surt_site(found[1]) + rest


def plain_surt_path(path: str, query: str | None) -> str | None:
    """Return the key's part for a path and a query (with its mark) as `PLAIN` found them; None if not that easy."""
    if "%" in path or "//" in path or "/." in path or "/(" in path or ";" in path:
        return None
    if path.endswith("/") and len(path) > 1:
        path = path[:-1]
    if query is None or len(query) == 1:
        return path.lower()
    query = query.lower()
    if "%" in query or "id" in query:
        return None if _SESSION_HINT.search(query) or "%" in query else f"{path.lower()}?{_sorted(query[1:])}"
    return f"{path.lower()}?{_sorted(query[1:])}" if "&" in query else path.lower() + query


@lru_cache(maxsize=65_536)
def surt_site(site: str) -> str:
    """Return the key's part for scheme, host and port, to the bracket.

    >>> surt_site("http://www.example.org:8080")
    'org,example:8080)'
    """
    return _surt(site + "/")[:-1]


def _surt(url: str) -> str:
    if not url:
        return "-"
    if _KEPT.match(url):
        return url
    if url.startswith("dns:"):
        return f"{_turned(url[4:])})"
    parts = _split(url.strip())
    if parts is None:
        return url
    port = (
        "" if not parts.port or _DEFAULT_PORTS.get(parts.scheme.lower()) == parts.port else f":{parts.port}"
    )
    path = _SESSION_NET.sub("", _plain_path(_minimal(parts.path)))
    if len(path) > 1 and path.endswith("/"):
        path = path[:-1]
    query = _SESSION_QUERY.sub("", _minimal(parts.query[1:]))
    return f"{_turned(_plain_host(parts.host))}{port}){path.lower()}" + (
        f"?{_sorted(query.lower())}" if query else ""
    )


@lru_cache(maxsize=65_536)
def _turned(host: str) -> str:
    """Return the labels from right to left, without "www." in front; IPv6 without its brackets."""
    if host.startswith("["):
        return host[1:-1]
    return ",".join(reversed(_WWW.sub("", host, count=1).split("."))) if host else ""


def _plain_host(host: str) -> str:
    """Return the host lower-case and ASCII; what the URL standard refuses only loses its idle dots."""
    dotted = re.sub(r"\.{2,}", ".", host).strip(".")
    return normal_host(dotted) or dotted.lower()


def _sorted(query: str) -> str:
    return "&".join(sorted(query.split("&"), key=_by_name)) if "&" in query else query


def _by_name(parameter: str) -> list[str]:
    return parameter.split("=", 1)


def _minimal(text: str) -> str:
    """Return the text with every escape undone, over and over, and then what must be escaped, once."""
    octets, before = text.encode("utf-8", "replace"), b""
    while octets != before:
        before, octets = octets, unquote_to_bytes(octets)
    return "".join(_one(octet) for octet in octets)


def _one(octet: int) -> str:
    return f"%{octet:02X}" if octet <= 0x20 or octet >= 0x7F or octet in b"#%" else chr(octet)


def _plain_path(path: str) -> str:
    """Return the path without empty, "." and ".." segments."""
    kept: list[str] = []
    segments = path.split("/")
    for segment in segments:
        if segment == "..":
            del kept[-1:]
        elif segment not in ("", "."):
            kept.append(segment)
    ends = "/" if kept and segments[-1] in ("", ".", "..") else ""
    return "/" + "/".join(kept) + ends


def reverse_host(host: str) -> str:
    """Return the host's labels from right to left, each with a comma behind it; a comma inside becomes a dot.

    >>> reverse_host("x.y.z")
    'z,y,x,'
    """
    return ",".join(part.replace(",", ".") for part in reversed(host.split("."))) + ","


def ssurt_host(host: str) -> str:
    """Return `reverse_host`, but an IP address (in any spelling) as it is."""
    return host if _IPV4.match(host) or host.startswith("[") else reverse_host(host)


def ssurt(url: str) -> str:
    """Return the sort-friendly SURT: host first, then port, scheme and user, then the rest, nothing folded.

    >>> ssurt("http://foo.example.org:81/path?query")
    'org,example,foo,//81:http:/path?query'
    """
    parts = _split(url)
    if parts is None or not parts.scheme:
        return url
    port = f"{parts.port}:" if parts.port else ""
    user = f"@{parts.userinfo}" if parts.userinfo else ""
    rest = parts.path + parts.query + parts.fragment
    return f"{ssurt_host(parts.host)}//{port}{parts.scheme}{user}:{rest}"


def surt_form(url: str, *, with_scheme: bool = True, trailing_comma: bool = True) -> str:
    """Return the classic SURT: the host turned round in brackets, the rest as it was, without user.

    >>> surt_form("http://u@foo.example.org:81/path", trailing_comma=False)
    'http://(org,example,foo:81)/path'
    """
    parts = _split(url)
    if parts is None or not parts.scheme:
        return url
    host = ssurt_host(parts.host)
    host = host if trailing_comma else host.removesuffix(",")
    port = f":{parts.port}" if parts.port else ""
    front = f"{parts.scheme}://(" if with_scheme else ""
    return f"{front}{host}{port}){parts.path}{parts.query}{parts.fragment}"
