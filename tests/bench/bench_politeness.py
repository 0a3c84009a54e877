"""How much of what the clocks allow is asked, with 2,000 hosts of skewed sizes and delays; and how much is planned in vain.

`make bench-politeness`. A raw server on loopback plays all hosts: sizes fall as rank^-0.9, robots.txt asks for delays from
none to 30 s, answers take 5 to 300 ms. A first cycle meets the hosts (a page each: robots.txt, delay, response time are
known after it); the second is measured, over the server's own log.

Allowed: for each host `floor((window - first) / (delay + response)) + 1`, and no more than its queue; `first` = 0 (the
window's start), `delay` = the longest of the floor, its Crawl-delay and ten times its mean time to the first byte,
`response` = its mean as the server saw it. Nothing is taken off for starting up, flushing or a busy machine.
For comparison: Common Crawl throws away 17.8 % of what it plans.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from lake import inbox, snapshot

DELAYS_S = ((0.60, 0), (0.20, 4), (0.12, 8), (0.06, 15), (0.02, 30))
"""Shares of hosts by the Crawl-delay of their robots.txt."""


@dataclass(frozen=True)
class Shape:
    """The hosts of the bench."""

    hosts: int
    urls: int
    floor_ms: int
    window: int

    def sizes(self) -> list[int]:
        """Return the pages of each host."""
        raw = np.arange(1, self.hosts + 1) ** -0.9
        told: list[int] = np.maximum(raw / raw.sum() * self.urls, 2).astype(int).tolist()
        return told

    def delay_s(self, host: int) -> int:
        """Return the Crawl-delay of a host, seconds."""
        place = (host * 7_919 % 1_000) / 1_000
        for share, seconds in DELAYS_S:
            place -= share
            if place < 0:
                return seconds
        return 0

    def answer_ms(self, host: int) -> int:
        """Return how long a host thinks before it answers."""
        return 5 + host * 104_729 % 296

    def host(self, name: str) -> int:
        """Return the number of a host."""
        return int(name[1:6])

    def name(self, host: int) -> str:
        """Return its name."""
        return f"h{host:05d}.bench"


# --- the server -----------------------------------------------------------------------------------------


class Connection(asyncio.Protocol):
    """One kept connection; a request at a time."""

    def __init__(self, shape: Shape, log: list[tuple[int, int, int, int, int]]) -> None:
        self._shape, self._log, self._buffer = shape, log, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if b"\r\n\r\n" not in self._buffer:
            return
        head, self._buffer = self._buffer.split(b"\r\n\r\n", 1)
        start = time.monotonic_ns() // 1_000_000
        target = head.split(b" ", 2)[1]
        name = head.lower().partition(b"\r\nhost:")[2].split(b"\r\n", 1)[0].strip().decode()
        host = self._shape.host(name)
        wait = self._shape.answer_ms(host)
        asyncio.get_running_loop().call_later(wait / 1_000, self._answer, host, target, start)

    def _answer(self, host: int, target: bytes, start: int) -> None:
        if self._transport.is_closing():
            return
        robots = target == b"/robots.txt"
        kind = b"text/plain" if robots else b"text/html"
        delay = self._shape.delay_s(host)
        body = (
            b"User-agent: *\nDisallow:\n" + (f"Crawl-delay: {delay}\n".encode() if delay else b"")
            if robots
            else b"<title>%d</title><p>page %s of host %d</p>" % (host, target, host)
        )
        head = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n" % (kind, len(body))
        self._transport.write(head + body)  # type: ignore[attr-defined]
        end = time.monotonic_ns() // 1_000_000
        self._log.append((host, start, end, int(robots), self._shape.answer_ms(host)))


async def serve(shape: Shape, log_path: Path) -> None:
    """Serve on a free port of every loopback address, tell it, and write the log when told to stop."""
    loop, log = asyncio.get_running_loop(), []  # type: ignore[var-annotated]
    server = await loop.create_server(lambda: Connection(shape, log), "0.0.0.0", 0, backlog=4_096)
    print(server.sockets[0].getsockname()[1], flush=True)
    ended = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    await ended.wait()
    np.save(log_path, np.array(log, dtype=np.int64).reshape(-1, 5))


@contextmanager
def served(shape: Shape, log_path: Path) -> Iterator[int]:
    """Run the server in a process of its own; yields its port."""
    arguments = [str(value) for value in (shape.hosts, shape.urls, shape.floor_ms, shape.window)]
    process = subprocess.Popen(
        [sys.executable, __file__, "--serve", str(log_path), *arguments], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


# --- the crawl ------------------------------------------------------------------------------------------

CONF = """
[identity]
contact = "bench@example.org"
[dns]
static = {{ "*.bench" = "127.16.0.0/12" }}
[security]
allow_addresses = ["127.0.0.0/8"]
[delay]
floor_ms = {floor_ms}
[window]
seconds = {window}
[sitemaps]
per_cycle = 0
[lake]
buckets = 16
"""


def cycle(home: Path, *more: str) -> dict[str, object]:
    """Run a cycle as a user does, and return its report."""
    command = [sys.executable, "-m", "pipelines.app.cli", "cycle", "--lake", str(home / "lake"), "--conf",
               str(home / "bench.toml"), "--json", *more]  # fmt: skip
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    told: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return told


def run(shape: Shape) -> dict[str, float]:
    """Crawl twice and return the figures of the second cycle."""
    home = Path(tempfile.mkdtemp(prefix="noria-politeness-"))
    try:
        (home / "bench.toml").write_text(
            CONF.format(floor_ms=shape.floor_ms, window=shape.window), encoding="utf-8"
        )
        snapshot.create(home / "lake", buckets=16)
        with served(shape, home / "log.npy") as port:
            rows = [
                {"url": f"http://{shape.name(host)}:{port}/p{number}", "source": "seed"}
                for host, size in enumerate(shape.sizes())
                for number in range(size)
            ]
            inbox.put(home / "lake", rows, kind="seed")
            cycle(home, "--max-pages", str(shape.hosts))
            between = time.monotonic_ns() // 1_000_000
            report = cycle(home)
        log = np.load(home / "log.npy")
    finally:
        shutil.rmtree(home, ignore_errors=True)
    return judge(shape, log, between, report)


def judge(shape: Shape, log: np.ndarray, between: int, report: dict[str, object]) -> dict[str, float]:
    """Return the figures of the cycle that began after `between`, by the server's log."""
    mine = log[log[:, 1] > between]
    allowed = made = violations = 0
    sizes = shape.sizes()
    for host in range(shape.hosts):
        rows = mine[(mine[:, 0] == host)]
        rows = rows[np.argsort(rows[:, 1])]
        before = log[(log[:, 0] == host) & (log[:, 1] <= between)]
        queue = sizes[host] - int((before[:, 3] == 0).sum())
        answer = float((rows[:, 2] - rows[:, 1]).mean()) if len(rows) else shape.answer_ms(host)
        delay = max(shape.floor_ms, 1_000 * shape.delay_s(host), min(10 * answer, 30_000))
        allowed += min(queue, int(shape.window * 1_000 // (delay + answer)) + 1)
        made += len(rows)
        least = max(shape.floor_ms, 1_000 * shape.delay_s(host))
        slow = min(
            10 * (shape.answer_ms(host) - 2), 30_000
        )  # the crawler's own measure, in whole ms, may be less
        violations += int((rows[1:, 1] - rows[:-1, 2] < max(slow, least)).sum())
    planned, unfetched = int(report["planned"]), int(report["unfetched"])  # type: ignore[call-overload]
    span = (mine[:, 2].max() - mine[:, 1].min()) / 1_000 if len(mine) else 0.0
    return {
        "hosts": shape.hosts, "requests": made, "allowed": allowed, "made_percent": round(100 * made / max(allowed, 1), 2),
        "planned": planned, "unfetched": unfetched, "unfetched_percent": round(100 * unfetched / max(planned, 1), 2),
        "violations": violations, "seconds": round(float(span), 1), "requests_s": round(made / max(span, 1e-9), 1),
    }  # fmt: skip


def show(told: dict[str, float]) -> None:
    """Print the figures."""
    print(
        f"hosts                 {told['hosts']:,}, {told['requests_s']:,} requests/s over {told['seconds']} s"
    )
    print(
        f"requests made         {told['requests']:,} of {told['allowed']:,} that the clocks would have allowed: {told['made_percent']} %"
    )
    print(
        f"planned, not fetched  {told['unfetched']:,} of {told['planned']:,}: {told['unfetched_percent']} % (Common Crawl: 17.8 %)"
    )
    print(f"violations            {told['violations']}")


if __name__ == "__main__":
    if "--serve" in sys.argv:
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(serve(Shape(*map(int, sys.argv[3:7])), Path(sys.argv[2])))
        sys.exit(0)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hosts", type=int, default=2_000)
    parser.add_argument("--urls", type=int, default=60_000)
    parser.add_argument("--floor-ms", type=int, default=2_000)
    parser.add_argument("--window", type=int, default=120, help="seconds of a cycle")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    figures = run(Shape(given.hosts, given.urls, given.floor_ms, given.window))
    print(json.dumps(figures)) if given.json else show(figures)
    sys.exit(1 if figures["violations"] else 0)
