"""Which network addresses may be connected to: public ones, and those that the configuration lists (P9).

The ranges are those of the IANA special-purpose address registries (RFC 6890 and its successors) that are
not globally reachable, and a few more that no public web server has any business in. Where a registry
carves reachable pieces out of a block (AS112 in 192.0.0.0/24 and such) the whole block is refused: no web
site lives there. IPv6 is refused outside 2000::/3, the only part that is handed out as global unicast.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

REFUSED_V4: tuple[tuple[str, str], ...] = (
    ("0.0.0.0/8", "this network"),
    ("10.0.0.0/8", "private"),
    ("100.64.0.0/10", "carrier-grade NAT"),
    ("127.0.0.0/8", "loopback"),
    ("168.63.129.16/32", "cloud metadata"),  # a public-looking address that is answered inside Azure only
    ("169.254.169.254/32", "cloud metadata"),
    ("169.254.0.0/16", "link-local"),
    ("172.16.0.0/12", "private"),
    ("192.0.0.0/24", "protocol assignments"),
    ("192.0.2.0/24", "documentation"),
    ("192.88.99.0/24", "6to4 relay"),
    ("192.168.0.0/16", "private"),
    ("198.18.0.0/15", "benchmarking"),
    ("198.51.100.0/24", "documentation"),
    ("203.0.113.0/24", "documentation"),
    ("224.0.0.0/4", "multicast"),
    ("255.255.255.255/32", "broadcast"),
    ("240.0.0.0/4", "reserved"),
)

REFUSED_V6: tuple[tuple[str, str], ...] = (
    ("::/128", "unspecified"),
    ("::1/128", "loopback"),
    ("::ffff:0:0/96", "IPv4-mapped"),
    ("::ffff:0:0:0/96", "IPv4-translated"),
    ("::/96", "IPv4-compatible"),
    ("64:ff9b::/96", "NAT64"),
    ("64:ff9b:1::/48", "local-use NAT64"),
    ("100::/64", "discard-only"),
    ("2001::/32", "Teredo"),
    ("2001:2::/48", "benchmarking"),
    ("2001::/23", "protocol assignments"),
    ("2001:db8::/32", "documentation"),
    ("2002::/16", "6to4"),
    ("3fff::/20", "documentation"),
    ("fc00::/7", "unique local"),
    ("fe80::/10", "link-local"),
    ("fec0::/10", "site-local"),
    ("ff00::/8", "multicast"),
    ("::/3", "reserved"),
    ("4000::/2", "reserved"),
    ("8000::/1", "reserved"),
)

# Ports of other protocols, which browsers refuse too: WHATWG Fetch, "port blocking" (bad ports).
REFUSED_PORTS = frozenset(
    {
        0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104,
        109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526,
        530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659,
        4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
    }
)  # fmt: skip


def _table(rows: Sequence[tuple[str, str]]) -> tuple[tuple[Network, str], ...]:
    return tuple((ipaddress.ip_network(text), f"{word} ({text})") for text, word in rows)


_V4, _V6 = _table(REFUSED_V4), _table(REFUSED_V6)


@dataclass(frozen=True)
class Allowed:
    """A network that may be reached although it is not public; port None = every port."""

    network: Network
    port: int | None = None

    def covers(self, address: Address, port: int | None) -> bool:
        """Tell whether a connection to that address and port falls under this permission."""
        return address in self.network and (self.port is None or self.port == port)


def allowed(text: str) -> Allowed:
    """Return the permission that a line of `[security] allow_addresses` gives.

    A network or an address, with `:port` behind it where one port alone is meant (IPv6 then in brackets).
    Raises ValueError with a sentence for anything else.

    >>> allowed("127.0.0.1:8081")
    Allowed(network=IPv4Network('127.0.0.1/32'), port=8081)
    """
    network, port = text.strip(), None
    if network.startswith("["):
        network, _, rest = network[1:].partition("]")
        port = rest.removeprefix(":") or None
    elif network.count(":") == 1:
        network, _, port = network.partition(":")
    try:
        number = None if port is None else int(port)
        if number is not None and not 0 < number < 65536:
            raise ValueError(f"port {number} is not between 1 and 65535")
        return Allowed(ipaddress.ip_network(network, strict=False), number)
    except ValueError as error:
        raise ValueError(
            f"allow_addresses: {text!r} is not a network such as '127.0.0.0/8', '[::1]' or '127.0.0.1:8081': {error}"
        ) from error


@dataclass(frozen=True)
class AddressPolicy:
    """Networks that may be reached although they are not public: texts as in the conf, networks, permissions.

    public: whether public addresses may be reached at all; False keeps a toy or a test on this machine.
    """

    allow: tuple[str | Network | Allowed, ...] = ()
    public: bool = True

    @property
    def permissions(self) -> tuple[Allowed, ...]:
        """The permissions, read; raises ValueError for a text that is no network."""
        return _permissions(self.allow)


@lru_cache(maxsize=64)
def _permissions(allow: tuple[str | Network | Allowed, ...]) -> tuple[Allowed, ...]:
    read = []
    for entry in allow:
        if isinstance(entry, str):
            read.append(allowed(entry))
        else:
            read.append(entry if isinstance(entry, Allowed) else Allowed(entry))
    return tuple(read)


def refusal(address: str, policy: AddressPolicy, *, port: int | None = None) -> str | None:
    """Return why that address must not be connected to, or None where it may.

    address: an IPv4 or IPv6 address as text, without brackets; a zone (`%eth0`) is ignored. Text that is no
    address is refused. port: the port of the connection, for permissions that name one; None fits only
    permissions without a port, 0 fits all (the port is checked when it is known).

    >>> refusal("127.0.0.1", AddressPolicy())
    'loopback (127.0.0.0/8)'
    >>> refusal("127.0.0.1", AddressPolicy(("127.0.0.0/8",))) is None
    True
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return f"not an address: {address[:80]!r}"
    reason = _special(parsed)
    if reason is None and policy.public:
        return None
    if any(one.covers(parsed, one.port if port == 0 else port) for one in policy.permissions):
        return None
    return (
        reason
        or "public, and this crawl may not leave the machine: it has no contact, or a pause under 1000 ms"
    )


def port_refusal(port: int | None) -> str | None:
    """Return why that port must not be asked for web pages, or None where it may.

    >>> port_refusal(25)
    'port 25 belongs to another protocol (WHATWG Fetch, bad ports)'
    """
    if port in REFUSED_PORTS:
        return f"port {port} belongs to another protocol (WHATWG Fetch, bad ports)"
    return None


@lru_cache(maxsize=4096)
def _special(address: Address) -> str | None:
    for network, reason in _V4 if address.version == 4 else _V6:
        if address in network:
            return reason
    return None
