"""Measure what a page costs the client in CPU time: `python -m tests.net.measure_client [pages]`.

A server in another process sends one 30 KB answer again and again over kept connections; printed are
microseconds of this process a page, for our fetcher (kept and new connections) and for aiohttp's own client.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import time
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection
from typing import cast

import aiohttp
import uvloop
from yarl import URL

from pipelines.net.http import Fetcher, FetchPolicy
from pipelines.rules.addresses import AddressPolicy

BODY = bytes(range(32, 122)) * 333
HEAD = (
    b"HTTP/1.1 200 OK\r\nServer: x\r\nDate: Mon, 30 Nov 2026 18:08:14 GMT\r\nContent-Type: text/html\r\n"
    b'Last-Modified: Mon, 30 Nov 2026 17:58:07 GMT\r\nETag: "6b0db92f-7530"\r\nContent-Length: %d\r\n\r\n'
    % len(BODY)
)
OPEN = 100


class Served(asyncio.Protocol):
    """Answers every request with the same page."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        for _ in range(data.count(b"\r\n\r\n")):
            self.transport.write(HEAD + BODY)


def serve(tell: Connection) -> None:
    async def main() -> None:
        server = await asyncio.get_running_loop().create_server(Served, "127.0.0.1", 0, backlog=1024)
        tell.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    uvloop.run(main())


async def cost(pages: int, ask: Callable[[], Awaitable[bytes]]) -> float:
    """Return microseconds of CPU a page."""

    async def some(number: int) -> None:
        for _ in range(number):
            assert await ask() == BODY

    await asyncio.gather(*(some(2) for _ in range(OPEN)))
    begun = time.process_time()
    await asyncio.gather(*(some(pages // OPEN) for _ in range(OPEN)))
    return (time.process_time() - begun) / pages * 1e6


async def measure(url: str, pages: int) -> None:
    async with Fetcher(FetchPolicy(addresses=AddressPolicy(("127.0.0.0/8",)))) as fetcher:

        async def ours() -> bytes:
            return (await fetcher.fetch(url)).body

        async def ours_new() -> bytes:
            return (await fetcher.fetch(url, headers={"Connection": "close", "X": "y"})).body

        print(f"ours, kept connections: {await cost(pages, ours):.0f} µs a page")
    async with Fetcher(FetchPolicy(addresses=AddressPolicy(("127.0.0.0/8",)), kept_connections=0)) as fetcher:
        print(f"ours, new connections: {await cost(pages // 4, ours_new):.0f} µs a page")
    jar = aiohttp.DummyCookieJar()
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=OPEN), auto_decompress=False, cookie_jar=jar
    ) as session:

        async def theirs() -> bytes:
            async with session.get(URL(url, encoded=True), allow_redirects=False) as answer:
                return await answer.read()

        print(f"aiohttp, kept connections: {await cost(pages, theirs):.0f} µs a page")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "pages", type=int, nargs="?", default=10_000, help="pages of each kind, 100 or more [10000]"
    )
    pages = parser.parse_args().pages
    hear, tell = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(tell,), daemon=True)
    server.start()
    uvloop.run(measure(f"http://127.0.0.1:{hear.recv()}/page.html", pages))
    server.terminate()
    server.join()


if __name__ == "__main__":
    main()
