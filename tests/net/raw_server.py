"""A server on 127.0.0.1 that answers with the very bytes it was given: for answers that no HTTP library would send.

It runs in the loop of the test. Everything is bounded: connections, bytes of a request, requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import ssl
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
REQUEST_BYTES = 65_536
CONNECTIONS = 1_000
ROUTE = re.compile(r"(\S+) (\S+)(?: \((no )?([\w-]+)\))?")


@dataclass(frozen=True)
class Script:
    """How one request is answered: pieces of bytes, then what becomes of the connection.

    then: 'close'; 'hold' (stay silent until the client leaves); 'keep' (read the next request); 'reset'
    (TCP RST); 'repeat' (send the last piece again and again, every `every_ms`, until the client leaves).
    """

    pieces: Sequence[bytes] = ()
    then: str = "close"
    every_ms: int = 1


@dataclass
class RawServer:
    """Routes are 'METHOD target', with ' (Header)' behind it where the request must carry that header."""

    routes: Mapping[str, bytes | Script]
    tls: ssl.SSLContext | None = None
    address: str = "127.0.0.1"
    greeting: bytes | None = None  # sent at once and then closed: a server of another protocol
    hasty: bytes = b""  # sent at once, before any request; then requests are answered by the routes
    silent: bool = False  # takes connections and never says a word
    requests: list[bytes] = field(default_factory=list)  # heads as received
    connections: int = 0
    port: int = 0

    async def __aenter__(self) -> RawServer:
        self._server = await asyncio.start_server(self._serve, self.address, 0, ssl=self.tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()
        for writer in list(self.open):
            writer.transport.abort()

    def __post_init__(self) -> None:
        self.open: set[asyncio.StreamWriter] = set()

    @property
    def targets(self) -> list[str]:
        """The request targets seen, in order."""
        return [head.split(b" ")[1].decode("latin-1") for head in self.requests]

    def url(self, target: str = "/", host: str | None = None) -> str:
        """Return the URL of a target on this server."""
        scheme = "https" if self.tls else "http"
        return f"{scheme}://{host or self.address}:{self.port}{target}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open.add(writer)
        try:
            if self.silent:
                await reader.read()
            elif self.greeting is not None:
                writer.write(self.greeting)
            elif self.connections <= CONNECTIONS:
                writer.write(self.hasty)
                with contextlib.suppress(
                    ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError
                ):
                    while await self._one(reader, writer):
                        pass
        finally:
            self.open.discard(writer)
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; True where the connection goes on."""
        head = await reader.readuntil(b"\r\n\r\n")
        self.requests.append(head[:REQUEST_BYTES])
        script = self._answer(head)
        for piece in script.pieces:
            writer.write(piece)
            await writer.drain()
        if script.then == "repeat":
            await self._repeat(reader, writer, script)
        elif script.then == "hold":
            await reader.read()
        elif script.then == "reset":
            sock = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return script.then == "keep"

    async def _repeat(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, script: Script
    ) -> None:
        gone = asyncio.ensure_future(reader.read())
        while not gone.done():
            writer.write(script.pieces[-1])
            await writer.drain()
            await asyncio.wait((gone,), timeout=script.every_ms / 1_000)

    def _answer(self, head: bytes) -> Script:
        method, target = head.decode("latin-1").split(" ")[:2]
        best: bytes | Script = Script((NOT_FOUND,), "keep")
        for route, answer in self.routes.items():
            match = ROUTE.fullmatch(route)
            assert match, f"not a route: {route!r}"
            if match.group(1, 2) != (method, target):
                continue
            has = match[4] is None or f"\r\n{match[4]}:".lower() in head.decode("latin-1").lower()
            if has != bool(match[3]):
                best = answer
        return best if isinstance(best, Script) else Script((best,))
