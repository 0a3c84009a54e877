"""What a fetch partition leaves behind: parts, written every few seconds, each whole and on disk.

An attempt's folder holds its parts, its spool WARCs and a journal. The next attempt takes over
the parts that it finds (`start.json` names them), so a zombie that writes one more is not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from lake import staging
from lake.schema import CAPTURES, HOSTS
from pipelines.cycle.journal import Journal

_STAGED = (
    "url", "fetch_time", "fetch_status", "fetch_redirect", "content_digest", "content_mime_type",
    "content_mime_detected", "content_charset", "content_truncated", "url_key", "host", "kind", "outcome", "error",
    "record_id", "record_type", "address", "request_ms", "first_byte_ms", "response_ms", "delay_ms",
    "delay_reason", "body_bytes", "wire_bytes", "decoded_bytes", "title", "links", "depth", "via", "source",
    "hop", "etag", "last_modified", "retry_after", "robots_tags", "attempt", "notes",
)  # fmt: skip
_types = {field.name: field.type for field in CAPTURES.arrow}
CAPTURE_SCHEMA = pa.schema(
    [
        *(pa.field(name, _types[name]) for name in _STAGED),
        pa.field("meta", pa.string()),
        pa.field("origin_key", pa.int64()),  # the planned URL that led here
        pa.field("spool", pa.int32()),  # number of the spool within the attempt; -1 = nothing stored
        pa.field("spool_offset", pa.int64()),
        pa.field("spool_length", pa.int32()),
        pa.field("request_length", pa.int32()),
        pa.field("skeleton", pa.int32()),  # see watch.Seen; null = the answer says nothing of its pattern
        pa.field("leads_away", pa.bool_()),
    ]
)
"""A request and its outcome, before its record has a final place."""

CANDIDATE_SCHEMA = pa.schema(
    [
        pa.field("url_key", pa.int64()),
        pa.field("url", pa.string()),
        pa.field("host", pa.string()),
        pa.field("via", pa.string()),
        pa.field("via_key", pa.int64()),
        pa.field("depth", pa.int16()),
        pa.field("source", pa.string()),
        pa.field("meta", pa.string()),
    ]
)
"""A URL found: perhaps new."""

LINK_SCHEMA = pa.schema(
    [pa.field("src_host", pa.string()), pa.field("dst_host", pa.string()), pa.field("links", pa.int64())]
)
ROBOTS_SCHEMA = pa.schema([pa.field("digest", pa.string()), pa.field("body", pa.binary())])
HOST_SCHEMA = HOSTS.arrow.append(pa.field("requests_left", pa.int64()))
"""A host as it stands at a flush; the last row of a host counts."""

SITEMAP_SCHEMA = pa.schema(
    [
        pa.field("url_key", pa.int64()),  # of the host: its lowest URL key
        pa.field("host", pa.string()),  # where the sitemap lies
        pa.field("url", pa.string()),
        pa.field("source", pa.string()),
        pa.field("hosts", pa.list_(pa.string())),  # for whose pages it may speak
        pa.field("meta", pa.string()),
        pa.field("level", pa.int16()),
    ]
)
"""A sitemap found that its host does not know of yet: of another host, or a seed."""

KINDS = {
    "sitemaps": SITEMAP_SCHEMA,
    "captures": CAPTURE_SCHEMA,
    "candidates": CANDIDATE_SCHEMA,
    "links": LINK_SCHEMA,
    "robots": ROBOTS_SCHEMA,
    "hosts": HOST_SCHEMA,
}


@dataclass(frozen=True)
class PartName:
    """One part of one attempt."""

    attempt: int
    number: int


def folder(base: Path, attempt: int) -> Path:
    """Return an attempt's folder inside a partition's."""
    return base / f"a{attempt:03d}"


def spool_path(base: Path, attempt: int, number: int) -> Path:
    """Return the path of a spool WARC."""
    return folder(base, attempt) / f"spool-{number:05d}.warc.gz"


class Attempt:
    """The writing side of one attempt at a partition. `base` is the partition's folder."""

    def __init__(self, base: Path, number: int, inherited: list[PartName]) -> None:
        self.base, self.number, self.inherited = base, number, inherited
        self._next = 0
        self.journal = Journal(folder(base, number) / "journal")

    @classmethod
    def begin(cls, base: Path) -> Attempt:
        """Make the next attempt's folder and take over what the one before it had: inherited parts and its own.

        A part that a zombie wrote after its successor had begun is nobody's: others have fetched the same again.
        """
        base.mkdir(parents=True, exist_ok=True)
        earlier = sorted(int(path.name[1:]) for path in base.glob("a[0-9]*"))
        inherited = _left_by(base, earlier)
        number = earlier[-1] + 1 if earlier else 1
        folder(base, number).mkdir()
        told = [[part.attempt, part.number] for part in inherited]
        staging.write_manifest(folder(base, number) / "start.json", {"inherited": told})
        return cls(base, number, inherited)

    def flush(self, tables: dict[str, list[tuple[Any, ...]]], spools: dict[int, int]) -> PartName:
        """Write the rows as a part. `spools`: flushed bytes of each spool. Rows are tuples in schema order."""
        name = PartName(self.number, self._next)
        home = folder(self.base, self.number)
        for kind, rows in tables.items():
            if rows:
                table = table_of(KINDS[kind], rows)
                staging.write_table(home / f"part-{name.number:05d}.{kind}.arrow", table, durable=True)
        kinds = sorted(kind for kind, rows in tables.items() if rows)
        self.journal.sync()
        told = {"kinds": kinds, "spools": {str(key): size for key, size in spools.items()}}
        staging.write_manifest(home / f"part-{name.number:05d}.json", told)
        self._next += 1
        return name

    def close(self) -> None:
        """Close the journal."""
        self.journal.close()

    def written(self) -> list[PartName]:
        """Return all parts that count: the inherited ones, then this attempt's."""
        return [*self.inherited, *(PartName(self.number, number) for number in range(self._next))]


