"""What the computed web saw, judged: pauses, addresses, budgets. It knows nothing of the crawler's own books."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pipelines.rules.budget import MONTH_SECONDS
from pipelines.simulate.world import World, facts

LOG = np.dtype(
    [
        ("host", "i8"), ("address", "i8"), ("start", "i8"), ("end", "i8"), ("first_byte", "i4"),
        ("hold", "i8"), ("told", "?"), ("page", "?"),
    ]
)  # fmt: skip
"""A request as the web saw it: ms since 1970; `hold`: a Retry-After it sent; `told`: it was given robots.txt."""

Ints = npt.NDArray[np.int64]


class Judge:
    """Holds every request against the pause that the web had asked for, cycle by cycle."""

    def __init__(self, world: World, *, floor_ms: int, address_floor_ms: int, factor: int, patience_ms: int, budget: int) -> None:  # fmt: skip
        known = facts(world)
        self._floor, self._address_floor = floor_ms, address_floor_ms
        self._factor, self._patience = factor, patience_ms
        self._delay = 1_000 * np.array(known.crawl_delay_s, dtype=np.int64)
        by_rate = MONTH_SECONDS * 1_000 // np.maximum(self._delay, floor_ms)
        self._budget = np.minimum(by_rate, budget) if budget else by_rate
        self._told = np.full(world.hosts, 2**62, dtype=np.int64)  # when the host's robots.txt was read first
        self._open = np.zeros(world.hosts, dtype=np.int64)  # when each host may next be asked
        self._months: dict[int, Ints] = {}
        self._hosts = world.hosts
        self.requests = self.too_soon = self.too_soon_for_address = 0
        self.examples: list[dict[str, int]] = []

    def hear(self, logs: Iterable[Path]) -> None:
        """Judge the requests of one cycle."""
        rows = np.concatenate([np.load(path) for path in logs] or [np.zeros(0, dtype=LOG)])
        self.requests += len(rows)
        self._count_months(rows)
        self._judge_hosts(rows[np.lexsort((rows["start"], rows["host"]))])
        self._judge_addresses(rows[np.lexsort((rows["start"], rows["address"]))])

    def _judge_hosts(self, rows: npt.NDArray[Any]) -> None:
        told = rows["told"]
        np.minimum.at(self._told, rows["host"][told], rows["end"][told])
        host = rows["host"]
        asked = np.where(rows["end"] >= self._told[host], self._delay[host], 0)
        slow = np.minimum(self._factor * rows["first_byte"].astype(np.int64), self._patience)
        opens = rows["end"] + np.maximum.reduce([np.full(len(rows), self._floor), asked, slow, rows["hold"]])
        first = np.concatenate([[True], host[1:] != host[:-1]]) if len(rows) else np.zeros(0, bool)
        before = np.where(first, self._open[host], np.concatenate([[0], opens[:-1]]) if len(rows) else opens)
        wrong = np.flatnonzero(rows["start"] < before)
        self.too_soon += len(wrong)
        for at in wrong[: 10 - len(self.examples)]:
            self.examples.append(
                {"host": int(host[at]), "start": int(rows["start"][at]), "allowed": int(before[at])}
            )
        np.maximum.at(self._open, host, opens)

    def _judge_addresses(self, rows: npt.NDArray[Any]) -> None:
        if len(rows) < 2:
            return
        same = (rows["address"][1:] == rows["address"][:-1]) & (rows["address"][1:] > 0)
        gap = rows["start"][1:] - rows["end"][:-1]
        self.too_soon_for_address += int((same & (gap < self._address_floor)).sum())

    def _count_months(self, rows: npt.NDArray[Any]) -> None:
        months = rows["start"].astype("M8[ms]").astype("M8[M]").astype(np.int64)
        for month in sorted(set(months.tolist())):
            spent = np.bincount(rows["host"][months == month], minlength=self._hosts)
            self._months[month] = self._months.get(month, np.zeros(self._hosts, dtype=np.int64)) + spent

    def overdraws(self) -> int:
        """Return how many hosts got more in a calendar month than their budget, and months."""
        return sum(int((spent > self._budget).sum()) for spent in self._months.values())

    def spent_out(self) -> int:
        """Return how many hosts (and months) spent their whole budget."""
        return sum(int((spent >= self._budget).sum()) for spent in self._months.values())


class Waits:
    """How long URLs waited until they were asked, by band, in days."""

    def __init__(self) -> None:
        self.longest: Counter[int] = Counter()
        self._sum: Counter[int] = Counter()
        self.count: Counter[int] = Counter()

    def add(self, bands: Ints, waited_ms: Ints) -> None:
        """Take in URLs that were asked (or still wait)."""
        for band in sorted(set(bands.tolist())):
            mine = waited_ms[bands == band]
            self.longest[band] = max(self.longest[band], int(mine.max()))
            self._sum[band] += int(mine.sum())
            self.count[band] += len(mine)

    def table(self) -> dict[str, dict[str, float]]:
        """Return URLs, mean and longest wait by band."""
        return {
            f"f{band}": {
                "urls": self.count[band],
                "mean_days": round(self._sum[band] / self.count[band] / 86_400_000, 2),
                "longest_days": round(self.longest[band] / 86_400_000, 2),
            }
            for band in sorted(self.count)
        }
