"""Field cases that need a crawl: each gets raw servers and host names of its own, all go through the same cycles."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lake.snapshot
from lake import inbox
from pipelines import config
from pipelines.config import Settings
from pipelines.cycle import open
from pipelines.cycle.graph import CycleReport
from pipelines.net import warc
from pipelines.net.bodies import decode
from pipelines.net.clock import SystemClock
from tests.cycle.wheels import QUICK, turn
from tests.net.raw_server import RawServer, Script

ADDRESS = "127.44.0.1"
"""Where the servers listen; the rest of loopback stays refused."""

DAY_MS = 86_400_000
AGENT = "ourbot"
PLAIN = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s"


def page(html: str, *, headers: str = "") -> bytes:
    """Return a whole answer, status 200."""
    body = html.encode()
    return PLAIN.replace(b"\r\n\r\n", b"\r\n" + headers.encode() + b"\r\n") % (len(body), body)


@contextmanager
def serving(servers: list[RawServer]) -> Iterator[None]:
    """Serve from a thread of their own, so that a cycle can run in this one."""
    ready, ended = threading.Event(), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def serve() -> None:
        loops.append(asyncio.get_running_loop())
        for server in servers:
            await server.__aenter__()
        ready.set()
        await ended.wait()
        for server in servers:
            await server.__aexit__()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert ready.wait(10), "the raw servers did not start"
    try:
        yield
    finally:
        loops[0].call_soon_threadsafe(ended.set)
        thread.join(10)


@dataclass
class Journey:
    """One case on its way through a crawl: a server and a name for each of its hosts, and what is asked first."""

    case: dict[str, Any]
    hosts: dict[str, dict[str, bytes | Script]]
    seeds: list[tuple[str, str]]  # (host, target)
    links: tuple[str, ...] = ()  # absolute URLs, seeds as they stand
    servers: dict[str, RawServer] = field(default_factory=dict)

    def url(self, host: str, target: str) -> str:
        """Return the URL of a target."""
        return f"http://{host}:{self.servers[host].port}{target}"

    def targets(self, host: str | None = None) -> list[str]:
        """Return the request targets that a host saw, in order, robots.txt and sitemaps left out."""
        seen = self.servers[host or next(iter(self.hosts))].targets
        return [target for target in seen if target not in ("/robots.txt", "/sitemap.xml")]


def settings_of(folder: Path, set_: dict[str, str], *, names: tuple[str, ...] = ("*.example",)) -> Settings:
    """Return settings under which these names lead to the test's servers, and no others anywhere."""
    folder.mkdir(parents=True, exist_ok=True)
    conf = folder / "conf.toml"
    table = "".join(f'"{name}" = "{ADDRESS}"\n' for name in names)
    conf.write_text(
        f'[identity]\nproduct = "{AGENT}"\ncontact = "https://example.org/field-cases"\n'
        f'[security]\nallow_addresses = ["{ADDRESS}/32"]\n[dns]\nservers = ["127.0.0.1:9"]\n'
        f"[dns.static]\n{table}"
    )
    quick = {
        **QUICK,
        "window.seconds": "15",
        "delay.address_floor_ms": "0",
        "sitemaps.per_cycle": "0",
        "fetch.idle_ms": "1000",
    }
    return config.load([conf], environ={}, overrides={**quick, **set_})


@dataclass
class Crawl:
    """The lake of a crawl that is over, and what its servers saw."""

    path: Path
    settings: Settings

    @classmethod
    def begin(cls, folder: Path, *, set_: dict[str, str] | None = None) -> Crawl:
        """Make a lake whose crawl knows no name but those of the test's servers."""
        settings = settings_of(folder, set_ or {})
        lake.snapshot.create(folder / "lake", buckets=settings.lake.buckets, lake_id="field cases")
        return cls(folder / "lake", settings)

    def seed(self, urls: list[str]) -> None:
        """Put seeds into the inbox."""
        inbox.put(self.path, [{"url": url, "source": "seed"} for url in urls], kind="seed", now_ms=0)

    def cycle(self, *, days_ahead: int = 0) -> CycleReport:
        """Turn one cycle and return what it did; its logical clock may run ahead, so that what is due by then is due."""
        if days_ahead:
            there = lake.snapshot.open(self.path)
            at_ms = now_ms() + days_ahead * DAY_MS
            open.begin(there, self.settings, slots=1, now_ms=at_ms)
        return turn(self.path, self.settings, slots=1)

    def rows(self, query: str) -> list[dict[str, Any]]:
        """Return the rows of a query."""
        found: list[dict[str, Any]] = lake.snapshot.open(self.path).sql(query).to_pylist()
        return found

    def captures(self, host: str) -> list[dict[str, Any]]:
        """Return a host's captures of pages in the order of their requests."""
        return self.rows(
            f"select * from captures where host = '{host}' and kind = 'page' order by cycle, request_ms, hop"
        )

    def record(self, capture: dict[str, Any]) -> warc.WarcRecord:
        """Return the WARC record of a capture."""
        return warc.read_at(
            self.path / "warc" / capture["warc_filename"],
            capture["warc_record_offset"],
            capture["warc_record_length"],
        )

    def text(self, capture: dict[str, Any]) -> str:
        """Return what a reader of the archive gets: the stored payload, its content coding undone."""
        if capture["warc_filename"] is None:
            return ""
        record = self.record(capture)
        if (
            capture["outcome"] == "ok" and capture["record_type"] == "revisit"
        ):  # equal bytes came from elsewhere: they are stored there
            [place] = self.rows(f"select * from contents where digest = '{capture['content_digest']}'")
            record = self.record(place)
        coding = ", ".join(value for name, value in record.http_headers if name.lower() == "content-encoding")
        return decode(record.payload, coding or None, limit=1_000_000).data.decode("latin-1")


