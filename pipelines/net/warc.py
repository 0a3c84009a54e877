"""WARC files, as the rest of Noria names them: `warc_spool` appends, `warc_read` reads, `warc_check` judges."""

from __future__ import annotations

from pipelines.net.warc_check import faults, verify
from pipelines.net.warc_read import members, read_at, read_records
from pipelines.net.warc_record import WarcFault, WarcRecord, dechunked
from pipelines.net.warc_spool import Spool, sync_folder
from pipelines.net.warc_write import (
    EMPTY_DIGEST,
    IDENTICAL_PAYLOAD,
    NOT_MODIFIED,
    RecordMaker,
    Revisit,
    Stored,
    WarcError,
    WarcInfo,
    digest_of,
    first_member,
    revisit_member,
    storable,
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
    "WarcFault",
    "WarcInfo",
    "WarcRecord",
    "dechunked",
    "digest_of",
    "faults",
    "first_member",
    "members",
    "read_at",
    "read_records",
    "revisit_member",
    "storable",
    "sync_folder",
    "target_uri",
    "uuid_urn",
    "verify",
    "warc_date",
    "warcinfo_member",
]
