"""URLs as browsers read them: parsing and joining by the WHATWG rules, and the form that goes on the wire.

Parsing is ada's. Its own Python layer costs half a microsecond a call more than its C entry points, and a page
has 86 links, so those are called here; `tests/rules/test_urls.py` holds both to the same answers.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple, cast

from ada_url._ada_wrapper import ffi as _ffi
from ada_url._ada_wrapper import lib as _lib

_parse_with_base, _parse, _free = _lib.ada_parse_with_base, _lib.ada_parse, _lib.ada_free
_is_valid, _get_href, _unpack = _lib.ada_is_valid, _lib.ada_get_href, _ffi.unpack

PLAIN = re.compile(
    r"(https?://(?:[a-z0-9_-]+\.)+[a-z]{2,}(?::(?!80/|443/)(?:[1-5][0-9]{4}|[1-9][0-9]{0,3})(?=/))?)"  # host: no IP address
    r"(/[A-Za-z0-9_\-.~!$&'()*+,/:=@%;]*)"
    r"(\?[A-Za-z0-9_\-.~!$&()*+,/:;=@%?]*)?\Z"
)
"""A URL that the WHATWG parser would give back letter for letter (where "/.", "/%2" and "xn--" are not in it).

Groups: site, path, query with its question mark. Most links of real pages are such; the rest goes to ada.
"""

_DOTTED = re.compile(r"\A(https?://[^/?#]*[^./:@\[\]])\.(?=[:/])")
_PLAIN_PATH = re.compile(r"/(?!/)[A-Za-z0-9_\-.~!$&'()*+,/:=@%;]*(?:\?[A-Za-z0-9_\-.~!$&()*+,/:;=@%?]*)?\Z")
_PLAIN_REST = re.compile(
    r"[A-Za-z0-9_~][A-Za-z0-9_\-.~!$&'()*+,/=@%;]*(?:\?[A-Za-z0-9_\-.~!$&()*+,/:;=@%?]*)?\Z"
)


class Url(NamedTuple):
    """An http(s) URL in parts, WHATWG-serialised.

    host: lower-case ASCII, IPv6 in brackets, without the root's trailing dot. port: None where it is the
    scheme's own. path: begins with a slash. query: without the question mark; None where there is none.
    userinfo: "user:password" as in the URL, mostly "". fragment: without the hash sign; None where there is none.
    """

    href: str
    scheme: str
    host: str
    port: int | None
    path: str
    query: str | None
    userinfo: str = ""
    fragment: str | None = None


def _scalars(text: str) -> bytes:
    """Return UTF-8, a lone surrogate as U+FFFD: a USVString, as the URL standard wants its input."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _scalars(text)


def _join(base: bytes, href: bytes) -> str | None:
    """Return the serialised URL with its fragment; None where the parser fails."""
    found = _parse_with_base(href, len(href), base, len(base)) if base else _parse(href, len(href))
    try:
        if not _is_valid(found):
            return None
        text = _get_href(found)
        return cast(bytes, _unpack(text.data, text.length)).decode()
    finally:
        _free(found)


def _requested(href: str | None) -> str | None:
    """Return the wire form of a serialised URL; None where it is not http(s)."""
    if href is None or not href.startswith(("http://", "https://")):
        return None
    if "#" in href:
        href = href[: href.index("#")]
    if "./" in href or ".:" in href:
        href = _DOTTED.sub(r"\1", href, count=1)
    return href


def wire(url: str) -> str | None:
    """Return the URL as it is requested: WHATWG-serialised, without fragment; None if not a valid http(s) URL.

    Escapes, letter case of the path and order of the query stay as found: they may matter to the server.
    The root's trailing dot of a host name goes: it is the same name in DNS (RFC 1034 section 3.1), and
    neither TLS (RFC 6066 section 3) nor the Host field should carry it.

    >>> wire("HTTP://Example.ORG.:80/A/../b%7e?q=1&a=2#top")
    'http://example.org/b%7e?q=1&a=2'
    """
    if PLAIN.match(url) and "/." not in url and "/%2" not in url and "xn--" not in url:
        return url
    return _requested(_join(b"", _utf8(url)))


@lru_cache(maxsize=1024)
def _plain_base(base: str) -> tuple[str, str]:
    """Return the site of a base and its folder, behind which a plain link may simply be put; "" where it may not."""
    found = PLAIN.match(base)
    if found is None or "/." in base or "/%2" in base or "xn--" in base:
        return "", ""
    return found[1], found[1] + found[2][: found[2].rindex("/") + 1]


