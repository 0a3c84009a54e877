"""Merge (URL seen?): what is new is admitted, what was fetched moves shelf, what was not goes back.

A task a bucket group. It reads its key range of every partition's sorted files and writes data files under
the cycle's names; nothing of it is visible before `commit`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lake import bloom, runs, staging
from lake.files import Add, write_data
from lake.layout import Layout
from lake.schema import BY_NAME, CONTENTS, FRONTIER_READY, HOSTS, SHELVES, TIMESTAMP
from lake.snapshot import Lake
from pipelines.cycle import parts, policies
from pipelines.cycle.frontier import (
    Ints,
    column,
    due_later,
    fresh_hosts,
    new_rows,
    rank_rows,
    slice_by_key,
    with_rank,
    working_rows,
)  # fmt: skip
from pipelines.cycle.shelves import after_visit
from pipelines.cycle.sort import best_sightings
from pipelines.cycle.turn import Turn
from pipelines.rules import priority, urls

STATE_COLUMNS = [field.name for field in FRONTIER_READY.arrow]


@dataclass
class Shelved:
    """A group's rows by shelf. `backlog` None = its files stay as they are and `more` is appended."""

    ready: pa.Table
    later: pa.Table
    retired: pa.Table
    more: pa.Table
    refilled: set[int]  # buckets whose backlog is written anew
    backlog: pa.Table


def merge(turn: Turn, group: int, partitions: int) -> dict[str, Any]:
    """Write a bucket group's frontier, seen and host files; return them and the counts by bucket."""
    if found := turn.done("merge", group):
        return found
    lake = turn.lake()
    work = working_rows(turn, lake, group)
    captures = deciding_captures(read_range(turn, group, partitions, "captures"))
    fresh = admitted_urls(turn, lake, group, work, read_range(turn, group, partitions, "candidates"))
    admitted = staging.read_table(turn.staged("plan", f"admitted-{group:04d}.arrow"))
    fresh_keys = np.sort(np.concatenate([column(fresh, "url_key"), column(admitted, "url_key")]))
    rows = pa.concat_tables([work, fresh]).sort_by("url_key").combine_chunks()
    books = host_books(turn, lake, group, partitions, rows)
    shelved = shelve(turn, lake, group, rows, captures, books)
    books = count_shelves(books, rows, shelved, fresh_keys)
    undue = due_later(turn, lake, group)
    writer = _Writer(
        turn, group, touched_buckets(turn, group, partitions, (captures, fresh, admitted, undue))
    )
    writer.frontier(shelved, undue.filter(pc.greater(undue["due_at"], pa.scalar(turn.opened_at, TIMESTAMP))))
    writer.seen(fresh_keys)
    writer.hosts(books)
    return turn.finish("merge", group, {**writer.manifest(), "new_urls": len(fresh_keys)})


# --- reading --------------------------------------------------------------------------------------------


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


# --- hosts ----------------------------------------------------------------------------------------------


def host_books(turn: Turn, lake: Lake, group: int, partitions: int, rows: pa.Table) -> pa.Table:
    """Return the group's host rows as they stand after the fetch, hosts of new URLs added; sorted by key."""
    buckets = pa.array(turn.bucket_range(group), pa.int32())
    before = lake.read("hosts", partitions={"bucket": turn.bucket_range(group)}).select(HOSTS.arrow.names)
    fetched = [
        staging.read_table(turn.staged("sort", f"p{number:04d}-hosts.arrow")).select(HOSTS.arrow.names)
        for number in range(partitions)
    ]
    after = pa.concat_tables(
        [table.filter(pc.is_in(table["bucket"], buckets)) for table in fetched] or [before[:0]]
    )
    kept = before.filter(pc.invert(pc.is_in(before["host"], after["host"])))
    told = pa.concat_tables([kept, after])
    names = rows["host"].combine_chunks().unique()
    missing = sorted(names.filter(pc.invert(pc.is_in(names, told["host"]))).to_pylist())
    return pa.concat_tables([told, fresh_hosts(turn, missing)]).sort_by(
        [("host_key", "ascending"), ("host", "ascending")]
    )


