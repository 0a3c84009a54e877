"""Export: a selection of a lake's rows or records, streamed into one file."""

from __future__ import annotations

import json
import tempfile
import zipfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import BinaryIO, cast

from lake.snapshot import Lake
from pipelines.export.records import WarcCopy, rows_of
from pipelines.export.selection import Selection
from pipelines.export.tables import WRITERS, write
from pipelines.export.wacz import WARC, Package, page_entry
from pipelines.net.warc import WarcInfo, uuid_urn, warc_date

FORMATS = (*WRITERS, "warc", "wacz")
SUFFIX = {"parquet": ".parquet", "csv": ".csv", "jsonl": ".jsonl", "warc": ".warc.gz", "wacz": ".wacz"}
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Exported:
    """What was written: rows (records for a WARC), and originals of duplicates that came along."""

    rows: int
    originals: int = 0


def export(
    lake: Lake,
    selection: Selection,
    to: str,
    sink: BinaryIO,
    *,
    told: Progress,
    software: str,
    name: str = "",
) -> Exported:
    """Write a selection in one of FORMATS to a stream that need not seek (a WACZ: must).

    told: is told of the rows so far, and of all. name: of the file, which a WARC holds too. Raises QueryError for a condition that is no SQL, Misuse for
    columns or formats that do not go together, Failure for a record that cannot be read.
    """
    total = _total(lake, selection, to)
    if to in WRITERS:
        schema, batches = lake.stream(selection.query(lake))
        return Exported(write(batches, schema, to, sink, lambda rows: told(rows, total)))
    if to == "warc":
        copied = _warc(
            lake, selection, sink, name or "data.warc.gz", software, lambda rows: told(rows, total)
        )
        return Exported(copied[0], copied[1])
    return _wacz(lake, selection, sink, software, lambda rows: told(rows, total))


def _total(lake: Lake, selection: Selection, to: str) -> int:
    records = "" if to in WRITERS else selection.records(lake, redirects=to == "wacz")
    query = f"select count(*) n from ({records})" if records else selection.count(lake)
    return int(lake.sql(query)["n"][0].as_py())


def _info(lake: Lake, filename: str, software: str, selection: Selection) -> WarcInfo:
    return WarcInfo(
        warcinfo_id=uuid_urn(lake.lake_id, "export", repr(selection)),
        filename=filename,
        date=warc_date(0) if not lake.cycle else warc_date(_clock_ms(lake)),
        software=software,
        operator="",
        user_agent="",
        hostname="",
        robots="",
        description=f"export of {describe(selection)}",
        is_part_of=lake.lake_id,
    )


def _clock_ms(lake: Lake) -> int:
    opened = [row.opened_at for row in lake.ledger() if row.cycle == lake.cycle]
    return int(opened[-1].timestamp() * 1_000)


def describe(selection: Selection) -> str:
    """Return a selection in words.

    >>> describe(Selection("pages", (1, 2), "fetch_status = 200"))
    'pages of cycles 1, 2 where fetch_status = 200'
    """
    cycles = "all cycles" if selection.cycles is None else f"cycles {', '.join(map(str, selection.cycles))}"
    return f"{selection.what} of {cycles}" + (f" where {selection.where}" if selection.where else "")


def _warc(
    lake: Lake,
    selection: Selection,
    sink: BinaryIO,
    filename: str,
    software: str,
    told: Callable[[int], None],
    listed: BinaryIO | None = None,
) -> tuple[int, int, list[str]]:
    """Write the WARC; return records, originals, CDXJ lines.

    listed: takes the page list's entries, a line each; redirects come along then. None = no page list.
    """
    with closing(WarcCopy(lake, sink, filename)) as copy:
        copy.begin(_info(lake, filename, software, selection))
        count = 0
        _, batches = lake.stream(selection.records(lake, redirects=listed is not None))
        for row in copy.copy(rows_of(batches)):
            count += 1
            told(count)
            entry = page_entry(row) if listed is not None else None
            if entry is not None and listed is not None:
                listed.write(json.dumps(entry, ensure_ascii=False).encode() + b"\n")
        return count, copy.copy_originals(), copy.lines


def _wacz(
    lake: Lake, selection: Selection, sink: BinaryIO, software: str, told: Callable[[int], None]
) -> Exported:
    name = WARC.rpartition("/")[2]
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive, tempfile.TemporaryFile() as held:
        entries = cast(BinaryIO, held)
        package = Package(archive)
        with package.part(WARC, stored=True) as out:
            rows, originals, lines = _warc(lake, selection, out, name, software, told, entries)
        package.index(lines)
        entries.seek(0)
        first = entries.readline()
        entries.seek(0)
        package.pages(iter(entries))
        package.close(
            title=f"{selection.what} of lake {lake.lake_id[:12]}",
            description=describe(selection),
            software=software,
            first=json.loads(first) if first else None,
        )
        return Exported(rows, originals)
