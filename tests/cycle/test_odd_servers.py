"""Servers that are odd but real, through whole cycles: what is asked, what is kept, and who pays for a fault."""

from __future__ import annotations

import socket
from itertools import pairwise
from pathlib import Path

import pytest

from lake import inbox, snapshot
from pipelines.explain.robots import robots_verdict
from pipelines.rules import metadata
from tests.cycle.wheels import faults
from tests.field_cases.journeys import ADDRESS, Crawl, page, serving
from tests.net.raw_server import RawServer, Script

NO_RULES = page("")
ROBOTS = b"User-agent: *\nDisallow: /a\nDisallow: /secret\n"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
HALF = HEAD + b"Content-Length: %d\r\n\r\n" % len(ROBOTS) + ROBOTS[:27]


def leads_to(target: str) -> bytes:
    return b"HTTP/1.1 302 Found\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n" % target.encode()


def a_dead_port() -> int:
    with socket.socket() as taken:
        taken.bind((ADDRESS, 0))
        return int(taken.getsockname()[1])


SPOILT = {
    "cut off by Content-Length": Script((HALF,), "close"),
    "cut off in a chunk": Script(
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n1b\r\n" + ROBOTS[:27],), "close"
    ),
    "reset": Script((HALF,), "reset"),
    "stalled": Script((HALF,), "hold"),
    "of an unknown coding": HEAD
    + b"Content-Encoding: compress\r\nContent-Length: 5\r\n\r\n\x1f\x9d\x90\0\x01",
    "of damaged gzip": HEAD
    + b"Content-Encoding: gzip\r\nContent-Length: 9\r\n\r\n\x1f\x8b\x08\0\x01\x02\x03\x04\x05",
}


@pytest.mark.parametrize("how", SPOILT)
def test_a_robots_txt_that_is_spoilt_on_its_way_allows_nothing(how: str, tmp_path: Path) -> None:
    server = RawServer({"GET /robots.txt": SPOILT[how], "GET /secret": page("secret")}, address=ADDRESS)
    with serving([server]):
        crawl = Crawl.begin(tmp_path)
        url = f"http://a.example:{server.port}/secret"
        crawl.seed([url])
        crawl.cycle()
    assert server.targets == ["/robots.txt"]
    [asked] = crawl.rows("select response_ms from captures")
    assert (
        asked["response_ms"] < 10_000
    )  # silence is told by [fetch] idle_ms, here a second, not by first_byte_ms
    [row] = crawl.rows("select robots from hosts")
    assert [site["state"] for site in row["robots"]] == ["unreachable"]
    verdict = robots_verdict(snapshot.open(crawl.path), row, url, "ourbot", 512_000)
    assert verdict.verdict == "unreachable" and "cut off on the way or cannot be decoded" in verdict.why


@pytest.mark.parametrize("most", ["0", "1"])
def test_a_robots_txt_is_followed_by_its_own_number_of_redirects(most: str, tmp_path: Path) -> None:
    routes = {
        "GET /robots.txt": leads_to("/r1"), "GET /r1": leads_to("/r2"), "GET /r2": HEAD + b"\r\n" + ROBOTS,
        "GET /secret": page("secret"),
    }  # fmt: skip
    server = RawServer(routes, address=ADDRESS)
    with serving([server]):
        crawl = Crawl.begin(tmp_path, set_={"limits.redirects": most})
        crawl.seed([f"http://a.example:{server.port}/secret"])
        crawl.cycle()
    assert server.targets == ["/robots.txt", "/r1", "/r2"]


def test_a_redirect_leads_nowhere_that_the_filters_refuse(tmp_path: Path) -> None:
    ways = {"/a": "/private/delete?all=1", "/b": "/big.iso", "/c": "/" + "x" * 3_000, "/d": "/good"}
    routes = {f"GET {start}": leads_to(end) for start, end in ways.items()}
    routes |= {f"GET {end}": page("here") for end in ways.values()} | {"GET /robots.txt": NO_RULES}
    server = RawServer(routes, address=ADDRESS)
    with serving([server]):
        crawl = Crawl.begin(tmp_path, set_={"filters.exclude": '["*/private*"]'})
        crawl.seed([f"http://a.example:{server.port}{start}" for start in ways])
        crawl.cycle()
    assert set(server.targets) == {"/robots.txt", *ways, "/good"}