def count_shelves(books: pa.Table, rows: pa.Table, shelved: Shelved, fresh_keys: Ints) -> pa.Table:
    """Return the host rows with `known_urls`, `ready_urls` and `backlog_urls` as they are after the merge."""
    names = books["host"].combine_chunks()

    def by_host(table: pa.Table) -> Ints:
        place = pc.index_in(table["host"].combine_chunks(), names).to_numpy().astype(np.int64)
        return np.bincount(place, minlength=len(names)).astype(np.int64)

    new = rows.filter(pa.array(runs.is_member(fresh_keys, column(rows, "url_key"))))
    backlog = column(books, "backlog_urls") + by_host(shelved.more)
    if shelved.refilled:
        redone = np.isin(column(books, "bucket"), sorted(shelved.refilled))
        backlog = np.where(redone, by_host(shelved.backlog), backlog)
    counted = {
        "known_urls": column(books, "known_urls") + by_host(new),
        "ready_urls": by_host(shelved.ready),
        "backlog_urls": backlog,
    }
    for name, values in counted.items():
        books = books.set_column(
            books.schema.get_field_index(name), books.schema.field(name), pa.array(values)
        )
    return books


# --- shelves --------------------------------------------------------------------------------------------


def shelve(
    turn: Turn, lake: Lake, group: int, rows: pa.Table, captures: pa.Table, books: pa.Table
) -> Shelved:
    """Put every row on a shelf: the fetched ones by their outcome, the rest on ready or, past a host's room, backlog."""
    keys = column(rows, "url_key")
    visited = runs.is_member(column(captures, "url_key"), keys)
    asked = rows.filter(pa.array(visited)).combine_chunks()
    mine = captures.filter(pa.array(runs.is_member(keys, column(captures, "url_key"))))
    moved, shelf = _moved(turn, asked, mine)
    waiting = _put_on(
        turn, rows.filter(pa.array(~visited)).combine_chunks(), moved.filter(pa.array(shelf == "ready"))
    )
    ready, more = _room(turn, waiting, books)
    shelved = Shelved(
        ready, moved.filter(pa.array(shelf == "later")), moved.filter(pa.array(shelf == "retired")), more, set(),
        FRONTIER_READY.arrow.empty_table(),
    )  # fmt: skip
    return _refill(turn, lake, group, shelved, books)


def _put_on(turn: Turn, waiting: pa.Table, back: pa.Table) -> pa.Table:
    return pa.concat_tables([waiting, back]).sort_by("url_key").combine_chunks()


def _moved(turn: Turn, asked: pa.Table, captures: pa.Table) -> tuple[pa.Table, npt.NDArray[np.str_]]:
    """Return the visited rows in their new state, and the shelf of each. Both tables are sorted by url_key."""
    recrawl, retry = policies.recrawl_policy(turn.settings), policies.retry_policy(turn.settings)
    needed = [
        "outcome",
        "fetch_time",
        "fetch_status",
        "content_digest",
        "etag",
        "last_modified",
        "error",
        "fetch_redirect",
    ]
    states = asked.to_pylist()
    shelf = []
    for state, capture in zip(states, captures.select(needed).to_pylist(), strict=True):
        moved = after_visit(state, capture, recrawl=recrawl, retry=retry)
        state |= {**moved.changes, "shelf_cycle": turn.cycle}
        shelf.append(moved.shelf)
    return pa.Table.from_pylist(states, schema=FRONTIER_READY.arrow), np.array(shelf, dtype=np.str_)


