"""noria.json, the file that makes a folder a lake; and what lies at a path where it is not."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from dataclasses import dataclass

from lake.errors import LakeDamaged, LakeError, LakeExists, LakeHalfMade, LakeMissing, LakeVersionError
from lake.files import put_if_absent
from lake.layout import Layout
from lake.schema import LEDGER

FORMAT = 1
"""Version of the lake's layout; raised when older code could misread a newer lake."""

MAX_BUCKETS = 32_768
"""A bucket is told by the 15 bits of the host's hash on top of a key."""


@dataclass(frozen=True)
class Meta:
    """What noria.json says of a lake."""

    lake_id: str
    buckets: int


def check_buckets(buckets: int) -> None:
    """Raise LakeError unless a lake can have so many buckets."""
    if not _possible(buckets):
        raise LakeError(f"a lake of {buckets} buckets: must be a power of two from 1 to {MAX_BUCKETS}")


def put_meta(layout: Layout, *, buckets: int, lake_id: str | None) -> bool:
    """Write noria.json where there is none; False if another process was first."""
    plain = {
        "format": FORMAT,
        "lake_id": lake_id or uuid.uuid4().hex,
        "buckets": buckets,
        "made_at": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
    }
    return put_if_absent(layout.meta, json.dumps(plain, indent=1).encode())


def refuse_foreign(layout: Layout) -> None:
    """Raise unless the place is free, or holds a lake that was being made."""
    root = layout.root
    if root.exists() and not root.is_dir():
        raise LakeMissing(f"{root} is a file; name a folder for the lake")
    if layout.meta.exists():
        raise LakeExists(f"{root}: there is a lake already; open it, or name another folder")
    if not root.is_dir():
        return
    strange = [path for path in root.iterdir() if not path.name.startswith((".noria.", "noria."))]
    # asked after the look, in this order: who makes a lake marks it first, and takes the mark off when noria.json is there
    if strange and not layout.making.exists() and not layout.meta.exists():
        lost = _no_meta(layout)
        if isinstance(lost, LakeDamaged):
            raise lost
        raise LakeMissing(
            f"{root} holds other files ({strange[0].name}) and is no lake; name an empty or a new folder"
        )


def read_meta(layout: Layout) -> Meta:
    """Return noria.json, or raise the sentence that fits what lies there instead."""
    root = layout.root
    if not root.exists():
        raise LakeMissing(f"{root} does not exist; `noria cycle --lake {root}` makes a lake there")
    if not root.is_dir():
        raise LakeMissing(f"{root} is a file, a lake is a folder; name the folder")
    if not layout.meta.exists():
        raise _no_meta(layout)
    try:
        plain = json.loads(layout.meta.read_text(encoding="utf-8"))
        version, buckets, lake_id = int(plain["format"]), int(plain["buckets"]), str(plain["lake_id"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LakeDamaged(f"{layout.meta} cannot be read ({error}); restore it from a copy") from error
    if version > FORMAT:
        raise LakeVersionError(
            f"{root}: lake of format {version}, this Noria reads up to {FORMAT}; install a newer one"
        )
    if not _possible(buckets):
        raise LakeDamaged(
            f"{layout.meta}: {buckets} buckets is not a power of two; restore the file from a copy"
        )
    return Meta(lake_id, buckets)


def _possible(buckets: int) -> bool:
    return 1 <= buckets <= MAX_BUCKETS and not buckets & (buckets - 1)


def _no_meta(layout: Layout) -> LakeError:
    if layout.making.exists():
        return LakeHalfMade(
            f"{layout.root}: making this lake was interrupted; `noria cycle --lake {layout.root}` finishes it"
        )
    if (layout.table(LEDGER.name) / "_delta_log").exists():
        return LakeDamaged(f"{layout.root}: a lake without its noria.json; restore that file from a copy")
    return LakeMissing(f"{layout.root} is no lake (no noria.json in it); name another folder")