def test_p1_a_crawl_delay_of_one_port_holds_for_the_host_though_another_port_asks_for_none(
    tmp_path: Path,
) -> None:
    pages = {f"GET /{number}": page(f"page {number}") for number in range(3)}
    slow = RawServer(
        {"GET /robots.txt": HEAD + b"\r\nUser-agent: *\nCrawl-delay: 1\n", **pages}, address=ADDRESS
    )
    quick = RawServer(pages, address=ADDRESS)
    with serving([slow, quick]):
        crawl = Crawl.begin(tmp_path)
        for urls in (
            [f"http://a.example:{slow.port}/0"],
            [f"http://a.example:{quick.port}/0"],
            [f"http://a.example:{slow.port}/{number}" for number in (1, 2)],
        ):
            crawl.seed(urls)
            crawl.cycle()
    asked = crawl.rows("select request_ms from captures where request_ms is not null order by request_ms")
    gaps = [after["request_ms"] - before["request_ms"] for before, after in pairwise(asked)]
    assert len(gaps) == 5 and min(gaps) >= 1_000


def test_a_dead_port_does_not_take_the_rest_of_its_host_down(tmp_path: Path) -> None:
    dead = a_dead_port()
    routes = {"GET /robots.txt": NO_RULES, **{f"GET /{n}": page(f"page {n}") for n in range(8)}}
    server = RawServer(routes, address=ADDRESS)
    with serving([server]):
        crawl = Crawl.begin(tmp_path)
        crawl.seed([f"http://a.example:{dead}/x{n}" for n in range(3)])
        crawl.seed([f"http://a.example:{server.port}/{n}" for n in range(8)])
        crawl.cycle()
    assert len(server.targets) == 9
    [row] = crawl.rows("select health, failures, probe_at from hosts")
    assert row == {"health": "ok", "failures": 0, "probe_at": None}
    refused = crawl.rows(
        "select kind, count(*) as n from captures where outcome = 'connect_refused' group by kind order by kind"
    )
    assert refused == [{"kind": "page", "n": 3}, {"kind": "robots", "n": 1}]
    waiting = crawl.rows("select reason, failures from frontier_later where failures > 0")
    assert waiting == [{"reason": "connect_refused", "failures": 1}] * 3  # not planned until they are due
    assert crawl.rows("select url from frontier_ready") == []
    assert faults(crawl.path) == []


def test_a_site_whose_robots_txt_cannot_be_had_waits_alone(tmp_path: Path) -> None:
    """Its host has another that is well: the plan asks that one, leaves the first out, and knows when it may be asked."""
    links = "".join(f'<a href="/{n}">{n}</a>' for n in range(6))
    routes = {"GET /robots.txt": NO_RULES, "GET /": page(links)}
    routes |= {f"GET /{n}": page(f"page {n}") for n in range(6)}
    broken = b"HTTP/1.1 503 Down\r\nContent-Length: 0\r\n\r\n"
    well, ill = (
        RawServer(routes, address=ADDRESS),
        RawServer({"GET /robots.txt": broken}, address=ADDRESS),
    )
    with serving([well, ill]):
        crawl = Crawl.begin(tmp_path)
        crawl.seed(
            [f"http://a.example:{well.port}/", *(f"http://a.example:{ill.port}/{n}" for n in range(3))]
        )
        crawl.cycle()
        [host] = crawl.rows("select health, failures, probe_at from hosts")
        assert host == {"health": "ok", "failures": 0, "probe_at": None}
        second = crawl.cycle()
        assert (second.planned, second.requests, len(ill.targets)) == (6, 6, 1)
        assert sorted(well.targets) == ["/", *(f"/{n}" for n in range(6)), "/robots.txt"]
        third = crawl.cycle()
        [copy] = [
            one
            for one in crawl.rows("select robots from hosts")[0]["robots"]
            if one["state"] == "unreachable"
        ]
        assert (third.cycle, third.next_due) == (0, copy["expires_at"].isoformat())
    assert faults(crawl.path) == []


@pytest.mark.parametrize("how", ["length", "disconnect"])
def test_p5_a_body_that_is_cut_off_is_stored_once(how: str, tmp_path: Path) -> None:
    """At our limit, or by a server that announces more than it sends, as it does each time."""
    whole = page("x" * 300_000)
    told = (
        whole
        if how == "length"
        else page("x" * 9_000).replace(b"Content-Length: 9000", b"Content-Length: 9999")
    )
    server = RawServer({"GET /robots.txt": NO_RULES, "GET /1": told, "GET /2": told}, address=ADDRESS)
    with serving([server]):
        crawl = Crawl.begin(tmp_path, set_={"limits.body_bytes": "262144"})
        crawl.seed([f"http://a.example:{server.port}/{n}" for n in (1, 2)])
        crawl.cycle()
        crawl.cycle(days_ahead=60)
    shelved = crawl.rows(
        "select record_type, count(*) n from captures where content_truncated is not null group by 1"
    )
    assert {row["record_type"]: row["n"] for row in shelved} == {"response": 1, "revisit": 3}
    assert faults(crawl.path) == []


