"""What became of a request: one word, the same in logs, tables, plots and docs.

Each question about an outcome is a set or a table here; `tests/rules/test_outcome.py` holds them total.
"""

from __future__ import annotations

from enum import StrEnum


class Outcome(StrEnum):
    """The named results. A page that fails is a row with one of these; only a failing program raises."""

    OK = "ok"  # 2xx with an answer that is kept
    NOT_MODIFIED = "not_modified"  # 304 to a conditional request
    REDIRECT = "redirect"  # 3xx with a usable Location
    REDIRECT_LIMIT = "redirect_limit"  # too many hops, a loop, or a Location that leads nowhere
    NOT_FOUND = "http_404"
    GONE = "http_410"
    RATE_LIMITED = "http_429"
    CLIENT_ERROR = "http_4xx"
    SERVER_ERROR = "http_5xx"
    BAD_HTTP = "bad_http"  # bytes came, but no HTTP answer can be made of them
    DNS_NXDOMAIN = "dns_nxdomain"
    DNS_TIMEOUT = "dns_timeout"
    DNS_FAILED = "dns_failed"  # SERVFAIL, REFUSED, no address record
    CONNECT_REFUSED = "connect_refused"
    CONNECT_TIMEOUT = "connect_timeout"
    CONNECT_FAILED = "connect_failed"  # unreachable, reset while connecting
    TLS_CERTIFICATE = "tls_certificate"
    TLS_HANDSHAKE = "tls_handshake"
    READ_TIMEOUT = "read_timeout"  # no complete answer head in time
    DISCONNECTED = "disconnected"  # closed before the answer head was complete
    ADDRESS_REFUSED = "address_refused"  # not a public address, and not allowed by [security]
    ROBOTS_DENIED = "robots_denied"
    ROBOTS_UNREACHABLE = "robots_unreachable"
    URL_REFUSED = "url_refused"  # a rule of ours refuses the URL: scope, length, trap ...


ANSWERED = frozenset({Outcome.OK, Outcome.NOT_MODIFIED})
"""The URL was answered as hoped: its failures are forgotten and its next visit is a recrawl."""

HOST_FAULTS = frozenset(
    {
        Outcome.DNS_NXDOMAIN, Outcome.DNS_TIMEOUT, Outcome.DNS_FAILED, Outcome.CONNECT_REFUSED,
        Outcome.CONNECT_TIMEOUT, Outcome.CONNECT_FAILED, Outcome.TLS_CERTIFICATE, Outcome.TLS_HANDSHAKE,
        Outcome.ADDRESS_REFUSED,
    }
)  # fmt: skip
"""The host itself cannot be talked to: its other URLs need not be tried until a probe succeeds."""

SITE_FAULTS = frozenset(
    {
        Outcome.CONNECT_REFUSED, Outcome.CONNECT_TIMEOUT, Outcome.CONNECT_FAILED, Outcome.TLS_CERTIFICATE,
        Outcome.TLS_HANDSHAKE,
    }
)  # fmt: skip
"""Host faults that one port or scheme may have alone: a dead port or a bad certificate says nothing of the others."""

SLOW_DOWN = frozenset(
    {Outcome.RATE_LIMITED, Outcome.SERVER_ERROR, Outcome.READ_TIMEOUT, Outcome.CONNECT_TIMEOUT}
)
"""The host is asked less often for a while (back-off doubles)."""

CALM = ANSWERED | {Outcome.REDIRECT, Outcome.REDIRECT_LIMIT, Outcome.NOT_FOUND, Outcome.GONE}
"""The server answers as one that is well: the back-off is forgiven a share at a time. Other 4xx may be a wish for peace."""

UNASKED = frozenset({Outcome.ROBOTS_DENIED, Outcome.ROBOTS_UNREACHABLE, Outcome.URL_REFUSED})
"""Decided without a request: costs neither budget nor delay."""

RETIRING = frozenset({Outcome.GONE, Outcome.URL_REFUSED})
"""Final at once: the URL goes to the retired shelf."""

RETRIED = frozenset(Outcome) - ANSWERED - RETIRING - {Outcome.REDIRECT, Outcome.ROBOTS_DENIED}
"""Tried again later with growing pauses, and retired after a number of failures in a row."""


FAILED = frozenset(Outcome) - ANSWERED - {Outcome.REDIRECT}
"""No page came of it."""

MEANING: dict[Outcome, str] = {
    Outcome.OK: "answered and kept",
    Outcome.NOT_MODIFIED: "unchanged since the last visit",
    Outcome.REDIRECT: "leads to another URL",
    Outcome.REDIRECT_LIMIT: "redirects that loop, go on too long or lead nowhere",
    Outcome.NOT_FOUND: "the server does not know the page",
    Outcome.GONE: "the server says it is gone for good",
    Outcome.RATE_LIMITED: "the server asks us to slow down",
    Outcome.CLIENT_ERROR: "the server refuses us the page",
    Outcome.SERVER_ERROR: "the server failed",
    Outcome.BAD_HTTP: "the answer is no HTTP",
    Outcome.DNS_NXDOMAIN: "there is no such host name",
    Outcome.DNS_TIMEOUT: "no name server answered in time",
    Outcome.DNS_FAILED: "the name has no address, or its name server failed",
    Outcome.CONNECT_REFUSED: "nothing listens at the host's port",
    Outcome.CONNECT_TIMEOUT: "the host did not take the connection in time",
    Outcome.CONNECT_FAILED: "the host cannot be reached",
    Outcome.TLS_CERTIFICATE: "the host's certificate is not valid",
    Outcome.TLS_HANDSHAKE: "no encryption could be agreed on",
    Outcome.READ_TIMEOUT: "the answer did not come in time",
    Outcome.DISCONNECTED: "the server hung up before it answered",
    Outcome.ADDRESS_REFUSED: "the address is not public, and [security] does not allow it",
    Outcome.ROBOTS_DENIED: "robots.txt forbids it",
    Outcome.ROBOTS_UNREACHABLE: "robots.txt could not be fetched, so nothing is",
    Outcome.URL_REFUSED: "a rule of ours refuses the URL",
}
"""What each says, for people."""


def of_status(status: int) -> Outcome:
    """Return the outcome that an HTTP status stands for, redirects not yet resolved.

    >>> of_status(503)
    <Outcome.SERVER_ERROR: 'http_5xx'>
    """
    named = {304: Outcome.NOT_MODIFIED, 404: Outcome.NOT_FOUND, 410: Outcome.GONE, 429: Outcome.RATE_LIMITED}
    if status in named:
        return named[status]
    if status in (301, 302, 303, 307, 308):
        return Outcome.REDIRECT
    if 200 <= status < 300:
        return Outcome.OK
    return Outcome.SERVER_ERROR if status >= 500 else Outcome.CLIENT_ERROR
