"""Are two lakes the same? Table by table, row by row, but for the columns that no two crawls have alike."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lake
from lake.schema import TABLES
from pipelines.net import warc

CLOCK = "a time by the real clock"
WHERE = "where the bytes lie: files are named by attempt, and other records lie before it"
ATTEMPT = "made of the attempt's number"
PACE = "measured: a response time, or a pause that follows from one"
BOOKS = "counts requests: those whose answers a kill took are made, and counted, once more"

ASIDE: dict[str, dict[str, str]] = {
    "captures": {
        "fetch_time": CLOCK, "request_ms": CLOCK, "first_byte_ms": PACE, "response_ms": PACE, "delay_ms": PACE,
        "delay_reason": PACE, "warc_filename": WHERE, "warc_record_offset": WHERE, "warc_record_length": WHERE,
        "record_id": ATTEMPT, "attempt": ATTEMPT, "refers_to": CLOCK + ": that of the original's record",
        "warc_segment": "the fetch partition", "notes": "hang on what an attempt saw before",
        "wire_bytes": "the Date header and kept connections change an answer's head by some bytes",
    },
    "contents": {
        "date": CLOCK, "record_id": ATTEMPT, "warc_filename": WHERE, "warc_record_offset": WHERE,
        "warc_record_length": WHERE,
    },
    "hosts": {
        "next_allowed_at": CLOCK, "addresses_expire_at": CLOCK, "failing_since": CLOCK, "probe_at": CLOCK,
        "robots": CLOCK + ": compared without its times",
        "sitemaps": CLOCK + ": compared without their times", "delay_ms": PACE, "delay_reason": PACE, "backoff_ms": PACE,
        "first_byte_ms": PACE, "last_first_byte_ms": PACE, "response_ms": PACE, "month": CLOCK,
        "month_requests": BOOKS, "requests": BOOKS, "yields": "moving averages, in the order in which answers came",
    },
    "ledger": {
        "opened_at": CLOCK, "written_at": CLOCK, "seconds": CLOCK, "outcomes": BOOKS, "partitions": "as many as slots",
        "counts": "compared without the requests and bytes", "versions": "compared for the tables, not the ledger",
    },
}  # fmt: skip
"""Columns that are not compared, by table, with the reason."""

FRONTIER = {
    "added_at": CLOCK, "due_at": CLOCK, "due_day": CLOCK, "first_visit_at": CLOCK, "last_visit_at": CLOCK,
    "last_change_at": CLOCK, "visit_seconds": CLOCK, "score": "grows with the time waited",
}  # fmt: skip
"""The same of the four shelves."""

COUNTS_ASIDE = {"requests", "wire_bytes", "captures", "warc_bytes"}


def differences(one: Path, other: Path) -> list[str]:
    """Return a line for each table of which the two lakes hold different rows: how many, and the first of them."""
    left, right = lake.open(one), lake.open(other)
    found = []
    for table in TABLES:
        mine, theirs = _rows(left, table.name), _rows(right, table.name)
        for words, extra in (("only in the first", mine - theirs), ("only in the second", theirs - mine)):
            if extra:
                found.append(f"{table.name}: {sum(extra.values())} rows {words}, such as {min(extra)}")
    return found


def _rows(held: lake.Lake, table: str) -> Counter[str]:
    aside = FRONTIER if table.startswith("frontier_") else ASIDE.get(table, {})
    rows = held.ledger() if table == "ledger" else held.read(table).to_pylist()
    plain = [dict(vars(row)) if table == "ledger" else row for row in rows]
    if table == "captures":
        plain = _once(plain)
    return Counter(_text(table, row, aside) for row in plain)


def _text(table: str, row: dict[str, Any], aside: dict[str, str]) -> str:
    kept = {name: value for name, value in row.items() if name not in aside}
    if table == "hosts":
        for column in ("robots", "sitemaps"):
            kept[column] = [
                {name: value for name, value in one.items() if not name.endswith("_at")}
                for one in row[column] or ()
            ]
    if table == "ledger":
        kept["counts"] = {name: count for name, count in row["counts"].items() if name not in COUNTS_ASIDE}
        kept["versions"] = {name: at for name, at in row["versions"].items() if name != "ledger"}
    return json.dumps(kept, sort_keys=True, default=str)


def _once(captures: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out a robots.txt that was asked for again in the same cycle: its first answer's part was lost."""
    kept: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in captures:
        again = (
            (row["cycle"], row["url"])
            if row["kind"] == "robots"
            else (row["record_id"], row["url"], row["request_ms"])
        )
        kept.setdefault(again, row)
    return list(kept.values())


def warc_faults(path: Path) -> Iterator[str]:
    """Yield what is wrong with a lake's WARC files: damaged or torn, a record twice, one that no capture names."""
    rows = lake.open(path).read("captures", columns=["record_id"])["record_id"].to_pylist()
    captured = {f"urn:uuid:{one.removeprefix('urn:uuid:')}" for one in rows if one}
    ids: Counter[str] = Counter()
    stored: Counter[str] = Counter()
    for file in sorted((path / "warc").rglob("*")):
        if not file.is_file():
            continue
        if not file.name.endswith(".warc.gz"):
            yield f"{file.name}: is no WARC file"
            continue
        yield from (f"{file.name}: {fault}" for fault in warc.faults(file))
        with gzip.open(file) as whole:  # a torn tail raises
            while whole.read(1 << 20):
                pass
        for record in warc.read_records(file):
            if not isinstance(record, warc.WarcRecord):
                yield f"{file.name}: {record}"
                continue
            ids[record.record_id] += 1
            if record.type == "response" and record.payload:
                stored[record.header("WARC-Payload-Digest") or "none"] += 1
            if record.type in ("response", "revisit") and record.record_id not in captured:
                yield f"{file.name}: no capture names {record.record_id}"
    yield from (f"record {one} is stored {count} times" for one, count in ids.items() if count > 1)
    yield from (f"payload {one} is stored {count} times" for one, count in stored.items() if count > 1)