def ready_room(turn: Turn, books: pa.Table) -> Ints:
    """Return how many URLs each host may keep on the ready shelf: a few windows' worth at its pace."""
    settings = turn.settings
    delays = np.maximum(column(books, "delay_ms"), settings.delay.floor_ms)
    window = np.maximum(settings.window.seconds * 1_000 // delays, 1)
    room: Ints = settings.plan.ready_windows * window
    return room


def _room(turn: Turn, waiting: pa.Table, books: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Split rows into those that find room on their host's ready shelf, and the rest."""
    room = ready_room(turn, books)
    place, score, band, order = _ranked(turn, waiting, books)
    best = priority.best_per_host(place, order, most=room)
    fits = np.zeros(waiting.num_rows, dtype=np.bool_)
    fits[best] = True
    stays = column(waiting, "shelf_cycle") < turn.cycle
    fits |= stays  # what is on the shelf stays on it: only new URLs can be one too many
    ranked = with_rank(waiting, score, band)
    return ranked.filter(pa.array(fits)).combine_chunks(), ranked.filter(pa.array(~fits)).combine_chunks()


def _ranked(
    turn: Turn, rows: pa.Table, books: pa.Table
) -> tuple[Ints, npt.NDArray[np.float64], Ints, npt.NDArray[np.float64]]:
    """Return each row's place in the host table, its score and band, and a sort key: best band first."""
    place = (
        pc.index_in(rows["host"].combine_chunks(), books["host"].combine_chunks()).to_numpy().astype(np.int64)
    )
    weight = books["score"].to_numpy().astype(np.float64)[place]
    score, band = rank_rows(turn, rows, host_score=weight)
    order = band + priority.uniform(column(rows, "url_key"), salt=turn.seed) / 2
    return place, score, band, order


def _refill(turn: Turn, lake: Lake, group: int, shelved: Shelved, books: pa.Table) -> Shelved:
    """Where a host with a backlog runs short of ready URLs, read its bucket's backlog and take the best of it."""
    room = ready_room(turn, books)
    names = books["host"].combine_chunks()
    place = pc.index_in(shelved.ready["host"].combine_chunks(), names).to_numpy().astype(np.int64)
    have = np.bincount(place, minlength=len(names))
    low = room // max(turn.settings.plan.ready_windows, 1)
    short = (have < low) & (column(books, "backlog_urls") > 0)
    buckets = sorted(set(column(books, "bucket")[short].tolist()))
    if not buckets:
        return shelved
    old = lake.read("frontier_backlog", partitions={"bucket": buckets}).select(STATE_COLUMNS)
    mine = np.isin(column(shelved.more, "bucket"), buckets)
    pool = pa.concat_tables([old, shelved.more.filter(pa.array(mine))]).combine_chunks()
    at, _, _, order = _ranked(turn, pool, books)
    chosen = priority.best_per_host(at, order, most=np.where(short, np.maximum(room - have, 0), 0))
    taken = np.zeros(pool.num_rows, dtype=np.bool_)
    taken[chosen] = True
    risen = _set_cycle(pool.filter(pa.array(taken)), turn.cycle)
    shelved.ready = pa.concat_tables([shelved.ready, risen]).sort_by("url_key").combine_chunks()
    shelved.backlog = pool.filter(pa.array(~taken)).sort_by("url_key").combine_chunks()
    shelved.more = shelved.more.filter(pa.array(~mine)).combine_chunks()
    shelved.refilled = set(buckets)
    return shelved


def _set_cycle(rows: pa.Table, cycle: int) -> pa.Table:
    at = rows.schema.get_field_index("shelf_cycle")
    return rows.set_column(at, rows.schema.field(at), pa.repeat(pa.scalar(cycle, pa.int32()), rows.num_rows))


# --- writing --------------------------------------------------------------------------------------------


class _Writer:
    """Writes a group's data files, one a bucket, and remembers them."""

    def __init__(self, turn: Turn, group: int, touched: set[int]) -> None:
        self._turn, self._group, self._touched = turn, group, touched
        self._layout = Layout(Path(turn.root))
        self._adds: dict[str, list[Add]] = {}
        self._rows: dict[str, dict[str, int]] = {name: {} for name in (*SHELVES, "seen")}
        self._refilled: list[int] = []

    def frontier(self, shelved: Shelved, undue: pa.Table) -> None:
        self._touched |= shelved.refilled
        self._refilled = sorted(shelved.refilled)
        self._shelf("ready", shelved.ready)
        self._shelf("retired", shelved.retired)
        self._shelf("backlog", pa.concat_tables([shelved.backlog, shelved.more]).sort_by("url_key"))
        self._later(pa.concat_tables([shelved.later, undue]))

    def _shelf(self, shelf: str, rows: pa.Table) -> None:
        table = f"frontier_{shelf}"
        for bucket, mine in self._by_bucket(rows):
            self._write(table, mine, bucket)
            self._rows[shelf][str(bucket)] = mine.num_rows

    def _later(self, rows: pa.Table) -> None:
        days = column(rows, "due_at") // 86_400_000
        for day in sorted(set(days.tolist())):
            for bucket, mine in self._by_bucket(rows.filter(pa.array(days == day)).sort_by("url_key")):
                self._write("frontier_later", mine, bucket, due_day=int(day))
                before = self._rows["later"].get(str(bucket), 0)
                self._rows["later"][str(bucket)] = before + mine.num_rows

    def _write(self, table: str, rows: pa.Table, bucket: int, *, due_day: int | None = None) -> None:
        path = self._layout.data_path(table, self._turn.cycle, bucket, due_day=due_day)
        where: dict[str, int | str] = (
            {"bucket": bucket} if due_day is None else {"due_day": due_day, "bucket": bucket}
        )
        add = write_data(self._layout.table(table), path, rows, BY_NAME[table], where)
        self._adds.setdefault(table, []).append(add)

    def _by_bucket(self, rows: pa.Table) -> list[tuple[int, pa.Table]]:
        found = []
        for bucket in sorted(self._touched):
            mine = slice_by_key(rows.combine_chunks(), *urls.bucket_range(bucket, self._turn.buckets))
            if mine.num_rows:
                found.append((bucket, mine))
        return found

    def seen(self, keys: Ints) -> None:
        rows = pa.table({"url_key": keys})
        for bucket, mine in self._by_bucket(rows):
            add = runs.write_run(self._turn.root, "seen", cycle=self._turn.cycle, partition=bucket, rows=mine)
            self._adds.setdefault("seen", []).append(add)
            self._rows["seen"][str(bucket)] = mine.num_rows
            bloom.extend(self._turn.root, "seen", bucket, mine["url_key"].to_numpy(), cycle=self._turn.cycle)

    def hosts(self, books: pa.Table) -> None:
        for bucket in sorted(self._touched):
            mine = books.filter(pc.equal(books["bucket"], bucket))
            if mine.num_rows:
                self._write("hosts", mine, bucket)

    def manifest(self) -> dict[str, Any]:
        adds = {table: [asdict(add) for add in files] for table, files in self._adds.items()}
        return {
            "adds": adds,
            "rows": self._rows,
            "refilled": self._refilled,
            "touched": sorted(self._touched),
        }


# --- contents -------------------------------------------------------------------------------------------


def contents(turn: Turn, group: int, partitions: int) -> dict[str, Any]:
    """Write a group's runs of `contents`: the payloads stored in this cycle, with their final places."""
    if found := turn.done("contents", group):
        return found
    verdicts = staging.read_table(turn.staged("gate", f"g{group:04d}.arrow"))
    kept = verdicts.filter(pc.invert(verdicts["duplicate"])).combine_chunks()
    rows = _with_places(turn, kept, partitions).sort_by("digest_key").combine_chunks()
    shards = urls.buckets_of(column(rows, "digest_key"), turn.buckets)
    adds = []
    for shard in turn.bucket_range(group):
        mine = rows.filter(pa.array(shards == shard))
        if mine.num_rows:
            adds.append(runs.write_run(turn.root, "contents", cycle=turn.cycle, partition=shard, rows=mine))
            bloom.extend(turn.root, "contents", shard, column(mine, "digest_key"), cycle=turn.cycle)
    return turn.finish(
        "contents", group, {"adds": {"contents": [asdict(add) for add in adds]}, "rows": rows.num_rows}
    )


def _with_places(turn: Turn, kept: pa.Table, partitions: int) -> pa.Table:
    tables = []
    for partition in range(partitions):
        mine = kept.filter(pc.equal(kept["partition"], partition))
        places = staging.read_table(turn.staged("seal", f"p{partition:04d}.arrow")).take(mine["row"])
        for name in places.column_names:
            mine = mine.append_column(name, places[name])
        tables.append(mine)
    rows = pa.concat_tables(tables) if tables else kept
    rows = rows.append_column("cycle", pa.repeat(pa.scalar(turn.cycle, pa.int32()), rows.num_rows))
    return rows.select(CONTENTS.file_schema.names)
