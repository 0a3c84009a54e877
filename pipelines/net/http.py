"""Fetching: one request, one answer, and for every failure a named outcome instead of an exception.

Connections are aiohttp's: its connector resolves (through our resolver), tries addresses by happy eyeballs,
does TLS and keeps connections. The two heads and the body are read and written by a small HTTP/1.1
machine of our own (`answer.py`, as a protocol of that connector), for three reasons: the archive needs the
bytes as received, which aiohttp's parser does not give; aiohttp loses the pages that a browser would show
(a header line without a colon, a broken chunk, a gzip transfer coding read as plain, a short
Content-Length), and it repeats a request by itself when a kept connection ends, which our promise to ask a host
once per delay forbids. It costs no more either (`python -m tests.net.measure_client`, a 30 KB page over kept
connections: 76 µs of CPU, aiohttp by itself 97).

No redirect is followed here, no cookie kept, no body decoded.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType

from aiohttp import ClientError
from aiohttp.connector import Connection

from pipelines.net.answer import AnswerReader
from pipelines.net.bodies import decode
from pipelines.net.clock import Clock, SystemClock
from pipelines.net.connect import (
    Destination,
    PublicResolver,
    WireConnector,
    WireProtocol,
    outcome_of,
    sentence_of,
    tls_context,
    wire_of,
)
from pipelines.net.dns import DnsError, Resolver
from pipelines.net.exchange import Exchange
from pipelines.net.policy import DnsPolicy, FetchPolicy
from pipelines.net.request import RequestHeads
from pipelines.net.watch import Watch
from pipelines.rules.addresses import port_refusal
from pipelines.rules.outcome import Outcome, of_status
from pipelines.rules.whatwg import PLAIN, parse

__all__ = ["Exchange", "FetchPolicy", "Fetcher"]

NONE: Mapping[str, str] = MappingProxyType({})


class Fetcher:
    """Fetches URLs, for one event loop: `async with Fetcher(policy, resolver) as fetcher`."""

    def __init__(
        self, policy: FetchPolicy, resolver: Resolver | DnsPolicy | None = None, *, clock: Clock | None = None
    ) -> None:
        self.policy = policy
        self._clock = clock or SystemClock()
        self._resolver_is_ours = not isinstance(resolver, Resolver)
        self._given = resolver
        self._slots = asyncio.Semaphore(policy.connections)
        self._connector: WireConnector | None = None
        self._requests = RequestHeads(policy.user_agent)

    async def open(self) -> None:
        """Make the connector; needs a running loop."""
        given = self._given
        self._resolver = (
            given if isinstance(given, Resolver) else Resolver(given or DnsPolicy(), clock=self._clock)
        )
        self._kept_limit = min(self.policy.kept_connections, _file_limit() // 2)
        self._connector = WireConnector(
            PublicResolver(self._resolver, self.policy.addresses),
            self.policy.addresses,
            tls=tls_context(verify=self.policy.verify_tls, ca_file=self.policy.ca_file),
            keep_seconds=self.policy.keep_ms / 1_000,
            clock=self._clock,
        )

    @property
    def resolver(self) -> Resolver:
        """The resolver in use, to prime it or to ask it ahead of time."""
        return self._resolver

    async def close(self) -> None:
        """Close every connection, and the resolver where it was made here."""
        if self._connector is not None:
            await self._connector.close()
            self._connector = None
            if self._resolver_is_ours:
                await self._resolver.close()

    async def __aenter__(self) -> Fetcher:
        await self.open()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def fetch(
        self,
        url: str,
        *,
        headers: Mapping[str, str] = NONE,
        before_send: Callable[[], None] | None = None,
        body_bytes: int | None = None,
        method: str = "GET",
    ) -> Exchange:
        """Ask for a URL and return what came of it; whatever a server does, this does not raise.

        headers: more request headers, verbatim; they take the place of ours of the same name. A value that
        could not stand in a header (line ends, NUL) is left out.
        before_send: called when the connection is ready, right before the request is written. If it raises,
        nothing is sent and the exception passes through.
        body_bytes: another limit for this one body.
        """
        exchange = Exchange(url=url, method=method, started_ms=self._clock.now_ms())
        wanted = _wanted(url)
        if wanted is None:
            exchange.outcome, exchange.error = Outcome.URL_REFUSED, f"not an http or https URL: {url[:200]!r}"
            return exchange
        destination, target = wanted
        exchange.error = port_refusal(destination.port)
        if exchange.error is not None:
            exchange.outcome = Outcome.URL_REFUSED
            return exchange
        request = self._requests.head(method, target, destination.host_header, headers)
        async with self._slots:
            connection = await self._connected(destination, exchange)
            if connection is None:
                return exchange
            try:
                limit = body_bytes or self.policy.body_bytes
                await self._converse(connection, exchange, request, before_send, limit)
            finally:
                connection.close()  # does nothing where it was given back to be kept
        return exchange

    async def _connected(self, destination: Destination, exchange: Exchange) -> Connection | None:
        """Return a connection that can carry a request, or None with the failure noted in the exchange."""
        assert self._connector is not None, "Fetcher.open() was not called"
        connection = await self._connector.kept(destination)
        if connection is None:
            begun = self._clock.monotonic_ms()
            try:
                await self._resolver.resolve(destination.host)  # with time-outs of its own, and kept
                async with asyncio.timeout(self.policy.connect_ms / 1_000):
                    connection = await self._connector.opened(destination)
            except (ClientError, DnsError, OSError, RuntimeError, ValueError) as error:
                exchange.outcome = outcome_of(error, tls=destination.tls)
                exchange.error = sentence_of(error)
                return None
            finally:
                exchange.connect_ms = self._clock.monotonic_ms() - begun
        wire = wire_of(connection)
        exchange.address, exchange.reused = wire.address, wire.requests > 0
        return connection

    async def _converse(
        self,
        connection: Connection,
        exchange: Exchange,
        request: bytes,
        before_send: Callable[[], None] | None,
        body_bytes: int,
    ) -> None:
        """Write the request and read the answer into the exchange."""
        protocol = wire_of(connection)
        reader = AnswerReader(
            method=exchange.method, header_bytes=self.policy.header_bytes, body_bytes=body_bytes
        )
        if before_send is not None:
            before_send()
        exchange.started_ms, written = self._clock.now_ms(), self._clock.monotonic_ms()
        answered = protocol.expect(reader)
        watch = Watch(protocol, reader, self.policy)
        try:
            if protocol.transport is not None and not answered.done():
                protocol.transport.write(request)
                exchange.request_head = request
                protocol.catch_up()
            await answered
        finally:
            watch.stop()
            protocol.settle()
        seen = self._clock.monotonic_ms() - written
        exchange.total_ms = seen if protocol.answer_ms is None else protocol.answer_ms
        exchange.first_byte_ms = protocol.first_byte_ms
        exchange.wire_bytes = protocol.wire_bytes
        if reader.reusable and self._keeps(protocol, reader):
            connection.release()
        _conclude(exchange, reader, protocol.timed_out, body_bytes)

    def _keeps(self, protocol: WireProtocol, reader: AnswerReader) -> bool:
        """Tell whether the connection is worth keeping, and note until when its server promised to."""
        assert reader.head is not None and self._connector is not None
        promised = reader.head.keep_seconds
        if promised is not None:
            protocol.idle_until = protocol.last_byte + promised - 1  # a second for the way
        return (promised is None or promised > 1) and self._connector.idle < self._kept_limit


def _conclude(exchange: Exchange, reader: AnswerReader, timed_out: str | None, body_bytes: int) -> None:
    """Say in the exchange what the reader has, and name the outcome."""
    reader.end_of_stream(clean=False)  # nothing changes where the answer was complete
    exchange.truncated = reader.truncated
    head = reader.head
    if head is None:
        exchange.outcome, exchange.error = _failure(exchange, reader, timed_out)
        return
    if timed_out is not None and reader.truncated == "disconnect":
        exchange.truncated = "time"
    exchange.status, exchange.reason, exchange.headers = head.status, head.reason, head.headers
    exchange.response_head = reader.raw_head
    exchange.protocol = f"http/{head.version[0]}.{head.version[1]}"
    exchange.body = reader.body()
    exchange.outcome = of_status(head.status)
    if head.codings:
        _take_off_transfer_codings(exchange, head.codings, body_bytes, head.flaws)
    if head.flaws:
        exchange.error = "; ".join(head.flaws[:5])


def _failure(exchange: Exchange, reader: AnswerReader, timed_out: str | None) -> tuple[Outcome, str]:
    """Return the outcome and the sentence for an exchange without an answer head."""
    exchange.truncated = None
    if reader.fault is not None:
        return Outcome.BAD_HTTP, reader.fault
    got = reader.partial_head()
    so_far = f"; {len(got)} bytes came: {got[:60]!r}" if got else ""
    if timed_out is not None:
        return Outcome.READ_TIMEOUT, f"no complete answer head ({timed_out} time-out){so_far}"
    kept = " (a kept connection that ended as the request was sent)" if exchange.reused and not got else ""
    return Outcome.DISCONNECTED, f"closed before the answer head was complete{kept}{so_far}"


def _take_off_transfer_codings(exchange: Exchange, codings: str, body_bytes: int, flaws: list[str]) -> None:
    decoded = decode(exchange.body, codings, limit=body_bytes)
    if exchange.body and not decoded.data:
        exchange.outcome = Outcome.BAD_HTTP
    if decoded.error is not None:
        flaws.append(f"transfer coding {codings!r}: {decoded.error}")
    if not decoded.complete and exchange.truncated is None:
        exchange.truncated = "length" if len(decoded.data) >= body_bytes else "disconnect"
    exchange.body = decoded.data


def _wanted(url: str) -> tuple[Destination, bytes] | None:
    """Return where to connect and what to ask for there, or None for what is no http(s) URL."""
    plain = PLAIN.match(url)
    if plain is not None and "/." not in url and "/%2" not in url and "xn--" not in url:
        return _site(plain[1]), url[plain.end(1) :].encode("ascii")
    parsed = parse(url)
    if parsed is None:
        return None
    target = parsed.path if parsed.query is None else f"{parsed.path}?{parsed.query}"
    return _destination(parsed.scheme, parsed.host, parsed.port), target.encode("ascii")


@lru_cache(maxsize=16_384)
def _site(site: str) -> Destination:
    scheme, _, netloc = site.partition("://")
    host, _, port = netloc.partition(":")
    return _destination(scheme, host, int(port) if port else None)


@lru_cache(maxsize=16_384)
def _destination(scheme: str, host: str, port: int | None) -> Destination:
    return Destination(scheme, host, port)


def _file_limit() -> int:
    """Return how many files this process may open, after raising that to what the system grants."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wish = 65_536 if hard == resource.RLIM_INFINITY else min(hard, 65_536)
    if soft != resource.RLIM_INFINITY and soft < wish:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wish, hard))
        soft = wish
    return 65_536 if soft == resource.RLIM_INFINITY else soft
