"""Host names: their normal form, and what the public suffix list says about them."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import NamedTuple

from publicsuffixlist import PublicSuffixList

from pipelines.rules.whatwg import parse

_PORT = re.compile(r":[0-9]*\Z")


class Suffixes(NamedTuple):
    """What the public suffix list says of a host; None where it has no such part (IP addresses, bare suffixes).

    The first two by the list's ICANN section alone, the other two with its private section (github.io ...).
    """

    registry_suffix: str | None
    registered_domain: str | None
    private_suffix: str | None
    private_domain: str | None


NO_SUFFIXES = Suffixes(None, None, None, None)


def is_address(host: str) -> bool:
    """Say whether a normal host is an IP address literal.

    >>> is_address("192.0.2.1"), is_address("[::1]"), is_address("a.example")
    (True, True, False)
    """
    return host.startswith("[") or (host[-1:].isdigit() and host.replace(".", "").isdigit())


def normal_host(text: str) -> str | None:
    """Return the host name by which politeness is kept; None where the text is no host.

    Lower-case ASCII (IDNA by the WHATWG rules), escapes decoded, IPv4 in any spelling as a dotted quad,
    IPv6 in brackets and shortest form, without trailing dot and without port.

    >>> normal_host("Bücher.Example."), normal_host("0x7f.1"), normal_host("2001:DB8:0:0::1"), normal_host("a b")
    ('xn--bcher-kva.example', '127.0.0.1', '[2001:db8::1]', None)
    """
    text = text.strip(" \t\r\n\f")
    if text.count(":") > 1 and not text.startswith("["):
        text = f"[{text}]"
    if not text or any(mark in text for mark in "/?#@\\"):
        return None
    found = parse(f"http://{_PORT.sub('', text)}/")
    return None if found is None else found.host


@cache
def _list(*, only_icann: bool) -> PublicSuffixList:
    return PublicSuffixList(only_icann=only_icann)


@lru_cache(maxsize=65_536)
def suffixes(host: str) -> Suffixes:
    """Return registry suffix, registered domain, private suffix and private domain of a normal host.

    >>> suffixes("www.site.github.io")
    Suffixes(registry_suffix='io', registered_domain='github.io', private_suffix='github.io', \
private_domain='site.github.io')
    """
    if not host or host.startswith(".") or is_address(host):
        return NO_SUFFIXES
    icann, whole = _list(only_icann=True), _list(only_icann=False)
    return Suffixes(
        icann.publicsuffix(host),
        icann.privatesuffix(host),
        whole.publicsuffix(host),
        whole.privatesuffix(host),
    )


def registrable_domain(host: str) -> str:
    """Return the public suffix and one label more; the host itself where it has none (address, bare suffix).

    The list's private section counts: two sites of one free hoster are two domains.

    >>> registrable_domain("a.b.example.co.uk"), registrable_domain("192.0.2.1")
    ('example.co.uk', '192.0.2.1')
    """
    return suffixes(host).private_domain or host


def reversed_name(host: str) -> str:
    """Return the host with its labels reversed; an IP address as it is.

    >>> reversed_name("www.example.org")
    'org.example.www'
    """
    return host if is_address(host) else ".".join(reversed(host.split(".")))
