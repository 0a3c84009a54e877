"""What the WARC files of a cycle say of themselves, and its papers: settings, seeds and ledger row as records.

Later readers of the archive have the files, and perhaps nothing else (Heritrix and wget leave such a file too).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import csv

from lake import inbox
from lake.layout import Layout
from lake.ledger import LedgerRow
from pipelines.cycle.turn import Turn
from pipelines.net import warc

JSON, CSV = "application/json", "text/csv"


class Paper(NamedTuple):
    """One resource record: its name within the cycle, its media type, its bytes."""

    name: str
    media_type: str
    block: bytes


def spool_name(partition: int, attempt: int, number: int) -> str:
    """Return what tells the WARC file of a spool from the cycle's others."""
    return f"p{partition:04d}-a{attempt}-{number:05d}"


def warc_info(turn: Turn, lake_id: str, name: str) -> warc.WarcInfo:
    """Return what a WARC file of the cycle says of itself; the same for the same arguments.

    name: what tells it from the cycle's others, such as `spool_name` gives.
    """
    settings = turn.settings
    stamp = turn.opened_at.strftime("%Y%m%d%H%M%S")
    filename = f"{settings.warc.prefix}-{stamp}-{turn.cycle:06d}-{name}.warc.gz"
    return warc.WarcInfo(
        warcinfo_id=warc.uuid_urn(lake_id, filename),
        filename=filename,
        date=warc.warc_date(turn.opened_ms),
        software=f"Noria/{settings.user_agent.partition('/')[2].partition(' ')[0]}",
        operator=settings.warc.operator or settings.identity.contact,
        user_agent=settings.user_agent,
        robots="obey",
        description=settings.warc.description,
        is_part_of=turn.crawl,
    )


def write_papers(turn: Turn, lake_id: str, row: LedgerRow) -> Path:
    """Write settings, seeds taken in, and the ledger row of a cycle as `resource` records; return the file.

    Call it before the ledger row is committed, while the inbox files are there. A second call takes the place
    of the first one's file, whole. The targets are `urn:x-noria:LAKE:CYCLE:NAME`. Raises OSError (full disk).
    """
    info = warc_info(turn, lake_id, "meta")
    final = Layout(Path(turn.root)).warc(turn.cycle) / info.filename
    final.parent.mkdir(parents=True, exist_ok=True)
    partial = final.with_name(f"{final.name}.open")
    spool = warc.Spool(partial, info)
    try:
        for paper in _papers(turn, row):
            target = f"urn:x-noria:{lake_id}:{turn.crawl}:{paper.name}"
            headers = [
                ("WARC-Type", "resource"),
                ("WARC-Record-ID", f"<{warc.uuid_urn(lake_id, target)}>"),
                ("WARC-Date", info.date),
                ("WARC-Target-URI", target),
                ("Content-Type", paper.media_type),
            ]
            spool.add_record(headers, paper.block)
        spool.close()
        partial.replace(final)
        warc.sync_folder(final.parent)
    finally:
        spool.close()
        partial.unlink(missing_ok=True)
    return final


def _papers(turn: Turn, row: LedgerRow) -> Iterator[Paper]:
    yield Paper("settings", JSON, _json(turn.settings.values()))
    yield Paper("ledger", JSON, _json(asdict(row)))
    for name in turn.inbox:
        rows = inbox.read(turn.root, [name])
        if rows.num_rows:
            yield Paper(f"seeds:{name.removesuffix('.parquet')}", CSV, _table(rows))


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, indent=1, sort_keys=True, default=str).encode()


def _table(rows: pa.Table) -> bytes:
    """Return inbox rows as CSV (RFC 4180) with a line of names, in their order."""
    sink = BytesIO()
    csv.write_csv(rows, sink)
    return sink.getvalue()
