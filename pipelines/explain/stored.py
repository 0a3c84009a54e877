"""The stored bytes of a URL: its capture, and where that is a revisit, the record that holds the bytes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lake import runs
from lake.errors import DamagedFile
from lake.snapshot import Lake
from pipelines.cycle.sort import digest_key
from pipelines.explain import reads
from pipelines.explain.spelling import Spelling, spelling_of
from pipelines.failure import Failure, Misuse
from pipelines.net import bodies, warc
from pipelines.rules import urls

LOOKED_AT = 50
"""Captures of a URL among which a stored one is looked for, newest first."""


@dataclass(frozen=True)
class StoredPage:
    """A capture and its bytes. head: the answer's head as received at that visit. body: content coding kept.

    place: file under warc/, offset and length of the record that holds the body. newer: a later capture without one.
    """

    capture: dict[str, Any]
    head: bytes
    body: bytes
    coding: str | None
    place: tuple[str, int, int]
    newer: dict[str, Any] | None = None

    def decoded(self, limit: int) -> bodies.Decoded:
        """Return the body without its content coding, at most `limit` bytes."""
        return bodies.decode(self.body, self.coding, limit=limit)


def stored_page(lake: Lake, asked: str, *, cycle: int | None = None) -> StoredPage:
    """Return the newest stored page of a URL, or that of one cycle.

    A page that was answered (2xx, or unchanged) goes before an error page. Raises Failure with a sentence where
    nothing is stored, DamagedFile where the record cannot be read.
    """
    spelling = spelling_of(asked, lake.buckets)
    if spelling is None:
        raise Misuse(f"'{asked}' is no http(s) URL; give it whole, as https://www.example.org/page")
    if cycle is not None and not 1 <= cycle <= lake.cycle:
        raise Misuse(
            f"--cycle {cycle}: {lake.root} has cycles 1 to {lake.cycle}" if lake.cycle else _empty(lake)
        )
    captures = _captures(lake, spelling, cycle)
    kept = [capture for capture in captures if capture["warc_filename"]]
    answered = [capture for capture in kept if capture["outcome"] in ("ok", "not_modified")]
    if not kept:
        raise Failure(_nothing(lake, asked, captures, cycle))
    chosen = (answered or kept)[0]
    newer = captures[0] if captures[0] is not chosen else None
    return _read(lake, chosen, newer)


def _captures(lake: Lake, spelling: Spelling, cycle: int | None) -> list[dict[str, Any]]:
    found = reads.shelf_of(lake, spelling.key) if reads.was_admitted(lake, spelling.key) else None
    spellings = {spelling.wire} | ({found[1]["url"]} if found else set())
    newest = min(found[1]["shelf_cycle"], lake.cycle) if found else lake.cycle
    cycles = [cycle] if cycle is not None else list(range(newest, 0, -1))
    captures, _ = reads.captures_of(lake, spellings, spelling.key, cycles, most=LOOKED_AT, until_stored=True)
    return captures


def _read(lake: Lake, capture: dict[str, Any], newer: dict[str, Any] | None) -> StoredPage:
    own = (capture["warc_filename"], capture["warc_record_offset"], capture["warc_record_length"])
    record = _record(lake, own)
    if capture["record_type"] != "revisit":
        return StoredPage(
            capture, record.http_head, record.entity, record.http_header("content-encoding"), own, newer
        )
    place = _original(lake, capture)
    original = _record(lake, place)
    coding = original.http_header("content-encoding")
    return StoredPage(capture, record.http_head, original.entity, coding, place, newer)


def _record(lake: Lake, place: tuple[str, int, int]) -> warc.WarcRecord:
    name, offset, length = place
    path = Path(lake.layout.warc_file(name))
    try:
        return warc.read_at(path, offset, length)
    except FileNotFoundError as error:
        raise DamagedFile(
            f"{path} is gone; restore it from a copy (`noria check` names all that is damaged)"
        ) from error
    except warc.WarcError as error:
        raise DamagedFile(f"{error}; `noria check --deep` names all that is damaged") from error


def _original(lake: Lake, capture: dict[str, Any]) -> tuple[str, int, int]:
    """Return where the bytes lie that a revisit stands for: small payloads are not in `contents`, but were the URL's own."""
    digest = capture["content_digest"]
    if digest:
        key = digest_key(digest)
        files = lake.files("contents", partitions={"shard": [urls.bucket_of(key, lake.buckets)]})
        rows = runs.lookup(files, np.array([key], dtype=np.int64)).to_pylist()
        for row in rows:
            if row["digest"] == digest:
                return row["warc_filename"], row["warc_record_offset"], row["warc_record_length"]
        for earlier in _earlier(lake, capture):
            if earlier["content_digest"] == digest and earlier["record_type"] == "response":
                return earlier["warc_filename"], earlier["warc_record_offset"], earlier["warc_record_length"]
    raise Failure(
        f"{capture['url']}: in cycle {capture['cycle']} it was told to be unchanged, and the lake has no copy of what "
        "it was before"
    )


def _earlier(lake: Lake, capture: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the captures of a capture's URL up to its own, newest first."""
    cycles = list(range(capture["cycle"], 0, -1))
    found, _ = reads.captures_of(lake, {capture["url"]}, capture["url_key"], cycles, most=LOOKED_AT)
    return found


def _nothing(lake: Lake, asked: str, captures: list[dict[str, Any]], cycle: int | None) -> str:
    if captures:
        last = captures[0]
        told = f" ({last['error']})" if last["error"] else ""
        if "noarchive" in (last["robots_tags"] or "").split(","):
            told += "; the page asks not to be archived (noarchive)"
        when = f"in cycle {last['cycle']}"
        return f"{asked}: nothing is stored; what came of it {when} is {last['outcome']}{told}"
    if not lake.cycle:
        return _empty(lake)
    where = "yet" if cycle is None else f"in cycle {cycle}"
    return f"{asked}: not captured {where}; `noria explain` with this URL tells why"


def _empty(lake: Lake) -> str:
    return f"{lake.root}: no cycle has been committed yet, so nothing is stored"
