"""What is replayed: a crawl of two cycles with a page, its twin on another host, a redirect, and a page that says 304."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.field_cases.journeys import Crawl, Journey, page, travel

TEXT = '<title>Page</title><a href="/">again</a> ' + "a page that two hosts have; " * 40
MOVED, TAGGED = "<title>New</title>where the old page went", "<title>Tagged</title>it does not change"
GONE = b"HTTP/1.1 301 Moved Permanently\r\nLocation: http://new.example/\r\nContent-Length: 0\r\n\r\n"
SAME = b'HTTP/1.1 304 Not Modified\r\nETag: "v1"\r\n\r\n'
HOSTS = {
    "page.example": {"GET /": page(TEXT)},
    "twin.example": {"GET /": page(TEXT)},
    "old.example": {"GET /": GONE},
    "new.example": {"GET /": page(MOVED)},
    "tagged.example": {
        "GET / (no If-None-Match)": page(TAGGED, headers='ETag: "v1"\r\n'),
        "GET / (If-None-Match)": SAME,
    },
}
BODIES = {"page.example": TEXT, "twin.example": TEXT, "new.example": MOVED, "tagged.example": TAGGED}


def crawled(folder: Path, hosts: dict[str, dict[str, bytes]]) -> Crawl:
    """Return a crawl that visited the hosts' front pages twice, forty days apart, and their links.

    A second lies between the requests to a host: a replayer tells the captures of a URL apart by the second.
    """
    crawl = Crawl.begin(folder, set_={"delay.floor_ms": "1000"})
    served = {host: dict(routes) for host, routes in hosts.items()}
    travel(crawl, [Journey({}, served, [(host, "/") for host in served])], cycles=2, ahead=40)
    return crawl


def captures_of(crawl: Crawl) -> list[dict[str, Any]]:
    """Return the captures of pages in the order of their requests."""
    return crawl.rows("select * from captures where kind = 'page' order by request_ms")


def stamp(capture: dict[str, Any]) -> str:
    """Return the time of a capture as replayers write it, 14 digits."""
    return datetime.fromtimestamp(capture["request_ms"] // 1_000, UTC).strftime("%Y%m%d%H%M%S")
