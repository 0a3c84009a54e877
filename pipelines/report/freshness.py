"""Freshness: how often pages change, how old our copies are, and when they are visited next."""

from __future__ import annotations

import pandas as pd

from lake.ledger import COMMITTED
from lake.snapshot import Lake
from pipelines.report.picture import (
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    SKY,
    Picture,
    empty,
    legend,
    picture,
    steps,
    title,
    whole,
)  # fmt: skip
from pipelines.report.tables import classes, counted, frame

HOUR, DAY = 3_600, 86_400
AGES = (
    (HOUR, "< 1 h"), (6 * HOUR, "1–6 h"), (DAY, "6–24 h"), (7 * DAY, "1–7 d"), (30 * DAY, "7–30 d"),
    (90 * DAY, "1–3 mo"),
)  # fmt: skip
OLDER = "> 3 mo"
DUES = (
    (0, "now"),
    (HOUR, "< 1 h"),
    (DAY, "1–24 h"),
    (7 * DAY, "1–7 d"),
    (30 * DAY, "7–30 d"),
    (90 * DAY, "1–3 mo"),
)
LATER = "> 3 mo"
CHANGED = ((0.001, "never"), (0.1, "< 10"), (0.25, "10–25"), (0.5, "25–50"), (0.999, "50–99"))
ALWAYS = "every visit"


def _end(lake: Lake) -> int:
    """Return the end of the lake's cycle in seconds since 1970, 0 before the first."""
    ends = [row.written_at for row in lake.ledger() if row.state == COMMITTED and row.cycle == lake.cycle]
    return int(ends[-1].timestamp()) if ends else 0


def ages(lake: Lake) -> pd.DataFrame:
    """Return how long ago answered URLs were visited last, counted to the end of the lake's cycle: `age`, `urls`."""
    names = [name for _, name in AGES] + [OLDER]
    age = f"{_end(lake)} - cast(extract(epoch from last_visit_at) as bigint)"
    rows = frame(
        lake,
        f"""select {classes(age, AGES, OLDER)} age, count(*) urls from frontier_later
            where last_visit_at is not null group by 1""",
    )
    return pd.DataFrame({"age": names, "urls": counted(rows, names, key="age", value="urls")})


def dues(lake: Lake) -> pd.DataFrame:
    """Return when URLs are due, from the end of the lake's cycle: `due`, `visits` (answered before), `retries`."""
    names = [name for _, name in DUES] + [LATER]
    wait = f"cast(extract(epoch from due_at) as bigint) - {_end(lake)}"
    rows = frame(
        lake,
        f"""select {classes(wait, DUES, LATER)} due, sum(case when visits > 0 then 1 else 0 end) visits,
                   sum(case when visits > 0 then 0 else 1 end) retries
            from frontier_later group by 1""",
    )
    return pd.DataFrame(
        {
            "due": names,
            "visits": counted(rows, names, key="due", value="visits"),
            "retries": counted(rows, names, key="due", value="retries"),
        }
    )


def plot_ages(by_age: pd.DataFrame, by_due: pd.DataFrame) -> Picture:
    """Draw the age of our copies, and when what waits is due."""
    drawn, (left, right) = picture(panels=2)
    steps(left, by_age["age"].tolist(), by_age["urls"].tolist(), color=BLUE)
    title(left, "Age of the copies", x="time since the last visit", y="URLs")
    both = (by_due["visits"] + by_due["retries"]).tolist()
    steps(right, by_due["due"].tolist(), both, color=ORANGE)
    right.bar(
        range(len(by_due)), by_due["visits"], color=GREEN, width=0.8, label="next visit of an answered URL"
    )
    right.bar([0], [0], color=ORANGE, label="another try")
    right.set_ylim(0, (max(both) or 1) * 1.35)
    legend(right, loc="upper left")
    title(right, "Due next", x="time from the end of the cycle", y="URLs")
    return drawn


def change_rates(lake: Lake) -> pd.DataFrame:
    """Return URLs visited twice or more by the share of revisits that found a change: `changed` (%), `urls`."""
    names = [name for _, name in CHANGED] + [ALWAYS]
    rows = frame(
        lake,
        f"""select {classes("changes * 1.0 / (visits - 1)", CHANGED, ALWAYS)} changed, count(*) urls
            from frontier_later where visits > 1 group by 1""",
    )
    return pd.DataFrame({"changed": names, "urls": counted(rows, names, key="changed", value="urls")})


def revisits(lake: Lake) -> pd.DataFrame:
    """Return a row a cycle: pages visited for the first time, and again: `cycle`, `first`, `changed`, `same` (bytes alike),
    `not_modified` (304)."""
    return frame(
        lake,
        """with visits as (
             select cycle, outcome, content_digest,
                    lag(content_digest) over (partition by url_key order by request_ms) before,
                    row_number() over (partition by url_key order by request_ms) number
             from captures where kind = 'page' and outcome in ('ok', 'not_modified'))
           select cycle, sum(case when number = 1 then 1 else 0 end) first,
                  sum(case when number > 1 and outcome = 'ok' and content_digest <> before then 1 else 0 end) changed,
                  sum(case when number > 1 and outcome = 'ok' and content_digest = before then 1 else 0 end) same,
                  sum(case when number > 1 and outcome = 'not_modified' then 1 else 0 end) not_modified
           from visits group by cycle order by cycle""",
    )


def plot_revisits(by_cycle: pd.DataFrame, by_rate: pd.DataFrame) -> Picture:
    """Draw first and repeated visits by cycle, and how often repeated visits found a change."""
    drawn, (left, right) = picture(panels=2)
    if len(by_cycle):
        low = by_cycle["first"] * 0
        for column, colour, label in (
            ("first", BLUE, "first visit"), ("changed", ORANGE, "again: changed"),
            ("same", SKY, "again: same bytes"), ("not_modified", GREEN, "again: 304"),
        ):  # fmt: skip
            left.bar(by_cycle["cycle"], by_cycle[column], bottom=low, color=colour, label=label, width=0.8)
            low = low + by_cycle[column]
        left.set_xlim(
            by_cycle["cycle"].min() - 0.6, max(by_cycle["cycle"].max() + 0.6, by_cycle["cycle"].min() + 3.6)
        )
        left.set_ylim(0, low.max() * 1.35)
        legend(left, ncols=2, loc="upper left", fontsize=9)
        whole(left.xaxis)
        whole(left.yaxis)
        title(left, "Visits", x="cycle", y="pages")
    else:
        empty(left, "no page is fetched yet")
    if by_rate["urls"].sum():
        steps(right, by_rate["changed"].tolist(), by_rate["urls"].tolist(), color=PURPLE)
        title(right, "How often a revisit found a change", x="revisits with a change (%)", y="URLs")
    else:
        empty(right, "no page was visited twice yet")
    return drawn
