"""Hosts and domains: how big they are, how they fail, what their robots.txt says, and who fills the lake."""

from __future__ import annotations

import numpy as np
import pandas as pd

from lake.snapshot import Lake
from pipelines.report.picture import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    RED,
    Picture,
    bars,
    empty,
    legend,
    picture,
    steps,
    tall,
    title,
)  # fmt: skip
from pipelines.report.tables import PAGE, classes, counted, frame, listed
from pipelines.rules.outcome import ANSWERED, UNASKED, Outcome

SIZES = ((1, "0"), (2, "1"), (10, "2–9"), (100, "10–99"), (1_000, "100–1k"), (10_000, "1k–10k"))
BIGGER = "> 10k"


_HOSTS = f"""select hosts.host host, domain, coalesce(known_urls, 0) known, coalesce(got.pages, 0) pages,
                   coalesce(got.bytes, 0) bytes
            from hosts left join (select host, count(*) pages, sum(body_bytes) bytes from captures
                                  where {PAGE} group by host) got on hosts.host = got.host"""
"""Hosts with what was fetched of them, counted from the captures."""


def sizes(lake: Lake) -> pd.DataFrame:
    """Return `pages` (class of pages fetched, ever), `hosts` in it, and `known` hosts by URLs admitted."""
    names = [name for _, name in SIZES] + [BIGGER]
    query = "select {} size, count(*) n from ({}) group by 1"
    fetched = frame(lake, query.format(classes("pages", SIZES, BIGGER), _HOSTS))
    known = frame(lake, query.format(classes("known", SIZES, BIGGER), _HOSTS))
    return pd.DataFrame(
        {
            "size": names,
            "by_pages": counted(fetched, names, key="size", value="n"),
            "by_known": counted(known, names, key="size", value="n"),
        }
    )


def plot_sizes(found: pd.DataFrame) -> Picture:
    """Draw how many hosts have so many pages fetched, and so many URLs known."""
    drawn, (left, right) = picture(panels=2)
    for axes, column, colour, what in (
        (left, "by_pages", BLUE, "pages fetched"),
        (right, "by_known", PURPLE, "URLs known"),
    ):
        steps(axes, found["size"].tolist(), found[column].tolist(), color=colour)
        title(axes, f"Hosts by {what}", x=f"{what} of a host", y="hosts")
    return drawn


def domains(lake: Lake, *, most: int = 15) -> pd.DataFrame:
    """Return the registrable domains with most pages: `domain`, `hosts`, `pages`, `megabytes`, `known_urls`."""
    return frame(
        lake,
        f"""select domain, count(*) hosts, sum(pages) pages, sum(bytes) / 1e6 megabytes, sum(known) known_urls
            from ({_HOSTS}) group by 1 order by pages desc, known_urls desc, domain limit {int(most)}""",
    )


def plot_domains(found: pd.DataFrame) -> Picture:
    """Draw the domains with most pages, and how many hosts they have."""
    drawn, (left, right) = picture(panels=2, height=tall(len(found)), widths=(3, 2))
    names = found["domain"].tolist()
    bars(left, names, found["pages"].tolist(), color=BLUE)
    title(left, "Domains with most pages", x="pages fetched")
    bars(right, [""] * len(names), found["hosts"].tolist(), color=GREY)
    title(right, "their hosts", x="hosts")
    return drawn


def shares(lake: Lake) -> pd.DataFrame:
    """Return a row a host with pages, biggest first: `rank`, and `share` of all pages that it and the bigger ones hold."""
    rows = frame(lake, f"select pages from ({_HOSTS}) where pages > 0 order by pages desc")
    total = max(int(rows["pages"].sum()), 1)
    return pd.DataFrame({"rank": np.arange(1, len(rows) + 1), "share": rows["pages"].cumsum() / total})


def plot_shares(found: pd.DataFrame) -> Picture:
    """Draw how few hosts hold how much of the pages."""
    drawn, (axes,) = picture()
    if not len(found):
        empty(axes, "no page is fetched yet")
        return drawn
    axes.plot(found["rank"], 100 * found["share"], color=BLUE, linewidth=2)
    axes.plot([1, len(found)], [100 / len(found), 100], color=GREY, linestyle="--", label="all hosts alike")
    half = int((found["share"] >= 0.5).to_numpy().argmax()) + 1
    axes.axvline(half, color=ORANGE, label=f"{half:,} of {len(found):,} hosts hold half")
    axes.set_ylim(0, 104)
    legend(axes, loc="lower right")
    title(axes, "Share of all pages held by the biggest hosts", x="hosts, biggest first", y="pages (%)")
    return drawn


def health(lake: Lake) -> pd.DataFrame:
    """Return `health` (ok, or the outcome that ails a host) and `hosts`."""
    return frame(lake, "select health, count(*) hosts from hosts group by 1 order by hosts desc, health")


def robots(lake: Lake) -> pd.DataFrame:
    """Return `state` of the sites' robots.txt (rules, allow_all, unreachable) and `sites`."""
    rows = frame(
        lake,
        "select one['state'] state, count(*) sites from (select unnest(robots) one from hosts) group by 1 order by 2 desc",
    )
    return rows if len(rows) else pd.DataFrame({"state": [], "sites": []})


def plot_health(by_health: pd.DataFrame, by_robots: pd.DataFrame) -> Picture:
    """Draw the hosts by health, and the sites by what their robots.txt came to."""
    drawn, (left, right) = picture(panels=2, height=tall(max(len(by_health), len(by_robots), 3)))
    colours = [GREEN if name == "ok" else RED for name in by_health["health"]]
    bars(left, by_health["health"].tolist(), by_health["hosts"].tolist(), color=colours)
    title(left, "Health of hosts", x="hosts")
    if len(by_robots):
        tint = {"rules": BLUE, "allow_all": GREEN}
        bars(
            right,
            by_robots["state"].tolist(),
            by_robots["sites"].tolist(),
            color=[tint.get(state, RED) for state in by_robots["state"]],
        )
        title(right, "robots.txt of sites", x="sites")
    else:
        empty(right, "no robots.txt was asked for yet")
    return drawn


def errors(lake: Lake, *, most: int = 15) -> pd.DataFrame:
    """Return the hosts with most failures: `host`, `requests`, `failures`, `share`, `commonest` outcome among them."""
    good = listed(sorted(ANSWERED | UNASKED | {Outcome.REDIRECT}))
    return frame(
        lake,
        f"""with counts as (
              select host, outcome, count(*) n, outcome not in {good} bad from captures group by 1, 2)
            select host, sum(n) requests, sum(case when bad then n else 0 end) failures,
                   sum(case when bad then n else 0 end) * 1.0 / sum(n) share,
                   first_value(outcome order by bad desc, n desc, outcome) commonest
            from counts group by host having sum(case when bad then n else 0 end) > 0
            order by failures desc, host limit {int(most)}""",
    )


def plot_errors(found: pd.DataFrame) -> Picture:
    """Draw the hosts with most failures, each with its commonest one."""
    drawn, (axes,) = picture(height=tall(len(found)))
    if not len(found):
        empty(axes, "no request failed")
        return drawn
    labels = [f"{host}  ({name})" for host, name in zip(found["host"], found["commonest"], strict=True)]
    bars(axes, labels, found["failures"].tolist(), color=RED)
    title(axes, "Hosts with most failed requests", x="failed requests, all cycles")
    return drawn
