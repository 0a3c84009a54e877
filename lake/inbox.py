"""The inbox: what comes from outside a cycle (seeds, API requests). Small files, only ever added.

The plan of a cycle names the files it takes in; they are removed once that cycle is in the ledger.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import json
import re
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lake.errors import DamagedFile, InboxError
from lake.files import sync_folder, write_atomic
from lake.layout import Layout
from lake.schema import TIMESTAMP

SCHEMA = pa.schema(
    [("url", pa.string()), ("meta", pa.string()), ("source", pa.string()), ("received_at", TIMESTAMP)]
)
"""A row of the inbox: the URL as given, its metadata as a JSON object or null, how it came in, when."""

_KIND = re.compile(r"^[a-z][a-z0-9_]{0,31}$")


def put(root: Path | str, rows: list[dict[str, Any]], *, kind: str, now_ms: int | None = None) -> str:
    """Add rows as one file, durably, and return its name. For millions of rows, call it once a batch.

    rows: `url`, and if wanted `meta` (a dict or a JSON object as text) and `source` (default: `kind`).
    kind: seed, api, scan ...: a lower-case word. Raises InboxError for a row that is not so.
    """
    if not _KIND.match(kind):
        raise InboxError(f"inbox kind '{kind}': a lower-case word of at most 32 letters is wanted")
    at_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    at = dt.datetime.fromtimestamp(at_ms // 1000, dt.UTC) + dt.timedelta(milliseconds=at_ms % 1000)
    cells = [{**_row(row, kind, place), "received_at": at} for place, row in enumerate(rows)]
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(cells, schema=SCHEMA), buffer, compression="zstd")
    name = f"{at_ms:013d}-{kind}-{uuid.uuid4().hex[:12]}.parquet"
    write_atomic(Layout(Path(root)).inbox / name, buffer.getvalue())
    return name


def pending(root: Path | str) -> list[str]:
    """Return the names of the files that wait, oldest first."""
    folder = Layout(Path(root)).inbox
    if not folder.is_dir():
        return []
    return sorted(path.name for path in folder.iterdir() if path.suffix == ".parquet" and path.name[0] != ".")


def count(root: Path | str, names: Sequence[str]) -> int:
    """Return how many rows the named files have by their footers; one that is gone or damaged counts for none."""
    folder, rows = Layout(Path(root)).inbox, 0
    for name in names:
        with contextlib.suppress(pa.ArrowInvalid, OSError):
            rows += pq.read_metadata(folder / name).num_rows
    return rows


def read(root: Path | str, names: Sequence[str]) -> pa.Table:
    """Return the rows of the named files in the order given, with the columns of `SCHEMA`.

    A file that is gone was drained before and has no rows. Raises DamagedFile for one that cannot be read.
    """
    folder = Layout(Path(root)).inbox
    tables = [SCHEMA.empty_table()]
    for name in names:
        try:
            rows = pq.read_table(folder / name, partitioning=None).cast(SCHEMA)
            rows.validate(full=True)  # texts that are no UTF-8, which nothing else would tell
            tables.append(rows)
        except FileNotFoundError:
            continue
        except (pa.ArrowInvalid, OSError, ValueError) as error:
            raise DamagedFile(
                f"inbox file {name} cannot be read ({str(error).splitlines()[0]}); "
                f"move it out of {folder} and add its URLs again"
            ) from error
    return pa.concat_tables(tables)


def unfit(url: str | None, meta: str | None) -> str | None:
    """Return why a row cannot be taken in, None if it can; `put` makes no such row, a damaged or foreign file may."""
    if not url:
        return "the URL is missing"
    try:
        sound = not meta or isinstance(json.loads(meta), dict)
    except ValueError:
        sound = False
    return None if sound else "the metadata is no JSON object"


def faults(root: Path | str, name: str) -> list[str]:
    """Return what is wrong with a file that waits: it cannot be read, or rows cannot be taken in."""
    try:
        rows = read(root, [name]).select(["url", "meta"])
    except DamagedFile as error:
        return [str(error)]
    reasons: dict[str, int] = {}
    for batch in rows.to_batches(max_chunksize=65_536):
        for url, meta in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            if (why := unfit(url, meta)) is not None:
                reasons[why] = reasons.get(why, 0) + 1
    return [f"{count} rows are left out by the next cycle: {why}" for why, count in reasons.items()]


def drain(root: Path | str, names: Sequence[str]) -> None:
    """Remove files that a committed cycle took in. Call after its ledger row; twice is as good as once."""
    folder = Layout(Path(root)).inbox
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            (folder / name).unlink()
    if folder.is_dir():
        sync_folder(folder)


def _row(row: dict[str, Any], kind: str, place: int) -> dict[str, str | None]:
    unknown = set(row) - {"url", "meta", "source"}
    url = row.get("url")
    if unknown or not isinstance(url, str) or not url:
        raise InboxError(
            f"inbox row {place}: needs a text `url`, may have `meta` and `source`; got {sorted(row)}"
        )
    return {"url": url, "meta": _meta(row.get("meta"), place), "source": row.get("source") or kind}


def _meta(meta: Any, place: int) -> str | None:
    """Return metadata as compact JSON with sorted keys, None for none."""
    if meta is None or meta == {} or meta == "":
        return None
    try:
        value = json.loads(meta) if isinstance(meta, str) else meta
        if isinstance(value, dict):
            return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    except (ValueError, TypeError):
        pass
    raise InboxError(f"inbox row {place}: `meta` must be a JSON object, not {str(meta)[:60]!r}")
