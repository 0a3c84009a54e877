"""Where URLs go after their visit: which shelf, until when, and why. Tables in, a table out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lake.schema import TIMESTAMP
from pipelines.cycle.frontier import STATE, is_seed
from pipelines.rules import metadata, sources
from pipelines.rules.outcome import ANSWERED, HOST_FAULTS, RETIRING, SITE_FAULTS, Outcome
from pipelines.rules.recrawl import (
    Floats,
    RecrawlPolicy,
    RetryPolicy,
    importance_of,
    next_visit_seconds,
    retry_seconds,
)
from pipelines.rules.sitemaps import SitemapPolicy, interval_seconds

DETAIL_CHARS = 200
CHANGED_BY_VISIT = (
    "due_at", "reason", "detail", "visits", "changes", "failures", "first_visit_at", "last_visit_at", "last_change_at",
    "visit_seconds", "last_status", "last_digest", "etag", "last_modified",
)  # fmt: skip
"""The columns of a frontier row that a visit may change."""
READ_FROM_CAPTURE = (
    "outcome", "fetch_time", "fetch_status", "content_digest", "etag", "last_modified", "error", "fetch_redirect",
    "content_truncated",
)  # fmt: skip
"""The columns of a capture that say so."""

Bools = npt.NDArray[np.bool_]

_SECOND = 1_000_000
"""Microseconds, the unit of the lake's timestamps."""
_NEVER = -(2**62)


@dataclass(frozen=True)
class Moved:
    """A URL's new state: the columns that change, and the shelf (ready, later, retired)."""

    shelf: str
    changes: dict[str, Any]


def after_visits(
    states: pa.Table,
    captures: pa.Table,
    *,
    recrawl: RecrawlPolicy,
    retry: RetryPolicy,
    prices: Floats,
    well: Bools,
) -> tuple[pa.Table, npt.NDArray[np.str_]]:
    """Return URLs in their new state after the captures that decide their fate in this cycle, and the shelf of each.

    states: frontier rows, in any order. captures: the row of each, in the same order (READ_FROM_CAPTURE). prices: what a
    visit to the host of each must bring, seconds. well: whether the host of each is: what fails then is of the URL's
    own port or scheme, and counts. A seed is never retired: it is tried again at the longest pause.
    """
    answered = pc.is_in(captures["outcome"], pa.array([outcome.value for outcome in ANSWERED]))
    place = answered.to_numpy()
    shelf = np.full(states.num_rows, "later", dtype="<U7")
    good = _answered(states.filter(answered), captures.filter(answered), recrawl, prices[place])
    rest, shelf[~place] = _unanswered(
        states.filter(pc.invert(answered)),
        captures.filter(pc.invert(answered)),
        recrawl,
        retry,
        well[~place],
    )
    order = np.argsort(np.concatenate([np.flatnonzero(place), np.flatnonzero(~place)]), kind="stable")
    return pa.concat_tables([good, rest]).take(pa.array(order)).combine_chunks(), shelf


