"""The host table's rows as a cycle leaves them: what the fetch learnt, new hosts, and counts by shelf."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lake import runs, staging
from lake.schema import HOSTS
from lake.snapshot import Lake
from pipelines.cycle.frontier import Ints, column, fresh_hosts
from pipelines.cycle.noted import with_labels, with_sitemaps
from pipelines.cycle.shelving import Shelved
from pipelines.cycle.turn import Turn


def host_books(
    turn: Turn, lake: Lake, group: int, partitions: int, rows: pa.Table, noted: pa.Table
) -> pa.Table:
    """Return the group's host rows as they stand after the fetch, hosts of new URLs added; sorted by key.

    noted: sitemaps that seeds and other hosts name; their hosts are told, and added where they are new.
    """
    buckets = pa.array(turn.bucket_range(group), pa.int32())
    before = lake.read("hosts", partitions={"bucket": turn.bucket_range(group)}).select(HOSTS.arrow.names)
    fetched = [
        staging.read_table(turn.staged("sort", f"p{number:04d}-hosts.arrow")).select(HOSTS.arrow.names)
        for number in range(partitions)
    ]
    after = pa.concat_tables(
        [table.filter(pc.is_in(table["bucket"], buckets)) for table in fetched] or [before[:0]]
    )
    kept = before.filter(pc.invert(pc.is_in(before["host"], after["host"])))
    told = pa.concat_tables([kept, after])
    names = pa.chunked_array([*rows["host"].chunks, *noted["host"].chunks], pa.string()).unique()
    missing = sorted(names.filter(pc.invert(pc.is_in(names, told["host"]))).to_pylist())
    return with_labels(with_sitemaps(turn, pa.concat_tables([told, fresh_hosts(turn, missing)]), noted), rows)


def count_shelves(books: pa.Table, rows: pa.Table, shelved: Shelved, fresh_keys: Ints) -> pa.Table:
    """Return the host rows with `known_urls`, `ready_urls` and `backlog_urls` as they are after the merge."""
    names = books["host"].combine_chunks()

    def by_host(table: pa.Table) -> Ints:
        place = pc.index_in(table["host"].combine_chunks(), names).to_numpy().astype(np.int64)
        return np.bincount(place, minlength=len(names)).astype(np.int64)

    new = rows.filter(pa.array(runs.is_member(fresh_keys, column(rows, "url_key"))))
    backlog = column(books, "backlog_urls") - by_host(shelved.opened)
    backlog += by_host(shelved.backlog) + by_host(shelved.more)
    counted = {
        "known_urls": column(books, "known_urls") + by_host(new),
        "ready_urls": by_host(shelved.ready),
        "backlog_urls": backlog,
    }
    for name, values in counted.items():
        books = books.set_column(
            books.schema.get_field_index(name), books.schema.field(name), pa.array(values)
        )
    return books
