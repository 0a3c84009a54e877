"""What is said in a cycle of URLs that wait on the later shelf: that they have changed, or that somebody seeds them.

A sitemap that tells of a change calls a URL forward; a seed is noted as one, and comes when it is due. The shelf's files
are by due day and bucket; those that hold such a URL are written anew, the rest is not touched. How many rows may be
written is bounded by what is said, so that work follows what is found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lake import runs
from lake.files import DataFile
from lake.snapshot import Lake
from pipelines.cycle import policies
from pipelines.cycle.frontier import STATE, Ints, column
from pipelines.cycle.hints import told_by_sitemaps
from pipelines.cycle.turn import Turn
from pipelines.rules import metadata, urls
from pipelines.rules.recrawl import called_seconds, lastmod_trust

ROWS_A_CANDIDATE = 10
"""Rows of the shelf that may be written anew for each URL that a sitemap lists with a date."""

SEED_ROWS = 1_000_000
"""Rows of the shelf that may be written anew in a group for the sake of seeds, beyond that."""

_LOOKED_AT = [
    "url_key", "host", "bucket", "due_day", "due_at", "failures", "first_visit_at", "last_visit_at", "last_change_at", "meta", "source",
]  # fmt: skip


@dataclass(frozen=True)
class Called:
    """What is written anew of the later shelf.

    moved, before: the rows that are called forward, as they are now and as they were. others: what else lies in the
    files that give way. days, buckets: whose files those are, each day with each bucket. gone: rows in them by bucket.
    All tables have the FRONTIER columns.
    """

    moved: pa.Table = field(default_factory=STATE.empty_table)
    before: pa.Table = field(default_factory=STATE.empty_table)
    others: pa.Table = field(default_factory=STATE.empty_table)
    days: tuple[int, ...] = ()
    buckets: tuple[int, ...] = ()
    gone: dict[str, int] = field(default_factory=dict)

    def manifest(self) -> dict[str, Any]:
        """Return what commit must know."""
        return {"days": list(self.days), "buckets": list(self.buckets), "gone": self.gone}


def call_forward(
    turn: Turn, lake: Lake, group: int, candidates: pa.Table, *, known: Ints, seeds: pa.Table
) -> Called:
    """Return a group's rows of the later shelf that sitemaps and seeds of this cycle speak of, and their files' others.

    candidates: those of the group. known: sorted keys that are dealt with otherwise. seeds: known URLs that are seeded
    anew. Only rows whose day is yet to come.
    """
    told = told_by_sitemaps(candidates)
    told = {key: words for key, words in told.items() if words.get("lastmod")}
    named = {row["url_key"]: row for row in seeds.select(["url_key", "source", "meta"]).to_pylist()}
    keys = np.array(sorted(told.keys() | named.keys()), dtype=np.int64)
    keys = keys[~runs.is_member(known, keys)]
    files = _files_with(turn, lake, group, keys)
    if not files:
        return Called()
    where = {name: sorted({int(file.partition[name]) for file in files}) for name in ("due_day", "bucket")}
    listed = pa.array(keys)
    rows = lake.read(
        "frontier_later", columns=_LOOKED_AT, partitions=where, filter=pc.field("url_key").isin(listed)
    ).to_pylist()
    due = _new_dues(turn, [row for row in rows if row["url_key"] in told], told)
    named = {row["url_key"]: named[row["url_key"]] for row in rows if _is_another(row, named)}
    spoken_of = [row for row in rows if row["url_key"] in due or row["url_key"] in named]
    most = ROWS_A_CANDIDATE * len(keys) + (SEED_ROWS if named else 0)
    days, buckets = _worth_writing(lake, spoken_of, most)
    return _written_anew(lake, days, buckets, {key: _said(key, due, told, named) for key in {*due, *named}})


def _is_another(row: dict[str, Any], named: dict[int, dict[str, Any]]) -> bool:
    """Whether a seed says of a row what it does not know yet."""
    seed = named.get(row["url_key"])
    return seed is not None and (
        row["source"] != seed["source"] or metadata.seeded(row["meta"], seed["meta"]) != row["meta"]
    )


Change = Callable[[dict[str, Any]], dict[str, Any]]
"""Returns the columns of a row that change."""


def _said(
    key: int, due: dict[int, Any], told: dict[int, dict[str, Any]], named: dict[int, dict[str, Any]]
) -> Change:
    def changes(row: dict[str, Any]) -> dict[str, Any]:
        seed = named.get(key)
        found = (
            {"source": seed["source"], "depth": 0, "meta": metadata.seeded(row["meta"], seed["meta"])}
            if seed
            else {}
        )
        if key in due:
            known = metadata.read(found.get("meta", row["meta"]))
            found |= {"due_at": due[key], "meta": metadata.written({**known, "sitemap": told[key]})}
        return found

    return changes


def _files_with(turn: Turn, lake: Lake, group: int, keys: Ints) -> list[DataFile]:
    """Return the files of days to come that hold one of the keys: of each, its key column is read where they may lie."""
    buckets = set(urls.buckets_of(keys, turn.buckets).tolist()) & set(turn.bucket_range(group))
    files = lake.files("frontier_later", partitions={"bucket": sorted(buckets)}) if buckets else []
    coming = [file for file in files if int(file.partition["due_day"]) > turn.today]
    return [file for file in coming if runs.known([file], keys).any()]


def _new_dues(turn: Turn, rows: list[dict[str, Any]], told: dict[int, dict[str, Any]]) -> dict[int, Any]:
    """Return, by key, the new time of the rows that are called forward: to an earlier day."""
    trust = trust_by_host(rows)
    policy = policies.recrawl_policy(turn.settings)
    found = {}
    for row in rows:
        lastmod = told[row["url_key"]]["lastmod"]
        if not _is_news(turn, row, lastmod):
            continue
        pause = called_seconds(
            policy,
            due_seconds=(row["due_at"] - turn.opened_at).total_seconds(),
            visited_seconds=(turn.opened_at - row["last_visit_at"]).total_seconds(),
            trust=trust[row["host"]],
        )
        due = turn.opened_at + timedelta(seconds=pause)
        if due.date() < row["due_at"].date():
            found[row["url_key"]] = due
    return found


def _is_news(turn: Turn, row: dict[str, Any], lastmod: int) -> bool:
    """Whether a sitemap tells, for the first time, of a change since the last visit, at a time that has come."""
    if row["last_visit_at"] is None or row["failures"]:
        return False
    visited: float = row["last_visit_at"].timestamp()
    return max(_heard(row), visited) < lastmod <= turn.opened_at.timestamp()


def _heard(row: dict[str, Any]) -> float:
    return float(metadata.hints(row["meta"]).get("lastmod") or 0)


def trust_by_host(rows: Iterable[dict[str, Any]]) -> dict[str, float]:
    """Return how far a host's sitemaps may be believed: the share of changes told of that a later visit found."""
    told, true = Counter[str](), Counter[str]()
    for row in rows:
        heard = _heard(row)
        told[row["host"]] += 0
        if (
            row["last_visit_at"]
            and row["first_visit_at"].timestamp() < heard < row["last_visit_at"].timestamp()
        ):
            told[row["host"]] += 1
            true[row["host"]] += bool(row["last_change_at"] and row["last_change_at"].timestamp() >= heard)
    return {host: lastmod_trust(told=told[host], true=true[host]) for host in told}


