"""Connecting: aiohttp's connector (pool, happy eyeballs, TLS) with our names, our addresses rule and our reader.

The address is judged after the name was resolved (bad addresses of a name are left out) and again by the
factory of sockets, right before each connect, whatever path led there (P9).
"""

from __future__ import annotations

import asyncio
import errno
import os
import select
import socket
import ssl
from collections.abc import Mapping
from pathlib import Path

from aiohttp import (
    ClientConnectorCertificateError,
    ClientConnectorError,
    ClientConnectorSSLError,
    ClientTimeout,
    TCPConnector,
)
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ClientRequest, ConnectionKey
from aiohttp.connector import AddrInfoType, Connection
from yarl import URL

from pipelines.net.answer import AnswerReader
from pipelines.net.arrival import HasOptions, ages_ms, waited_ms
from pipelines.net.clock import Clock
from pipelines.net.dns import DnsError, Resolver
from pipelines.rules.addresses import AddressPolicy, refusal
from pipelines.rules.outcome import Outcome

EARLY_BYTES = 65_536  # taken from a server that answers before it is asked
NO_TIMEOUT = ClientTimeout()  # the fetcher's own time-out is around the whole


class AddressRefused(OSError):
    """No address of the host may be connected to; the message names address and reason."""


class PublicResolver(AbstractResolver):
    """Our resolver as aiohttp asks for one: only the addresses that may be reached."""

    def __init__(self, resolver: Resolver, policy: AddressPolicy) -> None:
        self._resolver = resolver
        self._policy = policy

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return the reachable addresses of a host; raises DnsError or AddressRefused."""
        answer = await self._resolver.resolve(host)
        refused = {address: refusal(address, self._policy, port=port) for address in answer.addresses}
        good = [address for address, reason in refused.items() if reason is None]
        if not good:
            raise AddressRefused(_refusal_text(host, refused))
        return [_resolved(host, address, port) for address in good]

    async def close(self) -> None:
        """Leave our resolver open: it belongs to the fetcher."""


def _resolved(host: str, address: str, port: int) -> ResolveResult:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=0)


def _refusal_text(host: str, refused: Mapping[str, str | None]) -> str:
    listed = ", ".join(f"{address} is {reason}" for address, reason in refused.items())
    return f"host {host!r}: {listed}; list it in [security] allow_addresses to reach it"


class Destination(ClientRequest):
    """A scheme, host and port in the form that aiohttp's connector asks for. Made once a site."""

    def __init__(
        self, scheme: str, host: str, port: int | None
    ) -> None:  # not super(): no request is made of it
        netloc = host if port is None else f"{host}:{port}"
        self.url = self.original_url = URL(f"{scheme}://{netloc}/", encoded=True)
        self.proxy = None
        self.proxy_auth = None
        self.proxy_headers = None
        self.server_hostname = None
        self._ssl = True
        self.host_header = netloc.encode("latin-1")
        self.tls = scheme == "https"
        self._key = super().connection_key

    @property
    def connection_key(self) -> ConnectionKey:
        """What tells kept connections apart."""
        return self._key


