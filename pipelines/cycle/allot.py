"""Allot, the middle of plan: share the cycle among the hosts, and pack them into fetch partitions."""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lake import staging
from pipelines.cycle import policies
from pipelines.cycle.frontier import Ints, column
from pipelines.cycle.noted import robots_due
from pipelines.cycle.turn import Turn
from pipelines.rules import budget, priority


def allot(turn: Turn) -> dict[str, Any]:
    """Share the cycle among the hosts with something due, and pack them into fetch partitions.

    Stages `plan/hosts.arrow`: HOSTS columns, `due`, `urls` (planned) and `allowance` (requests it may get),
    `address` (the one that is used in this cycle), `fault`, `partition` (-1 = not asked), sorted by
    (partition, host). Returns the plan's figures.
    """
    if found := turn.done("allot"):
        return found
    rows = _demanded(turn)
    share, requests = allowances(turn, rows)
    partition, count = pack(turn, rows, np.where(requests > 0, np.maximum(share, 1), 0))
    rows = (
        rows.append_column("urls", pa.array(share, pa.int64()))
        .append_column("allowance", pa.array(requests, pa.int64()))
        .append_column("partition", pa.array(partition, pa.int32()))
        .sort_by([("partition", "ascending"), ("host", "ascending")])
    )
    staging.write_table(turn.staged("plan", "hosts.arrow"), rows, durable=True)
    return turn.finish("allot", None, figures(turn, rows, count))


def _demanded(turn: Turn) -> pa.Table:
    parts = [
        staging.read_table(turn.staged("plan", f"{kind}-{group:04d}.arrow"))
        for group in range(turn.groups)
        for kind in ("demand", "companions")
    ]
    found = [
        staging.read_table(turn.staged("plan", f"addresses-{group:04d}.arrow"))
        for group in range(turn.groups)
    ]
    rows, looked_up = pa.concat_tables(parts).combine_chunks(), pa.concat_tables(found).combine_chunks()
    for name in ("address", "fault", "fault_detail", "addresses", "addresses_expire_at"):
        column = looked_up[name].combine_chunks()
        place = rows.column_names.index(name) if name in rows.column_names else rows.num_columns
        rows = rows.remove_column(place) if place < rows.num_columns else rows
        rows = rows.add_column(place, name, column)
    return rows.sort_by([("host_key", "ascending"), ("host", "ascending")]).combine_chunks()


