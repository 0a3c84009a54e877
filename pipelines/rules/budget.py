"""What a host may be asked: in a calendar month (UTC), in a cycle, and how scarce slots are shared."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

MONTH_SECONDS = 2_592_000
"""Thirty days: at one request a second the most that a host can be asked in a month."""


@dataclass(frozen=True)
class BudgetPolicy:
    """Requests a host and month; 0 = what its delay allows."""

    requests_per_month: int = 0
    hosts_per_domain: int = 0
    pages_per_domain_cycle: int = 0


def month_of(time_ms: int) -> int:
    """Return the calendar month (UTC) of a time since 1970 as yyyymm.

    >>> month_of(0)
    197001
    """
    moment = datetime.fromtimestamp(time_ms / 1_000, tz=UTC)
    return moment.year * 100 + moment.month


def booking_month(noted: int | None, now: int) -> int:
    """Return the month (yyyymm) that a request made now is booked in; `noted`: of the host's books, None = new.

    Months never go back, or a clock that jumps back over a month's end would give the budget twice; but books
    that are more than a month ahead were kept by a clock that was wrong, and what they hold counts now.

    >>> [booking_month(noted, 202612) for noted in (None, 202611, 202612, 202701, 203001)]
    [202612, 202612, 202612, 202701, 202612]
    """
    after = now + 1 if now % 100 < 12 else now + 89
    return after if noted == after else now


def monthly_budget(policy: BudgetPolicy, *, delay_ms: Ints, own: Ints) -> Ints:
    """Return the requests each host may get in a month.

    `own`: a host's own budget, -1 = none, 0 = never asked. Else the policy's; else what the delay allows.
    """
    by_rate = MONTH_SECONDS * 1_000 // np.maximum(delay_ms, 1)
    usual = np.full_like(by_rate, policy.requests_per_month) if policy.requests_per_month > 0 else by_rate
    return np.where(own >= 0, own, np.minimum(usual, by_rate))


def left_this_month(budget: Ints, *, month: Ints, spent: Ints, now_month: int) -> Ints:
    """Return what is left of each host's month; what was spent in an earlier month does not count.

    A month that is still to come was noted by a clock that has jumped back since: it counts.
    """
    return np.maximum(budget - np.where(month >= now_month, spent, 0), 0)


def fits_window(*, window_ms: int, delay_ms: Ints, response_ms: Ints, starts_in_ms: Ints) -> Ints:
    """Return how many requests fit into the window: the first when the host's clock allows, then one a step.

    A step is the delay plus the time that an answer takes. A host whose clock opens inside the window
    gets at least one, however long its delay: long delays get their turn.
    """
    room = window_ms - starts_in_ms
    return np.where(room > 0, 1 + np.maximum(room - 1, 0) // np.maximum(delay_ms + response_ms, 1), 0)


def turns(
    *, asked: Ints, weight: npt.NDArray[np.float64], chance: npt.NDArray[np.float64], round_cycles: float
) -> Ints:
    """Return the order (positions, first served first) in which hosts are served when there is not enough for all.

    asked: the cycle that asked each host last. round_cycles: how many cycles it takes to serve everybody once. A
    host's turn comes round_cycles / weight after it was asked, and the most overdue go first; ties fall by
    `chance`. So heavy hosts come more often, and none waits for ever: who is asked now, or is new, comes after
    all whose turn was due before.
    """
    order: Ints = np.lexsort((chance, asked + round_cycles / np.clip(weight, 1e-3, 1e3)))
    return order


def floods_last(order: Ints, *, wanted: Ints, group: Ints, most: int) -> Ints:
    """Return the order (positions) with what a group has beyond its first `most` rows that want something at the end.

    A flood of subdomains then takes a share of the turns and what is left of them, not all.

    >>> floods_last(np.array([3, 2, 1, 0]), wanted=np.ones(4), group=np.array([5, 7, 7, 7]), most=2).tolist()
    [3, 2, 0, 1]
    """
    rank = _rank_in_group(group[order], wanted[order] > 0)
    late = (rank >= most) & (wanted[order] > 0)
    return np.concatenate([order[~late], order[late]])


def water_fill(
    wanted: Ints, *, total: int, weight: npt.NDArray[np.float64], order: Ints | None = None
) -> Ints:
    """Share `total` among hosts by weight, nobody above what it wants, at least one for each while it lasts.

    When not even one for each is there, hosts get theirs in `order` (None: the heavier first, ties by
    position). The sum is exactly min(total, sum(wanted)).
    """
    if total >= int(wanted.sum()):
        return wanted.copy()
    order = np.argsort(-weight, kind="stable") if order is None else order
    share = np.zeros_like(wanted)
    first = order[wanted[order] > 0][:total]
    share[first] = 1
    left = total - len(first)
    while left > 0:
        open_ = share < wanted
        pull = np.where(open_, np.maximum(weight, 1e-9), 0.0)
        portion = np.minimum(np.floor(left * pull / pull.sum()).astype(np.int64), wanted - share)
        if portion.sum() == 0:
            takers = order[open_[order]][:left]
            portion[takers] = 1
        share += portion
        left -= int(portion.sum())
    return share


def serve_in_turn(
    wanted: Ints, *, least: Ints, total: int, weight: npt.NDArray[np.float64], order: Ints
) -> Ints:
    """Share `total` among hosts, nobody less than it can do anything with: in `order` each its `least`, then by weight.

    least: requests that a host needs for its first URL, robots.txt among them. The first host is served in any case.

    >>> ones, two = np.ones(3), np.full(3, 2)
    >>> serve_in_turn(np.full(3, 9), least=two, total=5, weight=ones, order=np.array([2, 0, 1])).tolist()
    [2, 0, 3]
    """
    first = np.minimum(least, wanted)
    mine = order[wanted[order] > 0]
    fits = np.cumsum(first[mine]) <= total
    fits[:1] = total > 0
    share = np.zeros_like(wanted)
    share[mine[fits]] = np.minimum(first[mine[fits]], total)
    more = np.where(share > 0, wanted - share, 0)
    return share + water_fill(more, total=total - int(share.sum()), weight=weight, order=order)


def cap_by_group(wanted: Ints, *, group: Ints, most: int) -> Ints:
    """Cut each group's sum to `most`, its rows served in their order. Rows of a group need not be adjacent."""
    if most <= 0:
        return wanted.copy()
    order = np.argsort(group, kind="stable")
    sizes = wanted[order]
    before = np.cumsum(sizes) - sizes
    starts = (
        np.concatenate([[True], group[order][1:] != group[order][:-1]]) if len(order) else np.zeros(0, bool)
    )
    base = np.maximum.accumulate(np.where(starts, before, 0))
    out = np.empty_like(wanted)
    out[order] = np.clip(most - (before - base), 0, sizes)
    return out