def now_ms() -> int:
    """Return the time, ms since 1970."""
    return SystemClock().now_ms()


def travel(crawl: Crawl, journeys: list[Journey], *, cycles: int = 1, ahead: int = 0) -> None:
    """Send journeys through cycles, all at once; the later cycles' clocks run `ahead` days ahead each."""
    for journey in journeys:
        for host, routes in journey.hosts.items():
            journey.servers[host] = RawServer(routes, address=ADDRESS)
    servers = [server for journey in journeys for server in journey.servers.values()]
    with serving(servers):
        for journey in journeys:
            _with_ports(journey)
        crawl.seed([j.url(host, target) for j in journeys for host, target in j.seeds])
        crawl.seed([link for journey in journeys for link in journey.links])
        for number in range(cycles):
            crawl.cycle(days_ahead=number * ahead)


def _with_ports(journey: Journey) -> None:
    """Let answers that name a host of the case name its port too: the cases are written for port 80."""
    for server in journey.servers.values():
        routes = dict(server.routes)
        for route, answer in routes.items():
            data = b"".join(answer.pieces) if isinstance(answer, Script) else answer
            for host, other in journey.servers.items():
                data = data.replace(f"http://{host}/".encode(), f"http://{host}:{other.port}/".encode())
            routes[route] = Script((data,), answer.then) if isinstance(answer, Script) else data
        server.routes = routes


def journey_of(case: dict[str, Any], folder: Path) -> list[Journey]:
    """Return the journeys of a case: usually one, one a robots.txt where it lists several; none where none fits."""
    data, host = case["input"], f"{case['id']}.example"
    if "hosts" in data:
        hosts = {name: _routes(served, folder, data) for name, served in data["hosts"].items()}
        seeds = [(url.split("/")[2], "/" + url.split("/", 3)[3]) for url in data["urls"]]
        return [Journey(case, hosts, seeds)]
    if case["kind"] in ("robots", "robots-generated") and "server" not in data:
        return _robots_journeys(case)
    if "server" not in data:
        return []
    routes = _routes(data["server"], folder, data)
    first = [data["fetch"]] if "fetch" in data else data.get("seeds") or data["urls"]
    if "conditional" in data:
        tag = data["conditional"].get("If-None-Match", '"v1"')
        routes[f"GET {data['fetch']} (no If-None-Match)"] = page("<p>first", headers=f"ETag: {tag}\r\n")
    return [
        Journey(case, {host: routes}, [(host, one) for one in first], tuple(data.get("also_as_links", ())))
    ]


def _routes(served: dict[str, str], folder: Path, data: dict[str, Any]) -> dict[str, bytes | Script]:
    then = "hold" if data.get("keep_connection_open_s") else "close"
    return {route: Script(((folder / file).read_bytes(),), then) for route, file in served.items()}


def _robots_journeys(case: dict[str, Any]) -> list[Journey]:
    data = case["input"]
    if "generate" in data:
        blocks = (data["generate"]["block"], data["generate"]["repeat"])
        texts = ["".join(blocks[0].replace("{i%50}", str(i % 50)).replace("{i}", str(i)) for i in range(blocks[1]))]  # fmt: skip
    else:
        texts = data["robots"] if isinstance(data["robots"], list) else [data["robots"]]
    found = []
    for number, text in enumerate(texts):
        host = f"{case['id']}-{number}.example"
        routes: dict[str, bytes | Script] = {
            "GET /robots.txt": page(text).replace(b"text/html", b"text/plain")
        }
        found.append(Journey(case, {host: routes}, [(host, url) for url in data.get("urls", ["/"])]))
    return found


def read_cases(folder: Path) -> list[dict[str, Any]]:
    """Return all cases of the folder."""
    return [json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("*.json"))]
