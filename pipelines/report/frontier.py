"""The frontier: what waits, on which shelf, in which band, for how long, and what budgets leave of it."""

from __future__ import annotations

import numpy as np
import pandas as pd

from lake.ledger import COMMITTED
from lake.schema import SHELVES
from lake.snapshot import Lake
from pipelines.report.picture import (
    BLUE,
    GREY,
    ORANGE,
    PALETTE,
    Picture,
    bars,
    empty,
    legend,
    legend_below,
    picture,
    steps,
    tall,
    title,
    whole,
)  # fmt: skip
from pipelines.report.tables import classes, counted, frame
from pipelines.rules.budget import BudgetPolicy, left_this_month, monthly_budget

HOUR = 3_600
WAITS = (
    (HOUR, "< 1 h"), (6 * HOUR, "1–6 h"), (24 * HOUR, "6–24 h"), (7 * 24 * HOUR, "1–7 d"), (30 * 24 * HOUR, "7–30 d"),
    (365 * 24 * HOUR, "1–12 mo"),
)  # fmt: skip
LONGER = "> 1 y"


def shelves(lake: Lake) -> pd.DataFrame:
    """Return a row a committed cycle up to this one: `cycle`, then the URLs on each shelf at its end, and `new_urls`."""
    rows = [row for row in lake.ledger() if row.state == COMMITTED and row.cycle <= lake.cycle]
    names = [*SHELVES, "new_urls"]
    told = [(row.cycle, *(row.counts.get(name, 0) for name in names)) for row in rows]
    return pd.DataFrame(told, columns=["cycle", *names])


def plot_shelves(found: pd.DataFrame) -> Picture:
    """Draw how many URLs lay on each shelf at the end of each cycle, stacked."""
    drawn, (axes,) = picture()
    if not len(found):
        empty(axes, "no cycle is committed yet")
        return drawn
    low = np.zeros(len(found), dtype=np.int64)
    for shelf, colour in zip(SHELVES, PALETTE, strict=False):
        axes.bar(found["cycle"], found[shelf], bottom=low, color=colour, width=0.8, label=shelf)
        low += found[shelf].to_numpy(np.int64)
    axes.set_xlim(found["cycle"].min() - 0.6, max(found["cycle"].max() + 0.6, found["cycle"].min() + 3.6))
    axes.set_ylim(0, low.max() * 1.2 or 1)
    legend(axes, ncols=4, loc="upper left")
    whole(axes.xaxis)
    whole(axes.yaxis)
    title(axes, f"{int(low[-1]):,} known URLs by shelf", x="cycle", y="URLs at its end")
    return drawn


def bands(lake: Lake) -> pd.DataFrame:
    """Return `band` and `urls` of what is ready; band 1 is asked soonest."""
    return frame(lake, "select band, count(*) urls from frontier_ready group by 1 order by 1")


def waiting(lake: Lake) -> pd.DataFrame:
    """Return how long what is ready has waited since it was admitted, in classes: `waited`, `urls`.

    Counted to the end of the lake's cycle.
    """
    names = [name for _, name in WAITS] + [LONGER]
    ends = [row.written_at for row in lake.ledger() if row.state == COMMITTED and row.cycle == lake.cycle]
    if not ends:
        return pd.DataFrame({"waited": names, "urls": 0})
    age = f"{int(ends[-1].timestamp())} - cast(extract(epoch from added_at) as bigint)"
    rows = frame(
        lake, f"select {classes(age, WAITS, LONGER)} waited, count(*) urls from frontier_ready group by 1"
    )
    return pd.DataFrame({"waited": names, "urls": counted(rows, names, key="waited", value="urls")})


def plot_ready(by_band: pd.DataFrame, by_wait: pd.DataFrame) -> Picture:
    """Draw the ready shelf by band, and by how long its URLs have waited."""
    drawn, (left, right) = picture(panels=2, widths=(2, 3))
    if len(by_band):
        steps(left, [str(band) for band in by_band["band"]], by_band["urls"].tolist(), color=ORANGE)
        title(left, "Ready, by priority band", x="band (1 = asked soonest)", y="URLs")
    else:
        empty(left, "nothing is ready")
    steps(right, by_wait["waited"].tolist(), by_wait["urls"].tolist())
    title(right, "Ready, by time since admitted", x="time waited", y="URLs")
    return drawn


