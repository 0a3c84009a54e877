"""SQL on the tables of a snapshot: DataFusion inside the deltalake package, offline."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError

from lake.errors import QueryError
from lake.schema import BY_NAME


def run(query: str, opened: Callable[[str], DeltaTable]) -> pa.Table:
    """Return the result of a query, text as pa.string; only the tables it names are opened."""
    builder = QueryBuilder()
    named = [name for name in BY_NAME if re.search(rf"\b{name}\b", query, re.IGNORECASE)]
    for name in named:
        builder.register(name, opened(name))
    try:
        return plain_strings(pa.table(builder.execute(query)))
    except DeltaError as error:
        raise QueryError(_problem(str(error), named)) from error


ONE_AT_A_TIME = "SET datafusion.execution.target_partitions = 1"
"""Work shared among threads hands on its rows in the order in which the threads end."""


def stream(query: str, opened: Callable[[str], DeltaTable]) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return the schema of a query's result and its rows in pieces, made as they are taken; else as `run`.

    The same query of the same snapshot gives its rows in the same order.
    """
    builder = QueryBuilder()
    builder.execute(ONE_AT_A_TIME)
    named = [name for name in BY_NAME if re.search(rf"\b{name}\b", query, re.IGNORECASE)]
    for name in named:
        builder.register(name, opened(name))
    try:
        reader = pa.RecordBatchReader.from_stream(builder.execute(query))
    except DeltaError as error:
        raise QueryError(_problem(str(error), named)) from error
    schema = pa.schema([pa.field(one.name, _plain(one.type)) for one in reader.schema])
    return schema, _plain_batches(reader, schema, named)


def _plain_batches(
    reader: pa.RecordBatchReader, schema: pa.Schema, named: list[str]
) -> Iterator[pa.RecordBatch]:
    try:
        for batch in reader:
            yield from pa.Table.from_batches([batch]).cast(schema).to_batches()
    except (DeltaError, pa.ArrowException, OSError) as error:
        raise QueryError(_problem(str(error), named)) from error


def plain_strings(table: pa.Table) -> pa.Table:
    """Return the table with string views as plain strings: most Arrow kernels refuse views."""
    return table.cast(pa.schema([pa.field(one.name, _plain(one.type)) for one in table.schema]))


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(kind) or pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_map(kind):
        return pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(_plain(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(one.name, _plain(one.type)) for one in kind])
    return kind


def _problem(text: str, named: list[str]) -> str:
    line = " ".join(text.split())[:300]
    hint = "" if named else f"; the tables are {', '.join(BY_NAME)}"
    return f"the query cannot be run: {line}{hint}"
