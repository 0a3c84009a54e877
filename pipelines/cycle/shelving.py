"""Every row of a bucket group finds its shelf: by its visit, or by the room that its host has left."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lake import runs
from lake.schema import FRONTIER_READY
from lake.snapshot import Lake
from pipelines.cycle import policies
from pipelines.cycle.frontier import Ints, column, rank_rows, with_rank
from pipelines.cycle.intake import recalled_keys
from pipelines.cycle.shelves import after_visit
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
    thinned: set[int] = field(default_factory=set)  # buckets whose retired shelf is written anew


def shelve(
    turn: Turn, lake: Lake, group: int, rows: pa.Table, captures: pa.Table, books: pa.Table
) -> Shelved:
    """Put every row on a shelf: the fetched ones by their outcome, the rest on ready or, past a host's room, backlog."""
    keys = column(rows, "url_key")
    visited = runs.is_member(column(captures, "url_key"), keys)
    asked = rows.filter(pa.array(visited)).combine_chunks()
    mine = captures.filter(pa.array(runs.is_member(keys, column(captures, "url_key"))))
    moved, shelf = _moved(turn, asked, mine, books)
    waiting = _put_on(
        turn, rows.filter(pa.array(~visited)).combine_chunks(), moved.filter(pa.array(shelf == "ready"))
    )
    ready, more = _room(turn, waiting, books)
    shelved = Shelved(
        ready, moved.filter(pa.array(shelf == "later")), moved.filter(pa.array(shelf == "retired")), more, set(),
        FRONTIER_READY.arrow.empty_table(),
    )  # fmt: skip
    return _thin_out(turn, lake, group, _refill(turn, lake, group, shelved, books))


def _thin_out(turn: Turn, lake: Lake, group: int, shelved: Shelved) -> Shelved:
    """Take from the retired shelf what seeds have called back."""
    gone = recalled_keys(turn, group, "retired")
    if not len(gone):
        return shelved
    buckets = sorted(set(urls.buckets_of(gone, turn.buckets).tolist()))
    old = lake.read("frontier_retired", partitions={"bucket": buckets}).select(STATE_COLUMNS)
    kept = old.filter(pa.array(~runs.is_member(gone, column(old, "url_key"))))
    shelved.retired = pa.concat_tables([shelved.retired, kept]).sort_by("url_key").combine_chunks()
    shelved.thinned = set(buckets)
    return shelved


def _put_on(turn: Turn, waiting: pa.Table, back: pa.Table) -> pa.Table:
    return pa.concat_tables([waiting, back]).sort_by("url_key").combine_chunks()


def _moved(
    turn: Turn, asked: pa.Table, captures: pa.Table, books: pa.Table
) -> tuple[pa.Table, npt.NDArray[np.str_]]:
    """Return the visited rows in their new state, and the shelf of each. Both tables are sorted by url_key."""
    prices = dict(
        zip(books["host"].to_pylist(), pc.fill_null(books["revisit_price"], 0.0).to_pylist(), strict=True)
    )
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
        price = prices[state["host"]]
        moved = after_visit(state, capture, recrawl=recrawl, retry=retry, price_seconds=price)
        state |= {**moved.changes, "shelf_cycle": turn.cycle}
        shelf.append(moved.shelf)
    return pa.Table.from_pylist(states, schema=FRONTIER_READY.arrow), np.array(shelf, dtype=np.str_)


def ready_room(turn: Turn, books: pa.Table) -> Ints:
    """Return how many URLs each host may keep on the ready shelf: a few windows' worth.

    A window is worth what the host's clock allows, and no more than its share where the cycle could not take all:
    the ready shelf is read and written in every cycle, so it must follow what a cycle fetches.
    """
    settings = turn.settings
    delays = np.maximum(column(books, "delay_ms"), settings.delay.floor_ms)
    window = np.maximum(settings.window.seconds * 1_000 // delays, 1)
    level = (turn.done("allot") or {}).get("level")
    if level is not None:
        share = np.ceil(level * books["score"].to_numpy().astype(np.float64)).astype(np.int64)
        window = np.minimum(window, np.maximum(share, 1))
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
    gone = recalled_keys(turn, group, "backlog")
    called = urls.buckets_of(gone, turn.buckets).tolist()
    buckets = sorted({*column(books, "bucket")[short].tolist(), *called})
    if not buckets:
        return shelved
    old = lake.read("frontier_backlog", partitions={"bucket": buckets}).select(STATE_COLUMNS)
    old = old.filter(pa.array(~runs.is_member(gone, column(old, "url_key"))))
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
