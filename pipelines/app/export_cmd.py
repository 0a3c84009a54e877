"""`noria export`: rows as Parquet, CSV or JSON lines; records as WARC or WACZ."""

from __future__ import annotations

import json
import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import lake
from lake.files import publish, temporary
from pipelines.app.cycles import cycles_of
from pipelines.app.lakes import place
from pipelines.app.progress import Bar
from pipelines.export.run import FORMATS, SUFFIX, Exported, export
from pipelines.export.selection import WHATS, Selection
from pipelines.failure import Misuse

if TYPE_CHECKING:
    from lake import Lake
    from pipelines.config import Settings


def run(
    settings: Settings,
    what: str,
    *,
    cycle: str | None,
    where: str | None,
    columns: str | None,
    to: str,
    out: Path | None,
    as_json: bool,
) -> None:
    """Export and say what was written, on standard error where the rows go to standard output."""
    held, selection = _selection(place(settings, make=False), what, cycle, where, columns, to)
    path = out or Path(f"{what}{SUFFIX[to]}")
    if path == Path("-"):
        _refuse_stdout(to)
        with open(os.dup(sys.stdout.fileno()), "wb") as sink:
            _export(held, selection, to, sink)
        return
    with temporary(path.absolute()) as tmp:
        with tmp.open("w+b") as sink:
            done = _export(held, selection, to, sink)
        publish(tmp, path.absolute())
    size = path.stat().st_size
    if as_json:
        print(json.dumps({"file": str(path), "rows": done.rows, "originals": done.originals, "bytes": size}))
        return
    noun = "records" if to in ("warc", "wacz") else "rows"
    more = f" and {done.originals:,} originals of duplicates among them" if done.originals else ""
    print(f"{done.rows:,} {noun}{more}: {path} ({size / 1e6:,.1f} MB)")


def _selection(
    newest: Lake, what: str, cycle: str | None, where: str | None, columns: str | None, to: str
) -> tuple[Lake, Selection]:
    if what not in WHATS:
        raise Misuse(f"export {what}: what can be exported are {', '.join(WHATS)}")
    if to not in FORMATS:
        raise Misuse(f"--to {to}: the formats are {', '.join(FORMATS)}")
    if columns and to in ("warc", "wacz"):
        raise Misuse(f"--columns: a {to} holds whole records; leave the option out")
    cycles = cycles_of(cycle, last=newest.cycle)
    names = tuple(name.strip() for name in columns.split(",") if name.strip()) if columns else None
    if what == "hosts" and cycles is not None:
        if len(cycles) > 1:
            raise Misuse(f"--cycle {cycle}: hosts are as one cycle left them; name one cycle")
        return lake.open(newest.root, cycle=cycles[0]), Selection(what, None, where, names)
    return newest, Selection(what, tuple(cycles) if cycles is not None else None, where, names)


def _export(held: Lake, selection: Selection, to: str, sink: BinaryIO) -> Exported:
    noun = "records" if to in ("warc", "wacz") else "rows"
    with Bar("export", noun) as bar:
        return export(held, selection, to, sink, told=bar.show, software=f"Noria/{version('noria')}")


def _refuse_stdout(to: str) -> None:
    if to not in ("csv", "jsonl"):
        raise Misuse(f"--out -: a {to} cannot go to standard output, csv and jsonl can; name a file")
