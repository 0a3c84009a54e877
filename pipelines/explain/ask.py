"""One polite request for a site's robots.txt, outside any cycle: nothing is stored.

The lake's lease is held until the pauses after it are over, so that no cycle asks the same host too soon (promise
P1); a host whose clock says no is not asked. The request does not count in the month's budget: nothing is written.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from lake.lease import Lease
from lake.snapshot import Lake
from pipelines.config import Settings, require_contact
from pipelines.cycle import policies
from pipelines.explain import reads
from pipelines.explain.prospects import ms
from pipelines.failure import Failure
from pipelines.net import bodies
from pipelines.net.exchange import Exchange
from pipelines.net.http import Fetcher
from pipelines.rules import urls
from pipelines.rules.outcome import Outcome
from pipelines.rules.robots_policy import RobotsState, robots_url, state_of

PATIENCE_MS = 60_000
"""A host whose pause is longer is not asked: nobody waits so long at a terminal."""


@dataclass(frozen=True)
class Asked:
    """What came of robots.txt. body: decoded, b"" unless the state is "rules". url: the last one asked."""

    state: RobotsState
    body: bytes
    url: str
    exchange: Exchange


@dataclass
class Asking:
    """A context in which robots.txt may be asked for; it ends when every host asked has had its pause."""

    settings: Settings
    lake: Lake | None
    _free_ms: dict[str, int] = field(default_factory=dict)  # monotonic
    _stack: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Asking:
        require_contact(self.settings)
        if self.lake is not None:
            path = self.lake.layout.lease
            self._stack.enter_context(Lease.acquire(path, holder="noria check robots", seconds=300))
        return self

    def __exit__(self, *error: object) -> None:
        with self._stack:
            rest = max(self._free_ms.values(), default=0) - _monotonic_ms()
            time.sleep(max(rest, 0) / 1_000)

    def robots(self, url: str) -> Asked:
        """Ask for the robots.txt that governs a URL in wire form. Raises Failure if its host may not be asked now."""
        return asyncio.run(self._robots(robots_url(urls.site_of(url))))

    async def _robots(self, url: str) -> Asked:
        fetch, dns = policies.fetch_policy(self.settings), policies.dns_policy(self.settings)
        async with Fetcher(fetch, dns) as fetcher:
            for hop in range(self.settings.robots.redirects + 1):
                await self._wait(urls.host_of(url))
                exchange = await fetcher.fetch(url, body_bytes=self.settings.robots.max_bytes)
                self._free_ms[urls.host_of(url)] = _monotonic_ms() + self._pause(urls.host_of(url))
                target = urls.resolve_location(url, exchange.header("location") or "")
                if (
                    exchange.outcome is not Outcome.REDIRECT
                    or not target
                    or hop == self.settings.robots.redirects
                ):
                    break
                url = target
        state = state_of(exchange.status)
        body = exchange.body if state is RobotsState.RULES else b""
        limit = self.settings.limits.decoded_bytes
        decoded = bodies.decode(body, exchange.header("content-encoding"), limit=limit)
        if state is RobotsState.RULES and bodies.is_spoilt(exchange.truncated, decoded, limit=limit):
            state = RobotsState.UNREACHABLE
        return Asked(state, decoded.data, url, exchange)

    async def _wait(self, host: str) -> None:
        """Wait for a host's clock, or raise Failure if that takes too long."""
        row = self._row(host)
        now = time.time_ns() // 1_000_000
        rest = max(
            ms(row["next_allowed_at"] if row else None) - now, self._free_ms.get(host, 0) - _monotonic_ms(), 0
        )
        if rest > PATIENCE_MS or self._pause(host) > PATIENCE_MS:
            raise Failure(
                f"{host} may not be asked now: its clock opens in {rest / 1_000:,.0f} s and its pause is "
                f"{self._pause(host) / 1_000:g} s; see noria hosts {host}"
            )
        await asyncio.sleep(rest / 1_000)

    def _pause(self, host: str) -> int:
        row = self._row(host)
        return max(self.settings.delay.floor_ms, (row["delay_ms"] or 0) if row else 0)

    def _row(self, host: str) -> dict[str, Any] | None:
        if self.lake is None:
            return None
        rows = reads.host_row(self.lake, host).to_pylist()
        return rows[0] if rows else None


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000
