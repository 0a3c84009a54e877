"""The last cycle: what became of every planned URL, how fast it went, and what held it back."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.patches import Patch

from lake.errors import LakeError
from lake.ledger import COMMITTED, LedgerRow
from lake.snapshot import Lake
from pipelines.report.picture import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    RED,
    SKY,
    Picture,
    bars,
    empty,
    legend_below,
    picture,
    tall,
    title,
    whole,
)  # fmt: skip
from pipelines.report.tables import frame, listed, of_cycle, paused
from pipelines.rules.outcome import UNASKED, Outcome

STAGES = {
    "stored": (GREEN, "new content, stored"),
    "duplicate": (SKY, "content stored before (revisit record)"),
    "unchanged": (BLUE, "not modified since the last visit (304)"),
    "redirect": (PURPLE, "answered with a redirect"),
    "refused": (GREY, "not asked: robots.txt or a rule of ours"),
    "failed": (RED, "failed: HTTP error, DNS, connection, time-out"),
    "window over": (ORANGE, "not asked: the window ended first"),
    "set aside": ("#b8860b", "not asked: its host was out of reach, or its path pattern was left"),
}
"""What becomes of a planned URL: colour and meaning, in the order of the figure."""


def ledger_row(lake: Lake, cycle: int) -> LedgerRow:
    """Return the ledger's row of a committed cycle; raises LakeError where it is none."""
    row = next((row for row in lake.ledger() if row.cycle == cycle and row.state == COMMITTED), None)
    if row is None:
        why = f"cycle {cycle} is not committed" if lake.cycle else "no cycle is committed yet"
        raise LakeError(f"{lake.root}: {why}, so there is nothing to look at")
    return row


def funnel(lake: Lake, cycle: int) -> pd.DataFrame:
    """Return what became of the cycle's planned URLs: `stage`, `urls`, `meaning`; the sum is what was planned.

    Counted from the captures (a row a planned URL that was tried) and the ledger (planned, window over); the
    set-aside stage is what is left, so that a negative figure there would be a defect.
    """
    held = Outcome.REDIRECT, Outcome.REDIRECT_LIMIT
    rows = frame(
        lake,
        f"""select case when outcome = 'ok' and duplicate then 'duplicate' when outcome = 'ok' then 'stored'
                   when outcome = 'not_modified' then 'unchanged' when outcome in {listed(held)} then 'redirect'
                   when outcome in {listed(sorted(UNASKED))} then 'refused' else 'failed' end stage, count(*) urls
            from captures where {of_cycle(cycle)} and kind = 'page' and hop = 0 group by 1""",
    )
    counts = dict(zip(rows["stage"], rows["urls"], strict=True))
    ledger = ledger_row(lake, cycle).counts
    counts["window over"] = ledger.get("unfetched", 0)
    counts["set aside"] = ledger.get("planned", 0) - sum(counts.values())
    told = [(stage, int(counts.get(stage, 0)), meaning) for stage, (_, meaning) in STAGES.items()]
    return pd.DataFrame(told, columns=["stage", "urls", "meaning"])


def plot_funnel(found: pd.DataFrame) -> Picture:
    """Draw the funnel as steps from nothing to what was planned: each bar begins where the one before ended."""
    drawn, (axes,) = picture(height=3.9)
    planned = int(found["urls"].sum())
    kept = found[found["urls"] != 0]
    ends = kept["urls"].cumsum().tolist()
    lefts = [0, *ends[:-1]]
    places = list(range(len(kept) + 1))
    axes.barh(places[0], planned, color="#3c4450", height=0.7)
    colours = [STAGES[stage][0] for stage in kept["stage"]]
    axes.barh(places[1:], kept["urls"], left=lefts, color=colours, height=0.7)
    axes.set_yticks(places, ["planned", *kept["stage"]])
    axes.invert_yaxis()
    axes.grid(False, axis="y")
    for place, end, count in zip(places, [planned, *ends], [planned, *kept["urls"]], strict=True):
        share = f" ({100 * count / planned:.0f} %)" if planned else ""
        axes.text(end + max(planned, 1) * 0.01, place, f"{count:,}{share}", va="center", fontsize=9)
    axes.set_xlim(0, max(planned, 1) * 1.16)
    whole(axes.xaxis)
    title(axes, f"What became of the {planned:,} planned URLs", x="URLs")
    return drawn


def outcomes(lake: Lake, cycle: int) -> pd.DataFrame:
    """Return `outcome` and `requests` of the cycle, most frequent first."""
    found = ledger_row(lake, cycle).outcomes
    rows = pd.DataFrame(sorted(found.items()), columns=["outcome", "requests"])
    return rows.sort_values(["requests", "outcome"], ascending=[False, True], ignore_index=True)


def plot_outcomes(found: pd.DataFrame) -> Picture:
    """Draw the outcomes; the failures are red."""
    good = {Outcome.OK, Outcome.NOT_MODIFIED, Outcome.REDIRECT}
    drawn, (axes,) = picture(height=tall(len(found)))
    colours = [
        GREEN if name in good else GREY if name in UNASKED else RED for name in found["outcome"].tolist()
    ]
    bars(axes, found["outcome"].tolist(), found["requests"].tolist(), color=colours)
    title(axes, "Outcomes, robots.txt requests included", x="requests")
    return drawn


