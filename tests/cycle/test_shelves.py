"""What becomes of URLs after a visit: every kind of answer in one table, each row as if it were alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lake.schema import CAPTURES
from pipelines.cycle.frontier import STATE
from pipelines.cycle.shelves import after_visits
from pipelines.rules.outcome import Outcome
from pipelines.rules.recrawl import RecrawlPolicy, RetryPolicy

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
BEFORE = NOW - timedelta(days=10)
RECRAWL, RETRY = RecrawlPolicy(), RetryPolicy()

NEW: dict[str, Any] = {
    "url": "http://a.test/", "host": "a.test", "source": "link", "depth": 1, "visits": 0, "changes": 0, "failures": 0,
    "visit_seconds": 0,
}  # fmt: skip
KNOWN = NEW | {
    "visits": 1, "failures": 3, "first_visit_at": BEFORE, "last_visit_at": BEFORE, "last_digest": "sha1:A",
    "etag": '"1"', "last_modified": "Mon", "detail": "was slow",
}  # fmt: skip
PAGE = {"outcome": "ok", "fetch_time": NOW, "fetch_status": 200, "content_digest": "sha1:A"}
SAME = {"outcome": "not_modified", "fetch_time": NOW, "fetch_status": 304}
REFUSED = {"outcome": "connect_refused", "fetch_time": NOW, "error": "nobody listens"}
BROKEN = {"outcome": "http_5xx", "fetch_time": NOW, "fetch_status": 503, "error": "503"}
MOVED = {"outcome": "redirect", "fetch_time": NOW, "fetch_status": 301, "fetch_redirect": "http://b.test/"}
GONE = {"outcome": "http_404", "fetch_time": NOW, "fetch_status": 404}
ONCE_GONE = {"reason": "http_404"}
DENIED = {"outcome": "robots_denied", "fetch_time": NOW, "error": "line 2: Disallow: /"}

CASES: dict[str, tuple[dict[str, Any], dict[str, Any], str, dict[str, Any]]] = {
    "first": (NEW, PAGE, "later", {
        "visits": 1, "changes": 0, "first_visit_at": NOW, "last_visit_at": NOW, "last_change_at": None,
        "last_digest": "sha1:A", "due_at": NOW + timedelta(days=7), "reason": "ok", "visit_seconds": 0}),
    "unchanged": (KNOWN, PAGE | {"etag": '"2"'}, "later", {
        "visits": 2, "changes": 0, "failures": 0, "first_visit_at": BEFORE, "last_visit_at": NOW, "detail": None,
        "last_change_at": None, "visit_seconds": 864_000, "etag": '"2"', "last_modified": None}),
    "changed": (KNOWN, PAGE | {"content_digest": "sha1:B", "etag": ""}, "later", {
        "visits": 2, "changes": 1, "last_change_at": NOW, "last_digest": "sha1:B", "etag": None}),
    "cut off on its way": (KNOWN, PAGE | {"etag": '"9"', "content_truncated": "disconnect"}, "later", {
        "visits": 2, "etag": None, "last_modified": None}),
    "cut off by us": (KNOWN, PAGE | {"etag": '"9"', "content_truncated": "length"}, "later", {"etag": '"9"'}),
    "not stored": (KNOWN, PAGE | {"content_digest": None}, "later", {"changes": 0, "last_digest": "sha1:A"}),
    "304": (KNOWN, SAME, "later", {
        "visits": 2, "changes": 0, "last_digest": "sha1:A", "etag": '"1"', "last_modified": "Mon",
        "last_status": 304, "reason": "not_modified"}),
    "304 with a new validator": (KNOWN, SAME | {"etag": '"3"'}, "later", {"etag": '"3"', "last_modified": "Mon"}),
    "a clock that jumped back": (KNOWN, PAGE | {"fetch_time": BEFORE - timedelta(hours=1)}, "later", {
        "visits": 2, "visit_seconds": 0, "last_visit_at": BEFORE - timedelta(hours=1)}),
    "said to change daily": (NEW | {"meta": '{"sitemap":{"changefreq":"daily"}}'}, PAGE, "later", {
        "due_at": NOW + timedelta(seconds=round((7 * 86_400 * 86_400) ** 0.5))}),
    "host down": (KNOWN, REFUSED, "ready", {
        "reason": "connect_refused", "detail": "nobody listens", "failures": 3, "visits": 1}),
    "failed": (KNOWN, BROKEN, "later", {
        "failures": 4, "last_status": 503, "detail": "503", "due_at": NOW + timedelta(seconds=3_600 * 64), "visits": 1}),
    "moved": (KNOWN, MOVED, "later", {
        "failures": 0, "detail": "http://b.test/", "due_at": NOW + timedelta(days=30), "etag": '"1"'}),
    "gone": (KNOWN | ONCE_GONE, GONE, "retired", {"failures": 4, "due_at": None, "reason": "http_404"}),
    "gone, a seed": (KNOWN | ONCE_GONE | {"source": "seed"}, GONE, "later", {"due_at": NOW + timedelta(days=14)}),
    "gone for the first time, behind other failures": (KNOWN | {"reason": "http_5xx"}, GONE, "later", {"failures": 4}),
    "forbidden, which is no answer": (KNOWN, DENIED, "later", {"failures": 3, "reason": "robots_denied"}),
}  # fmt: skip


@pytest.fixture(scope="module")
def all_at_once() -> dict[str, tuple[str, dict[str, Any]]]:
    states = pa.Table.from_pylist([case[0] for case in CASES.values()], schema=STATE)
    captures = pa.Table.from_pylist([case[1] for case in CASES.values()], schema=CAPTURES.arrow)
    rows, shelf = after_visits(
        states,
        captures,
        recrawl=RECRAWL,
        retry=RETRY,
        prices=np.zeros(len(CASES)),
        well=np.zeros(len(CASES), bool),
    )
    return dict(zip(CASES, zip(shelf.tolist(), rows.to_pylist(), strict=True), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_a_url_goes_where_its_answer_sends_it(
    name: str, all_at_once: dict[str, tuple[str, dict[str, Any]]]
) -> None:
    before, _, wanted, changes = CASES[name]
    shelf, after = all_at_once[name]
    assert shelf == wanted
    assert {column: after[column] for column in changes} == changes
    kept = ("url", "host", "source", "depth", "meta")
    assert {column: after[column] for column in kept} == {column: before.get(column) for column in kept}


@pytest.mark.parametrize("well", [False, True])
@pytest.mark.parametrize("outcome", list(Outcome))
def test_every_outcome_finds_a_shelf_and_says_itself_as_the_reason(outcome: Outcome, well: bool) -> None:
    states = pa.Table.from_pylist([KNOWN], schema=STATE)
    captures = pa.Table.from_pylist(
        [{"outcome": outcome.value, "fetch_time": NOW, "error": "e" * 500}], schema=CAPTURES.arrow
    )
    rows, shelf = after_visits(
        states, captures, recrawl=RECRAWL, retry=RETRY, prices=np.zeros(1), well=np.array([well])
    )
    [row] = rows.to_pylist()
    assert shelf[0] in ("ready", "later", "retired") and row["reason"] == outcome.value
    assert (row["due_at"] is None) == (shelf[0] != "later")
    assert len(row["detail"] or "") <= 200


def test_a_dead_port_of_a_host_that_is_well_counts_as_the_urls_own_failure() -> None:
    states = pa.Table.from_pylist([KNOWN, KNOWN], schema=STATE)
    captures = pa.Table.from_pylist([REFUSED, REFUSED], schema=CAPTURES.arrow)
    rows, shelf = after_visits(
        states, captures, recrawl=RECRAWL, retry=RETRY, prices=np.zeros(2), well=np.array([True, False])
    )
    own, the_hosts = rows.to_pylist()
    assert (shelf[0], own["failures"], shelf[1], the_hosts["failures"]) == ("later", 4, "ready", 3)


def test_a_dear_host_is_visited_later() -> None:
    history = KNOWN | {"visits": 9, "changes": 3, "visit_seconds": 40 * 86_400}
    states = pa.Table.from_pylist([history, history], schema=STATE)
    captures = pa.Table.from_pylist([PAGE, PAGE], schema=CAPTURES.arrow)
    rows, _ = after_visits(
        states, captures, recrawl=RECRAWL, retry=RETRY, prices=np.array([0.0, 9e5]), well=np.ones(2, bool)
    )
    cheap, dear = rows["due_at"].to_pylist()
    assert cheap < dear
