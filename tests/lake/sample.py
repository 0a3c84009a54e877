"""Small lakes for the tests: rows of any table, a whole committed cycle, WARC records without a library."""

from __future__ import annotations

import datetime as dt
import gzip
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from lake import commit, ledger, members, runs, snapshot
from lake.files import Add, write_data
from lake.ledger import LedgerRow
from lake.schema import BY_NAME, TABLES
from lake.snapshot import Lake

BUCKETS = 4
SHIFT = 63 - 2
NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


def keys_in(bucket: int, *numbers: int) -> list[int]:
    """Return keys of a bucket of a lake with four."""
    return [(bucket << SHIFT) + number for number in numbers]


def rows_of(table: str, **columns: Sequence[object]) -> pa.Table:
    """Return rows with the columns given and null in the others."""
    schema = BY_NAME[table].file_schema
    count = len(next(iter(columns.values())))
    return pa.table(
        {one.name: pa.array(columns[one.name], one.type) if one.name in columns else pa.nulls(count, one.type) for one in schema}
    )  # fmt: skip


def new_lake(folder: Path) -> Lake:
    """Make an empty lake of four buckets."""
    return snapshot.create(folder / "lake", buckets=BUCKETS)


def shelf_add(
    lake: Lake,
    shelf: str,
    cycle: int,
    bucket: int,
    keys: list[int],
    *,
    due_day: int | None = None,
    rung: int = 0,
) -> Add:
    """Write a file of URLs on a shelf."""
    table = f"frontier_{shelf}"
    rows = rows_of(table, url_key=sorted(keys), url=[f"http://a.test/{key}" for key in sorted(keys)])
    partition: dict[str, int | str] = {"bucket": bucket}
    if due_day is not None:
        partition["due_day"] = due_day
    path = lake.layout.data_path(table, cycle, bucket, due_day=due_day, rung=rung)
    return write_data(lake.layout.table(table), path, rows, BY_NAME[table], partition)


def run_add(lake: Lake, cycle: int, bucket: int, keys: list[int]) -> Add:
    """Write a run of `seen`."""
    rows = pa.table({"url_key": np.array(sorted(keys), dtype=np.int64)})
    return runs.write_run(lake.root, "seen", cycle=cycle, partition=bucket, rows=rows)


def turn(lake: Lake, cycle: int, keys: dict[int, list[int]], *, written_at: dt.datetime = NOON) -> Lake:
    """Commit a cycle that admits `keys` by bucket, all of them on the backlog shelf; return the lake after it."""
    adds = {
        "seen": [run_add(lake, cycle, bucket, held) for bucket, held in keys.items()],
        "frontier_backlog": [
            shelf_add(lake, "backlog", cycle, bucket, held) for bucket, held in keys.items()
        ],
    }
    return finish(lake, cycle, adds, written_at=written_at)


def finish(
    lake: Lake,
    cycle: int,
    adds: dict[str, list[Add]],
    *,
    written_at: dt.datetime = NOON,
    counts: dict[str, int] | None = None,
) -> Lake:
    """Commit files to their tables (and an empty commit to the others), then the ledger row."""
    versions = {
        table.name: commit.commit_table(
            lake.root, table.name, cycle=cycle, adds=adds.get(table.name, []), replace=None
        )
        for table in TABLES
        if table.name != "ledger"
    }
    row = LedgerRow(cycle, ledger.COMMITTED, NOON, written_at, versions=versions, counts=counts or {})
    commit.append_ledger(lake.root, row)
    return snapshot.open(lake.root)


def warc_member(*, url: str, record_id: str, payload: bytes, kind: str = "response") -> bytes:
    """Return one WARC record as a gzip member."""
    block = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + payload
    head = (
        f"WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Record-ID: <{record_id}>\r\nWARC-Target-URI: {url}\r\n"
        f"Content-Type: application/http; msgtype=response\r\nWARC-Payload-Digest: sha1:{members.sha1(payload)}\r\n"
        f"WARC-Block-Digest: sha1:{members.sha1(block)}\r\nContent-Length: {len(block)}\r\n\r\n"
    )
    return gzip.compress(head.encode() + block + b"\r\n\r\n", mtime=0)


def with_warc(
    lake: Lake,
    payloads: list[bytes],
    *,
    cycle: int = 1,
    kind: str = "page",
    behind: bytes = b"",
    counts: dict[str, int] | None = None,
) -> tuple[Lake, Path]:
    """Commit a cycle of captures and contents whose records lie in one WARC file with a CDXJ; return lake and file.

    behind: stands behind each record.
    """
    name = f"c{cycle:06d}/a.warc.gz"
    path = lake.layout.warc_file(name)
    path.parent.mkdir(parents=True)
    urls = [f"http://a.test/{place}" for place in range(len(payloads))]
    packed = [
        warc_member(url=url, record_id=f"urn:uuid:{place}", payload=payload)
        for place, (url, payload) in enumerate(zip(urls, payloads, strict=True))
    ]
    path.write_bytes(b"".join(one + behind for one in packed))
    offsets = [sum(len(one + behind) for one in packed[:place]) for place in range(len(packed))]
    shared: dict[str, Sequence[object]] = {
        "url": urls,
        "record_id": [f"urn:uuid:{place}" for place in range(len(packed))],
        "warc_filename": [name] * len(packed),
        "warc_record_offset": offsets,
        "warc_record_length": [len(one) for one in packed],
    }
    digests = [members.sha1(payload) for payload in payloads]
    captures = rows_of(
        "captures", **shared, url_surtkey=[f"test,a)/{place}" for place in range(len(packed))],
        content_digest=digests, record_type=["response"] * len(packed), fetch_time=[NOON] * len(packed),
        fetch_status=[200] * len(packed), kind=[kind] * len(packed),
    )  # fmt: skip
    index = lake.root / "cdxj" / f"c{cycle:06d}" / "a.cdxj"
    index.parent.mkdir(parents=True)
    index.write_text("".join(map(index_line, captures.to_pylist())))
    contents = rows_of("contents", **shared, digest_key=keys_in(1, *range(len(packed))), digest=digests)
    adds = {
        "captures": [
            write_data(
                lake.layout.table("captures"), lake.layout.data_path("captures", cycle, None), captures,
                BY_NAME["captures"], {"crawl": snapshot.crawl_name(cycle), "subset": "warc"},
            )
        ],
        "contents": [runs.write_run(lake.root, "contents", cycle=cycle, partition=1, rows=contents)],
    }  # fmt: skip
    return finish(lake, cycle, adds, counts=counts), path


def index_line(row: dict[str, object]) -> str:
    """Return the line of CDXJ for a row of captures."""
    told = {
        "url": row["url"],
        "status": str(row["fetch_status"]),
        "digest": row["content_digest"],
        "length": str(row["warc_record_length"]),
        "offset": str(row["warc_record_offset"]),
        "filename": row["warc_filename"],
    }
    return f"{row['url_surtkey']} 20260101120000 {json.dumps(told)}\n"
