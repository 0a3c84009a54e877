"""Time travel: the lake as one cycle left it against how another one did."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from lake import snapshot
from lake.schema import SHELVES
from lake.snapshot import Lake
from pipelines.report.picture import (
    BLUE,
    GREEN,
    Picture,
    bars,
    empty,
    legend_below,
    picture,
    tall,
    title,
    whole,
)
from pipelines.report.tables import PAGE, frame

FIGURES = ("seen", *SHELVES, "hosts", "captures", "contents")
TABLE_OF = {"seen": "seen", "hosts": "hosts", "captures": "captures", "contents": "contents"} | {
    shelf: f"frontier_{shelf}" for shelf in SHELVES
}


def at(lake: Lake, cycle: int) -> Lake:
    """Return the lake as a cycle left it; raises LakeError where upkeep has removed what that needs."""
    return snapshot.open(lake.root, cycle=cycle)


def states(before: Lake, after: Lake) -> pd.DataFrame:
    """Return rows of `figure`, `before`, `after`, `grown`: how many rows each table has; from the Delta logs alone."""
    told = [(name, before.rows(TABLE_OF[name]), after.rows(TABLE_OF[name])) for name in FIGURES]
    found = pd.DataFrame(told, columns=["figure", "before", "after"])
    found["grown"] = found["after"] - found["before"]
    return found


def plot_states(found: pd.DataFrame, *, before: int, after: int) -> Picture:
    """Draw the two states side by side."""
    drawn, (axes,) = picture(height=4.6)
    places = np.arange(len(found))
    axes.barh(places - 0.19, found["before"], height=0.36, color="#9aa5b1", label=f"after cycle {before}")
    axes.barh(places + 0.19, found["after"], height=0.36, color=BLUE, label=f"after cycle {after}")
    most = max(found["after"].max(), found["before"].max(), 1)
    for place, row in zip(places, found.itertuples(), strict=True):
        axes.text(row.before + most * 0.01, place - 0.19, f"{row.before:,}", va="center", fontsize=8)
        axes.text(
            row.after + most * 0.01, place + 0.19, f"{row.after:,} ({row.grown:+,})", va="center", fontsize=8
        )
    axes.set_yticks(places, found["figure"].tolist())
    axes.invert_yaxis()
    axes.grid(False, axis="y")
    axes.set_xlim(0, most * 1.25)
    whole(axes.xaxis)
    legend_below(axes)
    title(axes, "The lake then and now", x="rows")
    return drawn


def moves(before: Lake, after: Lake) -> pd.DataFrame:
    """Return how URLs moved between shelves: a row a shelf before ("not known" first), a column a shelf after.

    Reads the URL keys of both states: 16 bytes a URL in memory.
    """
    froms, tos = _placed(before), _placed(after)
    found = np.zeros((len(SHELVES) + 1, len(SHELVES)), dtype=np.int64)
    spot = np.searchsorted(froms[0], tos[0])
    spot[spot == len(froms[0])] = 0
    known = (froms[0][spot] == tos[0]) if len(froms[0]) else np.zeros(len(tos[0]), dtype=np.bool_)
    came = np.where(known, froms[1][spot] + 1, 0) if len(froms[0]) else np.zeros(len(tos[0]), dtype=np.int64)
    np.add.at(found, (came, tos[1]), 1)
    return pd.DataFrame(found, index=["not known", *SHELVES], columns=list(SHELVES))


def _placed(lake: Lake) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return every URL's key, sorted, and the number of its shelf."""
    parts = [lake.read(f"frontier_{shelf}", columns=["url_key"])["url_key"].to_numpy() for shelf in SHELVES]
    keys = np.concatenate(parts)
    shelf = np.repeat(np.arange(len(SHELVES)), [len(part) for part in parts])
    order = np.argsort(keys, kind="stable")
    return keys[order], shelf[order]


def plot_moves(found: pd.DataFrame, *, before: int, after: int) -> Picture:
    """Draw the moves as a table: darker = more URLs."""
    drawn, (axes,) = picture(height=3.8)
    values = found.to_numpy()
    axes.imshow(np.log1p(values), cmap="Blues", aspect="auto")
    edge = np.log1p(values).max() * 0.6
    for (row, column), value in np.ndenumerate(values):
        colour = "white" if np.log1p(value) > edge else "#333840"
        axes.text(column, row, f"{value:,}", ha="center", va="center", color=colour)
    axes.set_xticks(range(len(found.columns)), list(found.columns))
    axes.set_yticks(range(len(found.index)), list(found.index))
    axes.grid(False)
    title(
        axes,
        "Where URLs lay, and where they went",
        x=f"shelf after cycle {after} (URLs)",
        y=f"shelf after cycle {before}",
    )
    return drawn


def grown_hosts(before: Lake, after: Lake, *, most: int = 12) -> pd.DataFrame:
    """Return the hosts with most new pages: `host`, `pages` gained, `known` URLs gained."""
    query = f"""select hosts.host host, coalesce(got.pages, 0) pages, coalesce(known_urls, 0) known
               from hosts left join (select host, count(*) pages from captures where {PAGE} group by host) got
               on hosts.host = got.host"""
    then, now = frame(before, query).set_index("host"), frame(after, query).set_index("host")
    found = now.sub(then.reindex(now.index).fillna(0)).astype("int64")
    found = found[(found["pages"] > 0) | (found["known"] > 0)].reset_index()
    return found.sort_values(
        ["pages", "known", "host"], ascending=[False, False, True], ignore_index=True
    ).head(most)


def plot_grown_hosts(found: pd.DataFrame) -> Picture:
    """Draw the pages and the known URLs that hosts gained."""
    drawn, (left, right) = picture(panels=2, height=tall(max(len(found), 3)), widths=(3, 2))
    if not len(found):
        empty(left, "nothing has grown")
        empty(right, "")
        return drawn
    bars(left, found["host"].tolist(), found["pages"].tolist(), color=GREEN)
    title(left, "Hosts with most new pages", x="pages gained")
    bars(right, [""] * len(found), found["known"].tolist())
    title(right, "and newly known", x="URLs gained")
    return drawn
