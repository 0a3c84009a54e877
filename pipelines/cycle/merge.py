"""Merge (URL seen?): what is new is admitted, what was fetched moves shelf, what was not goes back.

A task a bucket group. It reads its key range of every partition's sorted files and writes data files under
the cycle's names; nothing of it is visible before `commit`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lake import bloom, runs, staging
from lake.schema import TIMESTAMP
from lake.snapshot import Lake
from pipelines.cycle import parts
from pipelines.cycle.books import count_shelves, host_books
from pipelines.cycle.bucketfiles import BucketFiles
from pipelines.cycle.calling import call_forward
from pipelines.cycle.frontier import Ints, column, due_later, new_rows, slice_by_key, working_rows
from pipelines.cycle.harvest import reap, set_aside, visits_of, with_yields
from pipelines.cycle.hints import with_hints
from pipelines.cycle.noted import seeded_sitemaps
from pipelines.cycle.plugged import scoring
from pipelines.cycle.prices import reprice
from pipelines.cycle.shelving import shelve
from pipelines.cycle.sort import best_sightings
from pipelines.cycle.turn import Turn
from pipelines.rules import urls


def merge(turn: Turn, group: int, partitions: int) -> dict[str, Any]:
    """Write a bucket group's frontier, seen and host files; return them and the counts by bucket."""
    if found := turn.done("merge", group):
        return found
    with scoring() as faults:
        manifest = _merged(turn, group, partitions)
    return turn.finish("merge", group, {**manifest, **faults})


def _merged(turn: Turn, group: int, partitions: int) -> dict[str, Any]:
    lake = turn.lake()
    due = due_later(turn, lake, group)
    work = working_rows(turn, lake, group, later=due)
    captures = deciding_captures(read_range(turn, group, partitions, "captures"))
    candidates = read_range(turn, group, partitions, "candidates")
    fresh = admitted_urls(turn, lake, group, work, candidates)
    seeds = staging.read_table(turn.staged("plan", f"known-{group:04d}.arrow"))
    called = call_forward(turn, lake, group, candidates, known=column(work, "url_key"), seeds=seeds)
    work = with_hints(work, candidates)
    admitted = staging.read_table(turn.staged("plan", f"admitted-{group:04d}.arrow"))
    fresh_keys = np.sort(np.concatenate([column(fresh, "url_key"), column(admitted, "url_key")]))
    rows = pa.concat_tables([work, fresh]).sort_by("url_key").combine_chunks()
    noted = pa.concat_tables([seeded_sitemaps(turn, group), read_range(turn, group, partitions, "sitemaps")])
    books = host_books(turn, lake, group, partitions, rows, noted)
    shelved = shelve(turn, lake, group, rows, captures, books)
    visits = visits_of(turn, group, partitions)
    harvest = reap(turn, lake, group, visits=visits, rows=rows, fresh=fresh, books=books)
    books = with_yields(books, harvest)
    shelved = set_aside(turn, lake, shelved, books, harvest)
    books = reprice(turn, count_shelves(books, rows, shelved, fresh_keys), rows, shelved, called)
    recalled = staging.read_table(turn.staged("plan", f"recalled-{group:04d}.arrow"))
    touched = touched_buckets(turn, group, partitions, (captures, fresh, admitted, due, recalled))
    hosts_of_noted = urls.buckets_of(column(noted, "url_key"), turn.buckets)
    touched |= harvest.touched | set(hosts_of_noted.tolist()) | set(called.buckets)
    writer = BucketFiles(turn, touched)
    undue = due.filter(pc.greater(due["due_at"], pa.scalar(turn.opened_at, TIMESTAMP)))
    writer.frontier(shelved, pa.concat_tables([undue, called.moved, called.others]), books)
    writer.seen(fresh_keys)
    writer.hosts(books)
    return {**writer.manifest(), "new_urls": len(fresh_keys), "called": called.manifest()}


def read_range(turn: Turn, group: int, partitions: int, kind: str) -> pa.Table:
    """Return a group's key range of a kind of sorted rows, all partitions together."""
    first, last = turn.key_range(group)
    tables = [
        slice_by_key(staging.read_table(turn.staged("sort", f"p{number:04d}-{kind}.arrow")), first, last)
        for number in range(partitions)
    ]
    return pa.concat_tables(tables).combine_chunks() if tables else parts.KINDS[kind].empty_table()


def deciding_captures(rows: pa.Table) -> pa.Table:
    """Return, of pages only, the last capture of each URL key: it decides where the URL goes. Sorted by key."""
    rows = rows.filter(pc.equal(rows["kind"], "page")).combine_chunks()
    key = column(rows, "url_key")
    order = np.lexsort((column(rows, "request_ms"), column(rows, "hop"), key))
    ordered = key[order]
    last = np.concatenate([ordered[1:] != ordered[:-1], [True]]) if len(ordered) else np.zeros(0, bool)
    return rows.take(pa.array(order[last])).combine_chunks()


def admitted_urls(turn: Turn, lake: Lake, group: int, work: pa.Table, candidates: pa.Table) -> pa.Table:
    """Return frontier rows for the candidates that nobody has seen: the bloom filter first, then the exact set."""
    found = best_sightings(candidates)
    keys = column(found, "url_key")
    new = ~runs.is_member(column(work, "url_key"), keys)
    new[new] &= ~seen_before(turn, lake, group, keys[new])
    fresh = found.filter(pa.array(new)).combine_chunks()
    columns = {
        name: fresh[name].combine_chunks() for name in ("url", "host", "via", "depth", "source", "meta")
    }
    return new_rows(turn, keys=keys[new], columns=columns)


def seen_before(turn: Turn, lake: Lake, group: int, keys: Ints) -> npt.NDArray[np.bool_]:
    """Return which of the sorted keys the lake has seen. Exact: only what may be seen is looked up."""
    seen = np.zeros(len(keys), dtype=np.bool_)
    if not len(keys):
        return seen
    for bucket in turn.bucket_range(group):
        low, high = urls.bucket_range(bucket, turn.buckets)
        start, stop = np.searchsorted(keys, low, side="left"), np.searchsorted(keys, high, side="right")
        files = lake.files("seen", partitions={"bucket": [bucket]}) if stop > start else []
        if not files:
            continue
        maybe = start + np.flatnonzero(bloom.ensure(lake, "seen", bucket).maybe(keys[start:stop]))
        seen[maybe] = runs.known(files, keys[maybe])
    return seen


def touched_buckets(turn: Turn, group: int, partitions: int, tables: tuple[pa.Table, ...]) -> set[int]:
    """Return the buckets in which anything can have changed: the others' files stay as they are."""
    mine = set(turn.bucket_range(group))
    asked = [
        staging.read_table(turn.staged("sort", f"p{number:04d}-hosts.arrow"), columns=["bucket"])
        for number in range(partitions)
    ]
    return mine & {bucket for table in (*tables, *asked) for bucket in table["bucket"].unique().to_pylist()}
