"""Look for web servers at the addresses of networks of one's own; the hosts they name go into the inbox.

It connects to nothing that [security] scan_networks does not hold, so many times a second as it says, to an address
only once at a time; each connection asks for the head of /robots.txt and no more.
"""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lake import inbox
from pipelines.config import Settings
from pipelines.failure import Misuse
from pipelines.net.knock import Knock, knock
from pipelines.rules.hosts import normal_host
from pipelines.rules.urls import host_of, wire

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

ROWS_A_FILE = 1_000
"""Hosts found before they become an inbox file."""


@dataclass(frozen=True)
class ScanPolicy:
    """Where and how fast. networks: those that may be scanned; per_second: connections; at_once: addresses."""

    networks: tuple[Network, ...]
    ports: tuple[int, ...]
    per_second: float
    at_once: int
    user_agent: str
    timeout_ms: int


@dataclass
class Scanned:
    """What came of a scan."""

    addresses: int = 0
    connections: int = 0
    servers: int = 0
    hosts: int = 0
    files: list[str] = field(default_factory=list)

    def figures(self) -> dict[str, Any]:
        """Return the figures as plain values."""
        return {
            "addresses": self.addresses,
            "connections": self.connections,
            "servers": self.servers,
            "hosts": self.hosts,
            "files": self.files,
        }


def policy_of(settings: Settings, ports: str) -> ScanPolicy:
    """Return what settings and a list of ports ("80,443") say of a scan; raises Misuse for a port that is none."""
    found = []
    for text in ports.split(","):
        if not (text.strip().isdecimal() and 0 < int(text) < 65_536):
            raise Misuse(f"--ports {ports}: ports are numbers from 1 to 65535 with commas between, as 80,443")
        found.append(int(text))
    security = settings.security
    return ScanPolicy(
        networks=tuple(ipaddress.ip_network(text) for text in security.scan_networks),
        ports=tuple(dict.fromkeys(found)),
        per_second=security.scan_per_second,
        at_once=security.scan_connections,
        user_agent=settings.user_agent,
        timeout_ms=settings.fetch.connect_ms,
    )


def allowed(texts: Sequence[str], policy: ScanPolicy) -> list[Network]:
    """Return the networks; raises Misuse unless each lies in one that may be scanned."""
    if not policy.networks:
        raise Misuse(
            "scanning is off; list networks of your own in [security] scan_networks, "
            "e.g. --set security.scan_networks='[\"192.0.2.0/24\"]'"
        )
    networks = []
    for text in texts:
        try:
            network = ipaddress.ip_network(text, strict=False)
        except ValueError as error:
            raise Misuse(f"{text} is no network: write it as 192.0.2.0/24") from error
        if not any(_holds(ours, network) for ours in policy.networks):
            named = ", ".join(map(str, policy.networks))
            raise Misuse(f"{text} may not be scanned: [security] scan_networks holds only {named}")
        networks.append(network)
    return networks


def _holds(ours: Network, network: Network) -> bool:
    return (
        ours.version == network.version
        and ours.network_address <= network.network_address  # type: ignore[operator]  # one version
        and network.broadcast_address <= ours.broadcast_address  # type: ignore[operator]
    )


def scan(
    root: Path, networks: Sequence[Network], policy: ScanPolicy, *, tell: Callable[[str], None]
) -> Scanned:
    """Scan networks that `allowed` has passed, and put the hosts found into the inbox of the lake at `root`."""
    scanning = _Scan(root, policy, tell)
    asyncio.run(scanning.run(address for network in networks for address in _addresses(network)))
    return scanning.scanned


def _addresses(network: Network) -> Iterator[str]:
    """Yield a network's host addresses one by one; network and broadcast address aside where it has them."""
    return map(str, network.hosts())


class _Scan:
    """A scan under way."""

    def __init__(self, root: Path, policy: ScanPolicy, tell: Callable[[str], None]) -> None:
        self._root, self._policy, self._tell = root, policy, tell
        self._next, self._gate = 0.0, asyncio.Lock()
        self._rows: list[dict[str, Any]] = []
        self._known: set[str] = set()
        self.scanned = Scanned()

    async def run(self, addresses: Iterator[str]) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._policy.at_once):
                    group.create_task(self._work(addresses))
        finally:
            self._flush()

    async def _work(self, addresses: Iterator[str]) -> None:
        for address in addresses:  # shared by the workers: each address is taken by one
            self.scanned.addresses += 1
            for port in self._policy.ports:
                await self._turn()
                self.scanned.connections += 1
                self._note(
                    await knock(
                        address, port, user_agent=self._policy.user_agent, timeout_ms=self._policy.timeout_ms
                    )
                )

    async def _turn(self) -> None:
        """Wait for the next connection's turn: a late one does not bring the next any closer."""
        async with self._gate:
            while (wait := self._next - time.monotonic()) > 0:
                await asyncio.sleep(wait)
            self._next = time.monotonic() + 1 / self._policy.per_second

    def _note(self, found: Knock) -> None:
        if not found.is_server:
            return
        self.scanned.servers += 1
        hosts = candidates(found)
        self._tell(f"{found.address}:{found.port} {found.server or 'web server'}: {', '.join(hosts)}")
        for url, how in hosts.items():
            if url not in self._known:
                self._known.add(url)
                self._rows.append({"url": url, "source": "scan", "meta": {"scan": provenance(found, how)}})
                self.scanned.hosts += 1
        if len(self._rows) >= ROWS_A_FILE:
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            self.scanned.files.append(inbox.put(self._root, self._rows, kind="scan"))
            self._rows.clear()


def candidates(found: Knock) -> dict[str, str]:
    """Return the front pages of the hosts that a server names, and how it named each: certificate, location, address.

    The address itself counts only where no name is told. A name with a star stands for the name below it.
    """
    scheme = "https" if found.tls else "http"
    port = "" if found.port == (443 if found.tls else 80) else f":{found.port}"
    hosts = {}
    for name in found.names:
        host = normal_host(name.removeprefix("*."))
        if host and "*" not in host:
            hosts[f"{scheme}://{host}{port}/"] = "certificate"
    target = wire(found.location) if found.location else None
    if target is not None and host_of(target) != found.address:
        hosts.setdefault(f"{target.split('/', 3)[0]}//{target.split('/', 3)[2]}/", "location")
    address = f"[{found.address}]" if ":" in found.address else found.address
    return hosts or {f"{scheme}://{address}{port}/": "address"}


def provenance(found: Knock, how: str) -> dict[str, Any]:
    """Return what is kept of how a host was found."""
    return {
        "address": found.address,
        "port": found.port,
        "named_by": how,
        "server": found.server,
        "status": found.status,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
