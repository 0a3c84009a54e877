"""Questions put to a lake in SQL, answered as pandas tables."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from lake.snapshot import Lake, crawl_name

PAGE = "subset = 'warc' and kind = 'page' and outcome = 'ok'"
"""SQL: the captures that are pages, answered with content. Sitemaps lie in the subset warc too, and so do 304 answers."""


def frame(lake: Lake, query: str) -> pd.DataFrame:
    """Return the rows of a query."""
    rows: pd.DataFrame = lake.sql(query).to_pandas()
    return rows


def of_cycle(cycle: int | None) -> str:
    """Return the SQL condition that keeps one cycle's rows, all of them for None.

    >>> of_cycle(3), of_cycle(None)
    ("crawl = 'cycle-000003'", 'true')
    """
    return "true" if cycle is None else f"crawl = '{crawl_name(cycle)}'"


def paused(cycle: int | None) -> str:
    """Return SQL: a row a request, with `pause_ms` that it waited: 0 for a host's first of a cycle, whose pause was over."""
    return f"""select host, response_ms, delay_ms, delay_reason,
                      case when lag(request_ms) over (partition by host, crawl order by request_ms) is null
                           then 0 else delay_ms end pause_ms
               from captures where {of_cycle(cycle)} and request_ms is not null"""


def listed(values: Sequence[str]) -> str:
    """Return texts as an SQL list.

    >>> listed(["a", "b'c"])
    "('a', 'b''c')"
    """
    quoted = (value.replace("'", "''") for value in values)
    return "(" + ", ".join(f"'{value}'" for value in quoted) + ")"


def classes(column: str, edges: Sequence[tuple[float, str]], above: str) -> str:
    """Return SQL that sorts a number into classes: (upper edge, name), those above the last edge, and null for null."""
    cases = " ".join(f"when {column} < {edge} then '{name}'" for edge, name in edges)
    return f"case when {column} is null then null {cases} else '{above}' end"


def counted(found: pd.DataFrame, names: Sequence[str], *, key: str, value: str) -> list[int]:
    """Return the values in the order of the names, 0 for one that is missing."""
    held = dict(zip(found[key], found[value], strict=True))
    return [int(held.get(name, 0)) for name in names]
