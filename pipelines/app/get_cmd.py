"""`noria get`: the stored bytes of a page, on standard output."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from pipelines.app.explain_cmd import plain
from pipelines.app.explain_words import at
from pipelines.app.lakes import place
from pipelines.explain.stored import StoredPage, stored_page

if TYPE_CHECKING:
    from pipelines.config import Settings


def run(
    settings: Settings, url: str, *, cycle: int | None, decoded: bool, headers: bool, as_json: bool
) -> None:
    """Write a stored page to standard output, following a revisit to the record that holds the bytes.

    cycle: None = the newest. decoded: without its content coding. headers: the answer's head first.
    as_json: no bytes, but where they lie.
    """
    page = stored_page(place(settings, make=False), url, cycle=cycle)
    if as_json:
        print(json.dumps(_plain(page)))
        return
    body = page.body
    if decoded:
        taken_off = page.decoded(settings.limits.decoded_bytes)
        body = taken_off.data
        if taken_off.error:
            print(f"noria: {taken_off.error}", file=sys.stderr)
    if page.newer:
        print(f"noria: {_newer(page)}", file=sys.stderr)
    sys.stdout.flush()
    sys.stdout.buffer.write((page.head if headers else b"") + body)
    sys.stdout.buffer.flush()


def _newer(page: StoredPage) -> str:
    newer = page.newer or {}
    when = at(page.capture["fetch_time"], 0).partition(" (")[0]
    return f"this is the page of {when}, cycle {page.capture['cycle']}; the last try (cycle {newer['cycle']}) brought {newer['outcome']}"


def _plain(page: StoredPage) -> dict[str, Any]:
    name, offset, length = page.place
    return {
        "capture": plain(page.capture),
        "warc_filename": name,
        "warc_record_offset": offset,
        "warc_record_length": length,
        "content_encoding": page.coding,
        "body_bytes": len(page.body),
        "newer": plain(page.newer),
    }
