"""Rows written as they come: Parquet, CSV, JSON lines. Memory holds a piece at a time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, BinaryIO, Protocol

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq

GROUP_ROWS = 65_536
Progress = Callable[[int], None]


class Writer(Protocol):
    """Takes pieces of rows, and is closed."""

    def write(self, rows: pa.RecordBatch) -> None: ...
    def close(self) -> None: ...


def write(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, to: str, sink: BinaryIO, told: Progress
) -> int:
    """Write rows in a format ("parquet", "csv", "jsonl") and return how many; `told` hears of the rows so far."""
    writer = WRITERS[to](sink, schema)
    rows = 0
    try:
        for batch in batches:
            writer.write(batch)
            rows += batch.num_rows
            told(rows)
    finally:
        writer.close()
    return rows


class _Parquet:
    """Gathers pieces into row groups of a good size."""

    def __init__(self, sink: BinaryIO, schema: pa.Schema) -> None:
        self._writer = pq.ParquetWriter(sink, schema, compression="zstd")
        self._schema, self._held, self._rows = schema, list[pa.RecordBatch](), 0

    def write(self, rows: pa.RecordBatch) -> None:
        self._held.append(rows)
        self._rows += rows.num_rows
        if self._rows >= GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        if self._held:
            self._writer.write_table(pa.Table.from_batches(self._held, self._schema))
        self._held, self._rows = [], 0

    def close(self) -> None:
        self._flush()
        self._writer.close()


class _Csv:
    """CSV with a header; lists, maps and structs as JSON in their cell, times in ISO 8601."""

    def __init__(self, sink: BinaryIO, schema: pa.Schema) -> None:
        fields = [
            pa.field(one.name, pa.string() if pa.types.is_nested(one.type) else one.type) for one in schema
        ]
        self._schema = pa.schema(fields)
        self._writer = csv.CSVWriter(sink, self._schema)

    def write(self, rows: pa.RecordBatch) -> None:
        columns = [_flat(column) for column in rows.columns]
        self._writer.write(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def close(self) -> None:
        self._writer.close()


def _flat(column: pa.Array) -> pa.Array:
    if not pa.types.is_nested(column.type):
        return column
    return pa.array([None if value is None else _json(value) for value in column.to_pylist()], pa.string())


class _Jsonl:
    """A JSON object a line; null values are there, times in ISO 8601, bytes as Latin-1 text."""

    def __init__(self, sink: BinaryIO, schema: pa.Schema) -> None:
        self._sink = sink

    def write(self, rows: pa.RecordBatch) -> None:
        self._sink.write("".join(f"{_json(row)}\n" for row in rows.to_pylist()).encode())

    def close(self) -> None:
        """The sink is closed by its owner."""


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=_plain)


def _plain(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


WRITERS: dict[str, Callable[[BinaryIO, pa.Schema], Writer]] = {
    "parquet": _Parquet,
    "csv": _Csv,
    "jsonl": _Jsonl,
}
