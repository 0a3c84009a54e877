"""Politeness: how long hosts were left alone, against what their delay asked, and which wish set it."""

from __future__ import annotations

import numpy as np
import pandas as pd

from lake.snapshot import Lake
from pipelines.report.picture import (
    BLUE,
    GREEN,
    ORANGE,
    PALETTE,
    RED,
    Picture,
    bars,
    empty,
    legend,
    picture,
    steps,
    tall,
    title,
)
from pipelines.report.tables import classes, counted, frame, of_cycle, paused

SLACK = (
    (0, "too soon"), (10, "0–10 ms"), (100, "10–100 ms"), (1_000, "0.1–1 s"), (10_000, "1–10 s"), (60_000, "10–60 s"),
)  # fmt: skip
LATER = "over 60 s"


def _gaps(cycle: int | None) -> str:
    """Return SQL: a row a request but each host's first, with `gap_ms` since the end of the one before it."""
    return f"""select host, delay_ms, delay_reason, request_ms, gap_ms, request_ms - before_start start_ms from (
                 select host, delay_ms, delay_reason, request_ms,
                        request_ms - lag(request_ms + response_ms) over (partition by host order by request_ms) gap_ms,
                        lag(request_ms) over (partition by host order by request_ms) before_start
                 from captures where {of_cycle(cycle)} and request_ms is not null
               ) where gap_ms is not null"""


def gaps(lake: Lake, cycle: int | None = None) -> pd.DataFrame:
    """Return by host: `requests`, `median_ms` (of its gaps), `slack_ms` (least gap minus the delay that held then:
    negative = asked too soon), `gap_ms` and `delay_ms` of that request, `too_soon` (how often). A gap runs from an
    answer's end to the next request.

    cycle: None = all; the pause between two cycles then counts too.
    """
    return frame(
        lake,
        f"""select host, count(*) + 1 requests, median(gap_ms) median_ms, min(gap_ms - delay_ms) slack_ms,
                   first_value(gap_ms order by gap_ms - delay_ms, gap_ms) gap_ms,
                   first_value(delay_ms order by gap_ms - delay_ms, gap_ms) delay_ms,
                   sum(case when gap_ms < delay_ms then 1 else 0 end) too_soon
            from ({_gaps(cycle)}) group by host order by slack_ms, host""",
    )


def plot_gaps(found: pd.DataFrame) -> Picture:
    """Draw each host's tightest gap against the delay that held then: every dot must lie on the line or above it."""
    drawn, (axes,) = picture(height=4.8)
    if not len(found):
        empty(axes, "no host was asked twice")
        return drawn
    late = found["too_soon"] > 0
    delay, gap = found["delay_ms"] / 1_000, np.maximum(found["gap_ms"], 1) / 1_000
    low, high = min(delay.min(), gap.min()) * 0.7, max(delay.max(), gap.max()) * 1.4
    axes.plot([low, high], [low, high], color=ORANGE, linewidth=1.5, label="gap = delay")
    axes.scatter(
        delay[~late], gap[~late], s=28, color=BLUE, alpha=0.55, label=f"{(~late).sum():,} hosts asked in time"
    )
    if late.any():
        axes.scatter(
            delay[late], gap[late], s=36, color=RED, marker="x", label=f"{late.sum():,} hosts asked too soon"
        )
    axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.set_minor_formatter(lambda value, _: f"{value:g}" if high / low < 30 else "")
    legend(axes, loc="upper left")
    requests = int(found["requests"].sum())
    title(
        axes,
        f"The tightest gap of {len(found):,} hosts in {requests:,} requests",
        x="delay that held then (s)",
        y="gap between two requests (s)",
    )
    return drawn


def slack(lake: Lake, cycle: int | None = None) -> pd.DataFrame:
    """Return `slack` (class of gap minus delay) and `requests`, from "too soon" up."""
    names = [name for _, name in SLACK] + [LATER]
    rows = frame(
        lake,
        f"select {classes('gap_ms - delay_ms', SLACK, LATER)} slack, count(*) requests from ({_gaps(cycle)}) group by 1",
    )
    return pd.DataFrame({"slack": names, "requests": counted(rows, names, key="slack", value="requests")})


def plot_slack(found: pd.DataFrame) -> Picture:
    """Draw by how much requests came later than they might."""
    drawn, (axes,) = picture()
    steps(axes, found["slack"].tolist(), found["requests"].tolist(), color=GREEN)
    title(
        axes, "How long after a host's delay had passed it was asked again", x="gap minus delay", y="requests"
    )
    return drawn


def reasons(lake: Lake, cycle: int | None = None) -> pd.DataFrame:
    """Return by `delay_reason`: `requests`, `hosts`, `hours` spent pausing, `delay_ms` (median)."""
    return frame(
        lake,
        f"""select delay_reason, count(*) requests, count(distinct host) hosts,
                   sum(pause_ms) / 3600000.0 hours, median(delay_ms) delay_ms
            from ({paused(cycle)}) group by 1 order by requests desc, 1""",
    )


def plot_reasons(found: pd.DataFrame) -> Picture:
    """Draw which wish set the delay, by requests and by the time it took."""
    drawn, (left, right) = picture(panels=2, height=tall(max(len(found), 4)))
    if not len(found):
        empty(left, "no request was made")
        empty(right, "")
        return drawn
    names = found["delay_reason"].tolist()
    colours = [PALETTE[place % len(PALETTE)] for place in range(len(found))]
    bars(left, names, found["requests"].tolist(), color=colours)
    title(left, "What set the delay", x="requests")
    minutes = (found["hours"] * 60).tolist()
    bars(right, names, minutes, color=colours, words=lambda value: f"{value:,.1f} min")
    title(right, "Time spent pausing", x="host time (min)")
    return drawn


def retry_after(lake: Lake, cycle: int | None = None) -> pd.DataFrame:
    """Return the answers that named a Retry-After: `host`, `fetch_status`, `retry_after`, `next_gap_ms` until the host was
    asked again (null = not yet), newest first, at most 100."""
    return frame(
        lake,
        f"""select host, fetch_status, retry_after, next_gap_ms, fetch_time from (
              select host, fetch_status, retry_after, fetch_time,
                     lead(request_ms) over (partition by host order by request_ms) - request_ms - response_ms next_gap_ms
              from captures where {of_cycle(cycle)} and request_ms is not null
            ) where retry_after is not null order by fetch_time desc limit 100""",
    )
