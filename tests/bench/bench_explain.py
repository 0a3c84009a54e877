"""How long `noria explain`, `status` and `hosts` take on a large lake: a synthetic one is made (10 million URLs by default).

    python -m tests.bench.bench_explain --urls 10000000 --lake data/bench-explain

The lake has the shape of a crawl of thirty cycles: 64 buckets, Zipf host sizes, two thirds of the URLs never fetched,
the rest due on ninety days, eight runs of seen a bucket, captures of two fetch partitions a cycle. A lake that is there is
asked as it is.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import lake.snapshot
from lake import commit, runs
from lake.files import Add, write_data
from lake.layout import Layout
from lake.ledger import LedgerRow
from lake.schema import BY_NAME, CAPTURES, HOSTS
from lake.snapshot import Lake, crawl_name
from pipelines.config import Settings, load
from pipelines.cycle.frontier import fresh_hosts, new_rows
from pipelines.cycle.turn import Turn
from pipelines.explain.url import explain_url
from pipelines.rules import urls

BUCKETS, CYCLES, DAYS, SEEN_RUNS = 64, 30, 90, 8
NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
NOW_MS = round(NOW.timestamp() * 1_000)


def main() -> None:
    """Make the lake if it is not there, ask it about URLs of every kind, and print the times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--urls", type=int, default=10_000_000, help="URLs of a lake that is to be made")
    parser.add_argument(
        "--lake", type=Path, default=Path("data/bench-explain"), help="made if it is not there"
    )
    parser.add_argument("--asks", type=int, default=40, help="URLs asked about in one process")
    asked = parser.parse_args()
    settings = load(environ={}, overrides={"lake.path": str(asked.lake)})
    if not (asked.lake / "noria.json").exists():
        began = time.monotonic()
        make(asked.lake, asked.urls, settings)
        print(f"made in {time.monotonic() - began:.0f} s")
    held = lake.snapshot.open(asked.lake)
    print(f"{held.rows('seen'):,} URLs on {held.rows('hosts'):,} hosts, {held.rows('captures'):,} captures")
    inside(held, settings, asked.asks)
    found = some_urls(held, 6)
    whole(asked.lake, [["explain", url] for url in found])
    whole(asked.lake, [["status"]] * 5)
    whole(asked.lake, [["hosts"]] * 5)
    whole(asked.lake, [["hosts", urls.host_of(url)] for url in found])


def inside(held: Lake, settings: Settings, count: int) -> None:
    """Time `explain_url` in this process, the lake opened anew each time."""
    times = []
    for url in [*some_urls(held, count), "http://nobody.example/links/here"]:
        began = time.perf_counter()
        explain_url(lake.snapshot.open(held.root), settings, url, now_ms=NOW_MS)
        times.append(time.perf_counter() - began)
    print(
        f"explain, in a process: median {np.median(times):.3f} s, longest {max(times):.3f} s of {len(times)}"
    )


def whole(path: Path, asked: list[list[str]]) -> None:
    """Time a command with each of some arguments, start of Python included."""
    times = []
    for words in asked:
        began = time.perf_counter()
        command = [sys.executable, "-m", "pipelines.app.cli", *words, "--lake", str(path), "--json"]
        json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        times.append(time.perf_counter() - began)
    name = asked[0][0] + (" HOST" if asked[0][0] == "hosts" and len(asked[0]) > 1 else "")
    print(f"noria {name}: median {np.median(times):.2f} s, longest {max(times):.2f} s of {len(times)}")


