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
from pipelines.cycle import journal, parts, policies
from pipelines.cycle.crew import HOST_COLUMNS
from pipelines.cycle.hoststate import HostState, Item, RobotsCopy, epoch_ms
from pipelines.cycle.turn import Turn
from pipelines.rules import metadata
from pipelines.rules.delay import DelayPolicy, wait_left_ms
from pipelines.rules.outcome import HOST_FAULTS, Outcome
from pipelines.rules.robots import Rules
from pipelines.rules.robots_policy import RobotsState
from pipelines.rules.robots_text import MAX_BYTES

ITEM_COLUMNS = (
    "url", "host", "url_key", "depth", "via", "source", "meta", "etag", "last_modified", "last_digest",
    "last_visit_at",
)  # fmt: skip


@dataclass
class Earlier:
    """What the earlier attempts at a partition left: nothing, usually.

    done: URL keys with an outcome. hosts: their last rows. told: what the journals say, requests whose answers
    were lost included. hops: redirects that were answered and not followed yet.
    """

    done: set[int]
    hosts: dict[str, dict[str, Any]]
    told: journal.Told
    captures: pa.Table
    robots: dict[str, bytes]
    hops: list[tuple[Item, str]]


@dataclass
class Roster:
    """The partition's plan, and what came before this attempt."""

    plan: list[dict[str, Any]]
    queues: dict[str, deque[Item]]
    earlier: Earlier
    bodies: dict[str, bytes]
    longest_ms: int = 2**62  # the longest pause that anything but a crawl-delay can ask for
    robots_bytes: int = MAX_BYTES  # of a robots.txt, how much is read

    def hosts(self, policy: DelayPolicy, *, now_ms: int, epoch_ms: int) -> Iterator[HostState]:
        """Yield every host as it stands at `now_ms` (monotonic), which is `epoch_ms` since 1970."""
        for row in self.plan:
            yield self._host(row, policy, now_ms, epoch_ms)

    def _host(self, row: dict[str, Any], policy: DelayPolicy, now_ms: int, now_epoch_ms: int) -> HostState:
        identity = journal.host_id(row["host"])
        later = self.earlier.hosts.get(row["host"])
        known = {name: (later or row)[name] for name in HOST_COLUMNS}
        known["addresses"], known["addresses_expire_at"] = row["addresses"], row["addresses_expire_at"]
        spent = self.earlier.told.spent.get(identity, Counter())
        book(known, plan=row, spent=spent)
        down = later is not None and went_down(row, later)
        host = HostState(
            known,
            row["address"],
            row["allowance"] - spent.total(),
            (row["fault"], row["fault_detail"]) if row["fault"] else None,
            queue=deque() if down else self.queues.get(row["host"], deque()),
            robots=robots_copies(known["robots"] or (), self.bodies, self.robots_bytes),
            id=identity,
            touched=bool(spent),
            down=down,
        )
        host.settle_delay(policy)
        host.pause = host.delay
        until = max(epoch_ms(known["next_allowed_at"]), self.earlier.told.holds.get(identity, 0))
        longest = max(self.longest_ms, host.delay.ms)
        wait = wait_left_ms(next_allowed_ms=until, now_ms=now_epoch_ms, longest_ms=longest)
        if spent:
            wait = max(wait, host.delay.ms)
            host.next_epoch_ms = now_epoch_ms + wait
        host.next_ms = now_ms + wait
        return host


def book(known: dict[str, Any], *, plan: dict[str, Any], spent: Counter[int]) -> None:
    """Set a host row's requests to what the plan knew and all attempts made, `spent` by month.

    The flushed row is no measure: it may count a request whose answer was lost, and may lack later ones.
    """
    if not spent:
        return
    known["requests"] = (plan["requests"] or 0) + spent.total()
    known["month"] = max(plan["month"] or 0, *spent)
    before = plan["month_requests"] or 0 if plan["month"] == known["month"] else 0
    known["month_requests"] = before + spent[known["month"]]


def went_down(plan: dict[str, Any], later: dict[str, Any]) -> bool:
    """Return whether a host could not be talked to in an earlier attempt: it is not asked again in this cycle."""
    return later["probe_at"] != plan["probe_at"] and later["health"] in HOST_FAULTS


def read(turn: Turn, partition: int, base: Path, attempt: parts.Attempt, lake: Lake) -> Roster:
    """Read the plan of a partition and what its earlier attempts left."""
    plan = staging.read_table(turn.staged("plan", "hosts.arrow"))
    plan = plan.filter(pc.equal(plan["partition"], partition))
    earlier = read_earlier(base, attempt)
    rows = plan.to_pylist()
    queues, bodies = _queues(turn, partition, earlier.done), _robots_bodies(lake, rows, earlier)
    return Roster(
        rows,
        queues,
        earlier,
        bodies,
        policies.longest_pause_ms(turn.settings),
        turn.settings.robots.max_bytes,
    )


def read_earlier(base: Path, attempt: parts.Attempt) -> Earlier:
    """Read what the attempts before this one left in their parts and journals."""
    captures = parts.read_parts(base, attempt.inherited, "captures")
    hosts = {row["host"]: row for row in parts.read_parts(base, attempt.inherited, "hosts").to_pylist()}
    robots = parts.read_parts(base, attempt.inherited, "robots").to_pylist()
    pages = captures.filter(pc.equal(captures["kind"], "page"))
    return Earlier(
        done=set(pages["url_key"].to_pylist()) | set(pages["origin_key"].to_pylist()),
        hosts=hosts,
        told=journal.read(parts.journals(base, attempt.number)),
        captures=captures,
        robots={row["digest"]: row["body"] for row in robots},
        hops=open_hops(pages),
    )


def open_hops(pages: pa.Table) -> list[tuple[Item, str]]:
    """Return the redirects among captures of pages that were not followed when the attempt ended.

    Each as the item that met it, and its target: one that no capture of the same planned URL came through it to.
    """
    names = ["origin_key", "hop", "url", "via"]
    followed = {(row["origin_key"], row["hop"], row["via"]) for row in pages.select(names).to_pylist()}
    redirects = pages.filter(pc.equal(pages["outcome"], Outcome.REDIRECT.value)).to_pylist()
    before = {(row["origin_key"], row["hop"], row["url"]): row for row in redirects}
    items = []
    for row in redirects:
        if (row["origin_key"], row["hop"] + 1, row["url"]) in followed:
            continue
        item = Item(
            row["url"], row["host"], row["url_key"], row["origin_key"], depth=row["depth"], via=row["via"],
            source=row["source"], meta=row["meta"], hop=row["hop"], chain=_chain(row, before),
        )  # fmt: skip
        items.append((item, row["fetch_redirect"]))
    return items


def _chain(row: dict[str, Any], before: dict[tuple[int, int, str], dict[str, Any]]) -> tuple[str, ...]:
    """Return the URLs of the hops that led to a capture, the planned one first."""
    chain: list[str] = []
    while row["hop"] and (found := before.get((row["origin_key"], row["hop"] - 1, row["via"]))):
        chain.append(found["url"])
        row = found
    return tuple(reversed(chain))


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


def robots_copies(known: Any, bodies: dict[str, bytes], most_bytes: int) -> dict[str, RobotsCopy]:
    """Return the robots.txt copies of a host row by site; one whose body cannot be found is left out."""
    copies: dict[str, RobotsCopy] = {}
    for site in known:
        state, body = RobotsState(site["state"]), bodies.get(site["digest"] or "")
        if state is RobotsState.RULES and body is None:
            continue
        rules = Rules.parse(body, most_bytes) if body is not None and state is RobotsState.RULES else None
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
