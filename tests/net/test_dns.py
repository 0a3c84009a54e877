"""Names: answers kept as long as they hold, failures named and remembered, and no address that may not be reached."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvloop

from pipelines.net.clock import PretendClock
from pipelines.net.dns import DnsError, DnsPolicy, Resolver
from pipelines.net.http import Fetcher, FetchPolicy
from pipelines.rules.addresses import AddressPolicy
from pipelines.rules.outcome import Outcome
from tests.net.fake_dns import SILENCE, FakeDns
from tests.net.raw_server import RawServer

# Pretend time outruns c-ares' own store of answers: what is to be asked again has a time to live of 0.
Test = Callable[[Resolver, FakeDns, PretendClock], Awaitable[None]]
MINUTE_MS = 60_000


def run(test: Test, table: dict[str, Any], **policy: Any) -> None:
    async def main() -> None:
        clock = PretendClock()
        async with FakeDns(table) as server:
            settings = {"servers": (server.server,), "timeout_ms": 200, "tries": 1, **policy}
            resolver = Resolver(DnsPolicy(**settings), clock=clock)
            try:
                await test(resolver, server, clock)
            finally:
                await resolver.close()

    uvloop.run(main())


async def failure(resolver: Resolver, host: str) -> Outcome:
    with pytest.raises(DnsError) as caught:
        await resolver.resolve(host)
    assert repr(host.rstrip(".")) in str(caught.value)
    return caught.value.outcome


def test_both_families_are_asked_and_ipv4_comes_first() -> None:
    async def test(resolver: Resolver, server: FakeDns, clock: PretendClock) -> None:
        answer = await resolver.resolve("Two.Test.")
        assert answer.addresses == ("1.2.3.4", "1.2.3.5", "2606:4700::1111")
        assert answer.expires_ms == clock.now_ms() + 300_000  # the shortest TTL counts
        assert sorted(server.questions) == ["two.test A", "two.test AAAA"]

    run(
        test,
        {"two.test A": [["600 A 1.2.3.4", "600 A 1.2.3.5"]], "two.test AAAA": [["300 AAAA 2606:4700::1111"]]},
    )


def test_ipv6_alone_is_enough_and_can_be_switched_off() -> None:
    table = {"six.test AAAA": [["300 AAAA 2606:4700::1111"]]}

    async def test(resolver: Resolver, server: FakeDns, clock: PretendClock) -> None:
        assert (await resolver.resolve("six.test")).addresses == ("2606:4700::1111",)

    async def without(resolver: Resolver, server: FakeDns, clock: PretendClock) -> None:
        assert await failure(resolver, "six.test") is Outcome.DNS_FAILED
        assert server.questions == ["six.test A"]

    run(test, table)
    run(without, table, ipv6=False)


def test_an_alias_is_followed_and_its_time_to_live_counts() -> None:
    async def test(resolver: Resolver, server: FakeDns, clock: PretendClock) -> None:
        answer = await resolver.resolve("www.test")
        assert answer.addresses == ("1.2.3.4",) and answer.expires_ms == clock.now_ms() + 90_000

    run(test, {"www.test A": [["90 CNAME a.test.", "600 A 1.2.3.4"]]})


def test_an_answer_is_kept_for_its_time_and_a_changed_one_is_followed() -> None:
    async def test(resolver: Resolver, server: FakeDns, clock: PretendClock) -> None:
        for advance_ms, address in ((0, "1.1.1.1"), (299_999, "1.1.1.1"), (1, "2.2.2.2")):
            clock.advance(advance_ms)
            assert (await resolver.resolve("a.test")).addresses == (address,)
        assert server.questions.count("a.test A") == 2

    run(test, {"a.test A": [["0 A 1.1.1.1"], ["0 A 2.2.2.2"]]}, ttl_floor_seconds=300)


def test_a_time_to_live_has_a_floor_and_a_ceiling() -> None:
    async def test(resolver: Resolver, server: FakeDns, clock: PretendClock) -> None:
        assert (await resolver.resolve("short.test")).expires_ms == clock.now_ms() + MINUTE_MS
        assert (await resolver.resolve("long.test")).expires_ms == clock.now_ms() + 86_400_000

    run(test, {"short.test A": [["0 A 1.1.1.1"]], "long.test A": [["2000000 A 1.1.1.1"]]})


def test_a_clock_that_jumps_back_does_not_keep_an_answer_for_ever() -> None:
    async def test(resolver: Resolver, server: FakeDns, clock: PretendClock) -> None:
        await resolver.resolve("a.test")
        clock.jump(-400 * 86_400_000)
        assert (await resolver.resolve("a.test")).addresses == ("2.2.2.2",)

    run(test, {"a.test A": [["0 A 1.1.1.1"], ["0 A 2.2.2.2"]]})


FAILURES: dict[str, tuple[dict[str, Any], Outcome]] = {
    "no such name": ({}, Outcome.DNS_NXDOMAIN),
    "SERVFAIL": ({"x.test A": ["SERVFAIL"], "x.test AAAA": ["SERVFAIL"]}, Outcome.DNS_FAILED),
    "REFUSED": ({"x.test A": ["REFUSED"], "x.test AAAA": ["REFUSED"]}, Outcome.DNS_FAILED),
    "silence": ({"x.test A": [SILENCE], "x.test AAAA": [SILENCE]}, Outcome.DNS_TIMEOUT),
    "an alias to nowhere": ({"x.test A": [["0 CNAME gone.test."]]}, Outcome.DNS_FAILED),
}


@pytest.mark.parametrize(("table", "outcome"), FAILURES.values(), ids=FAILURES.keys())
def test_a_failure_has_its_outcome_and_is_remembered(table: dict[str, Any], outcome: Outcome) -> None:
    async def test(resolver: Resolver, server: FakeDns, clock: PretendClock) -> None:
        assert await failure(resolver, "x.test") is outcome
        asked = len(server.questions)
        assert await failure(resolver, "x.test") is outcome
        assert len(server.questions) == asked
        clock.advance(10 * MINUTE_MS)
        assert await failure(resolver, "x.test") is outcome
        assert len(server.questions) > asked

    run(test, table)


def test_a_name_without_an_address_is_no_missing_name() -> None:
    async def test(resolver: Resolver, server: FakeDns, clock: PretendClock) -> None:
        assert await failure(resolver, "x.test") is Outcome.DNS_FAILED

    run(test, {"x.test A": ["NODATA"]})


def test_a_server_fault_is_forgotten_sooner_than_no_such_name() -> None:
    async def test(resolver: Resolver, server: FakeDns, clock: PretendClock) -> None:
        assert await failure(resolver, "x.test") is Outcome.DNS_FAILED
        assert await failure(resolver, "gone.test") is Outcome.DNS_NXDOMAIN
        clock.advance(MINUTE_MS)
        assert (await resolver.resolve("x.test")).addresses == ("1.1.1.1",)
        assert await failure(resolver, "gone.test") is Outcome.DNS_NXDOMAIN
        assert server.questions.count("gone.test A") == 1

    run(test, {"x.test A": ["SERVFAIL", ["60 A 1.1.1.1"]], "x.test AAAA": ["SERVFAIL"]})


def test_a_server_that_never_answers_aaaa_does_not_hold_up_the_name() -> None:
    async def test(resolver: Resolver, server: FakeDns, clock: PretendClock) -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        assert (await resolver.resolve("x.test")).addresses == ("1.1.1.1",)
        assert loop.time() - begun < 3

    run(test, {"x.test A": [["60 A 1.1.1.1"]], "x.test AAAA": [SILENCE]}, timeout_ms=5_000, tries=2)


def test_an_outage_of_the_servers_ends_by_itself() -> None:
    """c-ares was seen to wait for ever after an outage: the channel is made anew, and all is well again."""

    async def test(resolver: Resolver, server: FakeDns, clock: PretendClock) -> None:
        hosts = [f"h{i}.test" for i in range(30)]
        lost = await asyncio.gather(*(failure(resolver, host) for host in hosts))
        assert set(lost) == {Outcome.DNS_TIMEOUT}
        clock.advance(MINUTE_MS)
        back = await asyncio.gather(*(resolver.resolve(host) for host in hosts))
        assert {answer.addresses for answer in back} == {("1.1.1.1",)}

    run(test, {f"h{i}.test A": [SILENCE, ["60 A 1.1.1.1"]] for i in range(30)}, ipv6=False)


def test_many_who_ask_at_once_ask_the_server_once() -> None:
    async def test(resolver: Resolver, server: FakeDns, clock: PretendClock) -> None:
        got = await asyncio.gather(*(resolver.resolve("a.test") for _ in range(50)))
        assert {answer.addresses for answer in got} == {("1.1.1.1",)} and len(server.questions) == 2

    run(test, {"a.test A": [["300 A 1.1.1.1"]]})


def test_one_who_gives_up_does_not_spoil_the_answer_for_others() -> None:
    async def test(resolver: Resolver, server: FakeDns, clock: PretendClock) -> None:
        first = asyncio.create_task(resolver.resolve("a.test"))
        second = asyncio.create_task(resolver.resolve("a.test"))
        await asyncio.wait((first,), timeout=0)
        first.cancel()
        assert (await second).addresses == ("1.1.1.1",) and first.cancelled()

    run(test, {"a.test A": [["300 A 1.1.1.1"]]})


def test_questions_under_way_are_bounded() -> None:
    async def test(resolver: Resolver, server: FakeDns, clock: PretendClock) -> None:
        lost = await asyncio.gather(*(failure(resolver, f"h{i}.test") for i in range(3)))
        assert lost == [Outcome.DNS_TIMEOUT] * 3 and len(server.questions) == 3

    run(test, {f"h{i}.test A": [SILENCE] for i in range(3)}, ipv6=False, concurrency=1, timeout_ms=100)


def test_the_static_table_is_never_asked_of_a_server() -> None:
    async def test(resolver: Resolver, server: FakeDns, clock: PretendClock) -> None:
        expected = {"a.test": ("127.0.0.1",), "b.c.test.": ("127.0.0.1",), "EXACT.test": ("::1", "127.0.0.9"),
                    "sub.exact.test": ("127.0.0.1",), "localhost": ("127.0.0.1", "::1"), "x.localhost": ("127.0.0.1", "::1")}  # fmt: skip
        for host, addresses in expected.items():
            assert (await resolver.resolve(host)).addresses == addresses
        assert await failure(resolver, "test") is Outcome.DNS_NXDOMAIN  # '*.test' is not the name itself
        assert server.questions == ["test A", "test AAAA"]

    run(test, {}, static={"*.test": "127.0.0.1", "exact.test": "::1, 127.0.0.9"})


def test_a_network_in_the_static_table_gives_each_name_its_own_address() -> None:
    async def test(resolver: Resolver, server: FakeDns, clock: PretendClock) -> None:
        got = [(await resolver.resolve(f"h{i}.test")).addresses[0] for i in range(200)]
        assert len(set(got)) > 195 and all(address.startswith("127.") for address in got)
        assert got[:1] == [(await resolver.resolve("h0.test")).addresses[0]]

    run(test, {}, static={"*.test": "127.0.0.0/8"})


def test_a_wrong_static_address_is_named() -> None:
    with pytest.raises(ValueError, match="nonsense"):
        Resolver(DnsPolicy(static={"a.test": "nonsense"}))


@pytest.mark.parametrize("host", ["93.184.216.34", "[2606:4700::1111]", "2606:4700::1111", "127.0.0.1"])
def test_a_literal_is_its_own_address(host: str) -> None:
    async def test(resolver: Resolver, server: FakeDns, clock: PretendClock) -> None:
        assert (await resolver.resolve(host)).addresses == (host.strip("[]"),) and not server.questions

    run(test, {})


@pytest.mark.parametrize(
    "host", ["", ".", "a" * 64 + ".test", "a..test", "é.test", "a b.test", "x." * 200 + "test"]
)
def test_a_name_that_dns_cannot_hold_is_a_failure_of_its_own(host: str) -> None:
    async def test(resolver: Resolver, server: FakeDns, clock: PretendClock) -> None:
        with pytest.raises(DnsError):
            await resolver.resolve(host)

    run(test, {})


def test_addresses_of_the_host_table_are_taken_over_until_they_expire() -> None:
    async def test(resolver: Resolver, server: FakeDns, clock: PretendClock) -> None:
        resolver.prime("a.test", ["9.9.9.9"], clock.now_ms() + MINUTE_MS)
        resolver.prime("b.test", ["9.9.9.9"], clock.now_ms() - 1)
        assert (await resolver.resolve("a.test")).addresses == ("9.9.9.9",) and not server.questions
        assert (await resolver.resolve("b.test")).addresses == ("1.1.1.1",)
        clock.advance(MINUTE_MS)
        assert (await resolver.resolve("a.test")).addresses == ("1.1.1.1",)

    run(test, {f"{name}.test A": [["300 A 1.1.1.1"]] for name in "ab"})


def test_the_cache_is_bounded() -> None:
    async def test(resolver: Resolver, server: FakeDns, clock: PretendClock) -> None:
        for i in range(5):
            resolver.prime(f"h{i}.test", ["9.9.9.9"], clock.now_ms() + MINUTE_MS)
        assert await failure(resolver, "h0.test") is Outcome.DNS_NXDOMAIN
        assert (await resolver.resolve("h4.test")).addresses == ("9.9.9.9",)

    run(test, {}, cache_hosts=3)


def test_a_name_that_rebinds_to_a_private_address_is_refused_at_its_next_look_up() -> None:
    """P9: public at first, loopback later; judged after each resolution, before each connect."""

    async def test(resolver: Resolver, server: FakeDns, clock: PretendClock) -> None:
        policy = FetchPolicy(connect_ms=1_000, first_byte_ms=500, addresses=AddressPolicy(("127.0.0.1",)))
        async with RawServer({}) as web, Fetcher(policy, resolver, clock=clock) as fetcher:
            first = await fetcher.fetch(web.url("/x", host="evil.test"))
            assert (first.outcome, first.address) == (Outcome.NOT_FOUND, "127.0.0.1")
            clock.advance(MINUTE_MS)
            await fetcher.close()
            await fetcher.open()
            second = await fetcher.fetch(web.url("/x", host="evil.test"))
            assert second.outcome is Outcome.ADDRESS_REFUSED and "169.254.169.254" in (second.error or "")
            assert web.connections == 1

    run(test, {"evil.test A": [["0 A 127.0.0.1"], ["0 A 169.254.169.254", "0 A 10.0.0.1"]]})


@pytest.mark.parametrize(("table", "outcome"), FAILURES.values(), ids=FAILURES.keys())
def test_a_failing_name_is_an_exchange_with_its_outcome(table: dict[str, Any], outcome: Outcome) -> None:
    async def test(resolver: Resolver, server: FakeDns, clock: PretendClock) -> None:
        async with Fetcher(FetchPolicy(), resolver) as fetcher:
            exchange = await fetcher.fetch("http://x.test/")
            assert exchange.outcome is outcome and exchange.error and "x.test" in exchange.error

    run(test, table)
