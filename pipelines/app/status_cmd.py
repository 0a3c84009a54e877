"""`noria status`: what is stored, what waits where and until when, what failed and why, how the last cycles went."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lake import inbox, lease, ledger
from lake.ledger import COMMITTED, PLANNED, LedgerRow
from lake.schema import SHELVES, TABLES
from pipelines.app.lakes import place
from pipelines.app.words import again, duration_words, outcome_words, time_words
from pipelines.dashboard.read import open_cycle
from pipelines.rules.outcome import FAILED, MEANING, Outcome

if TYPE_CHECKING:
    from lake import Lake
    from lake.files import DataFile
    from pipelines.config import Settings

COUNTS = ("planned", "requests", "pages", "duplicates", "new_urls")
CYCLES = 5
EPOCH = date(1970, 1, 1)
EXACT_ROWS, EXACT_FILES = 500_000, 500
"""Rows of a table, and files, up to which it is read, so that days are told exactly: a fifth of a second."""
DAY_MS = 86_400_000
TERMS = (("overdue", -1), ("today", 0), ("tomorrow", 1), ("in 2-7 days", 7), ("in 8-30 days", 30))
"""When something is due, and the last day of that term, counted from today; what is later is "later"."""


def run(settings: Settings, *, as_json: bool, watch: bool = False) -> None:
    """Print the state of the lake, as lines or as one JSON object; with `watch`, follow the cycle that runs.

    A cycle that runs is left to itself: its files are read, nothing is locked.
    """
    if watch:
        from pipelines.app import watch_cmd  # here, so that a status need not wait for rich

        watch_cmd.run(Path(settings.lake.path), as_json=as_json)
        return
    found = status(place(settings, make=False))
    if as_json:
        print(json.dumps(found))
        return
    for label, words in lines(found):
        print(f"{label:<11} {words}")


def status(lake: Lake, *, now_ms: int | None = None) -> dict[str, Any]:
    """Return what a lake holds, as plain values, from Delta logs and file sizes; of data files only a small
    later shelf and few hosts are read.

    `next_due_day`: the earliest day on which something of the shelf `later` is due; None = nothing waits there.
    `due`: how many are due by when. `held_urls`: ready ones on hosts that are out of reach, `held_until` the first of
    these is tried again; 0 in a lake of too many hosts. `open_cycle`: one that is opened and not committed. `last_cycle`: None before
    the first. `failures`: of the last cycles together, by outcome.
    """
    rows = ledger.recent(lake.root, CYCLES + 1)
    done = [row for row in rows if row.state == COMMITTED][-CYCLES:]
    writer = lease.held_by(lake.layout.lease)
    days = due_days(lake)
    now = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    held, until = held_back(lake, now)
    return {
        "lake": str(lake.root),
        "cycles": lake.cycle,
        "seen": lake.rows("seen"),
        "shelves": {shelf: lake.rows(f"frontier_{shelf}") for shelf in SHELVES},
        "hosts": lake.rows("hosts"),
        "captures": lake.rows("captures"),
        "contents": lake.rows("contents"),
        "inbox_files": len(inbox.pending(lake.root)),
        "next_due_day": str(EPOCH + timedelta(days=min(days))) if days else None,
        "due": due(days, now // DAY_MS),
        "held_urls": held,
        "held_until": until.isoformat() if until else None,
        "writer": _writer(writer) if writer else None,
        "open_cycle": _open(lake, rows),
        "bytes": {table.name: lake.size(table.name) for table in TABLES if table.name in lake.versions},
        "warc_bytes": folder_bytes(lake.root / "warc"),
        "free_bytes": shutil.disk_usage(lake.root).free,
        "failures": _failures(done),
        "last_cycle": _cycle(done[-1]) if done else None,
        "last_cycles": [_cycle(row) for row in done],
    }


def _writer(held: lease.Holder) -> dict[str, Any]:
    times = {"since": held.since_ms, "until": held.expires_ms}
    told = {name: datetime.fromtimestamp(ms / 1_000, UTC).isoformat() for name, ms in times.items()}
    return {"holder": held.holder, "host": held.host, "pid": held.pid, **told}


def held_back(lake: Lake, now_ms: int) -> tuple[int, datetime | None]:
    """Return how many ready URLs lie on hosts that are out of reach, and when the first of these is tried again.

    (0, None) where none do, and where the hosts are too many to be read.
    """
    files = lake.files("hosts")
    if not _few(files):
        return 0, None
    held, soonest, now = 0, None, datetime.fromtimestamp(now_ms / 1_000, UTC)
    for file in files:
        for row in _held_in(file, now).to_pylist():
            held += row["ready_urls"]
            soonest = min(soonest or row["probe_at"], row["probe_at"])
    return held, soonest


def _held_in(file: DataFile, now: datetime) -> pa.Table:
    try:
        with pq.ParquetFile(file.path) as reader:
            rows = reader.read(columns=["ready_urls", "probe_at"])
    except (FileNotFoundError, pa.ArrowInvalid):
        return pa.table({})  # as with the days
    waits = pc.and_(pc.greater(rows["probe_at"], pa.scalar(now)), pc.greater(rows["ready_urls"], 0))
    return rows.filter(pc.fill_null(waits, False))


def _few(files: list[DataFile]) -> bool:
    return len(files) <= EXACT_FILES and sum(file.rows for file in files) <= EXACT_ROWS


def due_days(lake: Lake) -> dict[int, int]:
    """Return how many URLs of the shelf `later` are due on each day since 1970-01-01 UTC.

    A file of the shelf may hold days that follow its own. Where the shelf is small its files are read; where it is
    large few days share a file, and the file's own day is told, up to six days before a URL's.
    """
    files = lake.files("frontier_later")
    exact = _few(files)
    days = Counter[int]()
    for file in files:
        known = _days_in(file) if exact else Counter[int]()
        days.update(known)
        days[int(file.partition["due_day"])] += file.rows - known.total()
    return {day: count for day, count in days.items() if count}


def _days_in(file: DataFile) -> Counter[int]:
    try:
        with pq.ParquetFile(file.path) as reader:
            times = reader.read(columns=["due_at"]).column(0).drop_null()
    except (FileNotFoundError, pa.ArrowInvalid):
        return Counter()  # `noria check` tells of it; a status is told all the same
    return Counter(pc.divide(times.cast(pa.int64()), 86_400_000_000).to_pylist())


def due(days: dict[int, int], today: int) -> dict[str, int]:
    """Return how many URLs of the shelf `later` are due in which term; terms with none are left out.

    >>> due({9: 2, 10: 3, 15: 4, 99: 5}, today=10)
    {'overdue': 2, 'today': 3, 'in 2-7 days': 4, 'later': 5}
    """
    found: dict[str, int] = {}
    for day, count in sorted(days.items()):
        name = next((term for term, last in TERMS if day - today <= last), "later")
        found[name] = found.get(name, 0) + count
    return found


def _open(lake: Lake, rows: list[LedgerRow]) -> int | None:
    planned = max((row.cycle for row in rows if row.state == PLANNED), default=0)
    found = max(planned, open_cycle(lake.root))
    return found if found > lake.cycle else None


def _failures(done: list[LedgerRow]) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in done:
        for name, count in row.outcomes.items():
            if name in FAILED:
                found[name] = found.get(name, 0) + count
    return dict(sorted(found.items(), key=lambda one: (-one[1], one[0])))


def lines(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield label and words of a status, in the order of reading."""
    yield "lake", f"{found['lake']}, {found['cycles']:,} cycles"
    yield "URLs", f"{found['seen']:,} known on {found['hosts']:,} hosts"
    yield "waiting", ", ".join(f"{count:,} {shelf}" for shelf, count in found["shelves"].items())
    yield "due", _due(found)
    yield (
        "stored",
        f"{found['captures']:,} captures; {found['contents']:,} different contents large enough to be shared",
    )
    yield "disk", _disk(found)
    if found["inbox_files"]:
        yield "inbox", f"{found['inbox_files']:,} files wait for the next cycle"
    if found["open_cycle"] is not None:
        end = f"it runs: {again('status', '--watch')}" if found["writer"] else f"{again('cycle')} finishes it"
        yield "open", f"cycle {found['open_cycle']} is not committed; {end}"
    if found["writer"]:
        yield "writer", _writer_words(found["writer"])
    if found["last_cycle"] is None:
        yield "last cycle", f"none yet; {again('cycle')} runs the first"
        return
    yield from _last(found["last_cycle"])
    yield from _table(found["last_cycles"])
    cycles = [one["cycle"] for one in found["last_cycles"]]
    if found["failures"]:
        yield (
            "failed",
            f"in cycle{'s' * (len(cycles) > 1)} {'-'.join(map(str, sorted({min(cycles), max(cycles)})))}:",
        )
    for name, count in found["failures"].items():
        yield "", f"{count:>9,}  {name:<18} {MEANING[Outcome(name)]}"


