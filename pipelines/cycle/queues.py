"""The hosts of a fetch partition and what is queued for each: what goes in, what comes out, and who is in the heap."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import Any

from pipelines.cycle.hoststate import HostState, Item
from pipelines.rules import urls
from pipelines.rules.schedule import Schedule


@dataclass
class Queues:
    """The hosts, their queues, and their places in the schedule. All that is queued or left out passes here."""

    schedule: Schedule
    hosts: dict[str, HostState] = field(default_factory=dict)
    taken: set[int] = field(default_factory=set)  # keys planned, queued or done in this partition
    left: int = 0  # items queued

    def enlist(self, host: HostState) -> None:
        """Bring a host in with its queue; it enters the heap at its `next_ms` if it has something to do."""
        self.hosts[host.name] = host
        self.left += len(host.queue)
        self.taken.update(item.key for item in host.queue)
        if host.has_work():
            self._enter(host)

    def _enter(self, host: HostState) -> None:
        self.schedule.add(
            host.name,
            ready_ms=host.next_ms,
            work_ms=host.work_ms(),
            asks=host.asks(),
            address=host.address,
        )

    def wake(self, host: HostState) -> None:
        """Bring a host with something to do back into the heap, unless it is there or being asked."""
        if host.has_work() and host.name not in self.schedule:
            self._enter(host)

    def put(self, host: HostState, item: Item, *, first: bool = True) -> None:
        """Queue an item at the head, or at the end, of a host's queue; whether the host is woken is another question."""
        (host.queue.appendleft if first else host.queue.append)(item)
        self.left += 1

    def pop(self, host: HostState) -> Item:
        """Take the item at the head of a host's queue."""
        self.left -= 1
        return host.queue.popleft()

    def skip_site(self, host: HostState, site: str) -> list[Item]:
        """Leave out what is queued for a site whose rules nobody can tell, and return it: it stays on its shelf."""
        queued = list(host.queue)
        kept = [item for item in queued if item.kind == "robots" or urls.site_of(item.url) != site]
        self.left -= len(queued) - len(kept)
        host.queue.clear()
        host.queue.extend(kept)
        return [item for item in queued if item.kind != "robots" and urls.site_of(item.url) == site]

    def pop_robots(self, host: HostState) -> list[Item]:
        """Take out what is queued for a host of other hosts' robots.txt."""
        unread = [item for item in host.queue if item.kind == "robots"]
        for item in unread:
            host.queue.remove(item)
        self.left -= len(unread)
        return unread

    def clear(self, host: HostState) -> None:
        """Leave out all that is queued for a host: it stays on its shelf."""
        self.left -= len(host.queue)
        host.queue.clear()

    def slowest(self, most: int) -> list[dict[str, Any]]:
        """Return the hosts whose queues take longest, with what makes them slow; those with nothing to do aside."""
        busy = (host for host in self.hosts.values() if host.queue and not host.down)
        return [host.told() for host in heapq.nlargest(most, busy, key=HostState.work_ms)]

    def planned_left(self) -> int:
        """Return how many planned URLs are still queued: they go back to ready. Hops on the way do not count."""
        queued = (item for host in self.hosts.values() for item in host.queue)
        return sum(1 for item in queued if item.kind == "page" and item.key == item.origin and not item.hop)
