"""The simulated fetch: the real hosts, clocks and queues of a partition, with a pretend clock and computed answers."""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from pipelines.cycle import enlist, fetch, parts, policies
from pipelines.cycle.crew import HOST_COLUMNS, Crew
from pipelines.cycle.hoststate import Item
from pipelines.cycle.turn import Turn
from pipelines.net.clock import PretendClock
from pipelines.net.exchange import Exchange
from pipelines.rules import urls
from pipelines.rules.budget import month_of
from pipelines.rules.outcome import Outcome, of_status
from pipelines.rules.schedule import Schedule, Wait
from pipelines.simulate import world as web
from pipelines.simulate.judging import LOG
from pipelines.simulate.world import World


@dataclass(frozen=True)
class SimulatedTask(fetch.FetchTask):
    """A fetch partition of a simulated cycle. log: the folder for what the web saw of it."""

    world: World = field(default_factory=lambda: World(1, 1, 0))
    log: str = ""


def fetch_simulated(task: SimulatedTask) -> dict[str, Any]:
    """Fetch a partition of a computed web and return its manifest; what the web saw is written to `task.log`."""
    if found := task.turn.done("fetch", task.partition):
        return found
    return task.turn.finish("fetch", task.partition, _Simulated(task).run())


class _Simulated:
    """One partition, its loop a heap of answers under way."""

    def __init__(self, task: SimulatedTask) -> None:
        turn, settings = task.turn, task.turn.settings
        self.task, self.clock = task, PretendClock(turn.opened_ms)
        self.deadline_ms = self.clock.monotonic_ms() + settings.window.seconds * 1_000
        self.connections = settings.fetch.connections
        self.under_way: list[tuple[int, int, Item, Exchange, bytes, str | None]] = []
        self.seen: list[tuple[int, ...]] = []
        attempt = parts.Attempt.begin(task.base)
        floors = policies.address_floors(settings)
        self.crew = Crew(policies.crew_policy(settings), Schedule(floor_of=floors.of))
        roster = enlist.read(turn, task.partition, task.base, attempt, turn.lake())
        now, epoch = self.clock.monotonic_ms(), self.clock.now_ms()
        for host in roster.hosts(self.crew.policy.delay, now_ms=now, epoch_ms=epoch):
            self.crew.enlist(host)
        self.book = Book(turn, attempt, planned=self.crew.queues.left)

    def run(self) -> dict[str, Any]:
        """Ask until nothing is left or the window closes; return the partition's manifest."""
        while self._advance():
            pass
        self.book.flush(self.crew)
        path = Path(self.task.log) / f"p{self.task.partition:04d}.npy"
        np.save(path, np.array(self.seen, dtype=LOG))
        return self.book.manifest(self.task.partition, self.crew)

    def _advance(self) -> bool:
        """Ask what may be asked now, then go on to the next instant at which something can happen."""
        now = self.clock.monotonic_ms()
        until = self.deadline_ms
        while now < self.deadline_ms and len(self.under_way) < self.connections:
            item = self.crew.take(now, self.clock.now_ms())
            if self.crew.denied:
                self.book.denied(self.crew)
            if not isinstance(item, Item):
                until = min(until, item.until_ms) if isinstance(item, Wait) else until
                break
            self._ask(item, now)
        if self.under_way and (self.under_way[0][0] <= until or now >= self.deadline_ms):
            self._hear(*heapq.heappop(self.under_way))
            return True
        if until >= self.deadline_ms:
            return bool(self.under_way)
        self.clock.advance(until - now)
        return True

    def _ask(self, item: Item, now: int) -> None:
        host = self.crew.hosts[item.host]
        epoch = self.clock.now_ms()
        number = int(item.host[1:8])
        body, digest = b"", None
        if item.kind == "robots":
            said, body = web.robots(self.task.world, number, epoch)
            digest = xxhash.xxh3_64_hexdigest(body) if body else None
        else:
            said = web.page(self.task.world, number, int(item.url.rpartition("/p")[2]), epoch)
            digest = said.digest
        host.spend(month_of(epoch))
        exchange = _exchange(item, said, epoch)
        self.seen.append(
            (
                number, _address(host.address), epoch, epoch + said.total_ms, said.first_byte_ms, said.hold_ms,
                item.kind == "robots" and said.status == 200, item.kind == "page" and said.status == 200,
            )
        )  # fmt: skip
        heapq.heappush(self.under_way, (now + said.total_ms, len(self.seen), item, exchange, body, digest))

    def _hear(self, at: int, _: int, item: Item, exchange: Exchange, body: bytes, digest: str | None) -> None:
        self.clock.advance(max(at - self.clock.monotonic_ms(), 0))
        now, epoch = self.clock.monotonic_ms(), self.clock.now_ms()
        host = self.crew.hosts[item.host]
        self.book.note(item, exchange, digest, host.pause.ms, host.pause.reason)
        if item.kind == "robots":
            self.crew.robots.came(item, exchange, body, digest, epoch_ms=epoch)
        elif exchange.outcome is Outcome.OK:
            self.book.found(item, self.task.world)
        self.crew.settle(item, exchange, now_ms=now, epoch_ms=epoch)


