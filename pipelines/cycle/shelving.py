"""Every row of a bucket group finds its shelf: by its visit, or by the room that its host has left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lake import runs
from lake.files import DataFile
from lake.snapshot import Lake
from pipelines.cycle import policies
from pipelines.cycle.backlog import files_to_open, ranked, ready_room, running_short
from pipelines.cycle.frontier import STATE, column, with_rank
from pipelines.cycle.intake import recalled_keys
from pipelines.cycle.shelves import after_visits
from pipelines.cycle.turn import Turn
from pipelines.rules import priority, urls

STATE_COLUMNS = STATE.names


@dataclass
class Shelved:
    """A group's rows by shelf.

    All sorted by url_key. more: new rows of the backlog, appended. backlog: what is written anew of it, in `refilled` buckets. opened: what was
    read of it, as it was; stays: its files in those buckets that were not read. thinned: buckets whose retired shelf is
    written anew.
    """

    ready: pa.Table
    later: pa.Table
    retired: pa.Table
    more: pa.Table
    backlog: pa.Table = field(default_factory=STATE.empty_table)
    opened: pa.Table = field(default_factory=STATE.empty_table)
    stays: list[DataFile] = field(default_factory=list)
    refilled: set[int] = field(default_factory=set)
    thinned: set[int] = field(default_factory=set)

    def open_backlog(self, lake: Lake, files: Sequence[DataFile]) -> None:
        """Read some more files of the backlog; new rows of their buckets join what is written anew."""
        if not files:
            return
        rows = lake.read("frontier_backlog", files=files).select(STATE.names)
        read, buckets = {file.path for file in files}, {int(file.partition["bucket"]) for file in files}
        new = sorted(buckets - self.refilled)
        self.stays += lake.files("frontier_backlog", partitions={"bucket": new}) if new else []
        self.stays = [file for file in self.stays if file.path not in read]
        mine = np.isin(column(self.more, "bucket"), new)
        self.opened = pa.concat_tables([self.opened, rows])
        self.backlog = pa.concat_tables([self.backlog, rows, self.more.filter(pa.array(mine))])
        self.backlog = self.backlog.sort_by("url_key").combine_chunks()
        self.more = self.more.filter(pa.array(~mine)).combine_chunks()
        self.refilled |= buckets


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
        ready, moved.filter(pa.array(shelf == "later")), moved.filter(pa.array(shelf == "retired")), more
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
    place = pc.index_in(asked["host"].combine_chunks(), books["host"].combine_chunks())
    prices = pc.fill_null(books["revisit_price"], 0.0).to_numpy().astype(np.float64)
    well = pc.fill_null(pc.equal(books["health"], "ok"), False).to_numpy()
    rows, shelf = after_visits(
        asked, captures, recrawl=policies.recrawl_policy(turn.settings),
        retry=policies.retry_policy(turn.settings), prices=prices[place.to_numpy()], well=well[place.to_numpy()],
    )  # fmt: skip
    return _set_cycle(rows, turn.cycle), shelf


def _room(turn: Turn, waiting: pa.Table, books: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Split rows into those that find room on their host's ready shelf, and the rest."""
    room = ready_room(turn, books)
    place, score, band, order = ranked(turn, waiting, books)
    best = priority.best_per_host(place, order, most=room)
    fits = np.zeros(waiting.num_rows, dtype=np.bool_)
    fits[best] = True
    stays = column(waiting, "shelf_cycle") < turn.cycle
    fits |= stays  # what is on the shelf stays on it: only new URLs can be one too many
    told = with_rank(waiting, score, band)
    return told.filter(pa.array(fits)).combine_chunks(), told.filter(pa.array(~fits)).combine_chunks()


def _refill(turn: Turn, lake: Lake, group: int, shelved: Shelved, books: pa.Table) -> Shelved:
    """Where a host with a backlog runs short of ready URLs, read the rung that comes up and take the best of it."""
    room = ready_room(turn, books)
    names = books["host"].combine_chunks()
    place = pc.index_in(shelved.ready["host"].combine_chunks(), names).to_numpy().astype(np.int64)
    have = np.bincount(place, minlength=len(names))
    short = running_short(turn, books, have)
    gone = recalled_keys(turn, group, "backlog")
    called = set(urls.buckets_of(gone, turn.buckets).tolist())
    shelved.open_backlog(
        lake,
        files_to_open(turn, lake, group, short=set(column(books, "bucket")[short].tolist()), whole=called),
    )
    if not shelved.refilled:
        return shelved
    pool = shelved.backlog.filter(pa.array(~runs.is_member(gone, column(shelved.backlog, "url_key"))))
    at, _, _, order = ranked(turn, pool, books)
    chosen = priority.best_per_host(at, order, most=np.where(short, np.maximum(room - have, 0), 0))
    taken = np.zeros(pool.num_rows, dtype=np.bool_)
    taken[chosen] = True
    risen = _set_cycle(pool.filter(pa.array(taken)), turn.cycle)
    shelved.ready = pa.concat_tables([shelved.ready, risen]).sort_by("url_key").combine_chunks()
    shelved.backlog = pool.filter(pa.array(~taken)).combine_chunks()
    return shelved


def _set_cycle(rows: pa.Table, cycle: int) -> pa.Table:
    at = rows.schema.get_field_index("shelf_cycle")
    return rows.set_column(at, rows.schema.field(at), pa.repeat(pa.scalar(cycle, pa.int32()), rows.num_rows))