def pace(lake: Lake, cycle: int, *, points: int = 60) -> pd.DataFrame:
    """Return `seconds` since the first request, `pages_s` (good answers a second) and `hosts` under way then.

    A host is under way from its first request to the end of its last. The cycle is cut into about `points`
    slices of whole seconds.
    """
    where = f"{of_cycle(cycle)} and request_ms is not null"
    span = frame(
        lake, f"select min(request_ms) low, max(request_ms + response_ms) high from captures where {where}"
    )
    if span["low"].isna().all():
        return pd.DataFrame(columns=["seconds", "pages_s", "hosts"])
    low, high = int(span["low"][0]), int(span["high"][0])
    slice_ms = max(1_000, -(-(high - low) // points // 1_000) * 1_000)
    rows = frame(
        lake,
        f"""select cast((request_ms + response_ms - {low}) / {slice_ms} as bigint) slice, count(*) pages
            from captures where {where} and kind = 'page' and outcome in ('ok', 'not_modified') group by 1""",
    )
    stays = frame(
        lake,
        f"""select host, min(request_ms) - {low} low, max(request_ms + response_ms) - {low} high
            from captures where {where} group by host""",
    )
    slices = np.arange((high - low) // slice_ms + 1)
    pages = np.zeros(len(slices))
    pages[rows["slice"].to_numpy(dtype=np.int64)] = rows["pages"]
    came = np.sort(stays["low"].to_numpy() // slice_ms)
    went = np.sort(stays["high"].to_numpy() // slice_ms)
    hosts = np.searchsorted(came, slices, side="right") - np.searchsorted(went, slices, side="left")
    return pd.DataFrame(
        {"seconds": slices * slice_ms / 1_000, "pages_s": pages * 1_000 / slice_ms, "hosts": hosts}
    )


def plot_pace(found: pd.DataFrame) -> Picture:
    """Draw pages a second, and how many hosts were under way: a long thin end means that a few hosts held it back."""
    drawn, (left, right) = picture(panels=2)
    if not len(found):
        empty(left, "no request was made")
        empty(right, "")
        return drawn
    for axes, column, colour, label, unit in (
        (left, "pages_s", BLUE, "Pages a second", "pages/s"),
        (right, "hosts", ORANGE, "Hosts under way", "hosts"),
    ):
        axes.fill_between(found["seconds"], found[column], step="post", color=colour, alpha=0.25)
        axes.step(found["seconds"], found[column], where="post", color=colour)
        axes.set_ylim(bottom=0)
        title(axes, label, x="time since the first request (s)", y=unit)
    return drawn


def slowest_hosts(lake: Lake, cycle: int, *, most: int = 15) -> pd.DataFrame:
    """Return the hosts that took longest: `host`, `requests`, `busy_s` (answering), `pause_s` (waiting its delay),
    `response_ms` (median), `delay_ms` (largest), `delay_reason` (its commonest cause)."""
    return frame(
        lake,
        f"""select host, count(*) requests, sum(response_ms) / 1000.0 busy_s, sum(pause_ms) / 1000.0 pause_s,
                   median(response_ms) response_ms, max(delay_ms) delay_ms,
                   first_value(delay_reason order by delay_ms desc) delay_reason
            from ({paused(cycle)})
            group by host order by busy_s + pause_s desc, host limit {int(most)}""",
    )


def plot_slowest_hosts(found: pd.DataFrame) -> Picture:
    """Draw the time that the slowest hosts took, answering and pausing."""
    drawn, (axes,) = picture(height=tall(len(found) + 1))
    if not len(found):
        empty(axes, "no request was made")
        return drawn
    both = found["busy_s"] + found["pause_s"]
    bars(axes, found["host"].tolist(), both.tolist(), color=SKY, words=lambda value: f"{value:,.1f} s")
    axes.barh(np.arange(len(found)), found["busy_s"], color=RED, height=0.7)
    legend_below(
        axes,
        handles=[
            Patch(color=RED, label="waiting for its answers"),
            Patch(color=SKY, label="politeness pauses"),
        ],
    )
    title(axes, "Hosts that took longest", x="time in the cycle (s)")
    return drawn


def seconds(lake: Lake, cycle: int) -> pd.DataFrame:
    """Return `step` and `seconds`: how long each step took, in their order."""
    return pd.DataFrame(list(ledger_row(lake, cycle).seconds.items()), columns=["step", "seconds"])


def plot_seconds(found: pd.DataFrame) -> Picture:
    """Draw the time of each step."""
    drawn, (axes,) = picture(height=tall(len(found)))
    bars(axes, found["step"].tolist(), found["seconds"].tolist(), words=lambda value: f"{value:,.1f} s")
    title(axes, "Time by step", x="wall time (s)")
    return drawn
