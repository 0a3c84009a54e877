"""Field cases of the kind http: faults that other crawlers met, through the real fetcher and a raw server.

Redirects are followed here by hand, as the cycle does, so that the whole path of a case is tested.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from pipelines.net.bodies import decode
from pipelines.net.exchange import Exchange
from pipelines.net.http import Fetcher, FetchPolicy
from pipelines.rules.addresses import AddressPolicy
from pipelines.rules.outcome import Outcome
from pipelines.rules.whatwg import parse, resolve_location
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
        target = resolve_location(url, hops[-1].header("Location") or "")
        if hops[-1].outcome is not Outcome.REDIRECT or target is None:
            return hops
        url = target
    hops[-1].outcome = Outcome.REDIRECT_LIMIT
    return hops


def text_of(last: Exchange) -> str:
    decoded = decode(last.body, ", ".join(last.header_all("Content-Encoding")) or None, limit=1_000_000)
    return decoded.data.decode("latin-1")


@dataclass
class Run:
    """What a case's fetch came to."""

    hops: list[Exchange]
    server: RawServer
    seconds: float

    @property
    def last(self) -> Exchange:
        return self.hops[-1]

    @property
    def next_target(self) -> str:
        return [*self.server.targets, target_of(self.last)][1]


def target_of(exchange: Exchange) -> str:
    parsed = parse(exchange.url)
    assert parsed is not None
    return parsed.path if parsed.query is None else f"{parsed.path}?{parsed.query}"


CHECKS: dict[str, Callable[[Run, Any], bool]] = {
    "any_of": lambda run, value: any(not failing(one, run) for one in value),
    "status": lambda run, value: run.last.status == value,
    "final_status": lambda run, value: run.last.status == value,
    "warc_http_status": lambda run, value: run.last.status == value,
    "body_text_contains": lambda run, value: value in text_of(run.last),
    "body_length": lambda run, value: len(text_of(run.last)) == value,
    "truncated": lambda run, value: (run.last.truncated is not None) == value,
    "warc_truncated_field": lambda run, value: run.last.truncated == value.partition(" ")[0],
    "error": lambda run, value: run.last.error == value,
    "done_within_s": lambda run, value: run.seconds < value,
    "requests": lambda run, value: run.server.targets == value,
    "next_request_target": lambda run, value: run.next_target == value,
    "requests_at_most": lambda run, value: len(run.server.targets) <= value,
    "attempts_at_most": lambda run, value: len(run.server.targets) <= value,
    "connections_to_listed": lambda run, value: value == 0 and run.server.connections == 1,
    "outcome": lambda run, value: any(word in value and said(run.last) for word, said in SAID.items()),
    "must": lambda run, value: True,  # in words; the exact keys beside it are what is tested
}


def failing(expect: dict[str, Any], run: Run) -> list[str]:
    """Return the expectations that do not hold; an unknown one does not."""
    return [
        f"{key}={value!r}"
        for key, value in expect.items()
        if not CHECKS.get(key, lambda *_: False)(run, value)
    ]


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
                assert failing(expect, Run(hops, server, loop.time() - begun)) == [], hops
                if "stored" in case["expect"]:
                    assert [target_of(hop) for hop in hops if hop.outcome is Outcome.OK] == case["expect"][
                        "stored"
                    ]
                for url in data.get("also_as_links", ()):
                    assert (await fetcher.fetch(url)).outcome is Outcome.ADDRESS_REFUSED, url
                assert server.connections <= len(hops)

    asyncio.run(run())


def test_all_field_cases_of_these_categories_are_here() -> None:
    shared("field-cases")
    assert len(cases()) >= 15