def some_urls(held: Lake, count: int) -> list[str]:
    """Return URLs of every shelf, those of the two largest hosts among them."""
    found: list[str] = []
    buckets = [urls.bucket_of(urls.host_key(name), BUCKETS) for name in ("www.h1.example", "www.h2.example")]
    for shelf in ("ready", "backlog", "later", "retired"):
        rows = held.read(f"frontier_{shelf}", columns=["url"], partitions={"bucket": buckets})
        step = max(rows.num_rows // (count // 4 + 1), 1)
        found += rows["url"][::step].to_pylist()[: count // 4 + 1]
    return found


# --- the lake -------------------------------------------------------------------------------------------


def make(path: Path, count: int, settings: Settings) -> None:
    """Make a lake of `count` URLs, bucket by bucket, and commit it as cycle CYCLES."""
    lake.snapshot.create(path, buckets=BUCKETS, lake_id="bench")
    turn = Turn(
        str(path.absolute()), CYCLES, NOW_MS, 1, BUCKETS, 2, BUCKETS, {}, settings.to_json()
    )  # fmt: skip
    adds: dict[str, list[Add]] = {name: [] for name in BY_NAME}
    captures: list[list[pa.Table]] = [[] for _ in range(2 * CYCLES)]
    sizes = host_sizes(count)
    for bucket in range(BUCKETS):
        mine = [name for name in sizes if urls.bucket_of(urls.host_key(name), BUCKETS) == bucket]
        one_bucket(turn, bucket, {name: sizes[name] for name in mine}, adds, captures)
    for number, pieces in enumerate(captures):
        write_captures(turn, number, pa.concat_tables(pieces), adds)
    versions = {
        name: commit.commit_table(path, name, cycle=CYCLES, adds=adds[name], replace=None)
        for name in BY_NAME
        if name not in ("ledger", "pages")
    }
    for cycle in range(1, CYCLES + 1):
        row = LedgerRow(cycle, "committed", _day(cycle), _day(cycle), versions=versions)
        commit.append_ledger(path, row)


def host_sizes(count: int) -> dict[str, int]:
    """Return URLs by host: Zipf, the largest a hundredth of all."""
    ranks = np.arange(1, max(count // 400, 10))
    weights = 1 / (ranks + 20)
    each = np.maximum(weights / weights.sum() * count, 1).astype(np.int64)
    return {f"www.h{rank}.example": int(size) for rank, size in zip(ranks, each, strict=True)}


def one_bucket(
    turn: Turn, bucket: int, sizes: dict[str, int], adds: dict[str, list[Add]], captures: list[list[pa.Table]]
) -> None:
    """Write a bucket's files and add its captures."""
    named = [
        (f"http://{host}/section/{n % 97}/page-{n}.html", host)
        for host, size in sizes.items()
        for n in range(size)
    ]
    keys = np.fromiter((urls.url_key(url, host) for url, host in named), np.int64, len(named))
    order = np.argsort(keys, kind="stable")
    keys, named = keys[order], [named[at] for at in order]
    fresh = np.concatenate([[True], keys[1:] != keys[:-1]]) if len(keys) else np.zeros(0, bool)
    keys, named = keys[fresh], [one for one, new in zip(named, fresh, strict=True) if new]
    rows = new_rows(
        turn, keys=keys,
        columns={
            "url": pa.array([url for url, _ in named]), "host": pa.array([host for _, host in named]),
            "depth": pa.array(keys % 7), "source": pa.repeat(pa.scalar("link"), len(keys)),
            "via": pa.array([f"http://{host}/" for _, host in named]),
            "added_cycle": pa.array(keys % CYCLES + 1), "shelf_cycle": pa.array(keys % CYCLES + 1),
        },
    )  # fmt: skip
    lot = (keys >> 3) % 100
    _shelves(turn, bucket, rows, lot, adds)
    for run in range(SEEN_RUNS):
        mine = pa.table({"url_key": keys[(keys >> 5) % SEEN_RUNS == run]})
        adds["seen"].append(
            runs.write_run(turn.root, "seen", cycle=CYCLES, partition=bucket, rows=mine, part=run)
        )
    hosts = fresh_hosts(turn, sorted(sizes)).sort_by([("host_key", "ascending"), ("host", "ascending")])
    adds["hosts"].append(_write(turn, "hosts", hosts.select(HOSTS.arrow.names), bucket))
    visited = np.flatnonzero((lot >= 65) & (lot < 99))
    _captures(rows.take(pa.array(visited)), captures)


def _shelves(turn: Turn, bucket: int, rows: pa.Table, lot: Any, adds: dict[str, list[Add]]) -> None:
    """Deal rows to the shelves: 15 % ready, 50 % backlog, 34 % later, 1 % retired."""
    for shelf, low, high in (("ready", 0, 15), ("backlog", 15, 65), ("retired", 99, 100)):
        mine = rows.filter(pa.array((lot >= low) & (lot < high)))
        adds[f"frontier_{shelf}"].append(_write(turn, f"frontier_{shelf}", mine, bucket))
    later = rows.filter(pa.array((lot >= 65) & (lot < 99)))
    day = later["url_key"].to_numpy() % DAYS
    for number in range(DAYS):
        mine = later.filter(pa.array(day == number))
        if not mine.num_rows:
            continue
        due = NOW + timedelta(days=number, hours=1)
        changed = {
            "due_at": pa.scalar(due), "reason": pa.scalar("ok"), "visits": pa.scalar(3, pa.int32()),
            "first_visit_at": pa.scalar(_day(1)), "last_visit_at": pa.scalar(_day(CYCLES)),
        }  # fmt: skip
        for name, value in changed.items():
            at = mine.schema.get_field_index(name)
            kind = mine.schema.field(at)
            mine = mine.set_column(at, kind, pa.repeat(value.cast(kind.type), mine.num_rows))
        due_day = int(due.timestamp()) // 86_400
        adds["frontier_later"].append(_write(turn, "frontier_later", mine, bucket, due_day=due_day))


def _write(turn: Turn, table: str, rows: pa.Table, bucket: int, *, due_day: int | None = None) -> Add:
    layout = Layout(Path(turn.root))
    path = layout.data_path(table, turn.cycle, bucket, due_day=due_day)
    where: dict[str, int | str] = {"bucket": bucket} | ({} if due_day is None else {"due_day": due_day})
    return write_data(layout.table(table), path, rows, BY_NAME[table], where)


def _captures(rows: pa.Table, captures: list[list[pa.Table]]) -> None:
    """Give each visited URL one capture, in the cycle that shelved it, in the partition of its host."""
    slot = (rows["shelf_cycle"].to_numpy() - 1) * 2 + (rows["url_key"].to_numpy() >> 48) % 2
    for number in range(2 * CYCLES):
        captures[number].append(rows.select(["url", "host", "url_key"]).filter(pa.array(slot == number)))


def write_captures(turn: Turn, number: int, rows: pa.Table, adds: dict[str, list[Add]]) -> None:
    """Write the capture rows of one partition of a cycle."""
    cycle, count = number // 2 + 1, rows.num_rows
    told = urls.index_columns(rows["url"].to_pylist())
    given = {
        **{name: pa.array(values) for name, values in told.items()},
        "url": rows["url"], "host": rows["host"], "url_key": rows["url_key"],
        "fetch_time": pa.repeat(pa.scalar(_day(cycle)), count), "fetch_status": pa.repeat(pa.scalar(200), count),
        "kind": pa.repeat(pa.scalar("page"), count), "outcome": pa.repeat(pa.scalar("ok"), count),
        "cycle": pa.repeat(pa.scalar(cycle), count), "crawl": pa.repeat(pa.scalar(crawl_name(cycle)), count),
        "subset": pa.repeat(pa.scalar("warc"), count),
    }  # fmt: skip
    arrays = [
        given[field.name].cast(field.type) if field.name in given else pa.nulls(count, field.type)
        for field in CAPTURES.arrow
    ]
    table = pa.Table.from_arrays(arrays, schema=CAPTURES.arrow).sort_by(
        [("url_surtkey", "ascending"), ("fetch_time", "ascending")]
    )
    layout = Layout(Path(turn.root))
    path = layout.data_path("captures", cycle, None, f"{number % 2:04d}-warc")
    where = {"crawl": crawl_name(cycle), "subset": "warc"}
    adds["captures"].append(write_data(layout.table("captures"), path, table, CAPTURES, where))


def _day(cycle: int) -> datetime:
    return NOW - timedelta(days=CYCLES - cycle)


if __name__ == "__main__":
    main()
