"""One sealed WARC file becomes rows of `pages`: the task of the extract pipeline.

What is written hangs on nothing but the file and the version of the extraction, so a task that runs twice, or on
two machines at once, writes the same file twice; the manifest that is put first counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from lake import snapshot, staging
from lake.files import Add
from lake.schema import PAGES
from lake.snapshot import crawl_name
from lake.stream import StreamedFile
from pipelines.extract.page import READ_TYPES, VERSION, Extract, extract
from pipelines.net import bodies
from pipelines.net.warc import WarcRecord, read_records

PIECE_ROWS = 2_000
"""Pages written at a time: some 10 MB of text in memory."""

_FROM_CAPTURE = (
    "url", "url_key", "host", "fetch_time", "content_digest", "warc_filename", "warc_record_offset",
    "warc_record_length",
)  # fmt: skip
Row = dict[str, Any]


@dataclass(frozen=True)
class WarcFile:
    """The task. filename: as `warc_filename` has it. decoded_bytes: most bytes of a body without its coding."""

    root: str
    cycle: int
    filename: str
    decoded_bytes: int

    @property
    def manifest(self) -> Path:
        """Where the task says that it is done."""
        return folder(self.root, self.cycle) / f"v{VERSION}-{self._stem}.json"

    @property
    def relative(self) -> str:
        """The data file's path in the table's folder."""
        return f"c{self.cycle:06d}/v{VERSION}-{self._stem}.parquet"

    @property
    def _stem(self) -> str:
        return Path(self.filename).name.removesuffix(".gz").removesuffix(".warc")


def folder(root: Path | str, cycle: int) -> Path:
    """Return the folder of a cycle's manifests; it is swept when the cycle's pages are committed."""
    return Path(root) / "staging" / f"extract-c{cycle:06d}"


def extract_file(task: WarcFile) -> dict[str, Any]:
    """Write the pages of a WARC file as a data file, and return the manifest: the file to add, and counts."""
    if found := done(task):
        return found
    lake = snapshot.open(task.root)
    counts = {"rows": 0, "unread": 0}
    table, crawl = lake.layout.table("pages"), crawl_name(task.cycle)
    with StreamedFile(table, task.relative, PAGES, {"crawl": crawl}) as out:
        for piece in _pieces(rows(lake, task)):
            counts["rows"] += len(piece)
            counts["unread"] += sum(row["problem"] is not None for row in piece)
            out.write(pa.Table.from_pylist(piece, schema=PAGES.file_schema))
    manifest = {"file": task.filename, "add": asdict(out.add), **counts}
    try:
        first = staging.claim_manifest(task.manifest, manifest)
    except FileNotFoundError:
        return (
            manifest  # another extraction has committed this cycle and swept its folder: the commit is once
        )
    if first:
        return manifest
    return staging.read_manifest(task.manifest) or manifest


def done(task: WarcFile) -> dict[str, Any] | None:
    """Return the manifest of a task that is done and whose file is there, or None."""
    task.manifest.parent.mkdir(parents=True, exist_ok=True)
    found = staging.read_manifest(task.manifest)
    if found is None:
        return None
    add = Add(**found["add"])
    path = Path(task.root) / "pages" / add.path
    if path.is_file() and path.stat().st_size == add.size:
        return found
    task.manifest.unlink(missing_ok=True)
    return None


def rows(lake: snapshot.Lake, task: WarcFile) -> Iterator[Row]:
    """Yield a row for each page whose bytes lie in the file, in the file's order."""
    path = lake.layout.warc_file(task.filename)
    with path.open("rb", buffering=1 << 20) as file:
        for capture in captures(lake, task).to_pylist():
            found = _read(file, capture, task.decoded_bytes)
            if found is not None:
                facts = {name: capture[name] for name in _FROM_CAPTURE}
                yield {**facts, "cycle": task.cycle, **_columns(found)}


def captures(lake: snapshot.Lake, task: WarcFile) -> pa.Table:
    """Return the captures whose payload lies in the file and may be text, by offset."""
    chosen = lake.dataset("captures", partitions={"crawl": [crawl_name(task.cycle)], "subset": ["warc"]})
    mime = pc.field("content_mime_detected")
    found = chosen.to_table(
        columns=list(_FROM_CAPTURE),
        filter=(pc.field("warc_filename") == task.filename)
        & (pc.field("record_type") == "response")
        & (pc.field("kind") == "page")
        & (mime.is_null() | mime.isin(sorted(READ_TYPES))),
    )
    return found.sort_by("warc_record_offset")


def _read(file: BinaryIO, capture: Row, decoded_bytes: int) -> Extract | None:
    file.seek(capture["warc_record_offset"])
    record = next(read_records(file.read(capture["warc_record_length"])), None)
    if not isinstance(record, WarcRecord):
        return Extract("", problem="damaged")
    body = bodies.decode(record.entity, record.http_header("Content-Encoding"), limit=decoded_bytes)
    if not body.data and record.payload:
        return Extract("", problem="coding")
    return extract(
        body.data,
        url=capture["url"],
        content_type=record.http_header("Content-Type"),
        link_header=record.http_header("Link"),
    )


def _columns(found: Extract) -> Row:
    row: Row = {name: getattr(found, name) for name in Extract.__dataclass_fields__}
    row["content_mime_detected"] = row.pop("mime") or None
    return row


def _pieces(rows: Iterator[Row]) -> Iterator[list[Row]]:
    piece: list[Row] = []
    for row in rows:
        piece.append(row)
        if len(piece) == PIECE_ROWS:
            yield piece
            piece = []
    if piece:
        yield piece
