"""Rows of the frontier and of the host table, as the steps of a cycle make and read them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lake import runs, staging
from lake.schema import FRONTIER_READY, HOSTS, TIMESTAMP
from lake.snapshot import Lake
from pipelines.cycle import policies
from pipelines.cycle.hints import hinted
from pipelines.cycle.plugged import score_terms
from pipelines.cycle.turn import Turn
from pipelines.rules import hosts, metadata, priority, sources, urls

Ints = npt.NDArray[np.int64]
STATE = FRONTIER_READY.arrow
"""The columns of a row on any shelf."""


def column(rows: pa.Table, name: str, default: int = 0) -> Ints:
    """Return an integer column as int64, nulls replaced."""
    values = rows[name]
    if pa.types.is_timestamp(values.type):
        values = pc.divide(values.cast(pa.int64()), 1_000)
    filled: Ints = pc.fill_null(values.cast(pa.int64()), default).to_numpy()
    return filled


def is_seed(rows: pa.Table) -> npt.NDArray[np.bool_]:
    """Return which rows somebody asked for, by their column `source`."""
    found: npt.NDArray[np.bool_] = pc.is_in(rows["source"], pa.array(sources.SEEDS)).to_numpy()
    return found


def new_rows(turn: Turn, *, keys: Ints, columns: dict[str, pa.Array]) -> pa.Table:
    """Return frontier rows (columns of FRONTIER_READY) for URLs that are admitted in this cycle.

    What `columns` does not give is zero, null, or the cycle.
    """
    count = len(keys)
    given: dict[str, pa.Array] = {
        "bucket": pa.array(urls.buckets_of(keys, turn.buckets), pa.int32()),
        "url_key": pa.array(keys, pa.int64()),
        "added_cycle": pa.repeat(pa.scalar(turn.cycle, pa.int32()), count),
        "added_at": pa.repeat(pa.scalar(turn.opened_at, TIMESTAMP), count),
        "shelf_cycle": pa.repeat(pa.scalar(turn.cycle, pa.int32()), count),
        **columns,
    }
    zero = {"band", "score", "depth", "visits", "changes", "failures", "visit_seconds"}
    arrays = []
    for field in FRONTIER_READY.arrow:
        if field.name in given:
            arrays.append(given[field.name].cast(field.type))
        elif field.name in zero:
            arrays.append(pa.repeat(pa.scalar(0, field.type), count))
        else:
            arrays.append(pa.nulls(count, field.type))
    return pa.Table.from_arrays(arrays, schema=FRONTIER_READY.arrow)


def slice_by_key(rows: pa.Table, first: int, last: int) -> pa.Table:
    """Return the rows with first <= url_key <= last of a table sorted by url_key."""
    keys = rows["url_key"].to_numpy()
    start = int(np.searchsorted(keys, first, side="left"))
    return rows.slice(start, int(np.searchsorted(keys, last, side="right")) - start)


def working_rows(
    turn: Turn, lake: Lake, group: int, *, columns: Sequence[str] = STATE.names, later: pa.Table | None = None
) -> pa.Table:
    """Return the URLs of a bucket group that may be asked now: ready, due, admitted, or recalled by a seed.

    columns: of FRONTIER_READY, `url_key`, `due_at`, `source`, `depth` and `meta` among them; no others are read.
    later: what `due_later` gives, where it is at hand. Sorted by url_key.
    """
    names = list(columns)
    ready = lake.read("frontier_ready", columns=names, partitions={"bucket": turn.bucket_range(group)})
    if later is None:
        later = due_later(turn, lake, group, columns=names)
    later = later.filter(pc.less_equal(later["due_at"], pa.scalar(turn.opened_at, TIMESTAMP)))
    admitted, recalled, known = (
        staging.read_table(turn.staged("plan", f"{name}-{group:04d}.arrow"))
        for name in ("admitted", "recalled", "known")
    )
    rows = [ready, later, admitted, _fresh_start(turn, recalled)]
    return _with_seeds(pa.concat_tables([table.select(names) for table in rows]).sort_by("url_key"), known)


def _with_seeds(rows: pa.Table, known: pa.Table) -> pa.Table:
    """Return frontier rows (sorted by key), those that a seed names anew as seeds: source, depth and metadata."""
    if not known.num_rows or not rows.num_rows:
        return rows
    place = np.flatnonzero(runs.is_member(column(known, "url_key"), column(rows, "url_key")))
    if not len(place):
        return rows
    keys = column(rows, "url_key")
    brought = {row["url_key"]: row for row in known.select(["url_key", "source", "meta"]).to_pylist()}
    named = rows.take(pa.array(place)).to_pylist()
    for row in named:
        seed = brought[row["url_key"]]
        row |= {"source": seed["source"], "depth": 0, "meta": metadata.seeded(row["meta"], seed["meta"])}
    rest = np.ones(len(keys), dtype=np.bool_)
    rest[place] = False
    again = pa.Table.from_pylist(named, schema=rows.schema)
    return pa.concat_tables([rows.filter(pa.array(rest)), again]).sort_by("url_key")


def _fresh_start(turn: Turn, recalled: pa.Table) -> pa.Table:
    """Return recalled rows as they go to ready: what made them fail is forgotten, their history is not."""
    names = {"failures": 0, "due_at": None, "reason": None, "detail": None, "shelf_cycle": turn.cycle}
    rows = recalled.select(STATE.names)
    for name, value in names.items():
        at = rows.schema.get_field_index(name)
        kind = rows.schema.field(at)
        rows = rows.set_column(at, kind, pa.repeat(pa.scalar(value, kind.type), rows.num_rows))
    return rows


def days_come(turn: Turn, lake: Lake) -> list[int]:
    """Return the days of the later shelf that have come, since 1970, ascending; told from the log."""
    return [int(day) for day in lake.rows("frontier_later", "due_day") if int(day) <= turn.today]


def due_later(turn: Turn, lake: Lake, group: int, *, columns: Sequence[str] = STATE.names) -> pa.Table:
    """Return the rows of the later shelf whose due day has come; `columns` are of FRONTIER_READY."""
    come = days_come(turn, lake)
    if not come:
        return STATE.empty_table().select(list(columns))
    days = {"bucket": turn.bucket_range(group), "due_day": come}
    return lake.read("frontier_later", columns=list(columns), partitions=days)


def host_rows(turn: Turn, lake: Lake, group: int, names: list[str]) -> pa.Table:
    """Return the HOSTS rows of some hosts of a group, new ones made on the spot, sorted by host."""
    if not names:
        return HOSTS.arrow.empty_table()
    known = lake.read("hosts", partitions={"bucket": turn.bucket_range(group)}).select(HOSTS.arrow.names)
    known = known.filter(pc.is_in(known["host"], pa.array(names, pa.string())))
    missing = sorted(set(names) - set(known["host"].to_pylist()))
    return pa.concat_tables([known, fresh_hosts(turn, missing)]).sort_by("host")


def fresh_hosts(turn: Turn, names: list[str]) -> pa.Table:
    """Return HOSTS rows for hosts that the lake meets for the first time."""
    keys = np.array([urls.host_key(name) for name in names], dtype=np.int64)
    given = {
        "bucket": pa.array(urls.buckets_of(keys, turn.buckets), pa.int32()),
        "host": pa.array(names, pa.string()),
        "host_key": pa.array(keys, pa.int64()),
        "domain": pa.array([hosts.registrable_domain(name) for name in names], pa.string()),
        "score": pa.repeat(pa.scalar(1.0, pa.float32()), len(names)),
        "health": pa.repeat(pa.scalar("ok"), len(names)),
        "added_cycle": pa.repeat(pa.scalar(turn.cycle, pa.int32()), len(names)),
    }
    zero = {
        "backoff_ms", "month_requests", "requests", "pages", "body_bytes", "known_urls", "ready_urls",
        "backlog_urls", "failures",
    }  # fmt: skip
    arrays = [
        given[field.name].cast(field.type)
        if field.name in given
        else pa.repeat(pa.scalar(0, field.type), len(names))
        if field.name in zero
        else pa.nulls(len(names), field.type)
        for field in HOSTS.arrow
    ]
    return pa.Table.from_arrays(arrays, schema=HOSTS.arrow)


def rank_rows(
    turn: Turn, rows: pa.Table, *, host_score: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.float64], Ints]:
    """Return the score and the band of frontier rows at the cycle's clock."""
    visits = np.maximum(column(rows, "visits"), 1)
    since = np.maximum(column(rows, "due_at"), column(rows, "added_at"))
    source = rows["source"]
    listed = pc.fill_null(pc.equal(source, "sitemap"), False)
    weight, changed = hinted(rows)
    terms = priority.Terms(
        seed=is_seed(rows),
        sitemap=listed.to_numpy(zero_copy_only=False) * weight,
        depth=column(rows, "depth"),
        waited_days=np.maximum(turn.opened_ms - since, 0) / 86_400_000,
        change_share=np.maximum(column(rows, "changes") / visits, changed),
        host_score=host_score,
    )
    policy = policies.priority_policy(turn.settings)
    score = priority.scores(policy, terms)
    if turn.settings.plugins.enabled:
        score = sum(score_terms(turn, rows).values(), score)
    return score, priority.bands(policy, score)


def with_rank(rows: pa.Table, score: npt.NDArray[np.float64], band: Ints) -> pa.Table:
    """Return the rows with their columns `band` and `score` replaced."""
    for name, values in (("band", band), ("score", score)):
        place = rows.column_names.index(name)
        field = rows.schema.field(name)
        rows = rows.set_column(place, field, pa.array(values).cast(field.type, safe=False))
    return rows