def allowances(turn: Turn, rows: pa.Table) -> tuple[Ints, Ints]:
    """Return for each host the URLs it is given and the requests it may get in this cycle."""
    settings = turn.settings
    delay = policies.delay_policy(settings)
    rules = policies.budget_policy(settings)
    delays = np.maximum(column(rows, "delay_ms"), delay.floor_ms)
    order = _turns(turn, rows)
    month = budget.monthly_budget(rules, delay_ms=delays, own=column(rows, "month_budget", -1))
    left = budget.left_this_month(
        month,
        month=column(rows, "month"),
        spent=column(rows, "month_requests"),
        now_month=budget.month_of(turn.opened_ms),
    )
    fits = budget.fits_window(
        window_ms=settings.window.seconds * 1_000,
        delay_ms=delays,
        response_ms=column(rows, "response_ms"),
        starts_in_ms=np.clip(
            column(rows, "next_allowed_at") - turn.opened_ms,
            0,
            np.maximum(delays, policies.longest_pause_ms(settings)),
        ),
    )
    robots = robots_due(turn, rows)
    sitemaps = column(rows, "sitemaps_due")
    others = robots + sitemaps
    room = np.where(fits > 0, np.maximum(fits - others, 1), 0)
    wanted = np.minimum(np.minimum(column(rows, "due"), room), np.maximum(left - others, left > robots))
    wanted = np.where(_ailing(turn, rows), np.minimum(wanted, 1), wanted)
    wanted = np.where(_unreachable(turn, rows), 0, wanted)
    wanted = _cap_domains(rules, rows, wanted, order)
    wanted = _cap_addresses(turn, rows, wanted, others, order)
    lists_only = (wanted == 0) & (column(rows, "due") == 0) & (sitemaps > 0) & (fits > 0) & (left > robots)
    lists_only &= ~_unreachable(turn, rows)
    need = np.where((wanted > 0) | lists_only, wanted + others, 0)
    granted = _cap_labels(turn, rows, np.minimum(need, left), robots + 1, order)
    capped = granted < need
    wanted = np.where(capped, np.clip(granted - robots, np.minimum(granted, 1), wanted), wanted)
    weight = rows["score"].to_numpy().astype(np.float64)
    turns = budget.floods_last(
        order, wanted=wanted, group=_domains(rows), most=max(_most(turn) // DOMAIN_SHARE, 1)
    )
    share = budget.water_fill(wanted, total=_most(turn), weight=weight, order=turns)
    most = np.where(_limited(turn, rows), granted, left)
    asked = (share > 0) | (lists_only & (granted > 0))
    beside = _accompanies(rows, asked) & ~_unreachable(turn, rows)
    return share, np.where(asked, most, np.where(beside, left, 0))


def _turns(turn: Turn, rows: pa.Table) -> Ints:
    """Return the order in which hosts are served when the cycle cannot take all of them."""
    before = column(rows, "added_cycle") - 1
    asked = np.where(rows["last_cycle"].is_valid().to_numpy(), column(rows, "last_cycle"), before)
    return budget.turns(
        asked=asked,
        weight=rows["score"].to_numpy().astype(np.float64),
        chance=priority.uniform(column(rows, "host_key") + np.arange(rows.num_rows), salt=turn.seed),
        round_cycles=max(rows.num_rows / _most(turn), 1.0),
    )


def _accompanies(rows: pa.Table, asked: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return which hosts a host that is asked needs in its partition: its robots.txt lies there."""
    texts = rows["companion"].filter(pa.array(asked)).drop_null().to_pylist()
    names = pa.array(sorted({name for text in texts for name in text.split()}), pa.string())
    needed: npt.NDArray[np.bool_] = pc.is_in(rows["host"], names).to_numpy()
    return needed


def _most(turn: Turn) -> int:
    settings = turn.settings
    fleet = settings.plan.pages_per_second * turn.slots * settings.window.seconds
    return min(settings.plan.max_pages or fleet, fleet)


def _limited(turn: Turn, rows: pa.Table) -> npt.NDArray[np.bool_]:
    """Return which hosts have a label with a budget."""
    labels = pa.array(list(turn.settings.budget.labels), pa.string())
    limited = pc.and_(pc.is_in(rows["label"], labels), pc.is_valid(rows["label"]))
    return np.asarray(limited.to_numpy(), dtype=np.bool_)


def _cap_labels(turn: Turn, rows: pa.Table, requests: Ints, least: Ints, order: Ints) -> Ints:
    """Cut the requests of a label's hosts to its budget: in turn what brings each a first URL, the rest by score."""
    granted = requests.copy()
    labels = rows["label"].to_numpy(zero_copy_only=False)
    score = rows["score"].to_numpy().astype(np.float64)
    for label, most in sorted(turn.settings.budget.labels.items()):
        mine = np.flatnonzero(labels == label)
        if len(mine):
            among = np.argsort(np.argsort(order)[mine])
            granted[mine] = budget.serve_in_turn(
                requests[mine], least=least[mine], total=most, weight=score[mine], order=among
            )
    return granted


def _ailing(turn: Turn, rows: pa.Table) -> npt.NDArray[np.bool_]:
    ill: npt.NDArray[np.bool_] = column(rows, "failures") > 0
    faulty: npt.NDArray[np.bool_] = rows["fault"].is_valid().to_numpy()
    return ill | faulty


def _unreachable(turn: Turn, rows: pa.Table) -> npt.NDArray[np.bool_]:
    longest = turn.settings.health.probe_max_seconds * 1_000  # later ones: a clock that ran ahead
    ahead = column(rows, "probe_at") - turn.opened_ms
    waits: npt.NDArray[np.bool_] = (ahead > 0) & (ahead <= longest)
    return waits


DOMAIN_SHARE = 10
"""Where the cycle has not a URL for every host, the hosts of one registrable domain come first in one turn of so many."""


def _domains(rows: pa.Table) -> Ints:
    """Return a number for each host's registrable domain."""
    numbers: Ints = rows["domain"].combine_chunks().dictionary_encode().indices.to_numpy().astype(np.int64)
    return numbers


def _cap_domains(rules: budget.BudgetPolicy, rows: pa.Table, wanted: Ints, order: Ints) -> Ints:
    """Cut each registrable domain to its hosts (those whose turn it is) and its pages (evenly) a cycle."""
    domain = _domains(rows)
    ones = np.where(wanted[order] > 0, 1, 0)
    served = budget.cap_by_group(ones, group=domain[order], most=rules.hosts_per_domain)
    capped = budget.level_by_group(
        np.where(served > 0, wanted[order], 0), group=domain[order], most=rules.pages_per_domain_cycle
    )
    out = np.empty_like(wanted)
    out[order] = capped
    return out


def _cap_addresses(turn: Turn, rows: pa.Table, wanted: Ints, beside: Ints, order: Ints) -> Ints:
    """Cut the hosts of an address to what its own clock allows in the window."""
    names = rows["address"].combine_chunks().dictionary_encode()
    floors = policies.address_floors(turn.settings)
    if floors.exceptions:
        pause = np.array([floors.of(name) for name in names.dictionary.to_pylist()], dtype=np.int64)
    else:
        pause = np.full(len(names.dictionary), floors.usual_ms, dtype=np.int64)
    address = pc.fill_null(names.indices, -1).to_numpy().astype(np.int64)
    own = np.append(pause, 0)[address]
    return budget.fit_addresses(
        wanted, beside=beside, step_ms=own + column(rows, "response_ms"), address=np.where(own > 0, address, -1),
        window_ms=turn.settings.window.seconds * 1_000, weight=rows["score"].to_numpy().astype(np.float64), order=order,
    )  # fmt: skip


def pack(turn: Turn, rows: pa.Table, share: Ints) -> tuple[Ints, int]:
    """Return each host's fetch partition (-1 = none) and their number.

    Hosts that share an address, and hosts whose robots.txt lies on another, stay together. The groups with
    most URLs are placed first, each into the partition with the least so far; ties fall by name.
    """
    wanted = np.flatnonzero((share > 0) | _accompanies(rows, share > 0))
    names, addresses = rows["host"].to_pylist(), rows["address"].to_pylist()
    companions = rows["companion"].to_pylist()
    count = turn.settings.plan.partitions or turn.slots
    count = max(1, min(count, len(wanted)))
    leader = _Leaders()
    for at in wanted:
        leader.join(names[at], f"@{addresses[at]}" if addresses[at] else names[at])
        for companion in (companions[at] or "").split() if share[at] else ():
            leader.join(names[at], companion)
    together: dict[str, list[int]] = {}
    for at in wanted:
        together.setdefault(leader.of(names[at]), []).append(int(at))
    partition = np.full(rows.num_rows, -1, dtype=np.int64)
    loads = [(0, number) for number in range(count)]
    sized = sorted(together.values(), key=lambda members: (-int(share[members].sum()), names[members[0]]))
    for members in sized:
        load, number = heapq.heappop(loads)
        partition[members] = number
        heapq.heappush(loads, (load + int(share[members].sum()), number))
    return partition, count  # one at least, so that every step has something to do


class _Leaders:
    """Union-find over names: which hosts must stay together."""

    def __init__(self) -> None:
        self._above: dict[str, str] = {}

    def of(self, name: str) -> str:
        above = self._above.setdefault(name, name)
        while above != self._above[above]:
            self._above[above] = above = self._above[self._above[above]]
        self._above[name] = above
        return above

    def join(self, one: str, other: str) -> None:
        first, second = sorted((self.of(one), self.of(other)))
        self._above[second] = first


READY_LEAST = 200_000
"""URLs that are kept ready in any case, as far as clocks allow: reading them costs a second or two, and a cycle that
was told to take few (`--max-pages`) must not leave the next one short."""


def _level(turn: Turn, rows: pa.Table) -> float | None:
    """Return the URLs a window of which a host of score 1 is worth at most on the ready shelf; None = all its clock allows.

    What a cycle can take is dealt to the hosts by what they have ready and behind it.
    """
    delays = np.maximum(column(rows, "delay_ms"), turn.settings.delay.floor_ms)
    clock = np.maximum(turn.settings.window.seconds * 1_000 // delays, 1)
    wanted = np.minimum(column(rows, "due") + column(rows, "backlog_urls"), clock)
    total = max(_most(turn), READY_LEAST // turn.settings.plan.ready_windows)
    if int(wanted.sum()) <= total:
        return None
    weight = rows["score"].to_numpy().astype(np.float64)
    share = budget.water_fill(wanted, total=total, weight=weight)
    return float((share / np.maximum(weight, 1e-3))[share < wanted].max())


def figures(turn: Turn, rows: pa.Table, partitions: int) -> dict[str, Any]:
    """Return what the plan says of itself: for the table on the screen and the ledger."""
    share = column(rows, "urls")
    delays = np.maximum(column(rows, "delay_ms"), turn.settings.delay.floor_ms)
    time = share * (delays + column(rows, "response_ms"))
    slowest = int(np.argmax(time)) if rows.num_rows else 0
    return {
        "planned": int(share.sum()),
        "level": _level(turn, rows),
        "due": int(column(rows, "due").sum()),
        "hosts": int((share > 0).sum()),
        "hosts_waiting": int((share == 0).sum()),
        "hosts_failing": rows.num_rows - rows["fault"].null_count,
        "partitions": partitions,
        "seconds": int(time.max() // 1_000) if rows.num_rows else 0,
        "slowest_host": rows["host"][slowest].as_py() if rows.num_rows else None,
        "slowest_delay_ms": int(delays[slowest]) if rows.num_rows else None,
        "slowest_delay_reason": rows["delay_reason"][slowest].as_py() if rows.num_rows else None,
    }
