"""Where a URL goes after its visit: which shelf, until when, and why. Rows in, rows out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pipelines.rules import metadata
from pipelines.rules.outcome import ANSWERED, HOST_FAULTS, RETIRING, Outcome
from pipelines.rules.recrawl import (
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
"""The columns of a frontier row that `after_visit` may change."""
READ_BY_VISIT = ("host", "source", "depth", "meta")
"""What it reads beside them; `host` is read by its caller, for the price."""


@dataclass(frozen=True)
class Moved:
    """A URL's new state: the columns that change, and the shelf (ready, later, retired)."""

    shelf: str
    changes: dict[str, Any]


def after_visit(
    state: dict[str, Any],
    capture: dict[str, Any],
    *,
    recrawl: RecrawlPolicy,
    retry: RetryPolicy,
    price_seconds: float = 0.0,
) -> Moved:
    """Return what becomes of a URL after the capture that decides its fate in this cycle.

    state: its frontier row (CHANGED_BY_VISIT and READ_BY_VISIT of it). capture: `outcome`, `fetch_time`, `fetch_status`, `content_digest`, `etag`,
    `last_modified`, `error`, `fetch_redirect`. price_seconds: what a visit to its host must bring. A seed is never retired: it is tried again at the longest pause.
    """
    outcome, at = Outcome(capture["outcome"]), capture["fetch_time"]
    if outcome in ANSWERED:
        return _answered(state, capture, outcome, at, recrawl, price_seconds)
    if outcome is Outcome.REDIRECT:
        changes = {
            "failures": 0,
            "last_status": capture["fetch_status"],
            "detail": _cut(capture["fetch_redirect"]),
        }
        return _later(at + timedelta(seconds=recrawl.redirect_seconds), outcome, changes)
    if outcome in HOST_FAULTS:
        return Moved("ready", {"reason": outcome.value, "detail": _cut(capture["error"])})
    return _failed(state, capture, outcome, at, retry)


def _answered(
    state: dict[str, Any], capture: dict[str, Any], outcome: Outcome, at: datetime, recrawl: RecrawlPolicy,
    price_seconds: float,
) -> Moved:  # fmt: skip
    before, digest = state["last_digest"], capture["content_digest"]
    same = outcome is Outcome.NOT_MODIFIED or digest is None or digest == before
    changed = before is not None and not same
    visits = state["visits"] + 1
    changes = state["changes"] + changed
    gap = int((at - state["last_visit_at"]).total_seconds()) if state["last_visit_at"] else 0
    watched = state["visit_seconds"] + max(gap, 0)
    pause = next_visit_seconds(
        recrawl,
        visits=visits,
        changes=changes,
        watched_seconds=watched,
        price_seconds=price_seconds,
        importance=importance_of(seed=state["source"] in ("seed", "api"), depth=state["depth"]),
        hint_seconds=interval_seconds(SitemapPolicy(), changefreq=metadata.changefreq(state["meta"])),
    )
    kept = outcome is Outcome.NOT_MODIFIED
    return _later(
        at + timedelta(seconds=pause),
        outcome,
        {
            "visits": visits,
            "changes": changes,
            "failures": 0,
            "first_visit_at": state["first_visit_at"] or at,
            "last_visit_at": at,
            "last_change_at": at if changed else state["last_change_at"],
            "visit_seconds": watched,
            "last_status": capture["fetch_status"],
            "last_digest": before if kept or digest is None else digest,
            "etag": capture["etag"] or (state["etag"] if kept else None),
            "last_modified": capture["last_modified"] or (state["last_modified"] if kept else None),
            "detail": None,
        },
    )


def _failed(
    state: dict[str, Any], capture: dict[str, Any], outcome: Outcome, at: datetime, retry: RetryPolicy
) -> Moved:
    failures = min(state["failures"] + 1, 32_767)
    changes = {
        "failures": failures,
        "last_status": capture["fetch_status"],
        "detail": _cut(capture["error"]),
    }
    pause = None if outcome in RETIRING else retry_seconds(retry, failures=failures, outcome=outcome)
    if pause is None and state["source"] in ("seed", "api"):
        pause = retry.max_seconds
    if pause is None:
        return Moved("retired", {**changes, "reason": outcome.value, "due_at": None})
    return _later(at + timedelta(seconds=pause), outcome, changes)


def _later(due: datetime, outcome: Outcome, changes: dict[str, Any]) -> Moved:
    return Moved("later", {**changes, "due_at": due, "reason": outcome.value})


def _cut(text: str | None) -> str | None:
    return None if text is None else text[:DETAIL_CHARS]