class WireProtocol(ResponseHandler):
    """A connection whose bytes go to an AnswerReader instead of to aiohttp's parser."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        super().__init__(loop)
        self.clock = clock
        self.requests = 0  # sent on this connection
        self.address: str | None = None
        self.idle_until = 0.0  # loop time until which the server promised to keep it; 0 = no promise
        self.wire_bytes = 0
        self.first_byte_ms: int | None = None  # from the request to the first byte of its answer
        self.answer_ms: int | None = None  # from the request to the end of its answer; None = none seen
        self.last_byte = 0.0  # loop time
        self.timed_out: str | None = None  # which time-out ended the exchange
        self._early = b""  # bytes that came before the first request
        self._reader: AnswerReader | None = None
        self._answered: asyncio.Future[None] | None = None
        self._poll: select.poll | None = None
        self._sock: HasOptions | None = None
        self._written_ms = 0  # monotonic

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note whom we are connected to."""
        super().connection_made(transport)
        peer = transport.get_extra_info("peername")
        self.address = peer[0] if peer else None
        self._sock = sock = transport.get_extra_info("socket")
        if sock is not None:
            self._poll = select.poll()
            self._poll.register(sock.fileno(), select.POLLIN)

    def is_fresh(self, now: float) -> bool:
        """Tell whether a kept connection can carry a request: open, not past its promise, nothing unread.

        Readable while nobody asked means that the server has closed it, or talks out of turn.
        """
        if not self.is_connected() or (self.idle_until and now >= self.idle_until):
            return False
        return self._poll is None or not self._poll.poll(0)

    def expect(self, reader: AnswerReader) -> asyncio.Future[None]:
        """Send what comes to the reader; the future is done when the answer is complete or will never be."""
        self.requests += 1
        self.wire_bytes = 0
        self.first_byte_ms = self.answer_ms = None
        self._written_ms = self.clock.monotonic_ms()
        self.timed_out = None
        self._reader = reader
        self._answered = self._loop.create_future()
        if not self.is_connected():  # lost before anything was asked
            reader.end_of_stream(clean=False)
            self._wake()
        return self._answered

    def settle(self) -> None:
        """Stop expecting: what comes from now on comes out of turn."""
        self._reader = self._answered = None

    def give_up(self, which: str) -> None:
        """End the exchange by a time-out, named."""
        self.timed_out = which
        self._wake()

    def data_received(self, data: bytes) -> None:
        """Hand the bytes on; bytes that nobody asked for close a connection, but for a server that answers at once."""
        reader = self._reader
        if reader is None:
            self._out_of_turn(data)
            return
        first = self.first_byte_ms is None
        if first:
            self.first_byte_ms = self._waited_ms()
        self.wire_bytes += len(data)
        self.last_byte = self._loop.time()
        reader.feed(data)
        if reader.done:
            self.answer_ms = self.first_byte_ms if first else self._waited_ms()
            self._wake()

    def _waited_ms(self) -> int:
        now = self.clock.monotonic_ms()
        return waited_ms(ages_ms(self._sock), written_ms=self._written_ms, noted_ms=now)

    def catch_up(self) -> None:
        """Read what a hasty server sent before the request was written."""
        early, self._early = self._early, b""
        if early:
            self.data_received(early)

    def _out_of_turn(self, data: bytes) -> None:
        if not self.requests and len(self._early) < EARLY_BYTES:
            self._early += data
            return
        self.force_close()
        if self.transport is not None:
            self.transport.close()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Tell the reader that no more will come."""
        super().connection_lost(exc)
        self._poll = self._sock = None
        if self._reader is not None:
            self._reader.end_of_stream(clean=exc is None)
            self._wake()

    def _wake(self) -> None:
        if self._answered is not None and not self._answered.done():
            self._answered.set_result(None)


def wire_of(connection: Connection) -> WireProtocol:
    """Return the protocol of a connection that is in use."""
    protocol = connection.protocol
    assert isinstance(protocol, WireProtocol)
    return protocol


class WireConnector(TCPConnector):
    """aiohttp's connector, speaking through WireProtocol and never to an address that is not public."""

    def __init__(
        self,
        resolver: PublicResolver,
        policy: AddressPolicy,
        *,
        tls: ssl.SSLContext,
        keep_seconds: float,
        clock: Clock,
    ) -> None:
        super().__init__(
            resolver=resolver,
            use_dns_cache=False,
            limit=0,  # the fetcher counts
            ssl=tls,
            keepalive_timeout=keep_seconds,
            socket_factory=self._socket,
        )
        self._policy = policy
        loop = asyncio.get_running_loop()
        self._factory = lambda: WireProtocol(loop, clock)  # type: ignore[assignment]

    @property
    def idle(self) -> int:
        """How many sites have a kept connection."""
        return len(self._conns)

    async def kept(self, destination: Destination) -> Connection | None:
        """Return a kept connection that can carry a request, or None; stale ones are closed."""
        while (connection := await self._get(destination.connection_key, [])) is not None:
            if wire_of(connection).is_fresh(self._loop.time()):
                return connection
            connection.close()
        return None

    async def opened(self, destination: Destination) -> Connection:
        """Return a new connection, or one that was given back meanwhile; raises what `outcome_of` knows."""
        while True:
            connection = await self.connect(destination, [], NO_TIMEOUT)
            wire = wire_of(connection)
            if not wire.requests or wire.is_fresh(self._loop.time()):
                return connection
            connection.close()

    def _socket(self, info: AddrInfoType) -> socket.socket:
        family, kind, proto, _, where = info
        address, port = str(where[0]), int(where[1])
        reason = refusal(address, self._policy, port=port)
        if reason is not None:
            raise AddressRefused(_refusal_text(address, {address: reason}))
        return socket.socket(family, kind, proto)