def _worth_writing(
    lake: Lake, called: list[dict[str, Any]], most: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the days and buckets whose files are written anew: the days with most called rows for the rows written.

    most: rows that may be written.
    """
    buckets = tuple(sorted({row["bucket"] for row in called}))
    wanted = Counter(row["due_day"] for row in called)
    where = {"due_day": sorted(wanted), "bucket": buckets}
    cost: Counter[int] = Counter()
    for file in lake.files("frontier_later", partitions=where) if called else []:
        cost[int(file.partition["due_day"])] += file.rows
    days, left = [], most
    for day in sorted(wanted, key=lambda day: (cost[day] / wanted[day], day)):
        if cost[day] <= left:
            days.append(day)
            left -= cost[day]
    return tuple(sorted(days)), buckets if days else ()


def _written_anew(
    lake: Lake, days: tuple[int, ...], buckets: tuple[int, ...], said: dict[int, Change]
) -> Called:
    if not days:
        return Called()
    rows = lake.read("frontier_later", partitions={"due_day": days, "bucket": buckets}).select(STATE.names)
    mine = np.isin(column(rows, "url_key"), np.array(sorted(said), dtype=np.int64))
    before = rows.filter(pa.array(mine))
    states = before.to_pylist()
    for state in states:
        state |= said[state["url_key"]](state)
    gone = Counter(rows["bucket"].to_pylist())
    return Called(
        moved=pa.Table.from_pylist(states, schema=STATE),
        before=before,
        others=rows.filter(pa.array(~mine)),
        days=days,
        buckets=buckets,
        gone={str(bucket): count for bucket, count in sorted(gone.items())},
    )
