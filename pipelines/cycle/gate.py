"""Gate (content seen?): which payloads are stored already, in this cycle or ever. Sharded by digest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from lake import bloom, runs, staging
from lake.snapshot import Lake
from pipelines.cycle.frontier import Ints, column
from pipelines.cycle.turn import Turn
from pipelines.net.warc import warc_date

VERDICTS = pa.schema(
    [
        pa.field("partition", pa.int32()),
        pa.field("row", pa.int64()),
        pa.field("record_id", pa.string()),
        pa.field("duplicate", pa.bool_()),
        pa.field("refers_url", pa.string()),
        pa.field("refers_date", pa.string()),
        pa.field("refers_id", pa.string()),
        pa.field("digest", pa.string()),
        pa.field("digest_key", pa.int64()),
        pa.field("body_bytes", pa.int64()),
        pa.field("date", pa.string()),
        pa.field("url", pa.string()),
    ]
)
"""A payload's fate: kept (its place goes to `contents`), or a duplicate of the record named."""


def gate(turn: Turn, group: int, partitions: int) -> dict[str, Any]:
    """Stage `gate/gNNNN.arrow`: a row a payload of this group's digest shards, sorted by (partition, row).

    Of equal payloads of the cycle the one with the smallest URL key is stored. Returns a manifest.
    """
    if found := turn.done("gate", group):
        return found
    verdicts = VERDICTS.empty_table()
    if partitions:  # a cycle may find nothing that it may ask: all hosts wait, or have spent their month
        rows = _payloads(turn, group, partitions)
        verdicts = judge(rows, _stored(turn.lake(), turn, group, rows))
    staging.write_table(turn.staged("gate", f"g{group:04d}.arrow"), verdicts)
    duplicates = int(np.count_nonzero(verdicts["duplicate"].to_numpy(zero_copy_only=False)))
    return turn.finish("gate", group, {"payloads": verdicts.num_rows, "duplicates": duplicates})


def _payloads(turn: Turn, group: int, partitions: int) -> pa.Table:
    first, last = turn.key_range(group)
    parts = []
    for partition in range(partitions):
        rows = staging.read_table(turn.staged("sort", f"p{partition:04d}-digests.arrow"))
        keys = column(rows, "digest_key")
        start, stop = np.searchsorted(keys, first, side="left"), np.searchsorted(keys, last, side="right")
        mine = rows.slice(start, stop - start)
        parts.append(
            mine.append_column("partition", pa.repeat(pa.scalar(partition, pa.int32()), mine.num_rows))
        )
    rows = pa.concat_tables(parts).combine_chunks()
    order = np.lexsort((column(rows, "hop"), column(rows, "url_key"), column(rows, "digest_key")))
    return rows.take(pa.array(order)).combine_chunks()


def _stored(lake: Lake, turn: Turn, group: int, rows: pa.Table) -> dict[str, dict[str, Any]]:
    """Return the contents rows of the payloads that the lake has, by digest."""
    keys = distinct(column(rows, "digest_key"))
    if not len(keys):
        return {}
    shards = turn.bucket_range(group)
    files = lake.files("contents", partitions={"shard": shards})
    if not files:
        return {}
    maybe = np.concatenate(
        [
            bloom.ensure(lake, "contents", shard).maybe(keys[(keys >= low) & (keys <= high)])
            for shard in shards
            for low, high in [shard_range(turn, shard)]
        ]
    )
    found = runs.lookup(files, keys[maybe])
    return {row["digest"]: row for row in found.to_pylist()}


def shard_range(turn: Turn, shard: int) -> tuple[int, int]:
    """Return the lowest and the highest digest key of a shard."""
    span = 2**63 // turn.buckets
    return shard * span, (shard + 1) * span - 1


def distinct(keys: Ints) -> Ints:
    """Return sorted keys without repeats."""
    if not len(keys):
        return keys
    kept: Ints = keys[np.concatenate([[True], keys[1:] != keys[:-1]])]
    return kept


def judge(rows: pa.Table, stored: dict[str, dict[str, Any]]) -> pa.Table:
    """Return the verdicts over payloads sorted by (digest_key, url_key): first come, first stored."""
    first: dict[str, dict[str, Any]] = {}
    made: list[tuple[Any, ...]] = []
    for row in rows.to_pylist():
        digest, date = row["content_digest"], warc_date(row["request_ms"])
        own = {"url": row["url"], "date": date, "record_id": row["record_id"]}
        known = stored.get(digest) or first.get(digest)
        if known is None:
            first[digest] = own
        refers = known or {"url": None, "date": None, "record_id": None}
        made.append(
            (
                row["partition"], row["row"], row["record_id"], known is not None, refers["url"], refers["date"],
                refers["record_id"], digest, row["digest_key"], row["body_bytes"], date, row["url"],
            )
        )  # fmt: skip
    columns = zip(*made, strict=True) if made else ((),) * len(VERDICTS)
    arrays = [pa.array(values, field.type) for field, values in zip(VERDICTS, columns, strict=True)]
    return pa.Table.from_arrays(arrays, schema=VERDICTS).sort_by(
        [("partition", "ascending"), ("row", "ascending")]
    )
