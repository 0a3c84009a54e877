"""The heap of hosts by the time each may next be asked: a machine without clock or socket.

A host that is taken is out of the heap until `done`, so two requests to it never overlap. Hosts of one
address form a group with a clock of its own; at most one of a group is asked at a time. Among those that
may be asked now, the one with the most work left goes first (least slack: the window's end is the same
for all), so that big hosts finish, and addresses of many hosts: the work of a group is at least a pause of its
address for each request that its hosts have left.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple


class Ask(NamedTuple):
    """This host may be asked now."""

    host: str


class Wait(NamedTuple):
    """Nobody may be asked before this time, ms."""

    until_ms: int


@dataclass
class _Host:
    group: _Group
    work_ms: int
    asks: int


@dataclass
class _Group:
    """Hosts behind one address: `waiting` by ready time, `ready` by slack; `asks`: requests they have left."""

    floor_ms: int = 0
    asks: int = 0
    next_ms: int = 0
    busy: bool = False
    queued_ms: int | None = None
    waiting: list[tuple[int, str]] = field(default_factory=list)
    ready: list[tuple[int, str]] = field(default_factory=list)

    def opens_ms(self) -> int | None:
        """When the group's next host may be asked; None while one is asked, or when none is left."""
        if self.busy or not (self.ready or self.waiting):
            return None
        first = 0 if self.ready else self.waiting[0][0]
        return max(first, self.next_ms)

    def work_ms(self) -> int:
        """Return how long the group will take at least: its next host's own work, or that of the address."""
        return max(-self.ready[0][0], self.asks * self.floor_ms)

    def wake(self, now_ms: int, hosts: dict[str, _Host]) -> None:
        while self.waiting and self.waiting[0][0] <= now_ms:
            _, host = heapq.heappop(self.waiting)
            heapq.heappush(self.ready, (-hosts[host].work_ms, host))


class Schedule:
    """Which host is asked next. Times are whole milliseconds of one clock that never goes back.

    address_floor_ms: least pause between two requests to one address, 0 = none; floor_of: the same where it
    differs by address.
    """

    def __init__(self, *, address_floor_ms: int = 0, floor_of: Callable[[str], int] | None = None) -> None:
        self._floor_of = floor_of or (lambda address: address_floor_ms)
        self._hosts: dict[str, _Host] = {}
        self._groups: dict[str, _Group] = {}
        self._sleeping: list[tuple[int, str]] = []
        self._open: list[tuple[int, int, str]] = []
        self._names: dict[int, str] = {}

    def __len__(self) -> int:
        """Hosts that are waiting, ready or being asked."""
        return len(self._hosts)

    def __contains__(self, host: str) -> bool:
        return host in self._hosts

    def add(
        self, host: str, *, ready_ms: int, work_ms: int, asks: int = 0, address: str | None = None
    ) -> None:
        """Put a host into the heap. `work_ms`: time its whole queue will take; `address`: None = its own.

        asks: requests it has left.

        Raises ValueError if the host is there already: its clock must not be set twice.
        """
        if host in self._hosts:
            raise ValueError(f"host {host!r} is in the heap already; use `done` to give it back")
        floor = self._floor_of(address) if address else 0
        name = f"@{address}" if floor else host
        group = self._groups.setdefault(name, _Group(floor))
        self._names[id(group)] = name
        self._hosts[host] = _Host(group, work_ms, asks)
        group.asks += asks
        heapq.heappush(group.waiting, (ready_ms, host))
        self._queue(group)

    def take(self, now_ms: int) -> Ask | Wait | None:
        """Take the host that may be asked at `now_ms`, or say how long to wait.

        None: every host is either being asked or gone, so nothing will be ready before a `done`.
        """
        self._wake(now_ms)
        while self._open:
            _, _, name = heapq.heappop(self._open)
            group = self._groups[name]
            if group.busy or not group.ready or group.next_ms > now_ms:
                self._queue(group)
                continue
            _, host = heapq.heappop(group.ready)
            group.busy = True
            return Ask(host)
        return Wait(self._sleeping[0][0]) if self._sleeping else None

    def done(self, host: str, *, now_ms: int, ready_ms: int | None, work_ms: int = 0, asks: int = 0) -> None:
        """Give a taken host back after its request ended at `now_ms`.

        `ready_ms`: when it may be asked again; None = its queue is empty, it leaves the heap. The group's
        clock moves on by the address floor either way.
        """
        group = self._hosts[host].group
        group.next_ms = max(group.next_ms, now_ms + group.floor_ms)
        self.release(host, ready_ms=ready_ms, work_ms=work_ms, asks=asks)

    def release(self, host: str, *, ready_ms: int | None, work_ms: int = 0, asks: int = 0) -> None:
        """Give a taken host back that was not asked after all: no clock moves."""
        entry = self._hosts[host]
        group = entry.group
        group.busy = False
        group.asks -= entry.asks
        if ready_ms is None:
            del self._hosts[host]
        else:
            entry.work_ms, entry.asks = work_ms, asks
            group.asks += asks
            heapq.heappush(group.waiting, (ready_ms, host))
        self._queue(group)

    def counts(self, now_ms: int) -> tuple[int, int, int]:
        """Return how many hosts are (ready, waiting, being asked) at `now_ms`."""
        asked = sum(1 for group in self._groups.values() if group.busy)
        ready = sum(
            len(group.ready) + sum(1 for at, _ in group.waiting if at <= now_ms)
            for group in self._groups.values()
        )
        return ready, len(self._hosts) - ready - asked, asked

    def _queue(self, group: _Group) -> None:
        """Queue the group for the time it opens; entries that a later one overtakes are skipped when popped."""
        opens = group.opens_ms()
        if opens is None:
            group.queued_ms = None
        elif group.queued_ms is None or opens < group.queued_ms:
            group.queued_ms = opens
            heapq.heappush(self._sleeping, (opens, self._names[id(group)]))

    def _wake(self, now_ms: int) -> None:
        while self._sleeping and self._sleeping[0][0] <= now_ms:
            at, name = heapq.heappop(self._sleeping)
            group = self._groups[name]
            if group.queued_ms != at:
                continue
            group.queued_ms = None
            opens = group.opens_ms()
            if opens is None:
                continue
            if opens > now_ms:
                self._queue(group)
                continue
            group.wake(now_ms, self._hosts)
            heapq.heappush(self._open, (-group.work_ms(), at, name))
