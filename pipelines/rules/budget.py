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


def monthly_budget(policy: BudgetPolicy, *, delay_ms: Ints, own: Ints) -> Ints:
    """Return the requests each host may get in a month.

    `own`: a host's own budget, -1 = none, 0 = never asked. Else the policy's; else what the delay allows.
    """
    by_rate = MONTH_SECONDS * 1_000 // np.maximum(delay_ms, 1)
    usual = np.full_like(by_rate, policy.requests_per_month) if policy.requests_per_month > 0 else by_rate
    return np.where(own >= 0, own, np.minimum(usual, by_rate))


def left_this_month(budget: Ints, *, month: Ints, spent: Ints, now_month: int) -> Ints:
    """Return what is left of each host's month; what was spent in another month does not count."""
    return np.maximum(budget - np.where(month == now_month, spent, 0), 0)


def fits_window(*, window_ms: int, delay_ms: Ints, response_ms: Ints, starts_in_ms: Ints) -> Ints:
    """Return how many requests fit into the window: the first when the host's clock allows, then one a step.

    A step is the delay plus the time that an answer takes. A host whose clock opens inside the window
    gets at least one, however long its delay: long delays get their turn.
    """
    room = window_ms - starts_in_ms
    return np.where(room > 0, 1 + np.maximum(room - 1, 0) // np.maximum(delay_ms + response_ms, 1), 0)


def water_fill(wanted: Ints, *, total: int, weight: npt.NDArray[np.float64]) -> Ints:
    """Share `total` among hosts by weight, nobody above what it wants, at least one for each while it lasts.

    When not even one for each is there, the heavier hosts get theirs first (ties by position). The sum is
    exactly min(total, sum(wanted)).
    """
    if total >= int(wanted.sum()):
        return wanted.copy()
    order = np.argsort(-weight, kind="stable")
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
