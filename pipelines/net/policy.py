"""How the network is used, as values: importing this loads no network library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pipelines.rules.addresses import AddressPolicy


@dataclass(frozen=True)
class DnsPolicy:
    """How names are looked up. Fields as in conf [dns]."""

    static: Mapping[str, str] = field(default_factory=dict)
    # name or '*.suffix' to addresses with commas or blanks between; a network gives each name one of its own
    servers: Sequence[str] = ()  # 'host' or 'host:port'; empty = the system's
    timeout_ms: int = 5_000  # for one try
    tries: int = 2
    concurrency: int = 64  # questions open at once
    ttl_floor_seconds: int = 60
    ttl_ceiling_seconds: int = 86_400
    negative_ttl_seconds: int = 600  # 'no such name', 'no address'
    ipv6: bool = True  # whether AAAA is asked for
    cache_hosts: int = 200_000  # names kept in memory


@dataclass(frozen=True)
class FetchPolicy:
    """How pages are fetched. Fields as in conf [fetch] and [limits]; no time-out may be 0."""

    user_agent: str = "Noria"
    connect_ms: int = 10_000  # connecting, TLS included; names have their own time-out ([dns])
    first_byte_ms: int = 30_000  # from the request to the complete answer head
    idle_ms: int = 20_000  # silence in the middle of an answer
    total_ms: int = 120_000  # from the request to the end of the answer
    body_bytes: int = 10_485_760
    header_bytes: int = 65_536
    connections: int = 200  # exchanges at once; more wait
    kept_connections: int = 2_048  # sites with a kept connection; fewer where open files are scarce
    keep_ms: int = 15_000  # how long an idle one is kept
    addresses: AddressPolicy = field(default_factory=AddressPolicy)
    verify_tls: bool = True
    ca_file: Path | None = None  # more certificates to trust
