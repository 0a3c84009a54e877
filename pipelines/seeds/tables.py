"""Seeds out of a Parquet file with a column `url`, such as a part of Common Crawl's index: a batch at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.failure import Misuse
from pipelines.rules.urls import wire
from pipelines.seeds.read import BadLine, Seed

COLUMN = "url"
BATCH_ROWS = 16_384


def check(path: Path) -> None:
    """Raise Misuse for a file that is no Parquet file with a column of URLs."""
    try:
        schema = pq.read_schema(path)
    except (OSError, pa.ArrowException) as error:
        raise Misuse(f"{path} cannot be read as a Parquet file: {str(error).splitlines()[0]}") from error
    if COLUMN not in schema.names:
        raise Misuse(f"{path} has no column {COLUMN!r}; it has {', '.join(schema.names[:20])}")
    kind = schema.field(COLUMN).type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)):
        raise Misuse(f"{path}: column {COLUMN!r} holds {kind}, not text")


def read(path: Path) -> Iterator[Seed | BadLine]:
    """Yield a Seed or a BadLine for every row, numbered from 1; memory does not grow with the file."""
    number = 0
    with pq.ParquetFile(path, pre_buffer=False) as file:
        for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=[COLUMN]):
            for text in batch.column(0).to_pylist():
                number += 1
                url = wire(text) if text else None
                yield (
                    Seed(url) if url else BadLine(number, f"{str(text)[:100]!r} is not an http or https URL")
                )
