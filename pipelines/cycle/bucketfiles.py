"""The data files that a merge writes: one a table, bucket and day or rung, under the cycle's names, seen by nobody before the commit."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lake import bloom, runs
from lake.files import Add, write_data
from lake.layout import Layout
from lake.schema import BY_NAME, SHELVES
from pipelines.cycle.backlog import rungs_of
from pipelines.cycle.frontier import Ints, column, slice_by_key
from pipelines.cycle.shelving import Shelved
from pipelines.cycle.turn import Turn
from pipelines.rules import urls
from pipelines.rules.filing import joined
from pipelines.rules.shelfday import shelf_days


class BucketFiles:
    """Writes a group's data files, one a bucket, and remembers them."""

    def __init__(self, turn: Turn, touched: set[int]) -> None:
        self._turn, self._touched = turn, touched
        self._layout = Layout(Path(turn.root))
        self._adds: dict[str, list[Add]] = {}
        self._rows: dict[str, dict[str, int]] = {name: {} for name in (*SHELVES, "seen")}
        self._refilled: list[int] = []
        self._thinned: list[int] = []
        self._kept = 0  # rows of the backlog in files that stay

    def frontier(self, shelved: Shelved, undue: pa.Table, books: pa.Table) -> None:
        self._touched |= shelved.refilled | shelved.thinned
        self._refilled = sorted(shelved.refilled)
        self._thinned = sorted(shelved.thinned)
        self._shelf("ready", shelved.ready)
        self._shelf("retired", shelved.retired)
        self._backlog(shelved, books)
        self._later(pa.concat_tables([shelved.later, undue]))

    def _shelf(self, shelf: str, rows: pa.Table) -> None:
        table = f"frontier_{shelf}"
        for bucket, mine in self._by_bucket(rows):
            self._write(table, mine, bucket)
            self._rows[shelf][str(bucket)] = mine.num_rows

    def _backlog(self, shelved: Shelved, books: pa.Table) -> None:
        for rows, new in ((shelved.backlog, False), (shelved.more, True)):
            rungs = rungs_of(self._turn, rows, books, behind=new)
            for bucket, mine in self._by_bucket(rows.append_column("rung", pa.array(rungs))):
                under = joined(column(mine, "rung"))
                for rung in np.unique(under).tolist():
                    on_it = mine.filter(pa.array(under == rung)).drop_columns("rung")
                    self._write("frontier_backlog", on_it, bucket, rung=rung)
                self._count("backlog", bucket, mine.num_rows)
        for number, file in enumerate(shelved.stays):
            kept = runs.renamed(
                self._turn.root, "frontier_backlog", file, cycle=self._turn.cycle, part=f"s{number}"
            )
            self._adds.setdefault("frontier_backlog", []).append(kept)
            self._count("backlog", int(file.partition["bucket"]), file.rows)
            self._kept += file.rows

    def _count(self, shelf: str, bucket: int, rows: int) -> None:
        held = self._rows[shelf]
        held[str(bucket)] = held.get(str(bucket), 0) + rows

    def _later(self, rows: pa.Table) -> None:
        for bucket, mine in self._by_bucket(rows.sort_by("url_key")):
            self._rows["later"][str(bucket)] = mine.num_rows
            due = column(mine, "due_at") // 86_400_000
            days = joined(shelf_days(due, bucket=bucket, today=self._turn.today))
            for day in sorted(set(days.tolist())):
                self._write("frontier_later", mine.filter(pa.array(days == day)), bucket, due_day=int(day))

    def _write(
        self, table: str, rows: pa.Table, bucket: int, *, due_day: int | None = None, rung: int = 0
    ) -> None:
        path = self._layout.data_path(table, self._turn.cycle, bucket, due_day=due_day, rung=rung)
        where: dict[str, int | str] = (
            {"bucket": bucket} if due_day is None else {"due_day": due_day, "bucket": bucket}
        )
        add = write_data(self._layout.table(table), path, rows, BY_NAME[table], where)
        self._adds.setdefault(table, []).append(add)

    def _by_bucket(self, rows: pa.Table) -> list[tuple[int, pa.Table]]:
        """Return the rows, sorted by url_key, of each bucket that has some."""
        found, rows = [], rows.combine_chunks()
        for bucket in sorted(self._touched):
            mine = slice_by_key(rows, *urls.bucket_range(bucket, self._turn.buckets))
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
            "thinned": self._thinned,
            "touched": sorted(self._touched),
            "kept": self._kept,
        }
