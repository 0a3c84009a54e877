"""`noria export`: rows as Parquet, CSV or JSON lines; records as WARC or WACZ."""

from __future__ import annotations

import json
import os
import shlex
import sys
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import lake
from lake.errors import QueryError
from lake.files import publish, temporary
from pipelines.app.cycles import cycles_of
from pipelines.app.lakes import place
from pipelines.app.progress import Bar
from pipelines.export.run import FORMATS, SUFFIX, Exported, export
from pipelines.export.selection import WHATS, Selection
from pipelines.failure import Misuse

ENDINGS = (*((one, ending) for one, ending in SUFFIX.items()), ("jsonl", ".ndjson"))
"""Formats by the ends of file names."""

STDOUT = (Path("-"), Path("/dev/stdout"))

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
    to: str | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Export and say what was written, unless the rows go to standard output.

    to: None = as the ending of `out` says. A link is followed; what is no file (a pipe, a device) is written to as it is.
    """
    if as_json and out in STDOUT:
        raise Misuse(f"--out {out} --json: standard output takes the rows or the object; leave one out")
    said, to = to, format_of(to, out)
    held, selection = _selection(place(settings, make=False), what, cycle, where, columns, to)
    path = out or Path(f"{what}{SUFFIX[to]}")
    if path == Path("-"):
        _refuse_stream(path, to)
        with open(os.dup(sys.stdout.fileno()), "wb") as sink:
            _export(held, selection, to, sink)
        return
    if path.exists() and not path.is_file():
        _refuse_stream(path, to)
        with path.open("wb") as sink:
            done = _export(held, selection, to, sink)
        if as_json:
            print(_object(path, done, size=None))
        return
    final = _outside(path.resolve(), held)
    if said is None:
        _refuse_ending(path)
    with temporary(final) as tmp:
        with tmp.open("w+b") as sink:
            done = _export(held, selection, to, sink, name=path.name)
        publish(tmp, final)
    size = path.stat().st_size
    if as_json:
        print(_object(path, done, size=size))
        return
    noun = "records" if to in ("warc", "wacz") else "rows"
    more = f" and {done.originals:,} originals of duplicates among them" if done.originals else ""
    print(f"{done.rows:,} {noun}{more}: {path} ({size / 1e6:,.1f} MB)")


def _object(path: Path, done: Exported, *, size: int | None) -> str:
    return json.dumps({"file": str(path), "rows": done.rows, "originals": done.originals, "bytes": size})


def _selection(
    newest: Lake, what: str, cycle: str | None, where: str | None, columns: str | None, to: str
) -> tuple[Lake, Selection]:
    if what not in WHATS:
        raise Misuse(f"export {what}: what can be exported are {', '.join(WHATS)}")
    if columns is not None and to in ("warc", "wacz"):
        raise Misuse(f"--columns: a {to} holds whole records; leave the option out")
    if where is not None and not where.strip():
        raise Misuse("--where '': a condition in SQL is wanted; leave the option out for every row")
    cycles = cycles_of(cycle, last=newest.cycle)
    names = None if columns is None else _names(columns)
    if what == "hosts" and cycles is not None:
        if len(cycles) > 1:
            raise Misuse(f"--cycle {cycle}: hosts are as one cycle left them; name one cycle")
        return lake.open(newest.root, cycle=cycles[0]), Selection(what, None, where, names)
    return newest, Selection(what, tuple(cycles) if cycles is not None else None, where, names)


def _names(columns: str) -> tuple[str, ...]:
    """Return the names that an option lists; raises Misuse where there are none, or one twice."""
    names = tuple(name.strip() for name in columns.split(",") if name.strip())
    if not names:
        raise Misuse(f"--columns '{columns}': names of columns are wanted; leave the option out for all")
    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice is not None:
        raise Misuse(f"--columns {columns}: {twice} is named twice")
    return names


def format_of(to: str | None, out: Path | None) -> str:
    """Return the format: `to`, or what the file's ending says; raises Misuse where the two do not agree."""
    if to is not None and to not in FORMATS:
        raise Misuse(f"--to {to}: the formats are {', '.join(FORMATS)}")
    name = out.name.lower() if out else ""
    said = next((one for one, ending in ENDINGS if name.endswith(ending)), None)
    if name.endswith(".warc"):
        raise Misuse(f"--out {out}: a WARC is written gzipped; name it {out}.gz")
    if to and said and to != said:
        raise Misuse(
            f"--out {out} --to {to}: the name ends like {said}; leave --to out, or end it {SUFFIX[to]}"
        )
    return to or said or "parquet"


def _refuse_ending(path: Path) -> None:
    """Raise Misuse for a file whose name ends like another format than ours, where none was said."""
    if path.suffix and not any(path.name.lower().endswith(ending) for _, ending in ENDINGS):
        raise Misuse(
            f"--out {path}: {path.suffix} is the ending of no format; end it {', '.join(SUFFIX.values())}, or say --to"
        )


def _outside(path: Path, held: Lake) -> Path:
    """Return the path; raises Misuse for one inside the lake, whose files are not to be replaced."""
    if path.is_relative_to(held.root.resolve()):
        raise Misuse(f"--out {path}: that is inside the lake; name a file outside it")
    return path


def _export(held: Lake, selection: Selection, to: str, sink: BinaryIO, *, name: str = "") -> Exported:
    noun = "records" if to in ("warc", "wacz") else "rows"
    with Bar("export", noun) as bar:
        software = f"Noria/{version('noria')}"
        try:
            return export(held, selection, to, sink, told=bar.show, software=software, name=name)
        except QueryError as error:
            if selection.where is None:
                raise
            raise Misuse(f"--where {shlex.quote(selection.where)}: {error}") from error


def _refuse_stream(path: Path, to: str) -> None:
    if path.is_dir():
        raise Misuse(f"--out {path}: that is a folder; name a file")
    if to not in ("csv", "jsonl"):
        where = "standard output" if path == Path("-") else "what is no file"
        raise Misuse(f"--out {path}: a {to} cannot go to {where}, csv and jsonl can; name a file")
