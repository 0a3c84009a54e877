"""Names to addresses: one resolver a process, its answers kept for as long as they are good.

aiodns (c-ares) asks; what is kept, for how long, how many questions are open at once and how long one may
take is decided here, since c-ares alone has been seen to wait for ever after an outage (c-ares issue 1000):
each question has a time-out of ours, and after a row of time-outs the channel is made anew. c-ares keeps
answers too, for their real time to live and without a bound on their number (pycares has no switch for it):
that never makes an answer older than its server allows, and a channel is replaced before its store grows big.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import aiodns

from pipelines.net.clock import Clock, SystemClock
from pipelines.net.names import StaticNames
from pipelines.net.policy import DnsPolicy
from pipelines.rules.outcome import Outcome

if TYPE_CHECKING:
    import pycares

__all__ = ["Answer", "DnsError", "DnsPolicy", "Resolver"]

FOREVER_MS = 253_370_764_800_000  # the year 9999: literals and static names do not expire
FAILURE_SECONDS = 30  # time-outs and SERVFAIL are remembered so long at most (RFC 2308, 7: five minutes)
IPV6_GRACE_MS = 500  # some servers never answer AAAA: with A in hand it is waited for no longer
RENEW_AFTER = 20_000  # questions after which a channel is replaced: about 30 MB of answers kept by c-ares
STALLED = 20  # time-outs in a row after which the channel is made anew
NXDOMAIN, NODATA, TIMEOUT = aiodns.error.ARES_ENOTFOUND, aiodns.error.ARES_ENODATA, aiodns.error.ARES_ETIMEOUT


class Answer(NamedTuple):
    """The addresses of a name in the server's order, IPv4 first, and until when they hold (epoch ms)."""

    addresses: tuple[str, ...]
    expires_ms: int


class DnsError(Exception):
    """A name that has no address now: `outcome` is DNS_NXDOMAIN, DNS_TIMEOUT or DNS_FAILED."""

    def __init__(self, outcome: Outcome, message: str) -> None:
        super().__init__(message)
        self.outcome = outcome


class _Kept(NamedTuple):
    answer: Answer | None
    error: DnsError | None
    expires_ms: int


class _Found(NamedTuple):
    addresses: tuple[str, ...]
    ttl_seconds: int


@dataclass
class _Channel:
    """A c-ares channel, with the questions asked of it and those still open; retired = none are added."""

    dns: aiodns.DNSResolver
    asked: int = 0
    open: int = 0
    retired: bool = False


