"""The toy web's server: it hears, asks the truth, writes raw bytes and logs; it has no rule of its own."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import cast

import uvloop

from pipelines.toyweb.answer import Answer, End, http_date
from pipelines.toyweb.hosts import Kind
from pipelines.toyweb.log import Log, Row
from pipelines.toyweb.sockets import listening
from pipelines.toyweb.truth import ToyWeb

Clock = Callable[[], int]
HEAD_LIMIT = 65_536
BACKLOG = 512
FOREVER_S = 1e9


def wall_clock() -> int:
    """Return ms since 1970."""
    return time.time_ns() // 1_000_000


def _monotonic() -> int:
    return time.monotonic_ns() // 1_000_000


class ToyServer:
    """The part of a server that its connections share.

    clock: the time at which the web is served, ms since 1970; a test may give one that stands still or runs fast.
    """

    def __init__(self, web: ToyWeb, log: Log, clock: Clock = wall_clock) -> None:
        self.web, self.log, self.clock = web, log, clock
        self.connections = self.requests = 0
        self.live: set[Connection] = set()
        self._visits: dict[tuple[str, str], int] = {}
        self._servers: list[asyncio.Server] = []
        self._date = (0, "")

    async def open(self, port: int = 0) -> int:
        """Listen at every address of the web, all on one port; return it. 0 = any that is free at all of them."""
        loop = asyncio.get_running_loop()
        sockets = listening(self.web.addresses(), port)
        for one in sockets:
            self._servers.append(
                await loop.create_server(lambda: Connection(self), sock=one, backlog=BACKLOG)
            )
        return int(sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Stop listening and end all connections; open requests are logged as not whole."""
        for server in self._servers:
            server.close()
        for connection in list(self.live):
            connection.abort()
        await asyncio.sleep(0)

    def answer(self, host: str, target: str, method: str, headers: dict[str, str], now_ms: int) -> Answer:
        """Return the web's answer; only for BUSY hosts it is counted how often a URL was asked."""
        visit = 0
        found = self.web.host(host.partition(":")[0])
        if found is not None and found.kind is Kind.BUSY:
            visit = self._visits.get((host, target), 0)
            self._visits[host, target] = visit + 1
        return self.web.answer(host, target, method, headers, now_ms, visit=visit)

    def date(self, now_ms: int) -> str:
        """Return the Date header's text, made once a second."""
        if self._date[0] != now_ms // 1000:
            self._date = (now_ms // 1000, http_date(now_ms))
        return self._date[1]


class Connection(asyncio.Protocol):
    """One client's connection: requests are answered in turn, one at a time."""

    def __init__(self, server: ToyServer) -> None:
        self._server = server
        self._buffer = bytearray()
        self._skip = 0  # bytes of a request body still to come
        self._first_ms: int | None = None
        self._row: Row | None = None
        self._task: asyncio.Task[None] | None = None
        self._turn = 0
        self._room = asyncio.Event()
        self._room.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._server.connections += 1
        self._number = self._server.connections
        self._server.live.add(self)
        self._peer = _named(transport.get_extra_info("peername"))
        self._address = _named(transport.get_extra_info("sockname")).rpartition(":")[0]

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.live.discard(self)
        self._room.set()
        if self._task is not None:
            self._task.cancel()
        self._finish(whole=False)

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()

    def data_received(self, data: bytes) -> None:
        if self._first_ms is None:
            self._first_ms = _monotonic()
        self._buffer += data
        if self._row is None:
            self._next()

    def abort(self) -> None:
        """End the connection at once."""
        self._transport.abort()
        self._finish(whole=False)

    def _next(self) -> None:
        """Answer the requests whose heads are complete, as long as each is answered at once."""
        while self._row is None and not self._transport.is_closing():
            gone = min(self._skip, len(self._buffer))
            del self._buffer[:gone]
            self._skip -= gone
            end = self._buffer.find(b"\r\n\r\n")
            if self._skip or end < 0:
                self._wait_for_more()
                return
            head = bytes(self._buffer[:end])
            del self._buffer[: end + 4]
            self._hear(head)

    def _wait_for_more(self) -> None:
        if len(self._buffer) > HEAD_LIMIT:
            self._transport.close()
        elif not self._buffer:
            self._first_ms = None

    def _hear(self, head: bytes) -> None:
        """Note the request and answer it."""
        lines = head.decode("latin-1").split("\r\n")
        words = lines[0].split(" ")
        headers = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines[1:])
        }
        method, target = (words[0], words[1]) if len(words) == 3 else ("BAD", lines[0][:200])
        host = headers.get("host", "").lower()
        if target.startswith("http://"):
            host, _, rest = target[7:].partition("/")
            target = "/" + rest
        self._skip = int(headers["content-length"]) if headers.get("content-length", "").isdecimal() else 0
        now_ms = self._server.clock()
        self._note(host, method, target, now_ms, headers.get("user-agent", ""))
        close = headers.get("connection", "").lower() == "close" or lines[0].endswith("HTTP/1.0")
        if method == "BAD" or not host:
            self._send(Answer(400, body=b"bad request\n", end=End.CLOSE), method, now_ms, close=True)
            return
        self._send(self._server.answer(host, target, method, headers, now_ms), method, now_ms, close=close)

    def _note(self, host: str, method: str, target: str, now_ms: int, agent: str) -> None:
        self._server.requests += 1
        self._turn += 1
        started = self._first_ms if self._first_ms is not None else _monotonic()
        self._first_ms = None if not self._buffer else started
        self._row = Row(
            self._server.requests, started, None, None, now_ms, host.partition(":")[0], method, target,
            None, 0, False, 0, self._peer, self._address, self._number, self._turn, agent,
        )  # fmt: skip

    def _send(self, answer: Answer, method: str, now_ms: int, *, close: bool) -> None:
        """Write an answer: at once where it can be, else in a task of its own."""
        assert self._row is not None
        self._row.hold_ms = answer.hold_ms
        date = self._server.date(now_ms)
        if not answer.instant or not self._room.is_set():
            self._server.log.write(self._row)
            self._task = asyncio.get_running_loop().create_task(self._play(answer, method, date, close=close))
            return
        data = b"".join(answer.pieces(date, method=method, close=close))
        self._row.status = answer.status
        self._row.bytes = len(data)
        self._row.first_ms = _monotonic()
        self._finish(whole=True)  # before the write: the client cannot know the end sooner than the log
        self._transport.write(data)
        if close or answer.end is End.CLOSE:
            self._transport.close()

    async def _play(self, answer: Answer, method: str, date: str, *, close: bool) -> None:
        """Write an answer that takes time or breaks off."""
        row = self._row
        assert row is not None
        if answer.before_ms:
            await asyncio.sleep(answer.before_ms / 1000)
        row.status = answer.status if answer.cut is None or answer.cut > 12 else None
        pieces = answer.pieces(date, method=method, close=close)
        piece: bytes | None = next(pieces, b"")
        while piece is not None:
            following = next(pieces, None)
            await self._room.wait()
            if self._transport.is_closing():
                return
            row.first_ms = _monotonic() if piece and row.first_ms is None else row.first_ms
            row.bytes += len(piece)
            if following is None and answer.end in (End.KEEP, End.CLOSE):
                self._finish(whole=answer.cut is None)
            self._transport.write(piece)
            piece = following
            if piece is not None:
                await asyncio.sleep(answer.piece_ms / 1000)
        await self._end(answer, close=close)

    async def _end(self, answer: Answer, *, close: bool) -> None:
        """Do with the connection what the answer says; then go on with the next request."""
        if answer.end is End.HANG:
            await asyncio.sleep(answer.hang_ms / 1000 if answer.hang_ms else FOREVER_S)
        if answer.end in (End.HANG, End.RESET):
            self._reset()
        elif close or answer.end is End.CLOSE:
            self._transport.close()
        else:
            self._next()

    def _reset(self) -> None:
        """End the connection with a TCP reset."""
        self._finish(whole=False)
        with contextlib.suppress(OSError):
            one = self._transport.get_extra_info("socket")
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()

    def _finish(self, *, whole: bool) -> None:
        """Log the request as ended, now, if one is open."""
        if self._row is None:
            return
        row, self._row = self._row, None
        row.end_ms = _monotonic()
        row.whole = whole
        self._server.log.write(row)


