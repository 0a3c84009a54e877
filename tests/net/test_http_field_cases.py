"""Field cases of the kind http: faults that other crawlers met, through the real fetcher and a raw server.

Redirects are followed here by hand, as the cycle does, so that the whole path of a case is tested.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import ada_url
import pytest

from pipelines.net.bodies import decode
from pipelines.net.exchange import Exchange
from pipelines.net.http import Fetcher, FetchPolicy
from pipelines.rules.addresses import AddressPolicy
from pipelines.rules.outcome import Outcome
from tests.net.raw_server import RawServer, Script
from tests.shared import ROOT, shared

CATEGORIES = ("http", "redirects", "security")
POLICY = FetchPolicy(connect_ms=3_000, first_byte_ms=1_500, idle_ms=1_000, total_ms=4_000)
HOPS = 10
SAID = {
    "truncated": lambda last: (
        last.truncated is not None or last.outcome in (Outcome.BAD_HTTP, Outcome.DISCONNECTED)
    ),
    "blocked": lambda last: last.outcome is Outcome.ADDRESS_REFUSED,
    "loop": lambda last: last.outcome in (Outcome.REDIRECT_LIMIT, Outcome.REDIRECT),
    "error": lambda last: last.outcome is Outcome.BAD_HTTP,
}


def cases() -> list[Any]:
    folder = ROOT / "field-cases"
    read = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))] if folder.exists() else []
    return [pytest.param(c, id=c["id"]) for c in read if c["category"] in CATEGORIES] or [pytest.param(None)]


async def follow(fetcher: Fetcher, url: str, headers: dict[str, str]) -> list[Exchange]:
    """Fetch a URL and, hop by hop, where it redirects; a loop or too many hops end as REDIRECT_LIMIT."""
    hops: list[Exchange] = []
    seen = set()
    while len(hops) <= HOPS and url not in seen:
        seen.add(url)
        hops.append(await fetcher.fetch(url, headers=headers))
        location = hops[-1].location()
        if hops[-1].outcome is not Outcome.REDIRECT or location is None:
            return hops
        url = ada_url.join_url(url, location)
    hops[-1].outcome = Outcome.REDIRECT_LIMIT
    return hops


def text_of(last: Exchange) -> str:
    decoded = decode(last.body, ", ".join(last.header_all("Content-Encoding")) or None, limit=1_000_000)
    return decoded.data.decode("latin-1")


def holds(expect: dict[str, Any], hops: list[Exchange], server: RawServer, seconds: float) -> list[str]:
    """Return the expectations that do not hold."""
    last, wrong = hops[-1], []
    for key, value in expect.items():
        match key:
            case "any_of":
                good = any(not holds(one, hops, server, seconds) for one in value)
            case "status" | "final_status" | "warc_http_status":
                good = last.status == value
            case "body_text_contains":
                good = value in text_of(last)
            case "body_length":
                good = len(text_of(last)) == value
            case "truncated":
                good = (last.truncated is not None) == value
            case "warc_truncated_field":
                good = last.truncated == value.partition(" ")[0]
            case "error":
                good = last.error == value
            case "done_within_s":
                good = seconds < value
            case "requests":
                good = server.targets == value
            case "next_request_target":
                good = (server.targets + [_target(hops)])[1] == value
            case "requests_at_most" | "attempts_at_most":
                good = len(server.targets) <= value
            case "connections_to_listed":
                good = value == 0 and server.connections == 1
            case "outcome":
                good = any(word in value and test(last) for word, test in SAID.items())
            case "must":
                good = True  # in words; the exact keys beside it are what is tested
            case _:
                good = False
        wrong += [] if good else [f"{key}={value!r}"]
    return wrong


def _target(hops: list[Exchange]) -> str:
    parsed = ada_url.URL(hops[-1].url)
    return str(parsed.pathname + parsed.search)


@pytest.mark.parametrize("case", cases())
def test_field_case(case: dict[str, Any] | None) -> None:
    folder = shared("field-cases")
    assert case is not None
    if case["kind"] not in ("http", "frontier"):
        pytest.skip(f"kind {case['kind']} is tested where its rule is")
    data = case["input"]
    then = "hold" if data.get("keep_connection_open_s") else "close"
    routes = {key: Script(((folder / file).read_bytes(),), then) for key, file in data["server"].items()}

    async def run() -> None:
        async with RawServer(routes) as server:
            policy = replace(POLICY, addresses=AddressPolicy((f"127.0.0.1:{server.port}",)))
            async with Fetcher(policy) as fetcher:
                loop = asyncio.get_running_loop()
                begun = loop.time()
                first = data.get("fetch") or data["seeds"][0]
                hops = await follow(fetcher, server.url(first), data.get("conditional", {}))
                expect = {k: v for k, v in case["expect"].items() if not k.startswith("stored")}
                assert holds(expect, hops, server, loop.time() - begun) == [], hops
                if "stored" in case["expect"]:
                    assert [_target([hop]) for hop in hops if hop.outcome is Outcome.OK] == case["expect"][
                        "stored"
                    ]
                for url in data.get("also_as_links", ()):
                    assert (await fetcher.fetch(url)).outcome is Outcome.ADDRESS_REFUSED, url
                assert server.connections <= len(hops)

    asyncio.run(run())


def test_all_field_cases_of_these_categories_are_here() -> None:
    shared("field-cases")
    assert len(cases()) >= 15