def test_a_host_whose_every_port_is_dead_is_down(tmp_path: Path) -> None:
    one, other = a_dead_port(), a_dead_port()
    crawl = Crawl.begin(tmp_path)
    crawl.seed([f"http://a.example:{port}/{n}" for port in (one, other) for n in range(3)])
    crawl.cycle()
    [row] = crawl.rows("select health, failures, probe_at from hosts")
    assert (row["health"], row["failures"]) == ("connect_refused", 1) and row["probe_at"] is not None
    assert len(crawl.rows("select url from captures where kind = 'robots'")) == 2
    waiting = crawl.rows("select url from frontier_ready")
    assert len(waiting) == 6  # they wait for the host: none has failed itself


def test_a_page_that_was_cut_off_is_not_confirmed_by_its_validator(tmp_path: Path) -> None:
    torn = b'HTTP/1.1 200 OK\r\nETag: "v1"\r\nContent-Length: 1000\r\n\r\n<html><p>half'
    whole = page("x" * 1_000, headers='ETag: "v1"\r\n')
    fresh = b'HTTP/1.1 304 Not Modified\r\nETag: "v1"\r\n\r\n'
    server = RawServer({"GET /robots.txt": NO_RULES, "GET /": torn}, address=ADDRESS)
    with serving([server]):
        crawl = Crawl.begin(tmp_path)
        crawl.seed([f"http://a.example:{server.port}/"])
        crawl.cycle()
        server.routes = {"GET /robots.txt": NO_RULES, "GET /": whole, "GET / (If-None-Match)": fresh}
        for days in (10, 40):
            crawl.cycle(days_ahead=days)
    assert [(row["outcome"], row["content_truncated"]) for row in crawl.captures("a.example")] == [
        ("ok", "disconnect"), ("ok", None), ("not_modified", None),
    ]  # fmt: skip


def test_a_304_that_nobody_asked_for_is_no_answer(tmp_path: Path) -> None:
    fresh = b'HTTP/1.1 304 Not Modified\r\nETag: "v1"\r\n\r\n'
    server = RawServer({"GET /robots.txt": NO_RULES, "GET /": fresh}, address=ADDRESS)
    with serving([server]):
        crawl = Crawl.begin(tmp_path)
        crawl.seed([f"http://a.example:{server.port}/"])
        crawl.cycle()
        server.routes = {
            "GET /robots.txt": NO_RULES, "GET /": page("here", headers='ETag: "v1"\r\n'), "GET / (If-None-Match)": fresh,
        }  # fmt: skip
        crawl.cycle(days_ahead=10)
    assert [row["outcome"] for row in crawl.captures("a.example")] == ["bad_http", "ok"]
    assert faults(crawl.path) == []


def test_no_more_bytes_are_fetched_in_a_cycle_than_were_allowed(tmp_path: Path) -> None:
    routes = {"GET /robots.txt": NO_RULES, **{f"GET /{n}": page("x" * 10_000) for n in range(9)}}
    server = RawServer(routes, address=ADDRESS)
    with serving([server]):
        crawl = Crawl.begin(tmp_path, set_={"plan.max_bytes": "25000"})
        crawl.seed([f"http://a.example:{server.port}/{n}" for n in range(9)])
        crawl.cycle()
        assert len(server.targets) == 1 + 3
        crawl.cycle()
        crawl.cycle()
    assert len(server.targets) == 1 + 9


def test_a_seed_for_a_url_that_waits_for_a_later_day_is_noted_there_once(tmp_path: Path) -> None:
    routes = {
        "GET /0": page('<a href="/1">1</a> <a href="/2">2</a>'),
        "GET /1": page("one"),
        "GET /2": page("two"),
    }
    server = RawServer({"GET /robots.txt": NO_RULES, **routes}, address=ADDRESS)
    shelf = "select url, source, depth, meta, due_at, visits from frontier_later where url not like '%/0' order by url"
    with serving([server]):
        crawl = Crawl.begin(tmp_path)
        crawl.seed([f"http://a.example:{server.port}/0"])
        crawl.cycle()
        crawl.cycle()
        before, other = crawl.rows(shelf)
        assert (before["source"], before["depth"], before["visits"]) == ("link", 1, 1)
        for _ in range(2):
            inbox.put(
                crawl.path, [{"url": before["url"], "source": "seed", "meta": {"label": "dk"}}], kind="seed"
            )
            crawl.cycle()
            named, rest = crawl.rows(shelf)
            assert (named["source"], named["depth"], named["due_at"]) == ("seed", 0, before["due_at"])
            assert metadata.label_of(named["meta"]) == "dk" and rest == other
            assert faults(crawl.path) == []
    there = snapshot.open(crawl.path)
    written = {there.transaction("frontier_later", f"called-{group:04d}") for group in range(8)}
    assert 3 in written and 4 not in written  # the second time there was nothing new to say
