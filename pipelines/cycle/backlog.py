"""A host's queue: how many of its URLs are kept ready, in which order they come up, and on which rung the rest waits."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lake.files import DataFile
from lake.layout import rung_of
from lake.snapshot import Lake
from pipelines.cycle import policies
from pipelines.cycle.frontier import Ints, column, rank_rows
from pipelines.cycle.turn import Turn
from pipelines.rules import ladder, priority

FEW_ROWS = 5_000
"""A bucket's backlog up to this size has no rungs: it is read and written in a fiftieth of a second."""


class Ranked(NamedTuple):
    """Of each row: its host's place in the host table, score, band, and a sort key, best band first."""

    place: Ints
    score: npt.NDArray[np.float64]
    band: Ints
    order: npt.NDArray[np.float64]


def ranked(turn: Turn, rows: pa.Table, books: pa.Table) -> Ranked:
    """Return how frontier rows stand in their hosts' queues at the cycle's clock."""
    place = (
        pc.index_in(rows["host"].combine_chunks(), books["host"].combine_chunks()).to_numpy().astype(np.int64)
    )
    weight = books["score"].to_numpy().astype(np.float64)[place]
    score, band = rank_rows(turn, rows, host_score=weight)
    order = band + priority.uniform(column(rows, "url_key"), salt=turn.seed) / 2
    return Ranked(place, score, band, order)


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


def running_short(turn: Turn, books: pa.Table, have: Ints) -> npt.NDArray[np.bool_]:
    """Return which hosts with a backlog are refilled in this cycle.

    have: URLs that each has ready. A host of a bucket that holds little is, when it has less than a window's worth. The
    other buckets are looked at in turns, and what would not last until the next is refilled.
    """
    room, windows = ready_room(turn, books), turn.settings.plan.ready_windows
    interval = _interval(turn)
    bucket = column(books, "bucket")
    mine = [
        number
        for number in np.unique(bucket).tolist()
        if ladder.highest_due(turn.cycle, bucket=number, interval=interval) is not None
    ]
    large = _held(turn, books)[bucket] > FEW_ROWS
    low = room // windows * np.where(large, np.where(np.isin(bucket, mine), interval, 0), 1)
    short: npt.NDArray[np.bool_] = (have < low) & (column(books, "backlog_urls") > 0)
    return short


def files_to_open(
    turn: Turn, lake: Lake, group: int, *, short: Collection[int], whole: Collection[int]
) -> list[DataFile]:
    """Return the files of a group's backlog that are read, and written anew.

    short: buckets in which a host runs short; the rungs that are due are read, and all of a bucket that holds little.
    whole: buckets that are read to the end.
    """
    held: dict[int, list[DataFile]] = {}
    for file in lake.files("frontier_backlog", partitions={"bucket": turn.bucket_range(group)}):
        held.setdefault(int(file.partition["bucket"]), []).append(file)
    found: list[DataFile] = []
    for bucket, files in sorted(held.items()):
        due = ladder.highest_due(turn.cycle, bucket=bucket, interval=_interval(turn))
        if bucket in whole or (bucket in short and sum(file.rows for file in files) <= FEW_ROWS):
            found += files
        elif bucket in short:
            found += [file for file in files if rung_of(file.path) <= (due or 0)]
    return found


def _interval(turn: Turn) -> int:
    return max(turn.settings.plan.ready_windows - 1, 1)


def _held(turn: Turn, books: pa.Table) -> npt.NDArray[np.float64]:
    """Return how many URLs the backlog of each bucket holds."""
    held: npt.NDArray[np.float64] = np.zeros(turn.buckets)
    np.add.at(held, column(books, "bucket"), column(books, "backlog_urls"))
    return held


def rungs_of(turn: Turn, rows: pa.Table, books: pa.Table, *, behind: bool) -> Ints:
    """Return the rung on which each row of the backlog is written.

    books: host rows with `backlog_urls` as they are with these rows. behind: the rows are new, and queue behind those
    of their hosts that stay where they are: a better band the nearer to the front, as its weight says.
    """
    found = np.zeros(rows.num_rows, dtype=np.int64)
    backlog = column(books, "backlog_urls")
    many = np.flatnonzero(_held(turn, books)[column(rows, "bucket")] > FEW_ROWS)
    if not len(many):
        return found
    some = rows.take(pa.array(many)).combine_chunks()
    place, _, band, order = ranked(turn, some, books)
    ahead = _positions(place, order).astype(np.float64)
    if behind:
        weights = np.array(policies.priority_policy(turn.settings).band_weights)
        before = backlog - np.bincount(place, minlength=len(backlog))
        ahead += before[place] * weights.min() / weights[np.clip(band - 1, 0, len(weights) - 1)]
    windows = ready_room(turn, books) / turn.settings.plan.ready_windows
    found[many] = ladder.rungs(ahead / (windows * _interval(turn))[place])
    return found


def _positions(place: Ints, order: npt.NDArray[np.float64]) -> Ints:
    """Return how many rows of the same place come before each row."""
    sequence = np.lexsort((order, place))
    sorted_place = place[sequence]
    starts = np.searchsorted(sorted_place, sorted_place, side="left")
    found = np.empty(len(place), dtype=np.int64)
    found[sequence] = np.arange(len(place)) - starts
    return found
