"""Listening at many loopback addresses on one port."""

from __future__ import annotations

import resource
import socket


def listening(addresses: tuple[str, ...], port: int) -> list[socket.socket]:
    """Return one bound socket an address, all on one port; 0 = any port that is free at all of them.

    Raises OSError with the address in it if a port that was asked for is taken.
    """
    _allow_files(len(addresses) + 512)
    for attempt in range(20):
        sockets: list[socket.socket] = []
        try:
            for address in addresses:
                sockets.append(_bound(address, port or (sockets[0].getsockname()[1] if sockets else 0)))
            return sockets
        except OSError:
            for one in sockets:
                one.close()
            if port or attempt == 19:
                raise
    raise AssertionError("unreachable")


def _bound(address: str, port: int) -> socket.socket:
    one = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.setblocking(False)
    try:
        one.bind((address, port))
    except OSError as error:
        one.close()
        raise OSError(error.errno, f"toy web: cannot listen at {address}:{port}: {error.strerror}") from error
    return one


def _allow_files(count: int) -> None:
    """Raise the soft limit of open files to `count` where the hard one permits it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(soft, min(max(count, 4096), hard if hard != resource.RLIM_INFINITY else 1 << 20))
    if wanted > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
