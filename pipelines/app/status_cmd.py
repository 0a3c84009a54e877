"""`noria status`: what is stored, what waits where, and how the last cycle went."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lake import inbox, lease
from lake.ledger import COMMITTED, LedgerRow
from lake.schema import SHELVES, TABLES
from pipelines.app.lakes import place
from pipelines.app.words import duration_words, outcome_words, program, time_words

if TYPE_CHECKING:
    from lake import Lake
    from pipelines.config import Settings

COUNTS = ("planned", "requests", "pages", "duplicates", "new_urls")
EPOCH = date(1970, 1, 1)


def run(settings: Settings, *, as_json: bool) -> None:
    """Print the state of the lake, as lines or as one JSON object."""
    found = status(place(settings, make=False))
    if as_json:
        print(json.dumps(found))
        return
    for label, words in lines(found):
        print(f"{label:<11} {words}")


def status(lake: Lake) -> dict[str, Any]:
    """Return what a lake holds, as plain values; all from Delta logs and file sizes, no data file is opened.

    `next_due_day`: the earliest day on which something of the shelf `later` is due; None = nothing waits there.
    `open_cycle`: a cycle that is planned and not committed. `last_cycle`: None before the first.
    """
    rows = lake.ledger()
    done = [row for row in rows if row.state == COMMITTED]
    planned = {row.cycle for row in rows} - {row.cycle for row in done}
    writer = lease.held_by(lake.layout.lease)
    days = lake.rows("frontier_later", "due_day")
    return {
        "lake": str(lake.root),
        "cycles": len(done),
        "seen": lake.rows("seen"),
        "shelves": {shelf: lake.rows(f"frontier_{shelf}") for shelf in SHELVES},
        "hosts": lake.rows("hosts"),
        "captures": lake.rows("captures"),
        "contents": lake.rows("contents"),
        "inbox_files": len(inbox.pending(lake.root)),
        "next_due_day": str(EPOCH + timedelta(days=min(map(int, days)))) if days else None,
        "writer": writer.sentence("the lake") if writer else None,
        "open_cycle": max(planned, default=None),
        "bytes": {table.name: sum(file.size for file in lake.files(table.name)) for table in TABLES},
        "warc_bytes": _folder_bytes(lake.root / "warc"),
        "last_cycle": _cycle(done[-1]) if done else None,
    }


def lines(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield label and words of a status, in the order of reading."""
    yield (
        "lake",
        f"{found['lake']}, {found['cycles']:,} cycles, {_size(sum(found['bytes'].values()))} of tables, {_size(found['warc_bytes'])} of WARC",
    )
    yield "URLs", f"{found['seen']:,} known on {found['hosts']:,} hosts"
    yield "waiting", ", ".join(f"{count:,} {shelf}" for shelf, count in found["shelves"].items())
    yield "stored", f"{found['contents']:,} different contents of {found['captures']:,} captures"
    yield "next due", _due(found)
    if found["inbox_files"]:
        yield "inbox", f"{found['inbox_files']:,} files wait for the next cycle"
    if found["open_cycle"] is not None:
        end = "it runs" if found["writer"] else f"{program()} cycle finishes it"
        yield "open", f"cycle {found['open_cycle']} is planned and not committed; {end}"
    if found["writer"]:
        yield "writer", found["writer"]
    if found["last_cycle"] is None:
        yield "last cycle", f"none yet; {program()} cycle runs the first"
    else:
        yield from _last(found["last_cycle"])


def _last(cycle: dict[str, Any]) -> Iterator[tuple[str, str]]:
    counts = ", ".join(f"{cycle[name]:,} {name.replace('_', ' ')}" for name in COUNTS)
    yield "last cycle", f"{cycle['cycle']}, {cycle['committed_at']}: {counts}"
    yield "outcomes", outcome_words(cycle["outcomes"], most=40)
    if cycle["plugins"]:
        yield (
            "plug-ins",
            ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in cycle["plugins"].items()),
        )
    steps = ", ".join(f"{name} {duration_words(value)}" for name, value in cycle["seconds"].items())
    yield "time", f"{duration_words(sum(cycle['seconds'].values()))} ({steps})"


def _due(found: dict[str, Any]) -> str:
    if found["shelves"]["ready"]:
        return f"now: {found['shelves']['ready']:,} URLs are ready"
    return (
        f"on {found['next_due_day']}"
        if found["next_due_day"]
        else f"nothing waits; {program()} seeds add brings seeds"
    )


def _cycle(row: LedgerRow) -> dict[str, Any]:
    counts = {name: row.counts.get(name, 0) for name in COUNTS}
    seconds = {name: round(value, 3) for name, value in row.seconds.items()}
    plugins = {
        name.removeprefix("plugin_"): count
        for name, count in sorted(row.counts.items())
        if name.startswith("plugin_")
    }
    return {
        "cycle": row.cycle,
        "committed_at": time_words(row.written_at),
        **counts,
        "outcomes": row.outcomes,
        "plugins": plugins,
        "seconds": seconds,
    }


def _folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else 0


def _size(count: float) -> str:
    """Return bytes in the unit that leaves one to three digits.

    >>> _size(999), _size(58_700_000)
    ('999 B', '58.7 MB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:,.1f} TB"
