"""A data file written piece by piece, for rows that are more than memory should hold."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa

from lake.errors import LakeError
from lake.files import Add, check_sorted, column_stats, conform, parquet_writer, publish, stored, temporary
from lake.schema import Table


class StreamedFile:
    """A context in which a data file grows; at its end it is published, whole and durable, or not at all.

    Each piece becomes a row group. `add`, afterwards: what the commit needs to know of the file.
    """

    def __init__(
        self, table_root: Path, relative: str, spec: Table, partition: Mapping[str, int | str]
    ) -> None:
        self._final, self._relative, self._spec = table_root / relative, relative, spec
        self._partition = {name: str(value) for name, value in partition.items()}
        self._stack = ExitStack()
        self._stats: list[dict[str, dict[str, Any]]] = []
        self._last: pa.Table | None = None
        self._rows = 0
        self._add: Add | None = None

    def __enter__(self) -> StreamedFile:
        self._tmp = self._stack.enter_context(temporary(self._final))
        self._writer = parquet_writer(self._tmp, self._spec, self._spec.sorted_by)
        return self

    def write(self, rows: pa.Table) -> None:
        """Append rows; raises DamagedFile where they, or they after the last ones, are out of order."""
        rows = conform(rows, self._spec)
        if not rows.num_rows:
            return
        edge = rows.slice(0, 1) if self._last is None else pa.concat_tables([self._last, rows.slice(0, 1)])
        check_sorted(edge, self._spec.sorted_by, str(self._final))
        check_sorted(rows, self._spec.sorted_by, str(self._final))
        self._writer.write_table(stored(rows, self._spec, self._partition))
        self._stats.append(column_stats(rows, self._spec.sorted_by))
        self._last = rows.slice(rows.num_rows - 1)
        self._rows += rows.num_rows

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._stack:
            self._writer.close()
            if kind is None:
                size = self._tmp.stat().st_size
                publish(self._tmp, self._final)
                self._add = Add(self._relative, size, self._rows, self._partition, joined(self._stats))

    @property
    def add(self) -> Add:
        """The file as the commit is told of it; raises LakeError before it is published."""
        if self._add is None:
            raise LakeError(f"{self._final} is not written yet")
        return self._add


def joined(parts: list[dict[str, dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """Return the statistics of a file from those of its pieces; a column that a piece has none for gets none."""
    if not parts:
        return {}
    low, high = [one["minValues"] for one in parts], [one["maxValues"] for one in parts]
    bounded = sorted(set.intersection(*map(set, low)))
    return {
        "minValues": {name: min(one[name] for one in low) for name in bounded},
        "maxValues": {name: max(one[name] for one in high) for name in bounded},
        "nullCount": {name: sum(one["nullCount"][name] for one in parts) for name in parts[0]["nullCount"]},
    }
