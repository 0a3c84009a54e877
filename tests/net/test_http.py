"""The fetcher over real sockets: what is sent, what is kept, and a named outcome for everything a server may do."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
import uvloop

from pipelines.net.dns import DnsPolicy
from pipelines.net.http import Exchange, Fetcher, FetchPolicy
from pipelines.net.loop import FetchLoop
from pipelines.rules.addresses import AddressPolicy
from pipelines.rules.outcome import Outcome
from tests.net.raw_server import RawServer, Script

POLICY = FetchPolicy(
    user_agent="NoriaTest/1 (+https://example.org/bot)", connect_ms=2_000, first_byte_ms=300, idle_ms=250, total_ms=900,
    addresses=AddressPolicy(("127.0.0.0/8", "::1")),
)  # fmt: skip
NAMES = DnsPolicy(
    static={"*.test": "127.0.0.1", "mixed.test": "10.0.0.1, 127.0.0.1", "bad.test": "10.0.0.1 192.168.1.1"}
)
PAGE = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nplums"
Test = Callable[[Fetcher, RawServer], Awaitable[None]]


@asynccontextmanager
async def both(
    routes: dict[str, Any], policy: FetchPolicy, names: DnsPolicy
) -> AsyncIterator[tuple[Fetcher, RawServer]]:
    async with RawServer(routes) as server, Fetcher(policy, names) as fetcher:
        yield fetcher, server


def run(test: Test, routes: dict[str, Any], policy: FetchPolicy = POLICY, names: DnsPolicy = NAMES) -> None:
    async def main() -> None:
        async with both(routes, policy, names) as (fetcher, server):
            await test(fetcher, server)

    uvloop.run(main(), loop_factory=FetchLoop)


def fetch_one(answer: bytes | Script, policy: FetchPolicy = POLICY, **more: Any) -> Exchange:
    got: list[Exchange] = []

    async def test(fetcher: Fetcher, server: RawServer) -> None:
        got.append(await fetcher.fetch(server.url("/x"), **more))

    run(test, {"GET /x": answer, "HEAD /x": answer}, policy)
    return got[0]


def test_the_request_is_kept_as_it_was_sent() -> None:
    async def test(fetcher: Fetcher, server: RawServer) -> None:
        exchange = await fetcher.fetch(server.url("/a%7eb/%26&?q=%27'", host="www.test") + "#part")
        assert server.requests == [exchange.request_head]
        assert exchange.request_head.split(b"\r\n") == [
            b"GET /a%7eb/%26&?q=%27%27 HTTP/1.1", b"Host: www.test:%d" % server.port,
            b"User-Agent: NoriaTest/1 (+https://example.org/bot)",
            b"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
            b"Accept-Encoding: gzip", b"Connection: keep-alive", b"", b"",
        ]  # fmt: skip

    run(test, {})


def test_conditional_headers_go_out_verbatim_and_replace_ours() -> None:
    async def test(fetcher: Fetcher, server: RawServer) -> None:
        headers = {"If-None-Match": 'W/"a b\xe9', "accept": "*/*", "If-Modified-Since": "yesterday",
                   "X-Bad": "a\r\nInjected: yes", "Bad Name": "x"}  # fmt: skip
        await fetcher.fetch(server.url(), headers=headers)
        head = server.requests[0]
        assert b'If-None-Match: W/"a b\xe9\r\n' in head and b"If-Modified-Since: yesterday\r\n" in head
        assert head.lower().count(b"accept:") == 1 and b"accept: */*" in head
        assert b"Injected" not in head and b"Bad Name" not in head

    run(test, {})


def test_what_was_received_is_kept_byte_for_byte() -> None:
    head = b"HTTP/1.1 200  Fine \r\nSet-Cookie: a\r\nset-cookie: b\r\nno colon\r\nTransfer-Encoding: chunked\r\n\r\n"
    raw = head + b"5\r\nplums\r\n0\r\n\r\n"
    exchange = fetch_one(raw)
    assert (exchange.response_head, exchange.body, exchange.status, exchange.reason) == (
        head,
        b"plums",
        200,
        "Fine",
    )
    assert exchange.header_all("SET-COOKIE") == ["a", "b"] and exchange.header("nothing") is None
    assert (exchange.outcome, exchange.address, exchange.wire_bytes) == (Outcome.OK, "127.0.0.1", len(raw))
    assert exchange.error == "header line without a colon: b'no colon'"
    assert exchange.truncated is None and exchange.protocol == "http/1.1"


def test_a_connection_is_kept_and_used_again() -> None:
    async def test(fetcher: Fetcher, server: RawServer) -> None:
        first, second = [await fetcher.fetch(server.url("/x", host=h)) for h in ("a.test", "a.test")]
        assert (first.reused, second.reused, server.connections) == (False, True, 1)
        await fetcher.fetch(server.url("/x", host="b.test"))
        assert server.connections == 2

    run(test, {"GET /x": Script((PAGE,), "keep")})


@pytest.mark.parametrize("answer", [
    Script((PAGE,), "close"),  # closed without a word
    Script((PAGE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"),), "keep"),
    Script((PAGE.replace(b"\r\n\r\n", b"\r\nKeep-Alive: timeout=1\r\n\r\n"),), "keep"),
    Script((PAGE + b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad",), "keep"),  # an answer that nobody asked for
    Script((PAGE.replace(b": 5", b": 4"),), "keep"),
    Script((b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nplums",), "keep"),
])  # fmt: skip
def test_a_connection_that_cannot_be_trusted_is_not_used_again(answer: Script) -> None:
    async def test(fetcher: Fetcher, server: RawServer) -> None:
        for _ in range(3):
            exchange = await fetcher.fetch(server.url("/x"))
            assert (
                exchange.outcome is Outcome.OK
                and exchange.body in (b"plums", b"plum")
                and not exchange.reused
            )

    run(test, {"GET /x": answer})


def test_bytes_that_come_late_end_a_kept_connection() -> None:
    """The rest of a lying answer that arrives between two requests must not become the next answer."""

    async def test(fetcher: Fetcher, server: RawServer) -> None:
        assert (await fetcher.fetch(server.url("/x"))).status == 200
        writer = next(iter(server.open))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison")
        await writer.drain()
        second = await fetcher.fetch(server.url("/x"))
        assert (second.body, second.reused, server.connections) == (b"plums", False, 2)

    run(test, {"GET /x": Script((PAGE,), "keep")})


def test_a_server_that_answers_before_it_is_asked_is_heard() -> None:
    async def main() -> None:
        async with (
            RawServer({"GET /x": Script((), "hold")}, hasty=PAGE) as server,
            Fetcher(POLICY, NAMES) as fetcher,
        ):
            exchange = await fetcher.fetch(server.url("/x"))
            assert (exchange.outcome, exchange.body) == (Outcome.OK, b"plums") and exchange.request_head

    uvloop.run(main(), loop_factory=FetchLoop)


def test_a_request_is_never_sent_twice() -> None:
    """P1: a kept connection that ends on the second request is a failure, not a reason to ask again at once."""

    async def test(fetcher: Fetcher, server: RawServer) -> None:
        await fetcher.fetch(server.url("/x"))
        second = await fetcher.fetch(server.url("/y"))
        assert (second.outcome, second.reused) == (Outcome.DISCONNECTED, True)
        assert server.targets == ["/x", "/y"]

    run(test, {"GET /x": Script((PAGE,), "keep"), "GET /y": Script((), "close")})


def test_before_send_runs_when_connected_and_before_any_byte() -> None:
    async def test(fetcher: Fetcher, server: RawServer) -> None:
        seen: list[tuple[int, int]] = []
        for _ in range(2):
            await fetcher.fetch(server.url("/x"), before_send=lambda: seen.append((0, len(server.requests))))
        assert seen == [(0, 0), (0, 1)]

    run(test, {"GET /x": Script((PAGE,), "keep")})


def test_nothing_is_sent_where_before_send_raises() -> None:
    def refuse() -> None:
        raise PermissionError("the lease is gone")

    async def test(fetcher: Fetcher, server: RawServer) -> None:
        with pytest.raises(PermissionError, match="the lease is gone"):
            await fetcher.fetch(server.url("/x"), before_send=refuse)
        assert (await fetcher.fetch(server.url("/x"))).outcome is Outcome.OK
        assert server.targets == ["/x"]

    run(test, {"GET /x": PAGE})


def test_a_failure_to_connect_does_not_call_before_send() -> None:
    async def test(fetcher: Fetcher, server: RawServer) -> None:
        called: list[int] = []
        await fetcher.fetch("http://10.0.0.1/", before_send=lambda: called.append(1))
        await fetcher.fetch(f"http://127.0.0.1:{_closed_port()}/", before_send=lambda: called.append(1))
        assert not called

    run(test, {})


HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n"
ENDINGS: dict[str, tuple[bytes | Script, Outcome, str | None, bytes]] = {
    "silence": (Script((), "hold"), Outcome.READ_TIMEOUT, None, b""),
    "half a head, then silence": (Script((HEAD[:20],), "hold"), Outcome.READ_TIMEOUT, None, b""),
    "a trickling head": (Script((b"HTTP/1.1 200 OK\r\n", b"A: b\r\n"), "repeat", 20), Outcome.READ_TIMEOUT, None, b""),
    "silence in the body": (Script((HEAD + b"plums",), "hold"), Outcome.OK, "time", b"plums"),
    "a body without length that never ends": (Script((b"HTTP/1.1 200 OK\r\n\r\nplums",), "hold"), Outcome.OK, "time", b"plums"),
    "a last chunk without its line end": (
        Script((b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nplums\r\n0\r\n",), "hold"), Outcome.OK, None, b"plums",
    ),
    "an early close": (HEAD + b"plums", Outcome.OK, "disconnect", b"plums"),
    "a reset in the head": (Script((HEAD[:20],), "reset"), Outcome.DISCONNECTED, None, b""),
    "a close in the head": (HEAD[:20], Outcome.DISCONNECTED, None, b""),
    "a close at once": (b"", Outcome.DISCONNECTED, None, b""),
    "rubbish": (b"\x16\x03\x01" + b"\xff" * 100, Outcome.BAD_HTTP, None, b""),
    "a 503": (b"HTTP/1.1 503 No\r\nContent-Length: 2\r\n\r\nno", Outcome.SERVER_ERROR, None, b"no"),
    "a redirect": (b"HTTP/1.1 301 Go\r\nLocation: /\r\nContent-Length: 0\r\n\r\n", Outcome.REDIRECT, None, b""),
}  # fmt: skip


@pytest.mark.parametrize(("answer", "outcome", "truncated", "body"), ENDINGS.values(), ids=ENDINGS.keys())
def test_every_ending_has_an_outcome_and_keeps_what_came(
    answer: bytes | Script, outcome: Outcome, truncated: str | None, body: bytes
) -> None:
    exchange = fetch_one(answer)
    assert (exchange.outcome, exchange.truncated, exchange.body) == (outcome, truncated, body)
    assert (exchange.status is None) == (exchange.response_head == b"") and exchange.request_head
    if exchange.status is None:
        assert exchange.error


def test_a_trickling_body_ends_by_the_total_time() -> None:
    exchange = fetch_one(Script((b"HTTP/1.1 200 OK\r\n\r\n", b"x"), "repeat", 50))
    assert exchange.outcome is Outcome.OK and exchange.truncated == "time"
    assert exchange.body.strip(b"x") == b"" and exchange.body and 850 <= exchange.total_ms < 3_000
    assert exchange.first_byte_ms is not None and exchange.first_byte_ms < 500


def test_an_endless_body_ends_by_its_length() -> None:
    exchange = fetch_one(
        Script((b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 65_536), "repeat", 0), body_bytes=1_000_000
    )
    assert (exchange.truncated, exchange.body) == ("length", b"x" * 1_000_000)


def test_an_answer_to_head_ends_with_its_head() -> None:
    exchange = fetch_one(Script((HEAD,), "hold"), method="HEAD")
    assert (exchange.outcome, exchange.truncated, exchange.body, exchange.method) == (
        Outcome.OK,
        None,
        b"",
        "HEAD",
    )


def _closed_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


REFUSED: dict[str, Outcome] = {
    "http://127.0.0.1:{closed}/": Outcome.CONNECT_REFUSED,
    "http://[::1]:{closed}/": Outcome.CONNECT_REFUSED,
    "http://10.0.0.1/": Outcome.ADDRESS_REFUSED,
    "http://bad.test/": Outcome.ADDRESS_REFUSED,
    "http://167772161/": Outcome.ADDRESS_REFUSED,
    "http://[::ffff:127.0.0.1]/": Outcome.ADDRESS_REFUSED,
    "http://127.0.0.1:25/": Outcome.URL_REFUSED,
    "ftp://a.test/": Outcome.URL_REFUSED,
    "http:///": Outcome.URL_REFUSED,
    "http://a b.test/": Outcome.URL_REFUSED,
    "": Outcome.URL_REFUSED,
    "http://\ud800/": Outcome.URL_REFUSED,
}


@pytest.mark.parametrize(("url", "outcome"), REFUSED.items())
def test_what_cannot_be_reached_has_an_outcome(url: str, outcome: Outcome) -> None:
    async def test(fetcher: Fetcher, server: RawServer) -> None:
        exchange = await fetcher.fetch(url.replace("{closed}", str(_closed_port())))
        assert (exchange.outcome, exchange.status, exchange.request_head, exchange.total_ms) == (
            outcome,
            None,
            b"",
            0,
        )
        assert exchange.error and server.connections == 0
        refused = outcome is Outcome.CONNECT_REFUSED
        assert refused == exchange.error.endswith(": connection refused"), exchange.error

    run(test, {})


def test_a_name_with_good_and_bad_addresses_is_refused_the_bad_one_only() -> None:
    async def test(fetcher: Fetcher, server: RawServer) -> None:
        exchange = await fetcher.fetch(server.url("/x", host="mixed.test"))
        assert (exchange.outcome, exchange.address) == (Outcome.OK, "127.0.0.1")

    run(test, {"GET /x": PAGE})


def test_the_refusal_names_the_address_and_the_remedy() -> None:
    async def test(fetcher: Fetcher, server: RawServer) -> None:
        exchange = await fetcher.fetch("http://bad.test/")
        assert (
            exchange.error
            and "10.0.0.1 is private (10.0.0.0/8)" in exchange.error
            and "allow_addresses" in exchange.error
        )

    run(test, {})


def test_ipv6_works() -> None:
    async def main() -> None:
        async with RawServer({"GET /x": PAGE}, address="::1") as server, Fetcher(POLICY, NAMES) as fetcher:
            exchange = await fetcher.fetch(server.url("/x", host="[::1]"))
            assert (exchange.outcome, exchange.address) == (Outcome.OK, "::1"), exchange.error
            assert b"Host: [::1]:%d\r\n" % server.port in exchange.request_head

    if not socket.has_ipv6 or not _has_ipv6_loopback():
        pytest.skip("no IPv6 loopback on this machine")
    uvloop.run(main(), loop_factory=FetchLoop)


def _has_ipv6_loopback() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as sock:
            sock.bind(("::1", 0))
    except OSError:
        return False
    return True


def test_a_cancelled_fetch_leaves_nothing_behind() -> None:
    async def test(fetcher: Fetcher, server: RawServer) -> None:
        asked = asyncio.Event()
        task = asyncio.create_task(fetcher.fetch(server.url("/hang"), before_send=asked.set))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        exchange = await fetcher.fetch(server.url("/x"))  # the only slot is free again
        assert exchange.outcome is Outcome.OK and not exchange.reused

    run(test, {"GET /hang": Script((), "hold"), "GET /x": PAGE}, replace(POLICY, connections=1))


def test_no_more_exchanges_run_at_once_than_allowed() -> None:
    async def test(fetcher: Fetcher, server: RawServer) -> None:
        got = await asyncio.gather(*(fetcher.fetch(server.url("/x", host=f"h{i}.test")) for i in range(12)))
        assert all(exchange.outcome is Outcome.OK for exchange in got)

    run(test, {"GET /x": Script((PAGE,), "keep")}, replace(POLICY, connections=3, kept_connections=2))


TE = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: %s\r\n\r\n"


def test_a_transfer_coding_is_taken_off_or_the_bytes_are_not_kept_as_a_page() -> None:
    plain = fetch_one(TE % b"gzip" + b"<p>plums</p>")
    assert (plain.outcome, plain.body) == (Outcome.OK, b"<p>plums</p>") and "sent plain" in (
        plain.error or ""
    )
    lzw = fetch_one(TE % b"compress" + b"\x1f\x9d\x90" + b"\0\x01" * 50)
    assert (lzw.outcome, lzw.body) == (Outcome.BAD_HTTP, b"")


def test_header_all_and_header_ignore_case() -> None:
    exchange = Exchange("http://a.test/", headers=[("ETag", "1"), ("etag", "2")])
    assert exchange.header("ETAG") == "1" and exchange.header_all("etag") == ["1", "2"]
