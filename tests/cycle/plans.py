"""Small lakes in a given state, and the plans made of them: no network, no fetch."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from lake import inbox, snapshot, staging
from lake.files import write_data
from lake.lease import Lease
from lake.schema import BY_NAME, FRONTIER_READY, HOSTS
from lake.snapshot import Lake
from pipelines import config
from pipelines.config import Settings
from pipelines.cycle import allot, open, plan, resolve
from pipelines.cycle.hoststate import moment
from pipelines.cycle.turn import Turn
from pipelines.rules import hosts, urls
from tests.lake.sample import finish

NOW_MS = 1_800_000_000_000  # 2027-01-15 08:00 UTC
BUCKETS = 8


def settings(**overrides: Any) -> Settings:
    """Return settings of a web whose names all resolve, each to an address of its own."""
    given = {
        "dns.static": '{"*.sim" = "127.64.0.0/12"}',
        "security.allow_addresses": '["127.0.0.0/8"]',
        "lake.buckets": str(BUCKETS),
        "sitemaps.per_cycle": "0",
        **{name.replace("__", "."): str(value) for name, value in overrides.items()},
    }
    return config.load([], environ={}, overrides=given)


def urls_of(host: str, count: int) -> list[str]:
    """Return some URLs of a host."""
    return [f"http://{host}/p{number}" for number in range(count)]


def lake_with(
    folder: Path, ready: Sequence[str | dict[str, Any]] = (), rows: Sequence[dict[str, Any]] = (), buckets: int = BUCKETS
) -> Lake:  # fmt: skip
    """Return a lake after one cycle with these URLs on the ready shelf (all seen) and these host rows.

    A URL is a string or a frontier row with `url`; what it leaves out is as for a link found in cycle 1.
    """
    lake = snapshot.create(folder / "lake", buckets=buckets, lake_id="test")
    states = [state({"url": one} if isinstance(one, str) else one, buckets) for one in ready]
    states.sort(key=lambda row: row["url_key"])
    books = [_host(row, buckets) for row in rows]
    books.sort(key=lambda row: (row["host_key"], row["host"]))
    adds: dict[str, list[Any]] = {"frontier_ready": [], "hosts": [], "seen": []}
    for table, schema, given in (
        ("frontier_ready", FRONTIER_READY.arrow, states),
        ("hosts", HOSTS.arrow, books),
    ):
        for bucket, mine in itertools.groupby(given, key=lambda row: row["bucket"]):
            data = pa.Table.from_pylist(list(mine), schema=schema)
            path = lake.layout.data_path(table, 1, bucket)
            adds[table].append(
                write_data(lake.layout.table(table), path, data, BY_NAME[table], {"bucket": bucket})
            )
    for bucket, mine in itertools.groupby(states, key=lambda row: row["bucket"]):
        data = pa.table({"url_key": np.array([row["url_key"] for row in mine], dtype=np.int64)})
        path = lake.layout.data_path("seen", 1, bucket)
        adds["seen"].append(
            write_data(lake.layout.table("seen"), path, data, BY_NAME["seen"], {"bucket": bucket})
        )
    return finish(lake, 1, adds)


def state(row: dict[str, Any], buckets: int) -> dict[str, Any]:
    host = urls.host_of(row["url"])
    key = urls.url_key(row["url"], host)
    zero = dict.fromkeys(("band", "score", "visits", "changes", "failures", "visit_seconds"), 0)
    at = {"added_cycle": 1, "added_at": moment(NOW_MS), "shelf_cycle": 1, "depth": 1, "source": "link"}
    return {"bucket": urls.bucket_of(key, buckets), "url_key": key, "host": host, **zero, **at, **row}


def _host(row: dict[str, Any], buckets: int) -> dict[str, Any]:
    name = row["host"]
    key = urls.host_key(name)
    zero = dict.fromkeys(
        ("backoff_ms", "month_requests", "requests", "pages", "body_bytes", "known_urls", "ready_urls",
         "backlog_urls", "failures"), 0
    )  # fmt: skip
    usual = {
        "domain": hosts.registrable_domain(name),
        "score": 1.0,
        "health": "ok",
        "added_cycle": 1,
        "robots": fresh_robots(name),
    }
    return {"bucket": urls.bucket_of(key, buckets), "host_key": key, **zero, **usual, **row}


def fresh_robots(host: str) -> list[dict[str, Any]]:
    """Return the books of a robots.txt that was read a moment ago: there is none, all is allowed."""
    return [
        {
            "site": f"http://{host}", "state": "allow_all", "status": 404, "digest": None,
            "fetched_at": moment(NOW_MS - 1), "expires_at": moment(NOW_MS + 86_400_000),
            "url": f"http://{host}/robots.txt",
        }
    ]  # fmt: skip


def planned(
    lake: Lake, conf: Settings, *, slots: int = 2, now_ms: int = NOW_MS, groups: int | None = None,
    seeds: Sequence[str] = (),
) -> Turn:  # fmt: skip
    """Make the next cycle's plan, durably, and return the turn."""
    if seeds:
        inbox.put(lake.root, [{"url": url, "source": "seed"} for url in seeds], kind="seed", now_ms=now_ms)
    turn = open.begin(lake, conf, slots=slots, now_ms=now_ms)
    if groups is not None:
        turn = Turn.from_json({**turn.to_json(), "groups": groups}, root=turn.root, resumed=False)
    plan.intake(turn)
    for group in range(turn.groups):
        plan.demand(turn, group)
    for group in range(turn.groups):
        resolve.resolve(turn, group)
    allot.allot(turn)
    for group in range(turn.groups):
        plan.select(turn, group)
    return turn


def chosen(turn: Turn) -> list[dict[str, Any]]:
    """Return the planned URLs, in the order of their keys."""
    tables = [
        staging.read_table(turn.staged("plan", f"urls-{group:04d}.arrow")) for group in range(turn.groups)
    ]
    rows: list[dict[str, Any]] = pa.concat_tables(tables).to_pylist()
    return sorted(rows, key=lambda row: row["url_key"])


def host_plan(turn: Turn) -> dict[str, dict[str, Any]]:
    """Return the planned hosts by name."""
    return {row["host"]: row for row in staging.read_table(turn.staged("plan", "hosts.arrow")).to_pylist()}


def shares(turn: Turn) -> Mapping[str, int]:
    """Return how many URLs each host was given, of those that were given any."""
    return {name: row["urls"] for name, row in host_plan(turn).items() if row["urls"]}


def free_lease(folder: Path) -> Lease:
    """Return a lease that is held."""
    return Lease.acquire(folder / "lease", holder="test", seconds=3_600)