def _address(address: str | None) -> int:
    return int.from_bytes(bytes(map(int, (address or "0.0.0.0").split("."))), "big")


def _exchange(item: Item, said: web.Said, epoch: int) -> Exchange:
    if said.status is None:
        return Exchange(
            item.url, outcome=Outcome.CONNECT_REFUSED, started_ms=epoch, total_ms=said.total_ms,
            error="refused",
        )  # fmt: skip
    headers = [("Retry-After", str(said.hold_ms // 1_000))] if said.hold_ms else []
    return Exchange(
        item.url, status=said.status, outcome=of_status(said.status), headers=headers, started_ms=epoch,
        first_byte_ms=said.first_byte_ms, total_ms=said.total_ms,
    )  # fmt: skip


_PLACE = {name: place for place, name in enumerate(parts.CAPTURE_SCHEMA.names)}
_NOTED = [
    _PLACE[name]
    for name in (
        "url", "fetch_time", "fetch_status", "content_digest", "url_key", "host", "kind", "outcome", "error",
        "request_ms", "first_byte_ms", "response_ms", "delay_ms", "delay_reason", "depth", "via", "source",
        "origin_key",
    )
]  # fmt: skip
_BLANK: list[Any] = [None] * len(_PLACE)
for _name, _value in {"body_bytes": 0, "wire_bytes": 0, "hop": 0, "attempt": 1, "spool": -1}.items():
    _BLANK[_PLACE[_name]] = _value


class Book:
    """Writes the parts that a keeper would, without pages and records."""

    def __init__(self, turn: Turn, attempt: parts.Attempt, *, planned: int) -> None:
        self._turn, self._attempt = turn, attempt
        self._rows: dict[str, list[tuple[Any, ...]]] = {kind: [] for kind in parts.KINDS}
        self._planned = planned
        self.counts: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()
        self._told: set[str] = set()

    def note(self, item: Item, exchange: Exchange, digest: str | None, pause_ms: int, reason: str) -> None:
        """Note an answer as a capture."""
        asked = exchange.total_ms > 0
        row = list(_BLANK)
        values = (
            item.url, datetime.fromtimestamp(exchange.started_ms / 1_000, tz=UTC), exchange.status, digest,
            item.key, item.host, item.kind, exchange.outcome.value, exchange.error,
            exchange.started_ms if asked else None, exchange.first_byte_ms, exchange.total_ms, pause_ms,
            reason, item.depth, item.via, item.source, item.origin,
        )  # fmt: skip
        for place, value in zip(_NOTED, values, strict=True):
            row[place] = value
        self._rows["captures"].append(tuple(row))
        self.outcomes[exchange.outcome.value] += 1
        self.counts["requests"] += asked
        self.counts["pages"] += item.kind == "page" and exchange.outcome is Outcome.OK
        self.counts["finished"] += item.kind == "page"

    def denied(self, crew: Crew) -> None:
        """Note what robots.txt forbids."""
        for refusal in crew.denied:
            exchange = Exchange(
                refusal.item.url,
                outcome=refusal.outcome,
                error=refusal.detail,
                started_ms=self._turn.opened_ms,
            )
            self.note(refusal.item, exchange, None, 0, "floor")
        crew.denied.clear()

    def found(self, item: Item, world: World) -> None:
        """Note a page's links as candidates."""
        number = int(item.url.rpartition("/p")[2])
        for host, page in web.links(world, int(item.host[1:8]), number):
            url, name = world.url(host, page), world.name(host)
            if page == 0:  # roots come again and again: a real sieve lets them through once
                if url in self._told:
                    continue
                self._told.add(url)
            self._rows["candidates"].append(
                (urls.url_key(url, name), url, name, item.url, item.key, item.depth + 1, "link", None)
            )

    def flush(self, crew: Crew) -> None:
        """Write everything as one part."""
        hosts = [host.as_row(HOST_COLUMNS, self._turn.cycle) for host in crew.hosts.values() if host.touched]
        self._rows["hosts"] = hosts
        self._rows["robots"] = list(crew.robots.bodies.items())
        self._attempt.flush(self._rows, {})
        self._attempt.close()

    def manifest(self, partition: int, crew: Crew) -> dict[str, Any]:
        """Return the manifest of the partition."""
        return {
            **self.counts,
            "planned": self._planned,
            "outcomes": dict(self.outcomes),
            "partition": partition,
            "attempt": self._attempt.number,
            "parts": [[part.attempt, part.number] for part in self._attempt.written()],
            "left": crew.queues.left,
            "stopped": False,
            "given_up": False,
        }
