"""WARC files: what a spool appends, what a seal rewrites, what a reader gets (see the modules for the words)."""

from __future__ import annotations

from pipelines.net.warc_write import (
    EMPTY_DIGEST,
    IDENTICAL_PAYLOAD,
    NOT_MODIFIED,
    RecordMaker,
    Revisit,
    Spool,
    Stored,
    WarcError,
    WarcInfo,
    digest_of,
    first_member,
    revisit_member,
    storable,
    sync_folder,
    target_uri,
    uuid_urn,
    warc_date,
    warcinfo_member,
)

__all__ = [
    "EMPTY_DIGEST",
    "IDENTICAL_PAYLOAD",
    "NOT_MODIFIED",
    "RecordMaker",
    "Revisit",
    "Spool",
    "Stored",
    "WarcError",
    "WarcInfo",
    "digest_of",
    "first_member",
    "revisit_member",
    "storable",
    "sync_folder",
    "target_uri",
    "uuid_urn",
    "warc_date",
    "warcinfo_member",
]
