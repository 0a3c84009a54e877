"""Names that are never asked of a server: address literals, localhost, and the configuration's table."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

import xxhash


class StaticNames:
    """The table of conf [dns] static, read: name or '*.suffix' to addresses.

    Several addresses stand with commas or blanks between. A network ('127.0.0.0/8') gives each name an
    address of its own in it, always the same. '*.test' does not hold for 'test' itself; an exact name goes
    before a suffix, a longer suffix before a shorter. Raises ValueError for what is no address.
    """

    def __init__(self, static: Mapping[str, str]) -> None:
        self._exact: dict[str, list[str]] = {}
        self._suffixes: dict[str, list[str]] = {}
        for name, text in static.items():
            addresses = text.replace(",", " ").split()
            for address in addresses:
                ipaddress.ip_network(address, strict=False)
            lowered = name.lower().rstrip(".")
            if lowered.startswith("*."):
                self._suffixes[lowered[2:]] = addresses
            else:
                self._exact[lowered] = addresses

    def addresses(self, host: str) -> tuple[str, ...]:
        """Return the addresses of a literal or of a name in the table; () where a server must be asked.

        host: in small letters, without brackets and without a trailing dot.
        """
        literal = _literal(host)
        if literal is not None:
            return (literal,)
        found = self._exact.get(host)
        labels = host
        while found is None and "." in labels:
            labels = labels.partition(".")[2]
            found = self._suffixes.get(labels)
        if found is not None:
            return tuple(_of_network(text, host) if "/" in text else text for text in found)
        if host == "localhost" or host.endswith(".localhost"):  # RFC 6761, 6.3: never asked of a server
            return ("127.0.0.1", "::1")
        return ()


def _literal(host: str) -> str | None:
    if ":" not in host and not host[-1:].isdigit():
        return None
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return None


def _of_network(text: str, host: str) -> str:
    """Return the address of a network that is this host's: always the same one, not the network's first."""
    network = ipaddress.ip_network(text, strict=False)
    place = xxhash.xxh3_64_intdigest(host.encode()) % max(1, network.num_addresses - 2)
    return str(network[min(1 + place, network.num_addresses - 1)])
