"""The fetch loop: a connection to a numeric address takes no thread."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import uvloop

from pipelines.net.loop import FetchLoop

CONNECT = """
import asyncio, os, socket, uvloop
from pipelines.net.loop import FetchLoop

async def main(host, family):
    with socket.socket(family) as server, socket.socket(family) as client:
        server.bind((host, 0))
        server.listen()
        client.setblocking(False)
        before = len(os.listdir("/proc/self/task"))
        await asyncio.get_running_loop().sock_connect(client, server.getsockname())
        print(len(os.listdir("/proc/self/task")) - before)

uvloop.run(main({host!r}, {family}), loop_factory={loop})
"""


def threads_of_a_connection(host: str, family: int, loop: str = "FetchLoop") -> int:
    """Return how many threads a process made for its first connection."""
    script = CONNECT.format(host=host, family=int(family), loop=loop)
    return int(subprocess.run([sys.executable, "-c", script], check=True, capture_output=True).stdout)


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are counted in Linux's /proc")
def test_a_connection_to_a_numeric_address_takes_no_thread() -> None:
    assert threads_of_a_connection("127.0.0.1", socket.AF_INET) == 0
    if Path("/proc/net/if_inet6").exists():
        assert threads_of_a_connection("::1", socket.AF_INET6) == 0
    # uvloop by itself makes its threads; once it does not, FetchLoop is not needed
    assert threads_of_a_connection("127.0.0.1", socket.AF_INET, "uvloop.new_event_loop") > 0


def test_a_refused_connection_is_told_as_by_any_loop() -> None:
    async def main() -> None:
        with socket.socket() as free, socket.socket() as client:
            free.bind(("127.0.0.1", 0))
            client.setblocking(False)
            with pytest.raises(ConnectionRefusedError):
                await asyncio.get_running_loop().sock_connect(client, free.getsockname())

    uvloop.run(main(), loop_factory=FetchLoop)


def test_names_are_looked_up_as_before() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo("localhost", 80, family=socket.AF_INET)
        assert [(kind, where) for _, kind, _, _, where in found] == [(socket.SOCK_STREAM, ("127.0.0.1", 80))]
        datagrams = await loop.getaddrinfo("127.0.0.1", 80, type=socket.SOCK_DGRAM)
        assert {kind for _, kind, _, _, _ in datagrams} == {socket.SOCK_DGRAM}

    uvloop.run(main(), loop_factory=FetchLoop)
