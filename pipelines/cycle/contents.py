"""Contents, after seal: the payloads stored in this cycle enter the set of all, with their final places."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lake import bloom, runs, staging
from lake.schema import CONTENTS
from pipelines.cycle.frontier import column
from pipelines.cycle.turn import Turn
from pipelines.rules import urls


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
        for name in ("warc_filename", "warc_record_offset", "warc_record_length"):
            mine = mine.append_column(name, places[name])
        tables.append(mine)
    rows = pa.concat_tables(tables) if tables else kept
    rows = rows.append_column("cycle", pa.repeat(pa.scalar(turn.cycle, pa.int32()), rows.num_rows))
    return rows.select(CONTENTS.file_schema.names)
