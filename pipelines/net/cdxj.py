"""CDXJ: one line a capture, sorted by SURT and time, so that a replayer finds a record by binary search.

Fields and order as pywb and Common Crawl write them: all values are strings, digests without `sha1:`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

FIELDS = ("url", "mime", "status", "digest", "length", "offset", "filename", "redirect", "truncated")
NOT_MODIFIED = 304


class Entry(NamedTuple):
    """One line: its key, 14 digits of UTC, and the JSON fields."""

    surt: str
    timestamp: str
    fields: dict[str, str]


def line(surt: str, timestamp14: str, fields: Mapping[str, object]) -> str:
    """Return one CDXJ line without its line end; fields that are None are left out, unknown ones come last.

    >>> line("org,a)/", "20251201100000", {"url": "http://a.org/", "status": 200})
    'org,a)/ 20251201100000 {"url": "http://a.org/", "status": "200"}'
    """
    order = [*(name for name in FIELDS if name in fields), *(name for name in fields if name not in FIELDS)]
    kept = {name: str(fields[name]) for name in order if fields[name] is not None}
    return f"{surt} {timestamp14} {json.dumps(kept)}"


def of_capture(row: Mapping[str, Any], *, filename: str, offset: int) -> str | None:
    """Return the line of a row of `captures` whose record lies at this place, None for a 304.

    What a 304 confirms is replayed from the capture that it confirms: a replayer would show the 304 itself, without a
    body, to all who ask for the page at that time or for its newest copy (tests/replay). The mime of a revisit is
    `warc/revisit`, as replayers expect.
    """
    if row["fetch_status"] == NOT_MODIFIED:
        return None
    mime = row["content_mime_type"] or row.get("content_mime_detected") or "unk"
    fields = {
        "url": row["url"],
        "mime": "warc/revisit" if row["record_type"] == "revisit" else mime,
        "status": row["fetch_status"],
        "digest": row["content_digest"] or None,
        "length": row["warc_record_length"],
        "offset": offset,
        "filename": filename,
        "redirect": row.get("fetch_redirect"),
        "truncated": row.get("content_truncated"),
    }
    return line(row["url_surtkey"], f"{row['fetch_time']:%Y%m%d%H%M%S}", fields)


def content(lines: Iterable[str]) -> bytes:
    """Return the bytes of a CDXJ file: the lines in byte order, as `LC_ALL=C sort` puts them, each once."""
    encoded = sorted({text.encode() for text in lines})
    return b"".join(text + b"\n" for text in encoded)


def write(path: Path | str, rows: Iterable[str]) -> int:
    """Write lines as a CDXJ file, sorted, durable, under its name only when whole; return its bytes."""
    path, data = Path(path), content(rows)
    partial = path.with_name(f"{path.name}.{os.getpid()}-{os.urandom(4).hex()}.open")
    try:
        with partial.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return len(data)


def read(path: Path | str) -> Iterator[Entry | str]:
    """Yield the entries of a CDXJ file, or of a CDX file of 11 or 9 columns; a bad line comes as a sentence."""
    columns = ""
    with Path(path).open("rb") as file:
        for number, raw in enumerate(file, 1):
            text = raw.decode("utf-8", "replace").strip("\r\n")
            if text.lstrip().startswith("CDX "):
                columns = text.split("CDX ", 1)[1].replace(" ", "")
            elif text and not text.startswith("!meta"):
                yield _parsed(text, columns) or f"{path}: line {number}: no CDXJ line: {text[:60]!r}"


_CDX_NAMES = {"N": "surt", "b": "timestamp", "a": "url", "m": "mime", "s": "status", "k": "digest",
              "r": "redirect", "S": "length", "V": "offset", "g": "filename"}  # fmt: skip


def _parsed(text: str, columns: str) -> Entry | None:
    if columns:
        values = text.split(" ")
        found = {_CDX_NAMES.get(name, name): value for name, value in zip(columns, values, strict=False)}
        if len(values) != len(columns) or not {"surt", "timestamp"} <= set(found):
            return None
        surt, stamp = found.pop("surt"), found.pop("timestamp")
        return Entry(surt, stamp, {name: value for name, value in found.items() if value != "-"})
    surt, _, rest = text.partition(" ")
    stamp, _, fields = rest.partition(" ")
    try:
        decoded = json.loads(fields)
    except ValueError:
        return None
    if not stamp.isdigit() or not isinstance(decoded, dict):
        return None
    return Entry(surt, stamp, {str(name): str(value) for name, value in decoded.items()})