def resolve(base: str, href: str) -> str | None:
    """Return the wire form of a link found at `base`; None if it is not http(s) or no valid URL.

    base: an absolute URL. href: as written in the page, blanks and control characters included.

    >>> resolve("https://a.example/b/c?d", "../x y#z")
    'https://a.example/x%20y'
    >>> resolve("https://a.example/", "mailto:x@a.example") is None
    True
    """
    plain = href[: href.index("#")] if "#" in href else href
    if "/." not in plain and "/%2" not in plain:
        front = _front(base, plain)
        if front:
            return front + plain
        if front is not None and "xn--" not in plain:
            return plain
    return _requested(_join(_utf8(base), _utf8(href)))


def _front(base: str, plain: str) -> str | None:
    """Return what is put before a plain link: "" where it is absolute; None where the parser must be asked."""
    if PLAIN.match(plain):
        return ""
    if _PLAIN_PATH.match(plain):
        return _plain_base(base)[0] or None
    if _PLAIN_REST.match(plain):
        return _plain_base(base)[1] or None
    return base if not plain and _plain_base(base)[0] else None


def resolve_location(base: str, value: str) -> str | None:
    """Return where a Location field leads, in wire form; None if nowhere that can be asked.

    value: the field as received, its octets read as Latin-1. Octets above ASCII are kept and percent-encoded
    one by one (RFC 3987 section 3.1). An empty value leads back to `base` (RFC 3986 section 5.4.1).

    >>> resolve_location("http://a.example/start", "/caf" + bytes([0xC3, 0xA9]).decode("latin-1"))
    'http://a.example/caf%C3%A9'
    """
    if value.isascii():
        return resolve(base, value)
    octets = value.encode("latin-1", "replace")
    return resolve(base, "".join(chr(octet) if octet < 0x80 else f"%{octet:02X}" for octet in octets))


def resolve_encoded(base: str, href: str, encoding: str) -> str | None:
    """Return `resolve` for a page in a legacy encoding: the query is encoded in it, as browsers do.

    encoding: a Python codec name. Letters that it lacks become numeric character references, percent-encoded.
    Source: WHATWG URL, "percent-encode after encoding".
    """
    if href.isascii() or encoding.lower().replace("_", "-") in ("utf-8", "utf8", "utf-16le", "utf-16be"):
        return resolve(base, href)
    head, mark, tail = href.partition("#")
    front, question, query = head.partition("?")
    return resolve(base, front + question + encode_query(query, encoding) + mark + tail)


def encode_query(query: str, encoding: str) -> str:
    """Return a query with its non-ASCII letters encoded in `encoding` and percent-encoded."""
    return "".join(letter if letter.isascii() else _encode_letter(letter, encoding) for letter in query)


def _encode_letter(letter: str, encoding: str) -> str:
    try:
        octets = letter.encode(encoding)
    except UnicodeEncodeError:
        return f"%26%23{ord(letter)}%3B"
    return "".join(f"%{octet:02X}" if octet > 0x7E or octet < 0x21 else chr(octet) for octet in octets)


def parse(url: str) -> Url | None:
    """Return the parts of an absolute http(s) URL; None if it is anything else or invalid.

    >>> parse("http://user@[::1]:8080/x?")
    Url(href='http://user@[::1]:8080/x?', scheme='http', host='[::1]', port=8080, path='/x', query='', \
userinfo='user', fragment=None)
    """
    href = _join(b"", _utf8(url))
    if href is None or not href.startswith(("http://", "https://")):
        return None
    return split(href)


def split(href: str) -> Url:
    """Return the parts of an http(s) URL that is already serialised by the WHATWG rules."""
    scheme, _, rest = href.partition("://")
    rest, hash_sign, fragment = rest.partition("#")
    rest, question, query = rest.partition("?")
    authority, slash, path = rest.partition("/")
    userinfo, _, hostport = authority.rpartition("@")
    host, port = hostport, None
    colon = hostport.rfind(":")
    if colon > hostport.rfind("]"):
        host, port = hostport[:colon], int(hostport[colon + 1 :])
    if host.endswith(".") and host.rstrip(".") == host[:-1] and len(host) > 1:
        host = host[:-1]
    return Url(
        href, scheme, host, port, slash + path, query if question else None, userinfo,
        fragment if hash_sign else None,
    )  # fmt: skip