def budgets(lake: Lake, policy: BudgetPolicy, *, month: int) -> pd.DataFrame:
    """Return by host: `budget` (requests a month), `spent` in `month` (yyyymm), `left`, `waiting` URLs (ready and
    backlog), `known_urls`; the most spent first."""
    rows = frame(
        lake,
        """select host, delay_ms, coalesce(month_budget, -1) own, coalesce(month, 0) month,
                  coalesce(month_requests, 0) requests, coalesce(known_urls, 0) known_urls,
                  coalesce(ready_urls, 0) + coalesce(backlog_urls, 0) waiting from hosts""",
    )
    budget = monthly_budget(
        policy, delay_ms=rows["delay_ms"].fillna(1_000).to_numpy(np.int64), own=rows["own"].to_numpy(np.int64)
    )
    spent = rows["requests"].where(rows["month"] >= month, 0).to_numpy(np.int64)
    left = left_this_month(
        budget,
        month=rows["month"].to_numpy(np.int64),
        spent=rows["requests"].to_numpy(np.int64),
        now_month=month,
    )
    table = pd.DataFrame(
        {
            "host": rows["host"],
            "budget": budget,
            "spent": spent,
            "left": left,
            "waiting": rows["waiting"],
            "known_urls": rows["known_urls"],
        }
    )
    return table.sort_values(["spent", "host"], ascending=[False, True], ignore_index=True)


def plot_budgets(found: pd.DataFrame, *, most: int = 12) -> Picture:
    """Draw how much of the month's budgets is spent: all hosts by share, and those that spent most."""
    drawn, (left, right) = picture(panels=2, height=tall(most), widths=(1, 1))
    if not len(found):
        empty(left, "no host is known")
        empty(right, "")
        return drawn
    share = 100 * found["spent"] / found["budget"].clip(lower=1)
    names = ["0", "< 1", "1–10", "10–50", "50–100", "all"]
    edges = pd.cut(share, [-1, 0, 1, 10, 50, 99.999, np.inf], labels=names)
    counts = edges.value_counts()
    steps(left, names, [int(counts.get(name, 0)) for name in names], color=GREY)
    title(left, "Budget spent this month", x="share of the budget (%)", y="hosts")
    top = found.head(most)
    labels = [f"{spent:,} of {budget:,}" for spent, budget in zip(top["spent"], top["budget"], strict=True)]
    bars(right, top["host"].tolist(), top["spent"].tolist())
    for text, label in zip(right.texts, labels, strict=True):
        text.set_text(label)
    right.set_xlim(0, max(top["spent"].max(), 1) * 1.45)
    title(right, "Hosts that spent most", x="requests this month")
    return drawn


def uncrawled(found: pd.DataFrame, *, most: int = 15) -> pd.DataFrame:
    """Return, of `budgets`, the hosts with most URLs waiting: `waiting`, `beyond` (what the month's budget cannot take),
    `months` that it takes at the full budget."""
    rows = found[found["waiting"] > 0].copy()
    rows["beyond"] = (rows["waiting"] - rows["left"]).clip(lower=0)
    rows["months"] = rows["waiting"] / rows["budget"].clip(lower=1)
    rows = rows.sort_values(["beyond", "waiting", "host"], ascending=[False, False, True], ignore_index=True)
    return rows[["host", "waiting", "beyond", "left", "months", "known_urls"]].head(most)


def plot_uncrawled(found: pd.DataFrame) -> Picture:
    """Draw the hosts with most URLs waiting, and what of it the month cannot take."""
    drawn, (axes,) = picture(height=tall(len(found) + 1))
    if not len(found):
        empty(axes, "nothing waits")
        return drawn
    bars(axes, found["host"].tolist(), found["waiting"].tolist(), color=BLUE)
    axes.barh(np.arange(len(found)), found["beyond"], color=ORANGE, height=0.7)
    axes.plot([], [], color=BLUE, linewidth=8, label="fits what is left of the month's budget")
    axes.plot([], [], color=ORANGE, linewidth=8, label="stays uncrawled when the month ends")
    legend_below(axes)
    title(axes, "Hosts with most URLs waiting", x="URLs ready or in the backlog")
    return drawn
