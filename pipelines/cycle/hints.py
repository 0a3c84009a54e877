"""What sitemaps say of URLs that wait already: their words reach the frontier, and a change they tell of counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lake import runs
from pipelines.rules import metadata

Floats = npt.NDArray[np.float64]
_MARK = '"sitemap":'


def told_by_sitemaps(candidates: pa.Table) -> dict[int, dict[str, Any]]:
    """Return, by URL key, what the sitemaps read in this cycle say of it."""
    told = candidates.filter(pc.fill_null(pc.match_substring(candidates["meta"], _MARK), False))
    told = told.sort_by([("url_key", "ascending"), ("via_key", "ascending")])
    pairs = zip(told["url_key"].to_pylist(), told["meta"].to_pylist(), strict=True)
    return {key: metadata.hints(meta) for key, meta in pairs}


def with_hints(rows: pa.Table, candidates: pa.Table) -> pa.Table:
    """Return frontier rows (sorted by key) whose metadata holds the newest words of sitemaps read in this cycle."""
    told = candidates.filter(pc.fill_null(pc.match_substring(candidates["meta"], _MARK), False))
    keys = rows["url_key"].to_numpy()
    told = told.filter(pa.array(runs.is_member(keys, told["url_key"].to_numpy())))
    if not told.num_rows:
        return rows
    told = told.sort_by([("url_key", "ascending"), ("via_key", "ascending")])
    words = dict(zip(told["url_key"].to_pylist(), told["meta"].to_pylist(), strict=True))
    texts = rows["meta"].to_pylist()
    for key, meta in words.items():
        place = int(np.searchsorted(keys, key))
        known = metadata.read(texts[place])
        texts[place] = metadata.written({**known, "sitemap": metadata.hints(meta)})
    at = rows.schema.get_field_index("meta")
    return rows.set_column(at, rows.schema.field(at), pa.array(texts, pa.string()))


def hinted(rows: pa.Table) -> tuple[Floats, Floats]:
    """Return by row the weight of its sitemap's priority (1 = usual), and 1 where it says of a change since the last visit."""
    weight, changed = np.ones(rows.num_rows), np.zeros(rows.num_rows)
    place = np.flatnonzero(pc.fill_null(pc.match_substring(rows["meta"], _MARK), False).to_numpy())
    if len(place):
        mine = rows.select(["meta", "last_visit_at"]).take(pa.array(place))
        weight[place] = 2 * _number(mine["meta"], metadata.PRIORITY_PATTERN, "priority", 0.5)
        visit = pc.fill_null(mine["last_visit_at"].cast(pa.int64()), 2**62).to_numpy() / 1e6
        changed[place] = _number(mine["meta"], metadata.LASTMOD_PATTERN, "lastmod", 0.0) > visit
    return weight, changed


def _number(texts: pa.ChunkedArray, pattern: str, name: str, default: float) -> Floats:
    found = pc.struct_field(pc.extract_regex(texts, pattern), name)
    numbers: Floats = pc.fill_null(found.cast(pa.float64()), default).to_numpy()
    return numbers