def table_of(schema: pa.Schema, rows: list[tuple[Any, ...]]) -> pa.Table:
    """Return tuples in schema order as a table."""
    columns = zip(*rows, strict=True) if rows else ((),) * len(schema)
    arrays = [pa.array(values, field.type) for field, values in zip(schema, columns, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _left_by(base: Path, attempts: list[int]) -> list[PartName]:
    """Return the parts that count after these attempts; one that has not told what it took over wrote none."""
    for number in reversed(attempts):
        begun = staging.read_manifest(folder(base, number) / "start.json")
        if begun is not None:
            return [*(PartName(*pair) for pair in begun["inherited"]), *_parts_of(base, number)]
    return []


def _parts_of(base: Path, attempt: int) -> Iterator[PartName]:
    for path in sorted(folder(base, attempt).glob("part-*.json")):
        yield PartName(attempt, int(path.stem[5:]))


def read_parts(base: Path, parts: Iterable[PartName], kind: str) -> pa.Table:
    """Return the rows of one kind of the named parts, in order."""
    tables = []
    for part in parts:
        path = folder(base, part.attempt) / f"part-{part.number:05d}.{kind}.arrow"
        if path.exists():
            tables.append(staging.read_table(path))
    return pa.concat_tables(tables) if tables else KINDS[kind].empty_table()


def spool_sizes(base: Path, parts: Iterable[PartName]) -> dict[tuple[int, int], int]:
    """Return the flushed bytes of each spool, by (attempt, number)."""
    sizes: dict[tuple[int, int], int] = {}
    for part in parts:
        told = staging.read_manifest(folder(base, part.attempt) / f"part-{part.number:05d}.json") or {
            "spools": {}
        }
        for number, size in told["spools"].items():
            sizes[(part.attempt, int(number))] = size
    return sizes


def journals(base: Path, before: int) -> list[Path]:
    """Return the journals of the attempts before one."""
    return [folder(base, number) / "journal" for number in range(1, before)]
