"""The crawler's own fetcher, asking the real server, notes the outcomes and gets the bytes that the truth says."""

from __future__ import annotations

import asyncio

import pytest

from pipelines.net.dns import DnsPolicy
from pipelines.net.exchange import Exchange
from pipelines.net.http import Fetcher, FetchPolicy
from pipelines.rules.addresses import AddressPolicy
from pipelines.rules.outcome import Outcome
from pipelines.toyweb import Kind, Known, Mix, RunningServer, ToyWeb, conf, serve_in_thread
from pipelines.toyweb.hosts import Robots
from pipelines.toyweb.pages import path
from pipelines.toyweb.schedule import BORN_MS

NOW = BORN_MS + 500 * 86_400_000
LIMIT = 1_000_000
MIX = Mix(
    kinds=tuple(kind for kind in Kind if kind not in (Kind.PLAIN, Kind.NOWHERE)), robots=tuple(Robots), steady=True,
    slow_ms=20, hang_ms=0, trickle_ms=1, robots_slow_ms=20, huge_bytes=4 * 2**20, bomb_bytes=2**24,
)  # fmt: skip


async def ask_all(server: RunningServer, wanted: list[Known]) -> list[tuple[Known, Exchange]]:
    policy = FetchPolicy(
        first_byte_ms=2_000,
        idle_ms=1_000,
        total_ms=8_000,
        body_bytes=LIMIT,
        connections=16,
        addresses=AddressPolicy(allow=(conf.NETWORK,)),
    )
    fetcher = Fetcher(policy, DnsPolicy(static=server.web.names()))
    await fetcher.open()
    try:
        answers = await asyncio.gather(*(ask(fetcher, known.url) for known in wanted))
    finally:
        await fetcher.close()
    return list(zip(wanted, answers, strict=True))


async def ask(fetcher: Fetcher, url: str) -> Exchange:
    """Ask as cycles do: a request that met the end of a kept connection (dirty answers close theirs) is made anew."""
    for _ in range(5):
        exchange = await fetcher.fetch(url)
        if not (exchange.reused and exchange.outcome is Outcome.DISCONNECTED and not exchange.wire_bytes):
            break
    return exchange


def usual(web: ToyWeb, name: str) -> set[str]:
    """Return the targets of a host's ordinary pages but for the first few."""
    host = web.host(name)
    return {path(web.plan, host, index) for index in range(3, host.size)}


@pytest.fixture(scope="module")
def asked():
    web = ToyWeb(50, 1, MIX)
    with serve_in_thread(web, clock=lambda: NOW) as server:
        wanted = [
            known for known in web.urls(server.port, now_ms=NOW) if known.target not in usual(web, known.host)
        ]
        yield server, asyncio.run(ask_all(server, wanted))


def test_the_fetcher_notes_the_outcomes_of_the_truth(asked):
    _, exchanges = asked
    wrong = [
        (known.target, known.outcome, exchange.outcome, exchange.error)
        for known, exchange in exchanges
        if known.outcome not in (None, exchange.outcome)
        and not (known.outcome is Outcome.REDIRECT_LIMIT and exchange.outcome is Outcome.REDIRECT)
    ]
    assert wrong == []
    assert {known.outcome for known, _ in exchanges} > {
        Outcome.READ_TIMEOUT,
        Outcome.DISCONNECTED,
        Outcome.BAD_HTTP,
    }


def test_the_fetcher_gets_the_bytes_of_the_truth_or_says_that_they_are_cut(asked):
    server, exchanges = asked
    for known, exchange in exchanges:
        if known.sort in ("page", "robots", "sitemap") and known.outcome is Outcome.OK:
            whole = server.web.payload(known.url, NOW)
            assert exchange.truncated or exchange.body == whole, known.url
            assert exchange.truncated is None or known.target.startswith(
                ("/hang/", "/huge/", "/reset/", "/dirty/", "/robots")
            )
