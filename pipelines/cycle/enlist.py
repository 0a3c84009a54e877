"""Who is in a fetch partition, and how each host stands when an attempt begins: by the plan and earlier attempts."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lake import staging
from lake.snapshot import Lake
from pipelines.cycle import journal, parts
from pipelines.cycle.crew import HOST_COLUMNS
from pipelines.cycle.hoststate import HostState, Item, RobotsCopy, epoch_ms
from pipelines.cycle.turn import Turn
from pipelines.rules import metadata
from pipelines.rules.budget import month_of
from pipelines.rules.delay import DelayPolicy
from pipelines.rules.robots import Rules
from pipelines.rules.robots_policy import RobotsState

ITEM_COLUMNS = (
    "url", "host", "url_key", "depth", "via", "source", "meta", "etag", "last_modified", "last_digest",
    "last_visit_at",
)  # fmt: skip


@dataclass
class Earlier:
    """What the earlier attempts at a partition left: nothing, usually.

    done: URL keys with an outcome. hosts: their last rows. lost: requests sent whose outcome was lost, by host
    id. asked: ids of the hosts that were asked. holds: until when a host is to be left alone, epoch ms, by id.
    """

    done: set[int]
    hosts: dict[str, dict[str, Any]]
    asked: set[int]
    lost: dict[int, int]
    holds: dict[int, int]
    captures: pa.Table
    robots: dict[str, bytes]


@dataclass
class Roster:
    """The partition's plan, and what came before this attempt."""

    plan: list[dict[str, Any]]
    queues: dict[str, deque[Item]]
    earlier: Earlier
    bodies: dict[str, bytes]

    def hosts(self, policy: DelayPolicy, *, now_ms: int, epoch_ms: int) -> Iterator[HostState]:
        """Yield every host as it stands at `now_ms` (monotonic), which is `epoch_ms` since 1970."""
        for row in self.plan:
            yield self._host(row, policy, now_ms, epoch_ms)

    def _host(self, row: dict[str, Any], policy: DelayPolicy, now_ms: int, now_epoch_ms: int) -> HostState:
        identity = journal.host_id(row["host"])
        later = self.earlier.hosts.get(row["host"])
        known = {name: (later or row)[name] for name in HOST_COLUMNS}
        lost = self.earlier.lost.get(identity, 0)
        if lost and known["month"] != (month := month_of(now_epoch_ms)):
            known["month"], known["month_requests"] = month, 0
        known["month_requests"] = (known["month_requests"] or 0) + lost
        known["requests"] = (known["requests"] or 0) + lost
        known["addresses"], known["addresses_expire_at"] = row["addresses"], row["addresses_expire_at"]
        host = HostState(
            known,
            row["address"],
            (row["allowance"] if later is None else later["requests_left"]) - lost,
            (row["fault"], row["fault_detail"]) if row["fault"] else None,
            queue=self.queues.get(row["host"], deque()),
            robots=robots_copies(known["robots"] or (), self.bodies),
            id=identity,
            touched=bool(lost),
        )
        host.settle_delay(policy)
        host.pause = host.delay
        until = max(epoch_ms(known["next_allowed_at"]), self.earlier.holds.get(identity, 0))
        wait = max(until - now_epoch_ms, 0)
        if identity in self.earlier.asked:
            wait = max(wait, host.delay.ms)
        host.next_ms = now_ms + wait
        return host


def read(turn: Turn, partition: int, base: Path, attempt: parts.Attempt, lake: Lake) -> Roster:
    """Read the plan of a partition and what its earlier attempts left."""
    plan = staging.read_table(turn.staged("plan", "hosts.arrow"))
    plan = plan.filter(pc.equal(plan["partition"], partition))
    earlier = read_earlier(base, attempt)
    rows = plan.to_pylist()
    return Roster(rows, _queues(turn, partition, earlier.done), earlier, _robots_bodies(lake, rows, earlier))


def read_earlier(base: Path, attempt: parts.Attempt) -> Earlier:
    """Read what the attempts before this one left in their parts and journals."""
    captures = parts.read_parts(base, attempt.inherited, "captures")
    hosts = {row["host"]: row for row in parts.read_parts(base, attempt.inherited, "hosts").to_pylist()}
    robots = parts.read_parts(base, attempt.inherited, "robots").to_pylist()
    pages = captures.filter(pc.equal(captures["kind"], "page"))
    told = journal.read(parts.journals(base, attempt.number))
    sent = captures.filter(pc.is_valid(captures["request_ms"]))
    noted = Counter(
        zip(map(journal.host_id, sent["host"].to_pylist()), sent["url_key"].to_pylist(), strict=True)
    )
    lost: Counter[int] = Counter()
    for (host, key), count in told.intents.items():
        lost[host] += max(count - noted[host, key], 0)
    return Earlier(
        done=set(pages["url_key"].to_pylist()) | set(pages["origin_key"].to_pylist()),
        hosts=hosts,
        asked={host for host, _ in told.intents},
        lost=+lost,
        holds=told.holds,
        captures=captures,
        robots={row["digest"]: row["body"] for row in robots},
    )


def _queues(turn: Turn, partition: int, done: set[int]) -> dict[str, deque[Item]]:
    """Return the planned URLs that have no outcome yet, by host, in the plan's order."""
    queues: dict[str, deque[Item]] = {}
    for group in range(turn.groups):
        rows = staging.read_table(turn.staged("plan", f"urls-{group:04d}.arrow"))
        rows = rows.filter(pc.equal(rows["partition"], partition))
        for values in zip(*(rows[name].to_pylist() for name in ITEM_COLUMNS), strict=True):
            url, host, key, depth, via, source, meta, etag, modified, digest, visit = values
            if key in done:
                continue
            item = Item(
                url, host, key, key, depth=depth, via=via, source=source, meta=metadata.inherited(meta),
                feed=metadata.is_set(meta, "feed"), etag=etag, last_modified=modified, last_digest=digest,
                last_visit_ms=epoch_ms(visit) or None,
            )  # fmt: skip
            queues.setdefault(host, deque()).append(item)
    return queues


def robots_copies(known: Any, bodies: dict[str, bytes]) -> dict[str, RobotsCopy]:
    """Return the robots.txt copies of a host row by site; one whose body cannot be found is left out."""
    copies: dict[str, RobotsCopy] = {}
    for site in known:
        state, body = RobotsState(site["state"]), bodies.get(site["digest"] or "")
        if state is RobotsState.RULES and body is None:
            continue
        rules = Rules.parse(body) if body is not None and state is RobotsState.RULES else None
        copies[site["site"]] = RobotsCopy(
            state, rules, site["status"], site["digest"], epoch_ms(site["fetched_at"]),
            epoch_ms(site["expires_at"]), site["url"],
        )  # fmt: skip
    return copies


def _robots_bodies(lake: Lake, plan: list[dict[str, Any]], earlier: Earlier) -> dict[str, bytes]:
    """Return the robots.txt bodies that the partition's hosts refer to, by digest."""
    rows = [*plan, *earlier.hosts.values()]
    wanted = {site["digest"] for row in rows for site in row["robots"] or () if site["digest"]}
    bodies = dict(earlier.robots)
    if wanted - set(bodies):
        found = lake.read("robots", filter=pc.is_in(pc.field("digest"), pa.array(sorted(wanted))))
        bodies |= dict(zip(found["digest"].to_pylist(), found["body"].to_pylist(), strict=True))
    return bodies