def _writer_words(writer: dict[str, Any]) -> str:
    since, until = (_iso_words(writer[name]) for name in ("since", "until"))
    return f"the lake is held by {writer['holder']} (host {writer['host']}, process {writer['pid']}) since {since} until {until}"


def _iso_words(moment: str) -> str:
    return time_words(datetime.fromisoformat(moment))


def _last(cycle: dict[str, Any]) -> Iterator[tuple[str, str]]:
    counts = ", ".join(f"{cycle[name]:,} {name.replace('_', ' ')}" for name in COUNTS)
    yield (
        "last cycle",
        f"{cycle['cycle']}, {_iso_words(cycle['committed_at'])}: {counts}",
    )
    yield "outcomes", outcome_words(cycle["outcomes"], most=40)
    steps = ", ".join(f"{name} {duration_words(value)}" for name, value in cycle["seconds"].items())
    yield "time", f"{duration_words(sum(cycle['seconds'].values()))} ({steps})"


def _table(cycles: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the last cycles as lines of figures under a line of titles."""
    yield (
        "cycles",
        f"{'cycle':>9} {'planned':>10} {'requests':>10} {'pages':>10} {'new URLs':>10} {'took':>12}",
    )
    for one in cycles:
        took = duration_words(sum(one["seconds"].values()))
        yield (
            "",
            f"{one['cycle']:>9,} {one['planned']:>10,} {one['requests']:>10,} {one['pages']:>10,} "
            f"{one['new_urls']:>10,} {took:>12}" + (" stopped early" if one["stopped"] else ""),
        )


def _due(found: dict[str, Any]) -> str:
    terms = [f"{count:,} {term}" for term, count in found["due"].items()]
    ready, held = found["shelves"]["ready"], found["held_urls"]
    if held:
        until = _iso_words(found["held_until"])
        terms.insert(0, f"{held:,} ready on hosts out of reach, tried again from {until} on")
    if ready > held:
        terms.insert(0, f"{ready - held:,} now (ready)")
    if found["inbox_files"] and not terms:
        return "what lies in the inbox, in the next cycle"
    return ", ".join(terms) if terms else f"nothing waits; {again('seeds', 'add')} brings seeds"


def _disk(found: dict[str, Any]) -> str:
    tables = sorted(found["bytes"].items(), key=lambda one: (-one[1], one[0]))
    told = ", ".join(f"{name} {size_words(size)}" for name, size in tables if size)
    whole = size_words(sum(found["bytes"].values()))
    return f"{size_words(found['warc_bytes'])} of WARC, {whole} of tables ({told or 'all empty'}), {size_words(found['free_bytes'])} free"


def _cycle(row: LedgerRow) -> dict[str, Any]:
    counts = {name: row.counts.get(name, 0) for name in COUNTS}
    seconds = {name: round(value, 3) for name, value in row.seconds.items()}
    told = {
        "cycle": row.cycle,
        "committed_at": row.written_at.isoformat(),
        **counts,
        "outcomes": row.outcomes,
    }
    return {**told, "seconds": seconds, "stopped": bool(row.counts.get("stopped", 0))}


def folder_bytes(folder: Path) -> int:
    """Return the bytes of all files in a folder and below; 0 if it is not there."""
    total, folders = 0, [os.fspath(folder)]
    while folders:
        try:
            with os.scandir(folders.pop()) as found:
                for one in found:
                    if one.is_dir(follow_symlinks=False):
                        folders.append(one.path)
                    else:
                        total += one.stat(follow_symlinks=False).st_size
        except FileNotFoundError:
            continue
    return total


def size_words(count: float) -> str:
    """Return bytes in the unit that leaves one to three digits.

    >>> size_words(999), size_words(58_700_000)
    ('999 B', '58.7 MB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:,.1f} TB"
