"""What a visit to a known page must bring, host by host, so that revisits fit what the host may be asked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lake import ledger, runs, staging
from pipelines.cycle import policies
from pipelines.cycle.calling import Called
from pipelines.cycle.frontier import Ints, column
from pipelines.cycle.shelving import Shelved
from pipelines.cycle.turn import Turn
from pipelines.rules import budget
from pipelines.rules.recrawl import next_price

Floats = npt.NDArray[np.float64]

DAY_MS = 86_400_000
REVISITS_BESIDE_NEW = 0.5
"""Share of a host's visits that may go to known pages while new ones wait."""


def reprice(turn: Turn, books: pa.Table, rows: pa.Table, shelved: Shelved, called: Called) -> pa.Table:
    """Return the host rows with `revisit_demand` and `revisit_price` as they are after the cycle.

    rows: the group's URLs as they stood before. called: those of the later shelf whose visits moved. A host of which no page was visited keeps its price.
    """
    names = books["host"].combine_chunks()
    gone = np.sort(np.concatenate([column(shelved.later, "url_key"), column(shelved.retired, "url_key")]))
    before = rows.filter(pa.array(runs.is_member(gone, column(rows, "url_key"))))
    demand = _float(books, "revisit_demand", 0.0)
    added = _by_host(names, shelved.later) + _by_host(names, called.moved)
    demand = np.maximum(demand + added - _by_host(names, before) - _by_host(names, called.before), 0.0)
    visited = shelved.later.filter(pc.equal(shelved.later["failures"], 0))
    count = np.bincount(_place(names, visited), minlength=len(names))
    policy = policies.recrawl_policy(turn.settings)
    prices = _float(books, "revisit_price", float(policy.price_seconds))
    room = _room(turn, books, rows)
    known = column(books, "known_urls") - column(books, "ready_urls") - column(books, "backlog_urls")
    for at in np.flatnonzero(count):
        prices[at] = next_price(
            policy, price_seconds=float(prices[at]), demand=float(demand[at]), budget=float(room[at]),
            visited=int(count[at]), known=int(known[at]),
        )  # fmt: skip
    for name, values in (("revisit_demand", demand), ("revisit_price", prices)):
        at = books.schema.get_field_index(name)
        books = books.set_column(at, books.schema.field(at), pa.array(values))
    return books


def _room(turn: Turn, books: pa.Table, rows: pa.Table) -> Floats:
    """Return the visits a day that each host's known pages may get.

    A host that got less than was due of it gets as much again; another what its clock and its month allow.
    """
    settings, names = turn.settings, books["host"].combine_chunks()
    delays = np.maximum(column(books, "delay_ms"), settings.delay.floor_ms)
    month = budget.monthly_budget(
        policies.budget_policy(settings), delay_ms=delays, own=column(books, "month_budget", -1)
    )
    room: Floats = np.minimum(DAY_MS / (delays + column(books, "response_ms")), month / 30.0)
    plan = staging.read_table(turn.staged("plan", "hosts.arrow"), columns=["host", "urls", "due"])
    plan = plan.filter(pc.is_in(plan["host"], names)).combine_chunks()
    short = plan.filter(pc.and_(pc.greater(plan["urls"], 0), pc.less(plan["urls"], plan["due"])))
    place = _place(names, short)
    room[place] = np.minimum(room[place], column(short, "urls") * (86_400 / _period_seconds(turn)))
    new = rows.filter(pc.equal(rows["visits"], 0))
    crowded = np.isin(place, _place(names, new))
    room[place[crowded]] *= REVISITS_BESIDE_NEW
    return room


def _period_seconds(turn: Turn) -> float:
    """Return the time from cycle to cycle: the window, or what passed since the last cycle was opened."""
    last = ledger.last(Path(turn.root), cycle=turn.cycle - 1)
    passed = (turn.opened_at - last.opened_at).total_seconds() if last and last.opened_at else 0.0
    return max(passed, float(turn.settings.window.seconds))


def _by_host(names: pa.Array, rows: pa.Table) -> Floats:
    """Return by host the visits a day that its visited pages are due for."""
    pause = column(rows, "due_at") - column(rows, "last_visit_at")
    counts = (column(rows, "visits") > 0) & rows["due_at"].is_valid().to_numpy() & (pause > 0)
    often = np.where(counts, DAY_MS / np.maximum(pause, 1), 0.0)
    summed: Floats = np.bincount(_place(names, rows), weights=often, minlength=len(names)).astype(np.float64)
    return summed


def _place(names: pa.Array, rows: pa.Table) -> Ints:
    place: Ints = pc.index_in(rows["host"].combine_chunks(), names).to_numpy().astype(np.int64)
    return place


def _float(books: pa.Table, name: str, default: float) -> Floats:
    values: Floats = pc.fill_null(books[name], default).to_numpy().copy()
    return values