class Resolver:
    """Looks names up, at most once for all who ask at the same time. For one event loop."""

    def __init__(self, policy: DnsPolicy, *, clock: Clock | None = None) -> None:
        self._policy = policy
        self._clock = clock or SystemClock()
        self._kept: dict[str, _Kept] = {}
        self._pending: dict[str, asyncio.Task[Answer]] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._slots = asyncio.Semaphore(policy.concurrency)
        self._channel: _Channel | None = None
        self._timeouts_in_row = 0
        self._names = StaticNames(policy.static)

    async def resolve(self, host: str) -> Answer:
        """Return the addresses of a host; raises DnsError, which says what kind of failure it is.

        host: a name (any case, with or without a trailing dot), or an IPv4 or IPv6 literal (brackets or
        not), which is its own address. Failures are remembered too.
        """
        host = host.lower().rstrip(".").strip("[]")
        known = self._known(host)
        if known is not None:
            if known.error is not None:
                raise DnsError(known.error.outcome, str(known.error))
            assert known.answer is not None
            return known.answer
        task = self._pending.get(host)
        if task is None:
            task = asyncio.create_task(self._look_up(host))
            self._pending[host] = task
            task.add_done_callback(lambda done: self._settle(host, done))
        return await asyncio.shield(task)

    def prime(self, host: str, addresses: Sequence[str], expires_ms: int) -> None:
        """Take over an answer from the host table; ignored where it has expired or has no address."""
        if addresses and expires_ms > self._clock.now_ms():
            self._keep(host.lower().rstrip("."), Answer(tuple(addresses), expires_ms), None, expires_ms)

    async def close(self) -> None:
        """Give up open questions and close the channel."""
        pending = list(self._pending.values())
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        self._retire()
        await asyncio.gather(*self._closing, return_exceptions=True)

    def _known(self, host: str) -> _Kept | None:
        kept = self._kept.get(host)
        now_ms = self._clock.now_ms()
        if kept is not None and now_ms < kept.expires_ms <= now_ms + self._policy.ttl_ceiling_seconds * 1_000:
            return kept
        fixed = self._names.addresses(host)
        if fixed:
            return _Kept(Answer(fixed, FOREVER_MS), None, FOREVER_MS)
        return None

    def _settle(self, host: str, task: asyncio.Task[Answer]) -> None:
        self._pending.pop(host, None)
        if not task.cancelled():
            task.exception()  # taken note of: whoever asked may be gone

    def _keep(self, host: str, answer: Answer | None, error: DnsError | None, expires_ms: int) -> None:
        self._kept.pop(host, None)
        while len(self._kept) >= self._policy.cache_hosts:
            del self._kept[next(iter(self._kept))]
        self._kept[host] = _Kept(answer, error, expires_ms)

    async def _look_up(self, host: str) -> Answer:
        try:
            found = await self._ask_both(host)
        except DnsError as error:
            seconds = self._policy.negative_ttl_seconds
            if error.outcome is not Outcome.DNS_NXDOMAIN:
                seconds = min(seconds, FAILURE_SECONDS)
            self._keep(host, None, error, self._clock.now_ms() + seconds * 1_000)
            raise
        seconds = min(
            max(found.ttl_seconds, self._policy.ttl_floor_seconds), self._policy.ttl_ceiling_seconds
        )
        answer = Answer(found.addresses, self._clock.now_ms() + seconds * 1_000)
        self._keep(host, answer, None, answer.expires_ms)
        return answer

    async def _ask_both(self, host: str) -> _Found:
        """Ask for A and AAAA at once; addresses of either will do."""
        if not self._policy.ipv6:
            return await self._ask(host, "A")
        four = asyncio.create_task(self._ask(host, "A"))
        six = asyncio.create_task(self._ask(host, "AAAA"))
        try:
            await asyncio.wait((four,))
            grace = IPV6_GRACE_MS / 1_000 if four.exception() is None else None
            await asyncio.wait((six,), timeout=grace)
            return _joined(four, six)
        finally:
            four.cancel()
            six.cancel()

    async def _ask(self, host: str, kind: str) -> _Found:
        try:
            async with self._slots, asyncio.timeout(self._policy.timeout_ms * self._policy.tries / 1_000):
                result = await self._query(host, kind)
        except TimeoutError:
            raise self._timed_out(host) from None
        except aiodns.error.DNSError as error:
            raise self._failed(host, error) from None
        except (UnicodeError, ValueError) as error:
            raise DnsError(
                Outcome.DNS_FAILED, f"host {host!r}: not a name that DNS can hold: {error}"
            ) from None
        self._timeouts_in_row = 0
        addresses = tuple(record.data.addr for record in result.answer if hasattr(record.data, "addr"))
        if not addresses:
            raise DnsError(Outcome.DNS_FAILED, f"host {host!r}: no {kind} record")
        return _Found(addresses, min(record.ttl for record in result.answer))

    def _failed(self, host: str, error: aiodns.error.DNSError) -> DnsError:
        code, text = error.args[0], str(error.args[-1])
        if code == TIMEOUT:
            return self._timed_out(host)
        self._timeouts_in_row = 0
        if code == NXDOMAIN:
            return DnsError(Outcome.DNS_NXDOMAIN, f"host {host!r}: no such name")
        if code == NODATA:
            return DnsError(Outcome.DNS_FAILED, f"host {host!r}: the name has no address")
        return DnsError(Outcome.DNS_FAILED, f"host {host!r}: {text}")

    def _timed_out(self, host: str) -> DnsError:
        self._timeouts_in_row += 1
        if self._timeouts_in_row >= STALLED:
            self._timeouts_in_row = 0
            self._retire()
        waited = self._policy.timeout_ms * self._policy.tries
        return DnsError(Outcome.DNS_TIMEOUT, f"host {host!r}: no name server answered within {waited} ms")

    async def _query(self, host: str, kind: str) -> pycares.DNSResult:
        channel = self._open_channel()
        channel.asked += 1
        channel.open += 1
        try:
            return await channel.dns.query_dns(host, kind)
        finally:
            channel.open -= 1
            if channel.retired and not channel.open:
                self._drop(channel)

    def _open_channel(self) -> _Channel:
        if self._channel is not None and self._channel.asked >= RENEW_AFTER:
            self._retire()
        if self._channel is None:
            self._channel = _Channel(
                aiodns.DNSResolver(
                    nameservers=list(self._policy.servers) or None,
                    timeout=self._policy.timeout_ms / 1_000,
                    tries=self._policy.tries,
                )
            )
        return self._channel

    def _retire(self) -> None:
        """Ask nothing more of the channel; it is closed when its last question has ended."""
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.retired = True
            if not channel.open:
                self._drop(channel)

    def _drop(self, channel: _Channel) -> None:
        task = asyncio.ensure_future(channel.dns.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


def _joined(four: asyncio.Task[_Found], six: asyncio.Task[_Found]) -> _Found:
    """Put the two answers together; where neither has addresses, raise the failure that says more."""
    good = [task.result() for task in (four, six) if task.done() and task.exception() is None]
    if good:
        addresses = tuple(address for found in good for address in found.addresses)
        return _Found(addresses, min(found.ttl_seconds for found in good))
    errors = [error for task in (four, six) if task.done() and (error := task.exception()) is not None]
    for outcome in (Outcome.DNS_NXDOMAIN, Outcome.DNS_TIMEOUT):
        for error in errors:
            if isinstance(error, DnsError) and error.outcome is outcome:
                raise error
    raise errors[0]
