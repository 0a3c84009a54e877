"""The times of an answer by the kernel's word: a loop that is late does not make the server slow."""

from __future__ import annotations

import asyncio
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from pipelines.net.arrival import ages_ms, waited_ms
from pipelines.net.http import Fetcher, FetchPolicy
from pipelines.rules.addresses import AddressPolicy


@pytest.mark.parametrize(
    ("ages", "waited"),
    [
        (None, 400),
        ((390, 350), 50),  # and a tick of the kernel's
        ((900, 0), 400),  # sent before we wrote: of an earlier request
        ((100, 380), 10),  # came before the last bytes were sent
        ((0, 0), 10),
        ((390, 900), 10),
    ],
)
def test_the_kernels_times_never_exceed_what_was_seen(ages, waited):
    """P1: what is called the server's slowness is never more than what we saw, and never less than nothing."""
    assert waited_ms(ages, written_ms=1_000, noted_ms=1_400) == waited


def test_a_clock_that_stands_still_gives_zero():
    assert waited_ms((500, 20), written_ms=7, noted_ms=7) == 0


def test_no_socket_and_no_tcp_tell_nothing():
    assert ages_ms(None) is None
    ours, other = socket.socketpair()
    with ours, other:
        assert ages_ms(ours) is None


@pytest.mark.skipif(not hasattr(socket, "TCP_INFO"), reason="the kernel tells these times on Linux only")
def test_a_busy_loop_does_not_make_the_server_slow():
    """P1: the server answers at once while our loop is held for 400 ms. The pause must not become 4 s."""

    def answer(listener):
        connection, _ = listener.accept()
        with connection:
            while not connection.recv(65_536).endswith(b"\r\n\r\n"):
                pass
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            connection.recv(1)  # until we hang up

    def hold():
        until = time.monotonic() + 0.4
        while time.monotonic() < until:
            pass

    async def crawl(port):
        loop = asyncio.get_running_loop()
        async with Fetcher(FetchPolicy(addresses=AddressPolicy(("127.0.0.1",)))) as fetcher:
            return await fetcher.fetch(f"http://127.0.0.1:{port}/", before_send=lambda: loop.call_soon(hold))

    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:
        serving = pool.submit(answer, listener)
        exchange = asyncio.run(crawl(listener.getsockname()[1]))
        serving.result()
    assert exchange.status == 200
    assert exchange.first_byte_ms < 200 and exchange.total_ms < 200
