"""A host as the next cycle would see it: its clock, its health, what is left of its budget, what it would be given."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lake.snapshot import Lake
from pipelines.cycle import allot, policies
from pipelines.cycle.frontier import column
from pipelines.cycle.turn import Turn
from pipelines.explain import reads
from pipelines.explain.prospects import Reason, ms
from pipelines.rules import budget
from pipelines.rules.outcome import MEANING
from pipelines.rules.yields import Quarantines, path_pattern


@dataclass(frozen=True)
class Budget:
    """A calendar month's requests (UTC). source: host, conf or delay, whichever sets the number."""

    month: int
    spent: int
    allowed: int
    left: int
    source: str
    renews_ms: int


@dataclass(frozen=True)
class HostView:
    """What is known of a host. waiting: its rows that a cycle could plan. given: URLs the next cycle would give it."""

    host: str
    row: dict[str, Any] | None
    waiting: pa.Table
    budget: Budget | None
    given: int
    blocks: tuple[Reason, ...]

    @property
    def ready(self) -> int:
        """Rows on the ready shelf."""
        return int(self.row["ready_urls"]) if self.row else 0


def host_view(lake: Lake, turn: Turn, host: str) -> HostView:
    """Return a host as `turn`, the next cycle, would see it; row = None if the lake has not met it."""
    rows = reads.host_row(lake, host)
    waiting = reads.waiting_rows(lake, host, turn.today)
    due = pc.fill_null(pc.less_equal(waiting["due_at"], pa.scalar(turn.opened_at)), True)
    waiting = waiting.filter(due)
    if not rows.num_rows:
        return HostView(host, None, waiting, None, 0, ())
    row = rows.to_pylist()[0]
    month = month_budget(turn, rows)
    given = _given(turn, rows, waiting.num_rows)
    return HostView(host, row, waiting, month, given, tuple(_blocks(turn, row, month)))


def month_budget(turn: Turn, rows: pa.Table) -> Budget:
    """Return the first row's budget of the month in which the turn is opened."""
    policy = policies.budget_policy(turn.settings)
    delay = np.maximum(column(rows, "delay_ms"), turn.settings.delay.floor_ms)
    own = column(rows, "month_budget", -1)
    now = budget.month_of(turn.opened_ms)
    allowed = budget.monthly_budget(policy, delay_ms=delay, own=own)
    spent = column(rows, "month_requests")
    left = budget.left_this_month(allowed, month=column(rows, "month"), spent=spent, now_month=now)
    usual = policy.requests_per_month
    source = "host" if own[0] >= 0 else "conf" if usual and int(allowed[0]) == usual else "delay"
    told = int(spent[0]) if column(rows, "month")[0] == now else 0
    return Budget(now, told, int(allowed[0]), int(left[0]), source, _next_month_ms(now))


def _next_month_ms(month: int) -> int:
    year, number = divmod(month, 100)
    year, number = (year + 1, 1) if number == 12 else (year, number + 1)
    return ms(datetime(year, number, 1, tzinfo=UTC))


def _given(turn: Turn, rows: pa.Table, due: int) -> int:
    """Return the URLs that the plan would give the host, were it alone; less where the fleet or a domain is full."""
    asked = rows.append_column("due", pa.array([due], pa.int64()))
    asked = asked.append_column("sitemaps_due", pa.array([0], pa.int64()))
    for name in ("address", "fault", "fault_detail"):
        asked = asked.append_column(name, pa.nulls(1, pa.string()))
    share, _ = allot.allowances(turn, asked)
    return int(share[0])


def _blocks(turn: Turn, row: dict[str, Any], month: Budget) -> Iterable[Reason]:
    """Yield what keeps the host's URLs from being asked, soonest things last."""
    now = turn.opened_ms
    probe = ms(row["probe_at"])
    if probe > now:
        since = f" since {row['failing_since']:%Y-%m-%d %H:%M} UTC" if row["failing_since"] else ""
        ill = f"{row['health']} {_times(row['failures'])}{since}: {MEANING.get(row['health'], 'it fails')}"
        yield Reason(
            "host_ailing", f"its host cannot be asked ({ill}); one URL at a time tries it again", probe
        )
    if not month.left:
        yield Reason(
            "month_spent",
            f"the host's budget of {month.allowed:,} requests for this month is spent",
            month.renews_ms,
        )
    clock = ms(row["next_allowed_at"])
    if clock > now + turn.settings.window.seconds * 1_000:  # sooner, its turn comes within the cycle
        yield Reason("clock", f"the host's clock: {pause_words(row)}", clock)


def pause_words(row: dict[str, Any]) -> str:
    """Return the host's pause between requests, and why it is so long.

    >>> pause_words({"delay_ms": 2000, "delay_reason": "crawl_delay"})
    '2 s between requests, its robots.txt asks for it (Crawl-delay)'
    """
    why = {
        "floor": "our floor (delay.floor_ms)",
        "crawl_delay": "its robots.txt asks for it (Crawl-delay)",
        "response_time": "it answers slowly (delay.response_factor)",
        "backoff": "after errors or time-outs (delay.backoff_first_ms)",
        "retry_after": "it asked for that (Retry-After)",
    }
    pause, reason = row["delay_ms"], row["delay_reason"]
    if pause is None:
        return "not asked yet, so our floor holds (delay.floor_ms)"
    return f"{pause / 1_000:g} s between requests, {why.get(reason, reason)}"


def _times(count: int | None) -> str:
    return "once" if count == 1 else f"{count or 0} times"


def set_aside(turn: Turn, row: dict[str, Any], url: str) -> Reason | None:
    """Return the trap that a URL's pattern is in on its host, None if it is in none."""
    if not row["traps"]:
        return None
    pattern = path_pattern(url, policies.yield_policy(turn.settings).slug_chars)
    found = Quarantines.from_json(row["traps"]).by_pattern.get(pattern)
    if found is None:
        return None
    words = f"URLs like {pattern} are set aside since cycle {found.since}: {found.why}"
    return Reason("trap:yield", f"{words}; a sample is tried again in cycle {found.sample}")


# --- many hosts -----------------------------------------------------------------------------------------

ORDERS = {
    "size": [("known_urls", "descending"), ("host", "ascending")],
    "requests": [("requests", "descending"), ("host", "ascending")],
    "delay": [("delay_ms", "descending"), ("host", "ascending")],
    "trouble": [("failures", "descending"), ("backoff_ms", "descending"), ("known_urls", "descending"), ("host", "ascending")],
}  # fmt: skip
LISTED = (
    "host", "health", "failures", "probe_at", "known_urls", "ready_urls", "backlog_urls", "requests", "pages",
    "body_bytes", "delay_ms", "delay_reason", "backoff_ms", "response_ms", "month", "month_requests", "last_cycle",
)  # fmt: skip


def host_table(lake: Lake, *, order: str, most: int) -> tuple[list[dict[str, Any]], int]:
    """Return the first `most` hosts in an order of ORDERS, and how many hosts there are.

    Reads these columns of all hosts. "trouble" lists only hosts that fail or are asked less often for errors.
    """
    rows = lake.read("hosts", columns=list(LISTED))
    total = rows.num_rows
    if order == "trouble":
        ill = pc.or_(pc.greater(rows["failures"], 0), pc.greater(rows["backoff_ms"], 0))
        rows = rows.filter(pc.fill_null(pc.or_(ill, pc.not_equal(rows["health"], "ok")), False))
    chosen = rows.take(pc.select_k_unstable(rows, k=min(most, rows.num_rows), sort_keys=ORDERS[order]))
    return chosen.to_pylist(), total
