"""A raw client for the toy web's server: it sees the bytes, not what a library makes of them."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from http.client import HTTPConnection

from pipelines.toyweb import RunningServer


@dataclass(frozen=True)
class Got:
    """An answer as received: body with the transfer coding removed, content coding kept."""

    status: int
    headers: dict[str, str]
    body: bytes


def get(
    server: RunningServer,
    host: str,
    target: str,
    *,
    method: str = "GET",
    headers: dict[str, str] | None = None,
) -> Got:
    """Ask once, on a connection of its own."""
    connection = HTTPConnection(address_of(server, host), server.port, timeout=10)
    connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
    connection.putheader("Host", f"{host}:{server.port}")
    for name, value in (headers or {}).items():
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    got = Got(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
    connection.close()
    return got


def address_of(server: RunningServer, host: str) -> str:
    """Return the address of a name of the server's web."""
    found = server.web.host(host)
    assert found is not None
    return found.address


def request(server: RunningServer, host: str, target: str, *, more: str = "") -> bytes:
    """Return the bytes of a GET request."""
    return f"GET {target} HTTP/1.1\r\nHost: {host}:{server.port}\r\n{more}\r\n".encode()


def connect(server: RunningServer, host: str) -> socket.socket:
    """Return a connection to a host."""
    return socket.create_connection((address_of(server, host), server.port), timeout=10)


def raw(server: RunningServer, host: str, target: str) -> bytes:
    """Ask once and return all bytes until the server ends the connection."""
    with connect(server, host) as one:
        one.sendall(request(server, host, target, more="Connection: close\r\n"))
        pieces = []
        while piece := one.recv(65_536):
            pieces.append(piece)
        return b"".join(pieces)