def level_by_group(wanted: Ints, *, group: Ints, most: int) -> Ints:
    """Cut each group's sum to `most` as evenly as can be: all its rows get one before any gets its second.

    What does not go round falls to the rows that come first. Rows of a group need not be adjacent.
    """
    if most <= 0 or not len(wanted):
        return wanted.copy()
    order = np.lexsort((wanted, group))
    sizes, groups = wanted[order], group[order]
    starts = np.concatenate([[True], groups[1:] != groups[:-1]])
    first = np.maximum.accumulate(np.where(starts, np.arange(len(groups)), 0))
    number = np.cumsum(starts) - 1
    members = np.bincount(number)[number]
    place = np.arange(len(groups)) - first
    summed = np.cumsum(sizes)
    before = summed - sizes - (summed - sizes)[first]  # of the smaller ones
    fits = before + sizes * (members - place) <= most  # even if all from here on got as much as this one
    full = np.bincount(number, weights=fits).astype(np.int64)[
        number
    ]  # rows of the group that get all they want
    given = np.bincount(number, weights=np.where(fits, sizes, 0)).astype(np.int64)[number]
    open_ = np.maximum(members - full, 1)
    level, rest = (most - given) // open_, (most - given) % open_
    out = np.empty_like(wanted)
    out[order] = np.where(fits, sizes, level)
    left = np.empty_like(wanted)
    left[order] = np.where(fits, 0, rest)
    lucky = _rank_in_group(group, left > 0) < left
    return np.where(lucky & (left > 0), out + 1, out)


def fit_addresses(
    wanted: Ints, *, beside: Ints, step_ms: Ints, address: Ints, window_ms: int, weight: npt.NDArray[np.float64], order: Ints
) -> Ints:  # fmt: skip
    """Cut the hosts of each address to what its clock allows in the window: one request after another.

    beside: requests that a host takes besides its URLs (robots.txt). step_ms: from one request's start to the next
    one's, the address's pause and the host's answer. address: a number, -1 = none known or no clock. Hosts get their
    first URL in `order` (positions) while there is time; what is left of it is shared by weight.
    """
    asked = (wanted > 0) & (address >= 0)
    need = np.where(asked, (wanted + beside) * step_ms, 0)
    if not asked.any():
        return wanted.copy()
    total = np.bincount(np.maximum(address, 0), weights=need)
    crowded = asked & (total[address] > window_ms)
    out = wanted.copy()
    mine = order[crowded[order]]
    mine = mine[np.argsort(address[mine], kind="stable")]
    for members in np.split(mine, np.flatnonzero(np.diff(address[mine])) + 1) if len(mine) else ():
        first = (1 + beside[members]) * step_ms[members]
        served = np.cumsum(first) <= window_ms
        served[0] = True
        out[members[~served]] = 0
        members, left = members[served], window_ms - int(first[served].sum())
        out[members] = 1 + _fill_time(wanted[members] - 1, step_ms[members], max(left, 0), weight[members])
    return out


def _fill_time(wanted: Ints, step_ms: Ints, left_ms: int, weight: npt.NDArray[np.float64]) -> Ints:
    """Share a time among hosts by weight, in requests of `step_ms` each; never more than the time."""
    total = left_ms // max(int(step_ms.mean()), 1)
    while total > 0:
        share = water_fill(wanted, total=total, weight=weight)
        cost = int((share * step_ms).sum())
        if cost <= left_ms:
            return share
        total = min(total - 1, total * left_ms // cost)
    return np.zeros_like(wanted)


def _rank_in_group(group: Ints, counted: npt.NDArray[np.bool_]) -> Ints:
    """Return for each counted row how many counted rows of its group come before it."""
    order = np.argsort(group, kind="stable")
    ones = counted[order].astype(np.int64)
    starts = np.concatenate([[True], group[order][1:] != group[order][:-1]])
    before = np.cumsum(ones) - ones
    rank = np.empty_like(group)
    rank[order] = before - np.maximum.accumulate(np.where(starts, before, 0))
    return rank
