"""The link graph between hosts: in-degrees, PageRank, top hosts."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.sparse import csr_array

from lake.snapshot import Lake
from pipelines.report.picture import BLUE, GREY, ORANGE, Picture, bars, empty, picture, tall, title
from pipelines.report.tables import frame

Floats = npt.NDArray[np.float64]


def edges(lake: Lake) -> pd.DataFrame:
    """Return the links between different hosts over all cycles: `src_host`, `dst_host`, `links`, sorted."""
    return frame(
        lake,
        """select src_host, dst_host, sum(links) links from links where src_host <> dst_host
           group by 1, 2 order by 1, 2""",
    )


def pagerank(
    graph: pd.DataFrame, *, damping: float = 0.85, tolerance: float = 1e-9, most: int = 200
) -> pd.DataFrame:
    """Return the hosts of a graph by PageRank: `host`, `rank` (the sum is 1), `in_hosts`, `in_links`, `out_hosts`.

    A host's vote is shared equally among the hosts it links to, however often: a template that links to one host
    from a thousand pages counts as one recommendation. Hosts without links out share theirs among all. Power
    iteration until the rank moves by less than `tolerance` in all, at most `most` times. Ties fall by name.
    """
    names, codes = np.unique(graph[["src_host", "dst_host"]].to_numpy().astype(str), return_inverse=True)
    pairs = codes.reshape(-1, 2)
    count = len(names)
    if not count:
        return pd.DataFrame({name: [] for name in ("host", "rank", "in_hosts", "in_links", "out_hosts")})
    out = np.bincount(pairs[:, 0], minlength=count)
    votes = csr_array((1.0 / out[pairs[:, 0]], (pairs[:, 1], pairs[:, 0])), shape=(count, count))
    rank = _settled(votes, out == 0, damping, tolerance, most)
    table = pd.DataFrame(
        {
            "host": names,
            "rank": rank,
            "in_hosts": np.bincount(pairs[:, 1], minlength=count),
            "in_links": np.bincount(pairs[:, 1], weights=graph["links"], minlength=count).astype(np.int64),
            "out_hosts": out,
        }
    )
    return table.sort_values(["rank", "host"], ascending=[False, True], ignore_index=True)


def _settled(
    votes: csr_array, silent: npt.NDArray[np.bool_], damping: float, tolerance: float, most: int
) -> Floats:
    count = len(silent)
    rank: Floats = np.full(count, 1.0 / count)
    for _ in range(most):
        after = damping * (votes @ rank + rank[silent].sum() / count) + (1.0 - damping) / count
        moved = float(np.abs(after - rank).sum())
        rank = after
        if moved < tolerance:
            break
    return rank


def plot_top_hosts(ranked: pd.DataFrame, *, most: int = 15) -> Picture:
    """Draw the hosts of the highest rank, and from how many hosts they are linked to."""
    top = ranked.head(most)
    drawn, (left, right) = picture(panels=2, height=tall(max(len(top), 3)), widths=(3, 2))
    if not len(top):
        empty(left, "no links between hosts yet")
        empty(right, "")
        return drawn
    bars(left, top["host"].tolist(), (1_000 * top["rank"]).tolist(), words=lambda value: f"{value:,.1f}")
    title(left, "Hosts by PageRank", x="PageRank (thousandths of the whole)")
    bars(right, [""] * len(top), top["in_hosts"].tolist(), color=GREY)
    title(right, "linked to from", x="hosts")
    return drawn


def in_degrees(ranked: pd.DataFrame) -> pd.DataFrame:
    """Return `in_hosts` and how many `hosts` are linked to from so many hosts."""
    found = ranked.groupby("in_hosts").size().rename("hosts").reset_index()
    return found[found["in_hosts"] > 0].reset_index(drop=True)


def plot_in_degrees(found: pd.DataFrame, ranked: pd.DataFrame) -> Picture:
    """Draw the distribution of in-degrees, and rank against in-degree: who is worth more than it has links."""
    drawn, (left, right) = picture(panels=2)
    if not len(found):
        empty(left, "no links between hosts yet")
        empty(right, "")
        return drawn
    left.scatter(found["in_hosts"], found["hosts"], color=BLUE, s=24)
    title(left, "In-degree of hosts", x="hosts that link to a host", y="hosts")
    linked = ranked[ranked["in_hosts"] > 0].head(5_000)
    right.scatter(linked["in_hosts"], 1_000 * linked["rank"], color=ORANGE, s=18, alpha=0.6)
    title(right, "PageRank against in-degree", x="hosts that link to a host", y="PageRank (thousandths)")
    for axes in (left, right):
        axes.set(xscale="log", yscale="log")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(lambda value, _: f"{value:g}")
            axis.set_minor_formatter(lambda value, _: "")
    return drawn
