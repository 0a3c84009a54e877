"""Near duplicates and boilerplate among a cycle's pages: marked in `lookalikes`, never thrown away.

The cycle's SimHashes are made an index of sorted runs, with different blocks of bits in front (rules/dedup.py); the
earlier cycles' are asked past it one cycle at a time, 8 bytes a page: memory follows the cycle, not the history.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lake import commit, snapshot
from lake.files import write_data
from lake.layout import Layout
from lake.schema import LOOKALIKES
from lake.snapshot import Lake, crawl_name
from pipelines.rules import dedup

COLUMNS = ["url", "url_key", "host", "content_digest", "simhash", "fetch_time"]
PAGES_LOOKED_AT = 200
"""Pages of one host whose lines are counted: more would not change what is common to them."""

Row = dict[str, Any]


def mark(root: Path | str, cycle: int) -> int:
    """Commit the lookalikes among a cycle's pages, in place of those found before; return their number."""
    layout = Layout(Path(root).absolute())
    commit.make_table(layout.table(LOOKALIKES.name), LOOKALIKES)
    lake = snapshot.open(layout.root)
    rows = find(lake, cycle)
    version = (lake.transaction(LOOKALIKES.name, app(cycle)) or 0) + 1
    path = layout.data_path(LOOKALIKES.name, cycle, None, f"v{version}")
    where: dict[str, int | str] = {"crawl": crawl_name(cycle)}
    adds = [write_data(layout.table(LOOKALIKES.name), path, rows, LOOKALIKES, where)] if rows.num_rows else []
    commit.commit_table(
        layout.root, LOOKALIKES.name, cycle=version, adds=adds, replace={"crawl": [crawl_name(cycle)]}, app=app(cycle)
    )  # fmt: skip
    return len(rows)


def app(cycle: int) -> str:
    """Return the app transaction under which a cycle's lookalikes are committed."""
    return f"near-c{cycle:06d}"


def find(lake: Lake, cycle: int) -> pa.Table:
    """Return the rows of `lookalikes` for a cycle: each page once, beside the earliest page that it is near."""
    plain = boilerplate(lake, cycle)
    pages = _pages(lake, cycle)
    pages = pages.filter(pc.invert(pc.is_in(pages["content_digest"], pa.array(sorted(plain), pa.string()))))
    pages = pages.sort_by([("fetch_time", "ascending"), ("url_key", "ascending")]).combine_chunks()
    found = {row["content_digest"]: row for row in _near_rows(lake, cycle, pages)}
    rows = [*found.values(), *plain.values()]
    told = [{**row, "crawl": crawl_name(cycle), "cycle": cycle} for row in rows]
    return pa.Table.from_pylist(told, schema=LOOKALIKES.arrow).sort_by("url_key")


def _pages(lake: Lake, cycle: int, columns: list[str] = COLUMNS) -> pa.Table:
    rows = lake.read("pages", columns=columns, partitions={"crawl": [crawl_name(cycle)]})
    return rows.filter(pc.is_valid(rows["simhash"]))


def simhashes(rows: pa.Table) -> npt.NDArray[np.uint64]:
    """Return the SimHashes of pages; the table keeps their bits as signed numbers."""
    values: npt.NDArray[np.uint64] = rows["simhash"].to_numpy().astype(np.int64).view(np.uint64)
    return values


def _near_rows(lake: Lake, cycle: int, pages: pa.Table) -> Iterator[Row]:
    """Yield a row for each page with an earlier one near it; of the same page, the earliest neighbour comes last."""
    values = simhashes(pages)
    if not len(values):
        return
    index = dedup.NearIndex(values)
    mine = pages.select(["url", "url_key", "host", "content_digest"]).to_pylist()
    firsts = dedup.near_groups(values)
    for place in np.flatnonzero(firsts != np.arange(len(firsts))).tolist():
        yield _row(mine[place], mine[firsts[place]], values[place], values[firsts[place]])
    for before in range(cycle - 1, 0, -1):
        theirs = simhashes(_pages(lake, before, ["simhash"]))
        asked, places = index.near(theirs)
        if not len(asked):
            continue
        others = _pages(lake, before, ["url", "content_digest", "simhash"]).take(pa.array(asked)).to_pylist()
        for other, number, place in zip(others, asked.tolist(), places.tolist(), strict=True):
            if other["content_digest"] != mine[place]["content_digest"]:
                yield _row(mine[place], other, values[place], theirs[number])


def _row(page: Row, other: Row, one: np.uint64, two: np.uint64) -> Row:
    near = {"near_url": other["url"], "near_digest": other["content_digest"]}
    return {**page, **near, "kind": "near", "bits": dedup.distance(int(one), int(two))}


def boilerplate(lake: Lake, cycle: int) -> dict[str, Row]:
    """Return, by digest, the cycle's pages that say nothing but what stands on most pages of their host."""
    rows = lake.read(
        "pages",
        columns=["url", "url_key", "host", "content_digest", "text"],
        partitions={"crawl": [crawl_name(cycle)]},
    )
    rows = rows.filter(pc.is_valid(rows["text"])).sort_by([("host", "ascending"), ("url_key", "ascending")])
    found: dict[str, Row] = {}
    nothing = {"kind": "boilerplate", "bits": None, "near_url": None, "near_digest": None}
    counts = rows["host"].combine_chunks().value_counts().to_pylist() if rows.num_rows else []
    start = 0
    for told in counts:
        mine = rows.slice(start, told["counts"]).to_pylist()
        start += told["counts"]
        common = dedup.common_lines(dedup.line_keys(row["text"]) for row in mine[:PAGES_LOOKED_AT])
        for row in mine if common else ():
            if dedup.text_kind(row.pop("text"), common) == "boilerplate":
                found[row["content_digest"]] = {**row, **nothing}
    return found