def tls_context(*, verify: bool = True, ca_file: Path | None = None) -> ssl.SSLContext:
    """Return the one TLS context of a process: what browsers accept, TLS 1.2 and newer.

    Servers that end without a TLS goodbye or renegotiate the old way are served all the same, as browsers do.
    ca_file: more certificates to trust (PEM).
    """
    context = ssl.create_default_context()
    if ca_file is not None:
        context.load_verify_locations(cafile=str(ca_file))
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("DEFAULT:@SECLEVEL=1")
    context.options |= ssl.OP_IGNORE_UNEXPECTED_EOF | 0x4  # 0x4: OP_LEGACY_SERVER_CONNECT, named from 3.12 on
    context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
    context.set_alpn_protocols(["http/1.1"])
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def outcome_of(error: BaseException, *, tls: bool) -> Outcome:
    """Return the outcome that a failure to connect stands for."""
    if isinstance(error, DnsError):
        return error.outcome
    if isinstance(error, ClientConnectorCertificateError):
        return Outcome.TLS_CERTIFICATE
    if isinstance(error, ClientConnectorSSLError | ssl.SSLError | UnicodeError):
        return Outcome.TLS_HANDSHAKE
    cause = error.os_error if isinstance(error, ClientConnectorError) else error
    if isinstance(cause, AddressRefused):
        return Outcome.ADDRESS_REFUSED
    if isinstance(cause, ssl.SSLCertVerificationError):
        return Outcome.TLS_CERTIFICATE
    number = cause.errno if isinstance(cause, OSError) else None
    if number == errno.ECONNREFUSED or (number is None and f"[Errno {errno.ECONNREFUSED}]" in str(cause)):
        return Outcome.CONNECT_REFUSED
    if number == errno.ETIMEDOUT or isinstance(cause, TimeoutError):
        return Outcome.CONNECT_TIMEOUT
    if tls and (
        number is None or isinstance(cause, ConnectionResetError | BrokenPipeError | ConnectionAbortedError)
    ):
        return Outcome.TLS_HANDSHAKE
    return Outcome.CONNECT_FAILED


def sentence_of(error: BaseException) -> str:
    """Return what people should read about a failure to connect."""
    if isinstance(error, TimeoutError):
        return "no connection in time ([fetch] connect_ms)"
    if isinstance(error, ClientConnectorCertificateError):
        return f"{error.host}:{error.port}: {_cause_text(error.certificate_error)}"
    if not isinstance(error, ClientConnectorError):
        return str(error) or type(error).__name__
    cause = error.os_error
    return (
        str(cause)
        if isinstance(cause, AddressRefused)
        else f"{error.host}:{error.port}: {_cause_text(cause)}"
    )


def _cause_text(cause: BaseException) -> str:
    """Return what went wrong without the words of the libraries that it went through."""
    if isinstance(cause, ssl.SSLCertVerificationError) and cause.verify_message:
        return cause.verify_message
    if isinstance(cause, ssl.SSLError) and cause.reason:
        return cause.reason.lower().replace("_", " ")
    if isinstance(cause, OSError) and cause.errno and not isinstance(cause, ssl.SSLError):
        return os.strerror(cause.errno).lower()
    return str(cause) or type(cause).__name__