def _answered(states: pa.Table, captures: pa.Table, recrawl: RecrawlPolicy, prices: Floats) -> pa.Table:
    """Return the state of URLs whose page came, or was told to be the same: they come again by their history."""
    at, last = _micros(captures["fetch_time"]), _micros(states["last_visit_at"])
    kept = pc.equal(captures["outcome"], Outcome.NOT_MODIFIED.value)
    before, digest = states["last_digest"], captures["content_digest"]
    unsaid = pc.or_(kept, pc.is_null(digest))
    changed = pc.fill_null(pc.and_(pc.invert(unsaid), pc.not_equal(before, digest)), False)
    visits = _whole(states["visits"]) + 1
    changes = _whole(states["changes"]) + changed.to_numpy()
    gap = np.where(last != _NEVER, (at - last) // _SECOND, 0)
    watched = _whole(states["visit_seconds"]) + np.maximum(gap, 0)
    pause = next_visit_seconds(
        recrawl,
        visits=visits,
        changes=changes,
        watched_seconds=watched,
        price_seconds=prices,
        importance=importance_of(seed=is_seed(states), depth=_whole(states["depth"])),
        hint_seconds=_hints(states["meta"]),
    )
    now = _time(at)
    return _with(
        states,
        {
            "due_at": _time(at + pause * _SECOND),
            "reason": captures["outcome"],
            "detail": pa.nulls(len(at), pa.string()),
            "visits": visits,
            "changes": changes,
            "failures": np.zeros(len(at), dtype=np.int16),
            "first_visit_at": pc.coalesce(states["first_visit_at"], now),
            "last_visit_at": now,
            "last_change_at": pc.if_else(changed, now, states["last_change_at"]),
            "visit_seconds": watched,
            "last_status": captures["fetch_status"],
            "last_digest": pc.if_else(unsaid, before, digest),
            "etag": _told_or_kept(captures, "etag", states["etag"], kept),
            "last_modified": _told_or_kept(captures, "last_modified", states["last_modified"], kept),
        },
    )


def _unanswered(
    states: pa.Table, captures: pa.Table, recrawl: RecrawlPolicy, retry: RetryPolicy, well: Bools
) -> tuple[pa.Table, list[str]]:
    """Return the state and the shelf of URLs whose page did not come: they are few, and each has its own reason."""
    names = [*CHANGED_BY_VISIT, "source"]
    rows, shelf = states.select(names).to_pylist(), []
    told = captures.select(READ_FROM_CAPTURE).to_pylist()
    for state, capture, host_is_well in zip(rows, told, well.tolist(), strict=True):
        moved = _without_page(state, capture, recrawl, retry, host_is_well)
        state |= moved.changes
        shelf.append(moved.shelf)
    schema = pa.schema([STATE.field(name) for name in names])
    changed = pa.Table.from_pylist(rows, schema=schema)
    return _with(states, {name: changed[name] for name in CHANGED_BY_VISIT}), shelf


def _without_page(
    state: dict[str, Any],
    capture: dict[str, Any],
    recrawl: RecrawlPolicy,
    retry: RetryPolicy,
    host_is_well: bool,
) -> Moved:
    outcome, at = Outcome(capture["outcome"]), capture["fetch_time"]
    if outcome is Outcome.REDIRECT:
        changes = {
            "failures": 0,
            "last_status": capture["fetch_status"],
            "detail": _cut(capture["fetch_redirect"]),
        }
        return _later(at + timedelta(seconds=recrawl.redirect_seconds), outcome, changes)
    if outcome in HOST_FAULTS and not (host_is_well and outcome in SITE_FAULTS):
        return Moved("ready", {"reason": outcome.value, "detail": _cut(capture["error"])})
    return _failed(state, capture, outcome, at, retry)


def _failed(
    state: dict[str, Any], capture: dict[str, Any], outcome: Outcome, at: datetime, retry: RetryPolicy
) -> Moved:
    denied = outcome is Outcome.ROBOTS_DENIED  # nobody was asked: it is no answer of the page's
    failures = state["failures"] if denied else min(state["failures"] + 1, 32_767)
    changes = {
        "failures": failures,
        "last_status": capture["fetch_status"],
        "detail": _cut(capture["error"]),
    }
    pause = (
        None
        if outcome in RETIRING
        else retry_seconds(retry, failures=failures, outcome=outcome, before=state["reason"])
    )
    if pause is None and state["source"] in sources.SEEDS:
        pause = retry.max_seconds
    if pause is None:
        return Moved("retired", {**changes, "reason": outcome.value, "due_at": None})
    return _later(at + timedelta(seconds=pause), outcome, changes)


def _later(due: datetime, outcome: Outcome, changes: dict[str, Any]) -> Moved:
    return Moved("later", {**changes, "due_at": due, "reason": outcome.value})


def _cut(text: str | None) -> str | None:
    return None if text is None else text[:DETAIL_CHARS]


def _with(states: pa.Table, changed: dict[str, Any]) -> pa.Table:
    """Return frontier rows with some columns exchanged."""
    columns = [_column(changed.get(field.name, states[field.name]), field.type) for field in STATE]
    return pa.Table.from_arrays(columns, schema=STATE)


def _column(values: Any, kind: pa.DataType) -> Any:
    return pa.array(values, kind) if isinstance(values, np.ndarray) else values.cast(kind)


_TORN = pa.array(["disconnect", "time"])
"""Marks of a body that was cut off on its way: asked by its validator, the server would confirm what never came."""


def _told_or_kept(
    captures: pa.Table, name: str, before: pa.ChunkedArray, kept: pa.ChunkedArray
) -> pa.ChunkedArray:
    """Return the validators that whole answers bring; a 304 without one leaves the page's as it was."""
    told = captures[name]
    whole = pc.invert(pc.fill_null(pc.is_in(captures["content_truncated"], _TORN), False))
    said = pc.and_(whole, pc.fill_null(pc.not_equal(told, ""), False))
    return pc.if_else(said, told, pc.if_else(kept, before, pa.scalar(None, told.type)))


def _hints(meta: pa.ChunkedArray) -> Floats:
    """Return how often a sitemap says that each URL changes, seconds; NaN = it does not say."""
    found = np.full(len(meta), np.nan)
    for at in np.flatnonzero(pc.fill_null(pc.match_substring(meta, '"changefreq"'), False).to_numpy()):
        hint = interval_seconds(SitemapPolicy(), changefreq=metadata.changefreq(meta[int(at)].as_py()))
        found[at] = np.nan if hint is None else hint
    return found


def _whole(values: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    found: npt.NDArray[np.int64] = values.to_numpy().astype(np.int64)
    return found


def _micros(times: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """Return timestamps as microseconds since 1970, _NEVER where there is none."""
    found: npt.NDArray[np.int64] = pc.fill_null(times.cast(TIMESTAMP).cast(pa.int64()), _NEVER).to_numpy()
    return found


def _time(micros: npt.NDArray[np.int64]) -> pa.Array:
    return pa.array(micros).cast(TIMESTAMP)