def _named(address: tuple[str, int] | None) -> str:
    return f"{address[0]}:{address[1]}" if address else ""


class RunningServer:
    """A server in a thread: its port, its log, and a way to stop it. A context manager too."""

    def __init__(self, web: ToyWeb, port: int, log: Log, clock: Clock) -> None:
        self.web, self.log = web, log
        self._loop = uvloop.new_event_loop()
        self._server = ToyServer(web, log, clock)
        ready: Future[int] = Future()
        self._thread = threading.Thread(target=self._run, args=(port, ready), name="toyweb", daemon=True)
        self._thread.start()
        self.port = ready.result()

    def _run(self, port: int, ready: Future[int]) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            ready.set_result(self._loop.run_until_complete(self._server.open(port)))
        except OSError as error:
            ready.set_exception(error)
            return
        self._loop.run_forever()
        self._loop.run_until_complete(self._server.close())
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    @property
    def connections(self) -> int:
        """Connections accepted so far."""
        return self._server.connections

    def stop(self) -> None:
        """Stop serving; the log stays readable."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        self.log.close()

    def __enter__(self) -> RunningServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def serve_in_thread(
    web: ToyWeb, port: int = 0, *, log_path: Path | None = None, clock: Clock = wall_clock
) -> RunningServer:
    """Serve a web from a thread of this process until `.stop()`. Raises OSError if the port is taken."""
    return RunningServer(web, port, Log(log_path), clock)


def run(
    web: ToyWeb,
    port: int = 0,
    log_path: Path | None = None,
    *,
    clock: Clock = wall_clock,
    on_ready: Callable[[int], None] | None = None,
) -> None:
    """Serve a web until SIGINT or SIGTERM: what `noria toyweb` does. on_ready is told the port."""
    log = Log(log_path, keep=False)
    try:
        uvloop.run(_serve(ToyServer(web, log, clock), port, on_ready))
    finally:
        log.close()


async def _serve(server: ToyServer, port: int, on_ready: Callable[[int], None] | None) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    bound = await server.open(port)
    if on_ready is not None:
        on_ready(bound)
    await stop.wait()
    await server.close()
