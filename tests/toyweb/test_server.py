"""The server sends what the truth says, byte for byte, and logs what it did before anyone can know it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pipelines.toyweb import Kind, Mix, ToyWeb, log, serve_in_thread
from pipelines.toyweb.robots import Robots
from pipelines.toyweb.schedule import BORN_MS
from tests.toyweb.client import address_of, connect, get, raw, request

NOW = BORN_MS + 500 * 86_400_000


def still() -> int:
    """A clock that stands still: the web is the same for every request."""
    return NOW


@pytest.fixture(scope="module")
def demo():
    with serve_in_thread(ToyWeb(40, 1, Mix.full()), clock=still) as server:
        yield server


@pytest.fixture(scope="module")
def plain():
    with serve_in_thread(ToyWeb(12, 1, Mix.plain()), clock=still) as server:
        yield server


def of_kind(server, kind: Kind) -> str:
    return next(host.name for host in server.web.hosts if host.kind is kind)


def test_every_page_of_a_plain_web_arrives_byte_for_byte(plain):
    for known in plain.web.urls(plain.port):
        got = get(plain, known.host, known.target)
        assert (got.status, got.body) == (known.status, plain.web.payload(known.url, NOW)), known.url


def test_each_host_is_reached_at_its_own_address_and_nowhere_else(plain):
    free = "127.22.0.1"
    assert len(plain.web.addresses()) > 8
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((free, plain.port), timeout=5)


def test_nobody_listens_at_the_address_of_a_deaf_host(demo):
    with pytest.raises(ConnectionRefusedError):
        connect(demo, of_kind(demo, Kind.DEAF))


def test_requests_on_one_connection_are_answered_in_turn_also_when_sent_at_once(plain):
    host = next(host for host in plain.web.hosts if not host.closes and not host.chunked)
    with connect(plain, host.name) as one:
        one.sendall(request(plain, host.name, "/robots.txt") + request(plain, host.name, "/nothing"))
        one.sendall(request(plain, host.name, "/robots.txt", more="Connection: close\r\n"))
        pieces = b"".join(iter(lambda: one.recv(65_536), b""))
    assert pieces.count(b"HTTP/1.1 200 OK") + pieces.count(b"HTTP/1.1 404 Not Found") == 3
    rows = [row for row in plain.log.rows() if row.host == host.name][-3:]
    assert [row.turn for row in rows] == [1, 2, 3]
    assert len({row.connection for row in rows}) == 1


def test_a_request_that_comes_byte_by_byte_is_one_request(plain):
    host = plain.web.hosts[0].name
    with connect(plain, host) as one:
        for byte in request(plain, host, "/robots.txt", more="Connection: close\r\n"):
            one.sendall(bytes([byte]))
        assert b"".join(iter(lambda: one.recv(65_536), b"")).startswith(b"HTTP/1.1 ")


@pytest.mark.parametrize(
    "rubbish", [b"\r\n\r\n", b"GET\r\n\r\n", b"\x16\x03\x01\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n"]
)
def test_rubbish_gets_400(plain, rubbish):
    with connect(plain, plain.web.hosts[0].name) as one:
        one.sendall(rubbish)
        assert b"".join(iter(lambda: one.recv(65_536), b"")).startswith(b"HTTP/1.1 400 Bad Request")


def test_a_name_that_is_not_of_this_web_gets_421(plain):
    first = plain.web.hosts[0].name
    with connect(plain, first) as one:
        one.sendall(b"GET / HTTP/1.1\r\nHost: elsewhere.example\r\nConnection: close\r\n\r\n")
        assert one.recv(65_536).startswith(b"HTTP/1.1 421 ")


def test_head_has_the_headers_and_no_body(plain):
    host = next(host.name for host in plain.web.hosts if not host.chunked)
    got, full = get(plain, host, "/", method="HEAD"), get(plain, host, "/")
    assert (got.body, got.headers["content-length"]) == (b"", str(len(full.body)))


def test_a_fresh_copy_gets_304_without_a_body(plain):
    host = next(host.name for host in plain.web.hosts if host.validator == "both")
    tag = get(plain, host, "/").headers["etag"]
    got = get(plain, host, "/", headers={"If-None-Match": tag})
    assert (got.status, got.body, got.headers["etag"]) == (304, b"", tag)


@pytest.mark.parametrize(("target", "whole"), [("/reset/now", 0), ("/reset/head", 30), ("/reset/body", 600)])
def test_a_reset_comes_after_the_promised_bytes(demo, target, whole):
    host, received = of_kind(demo, Kind.RESET), b""
    with connect(demo, host) as one:
        one.sendall(request(demo, host, target))
        with pytest.raises(ConnectionResetError):
            while True:
                piece = one.recv(4_096)
                assert piece, "closed, not reset"
                received += piece
    assert len(received) <= whole


def test_an_early_close_sends_fewer_bytes_than_it_said(demo):
    assert len(raw(demo, of_kind(demo, Kind.RESET), "/reset/close")) == 600
    assert raw(demo, of_kind(demo, Kind.RESET), "/reset/empty") == b""


def test_a_hanging_host_is_silent_until_the_client_goes_and_the_log_says_so(demo):
    host = of_kind(demo, Kind.HANG)
    with connect(demo, host) as one:
        one.sendall(request(demo, host, "/hang/head"))
        assert one.recv(100) == b"HTTP/1.1 200 OK\r\nDat"
        one.settimeout(0.2)
        with pytest.raises(TimeoutError):
            one.recv(100)
        (row,) = [row for row in demo.log.rows() if row.host == host]
        assert (row.end_ms, row.whole) == (None, False)


def test_dirty_answers_arrive_as_dirty_as_they_were_made(demo):
    host = of_kind(demo, Kind.DIRTY)
    assert b"\r\nthis line says nothing\r\n" in raw(demo, host, "/dirty/colonless")
    assert b"\r" not in raw(demo, host, "/dirty/bare-lf")
    assert raw(demo, host, "/dirty/old").startswith(b"HTTP/1.0 200 OK")
    assert raw(demo, host, "/dirty/chunks").endswith(b"\r\nzz\r\n")
    assert raw(demo, host, "/dirty/continue").startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK")
    assert raw(demo, host, "/dirty/not-http").startswith(b"SSH-2.0-toy\r\n")


def test_a_location_can_be_raw_utf8(demo):
    assert "Location: /café?q=thé\r\n".encode() in raw(demo, of_kind(demo, Kind.REDIRECTS), "/go/utf8")


def test_endless_bodies_stop_when_the_client_goes(demo):
    host = of_kind(demo, Kind.HUGE)
    with connect(demo, host) as one:
        one.sendall(request(demo, host, "/huge/chunked"))
        received = 0
        while received < 8 * 2**20:
            received += len(one.recv(2**20))
    assert get(demo, host, "/robots.txt").status in (200, 404)
    (row,) = [row for row in demo.log.rows() if row.target == "/huge/chunked"]
    assert row.end_ms is not None
    assert not row.whole


def test_a_bomb_is_small_on_the_wire(demo):
    body = get(demo, of_kind(demo, Kind.HUGE), "/huge/bomb").body
    assert len(body) < demo.web.mix.bomb_bytes / 900


def test_slow_hosts_take_their_time_before_the_first_byte():
    mix = Mix(kinds=(Kind.SLOW,), robots=(Robots.SLOW,), slow_ms=150, robots_slow_ms=120)
    with serve_in_thread(ToyWeb(4, 1, mix)) as server:
        get(server, of_kind(server, Kind.SLOW), "/")
        get(server, next(host.name for host in server.web.hosts if host.robots is Robots.SLOW), "/robots.txt")
        first, second = server.log.rows()
    assert first.first_ms - first.t_ms >= 150
    assert second.first_ms - second.t_ms >= 120


def test_trickled_bytes_come_whole_but_slowly():
    mix = Mix(kinds=(Kind.TRICKLE,), trickle_ms=1)
    with serve_in_thread(ToyWeb(2, 1, mix)) as server:
        host = of_kind(server, Kind.TRICKLE)
        assert get(server, host, "/trickle/body").body == server.web.answer(host, "/trickle/body").body
        assert raw(server, host, "/trickle/head").endswith(server.web.answer(host, "/trickle/head").body)
        assert all(row.whole and row.end_ms - row.t_ms >= 20 for row in server.log.rows())


def test_the_log_tells_of_overlapping_requests(demo):
    host = of_kind(demo, Kind.FACETS)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: get(demo, host, f"/product/{n}"), range(12)))
    rows = [row for row in demo.log.rows() if row.host == host]
    assert [row.status for row in rows] == [200] * 12
    assert all(row.t_ms <= row.first_ms <= row.end_ms for row in rows)
    assert {row.address for row in rows} == {address_of(demo, host)}


def test_a_taken_port_is_refused_with_the_address(plain):
    with pytest.raises(OSError, match=rf"cannot listen at 127\.20\.\d+\.\d+:{plain.port}"):
        serve_in_thread(plain.web, plain.port)


def test_busy_hosts_count_their_visits():
    with serve_in_thread(ToyWeb()) as server:
        host = of_kind(server, Kind.BUSY)
        statuses = [get(server, host, "/busy/date").status for _ in range(3)]
        first = server.log.rows()[0]
    assert statuses == [429, 200, 200]
    assert 0 < first.hold_ms <= 4_000


SERVE = """
import sys
from pathlib import Path
from pipelines.toyweb import Mix, ToyWeb, run
run(ToyWeb(4, 1, Mix(kinds=())), 0, Path(sys.argv[1]), on_ready=lambda port: print(port, flush=True))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_nothing_is_lost_from_the_log_when_the_server_ends_by(number, tmp_path):
    path = tmp_path / "requests.jsonl"
    command = [sys.executable, "-c", SERVE, str(path)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
    ) as process:
        port = int(process.stdout.readline())
        web = ToyWeb(4, 1, Mix(kinds=()))
        with socket.create_connection((web.hosts[0].address, port), timeout=10) as one:
            for _ in range(5):
                one.sendall(b"GET /robots.txt HTTP/1.1\r\nHost: w001.test\r\n\r\n")
                assert one.recv(65_536).startswith(b"HTTP/1.1 ")
            assert len(log.read(path)) == 5
        os.kill(process.pid, number)
        assert process.wait(10) == (0 if number is not signal.SIGKILL else -signal.SIGKILL)
    assert [row.turn for row in log.read(path)] == [1, 2, 3, 4, 5]
