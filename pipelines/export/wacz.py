"""WACZ 1.1.1: a ZIP with WARC, index and page list that replayers open by itself, parts of it over the network.

`archive/data.warc.gz` is stored as it is (replayers read ranges of it), `indexes/` holds the CDXJ in gzip members
and where each begins, `pages/pages.jsonl` the entry points, `datapackage.json` sizes and SHA-256 of all.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, BinaryIO

from isal import isal_zlib

from pipelines.net import cdxj

VERSION = "1.1.1"
LINES = 1_024  # CDXJ lines of a gzip member
WARC = "archive/data.warc.gz"
_UNIX_TIME = 0x5455
"""A ZIP extra field. ReplayWeb.page takes an entry whose line in the central directory has no extra field to have none
beside its data either, where zipfile writes one (`force_zip64`), and then reads 20 bytes too early."""


class _Hashed:
    """A stream that counts and hashes what goes through it."""

    def __init__(self, out: IO[bytes]) -> None:
        self._out, self._hash, self.bytes = out, hashlib.sha256(), 0

    def write(self, data: bytes) -> int:
        self._hash.update(data)
        self.bytes += len(data)
        return self._out.write(data)

    @property
    def sha256(self) -> str:
        return f"sha256:{self._hash.hexdigest()}"


@dataclass
class Package:
    """A WACZ being written: first the WARC, then what is known when it is whole."""

    archive: zipfile.ZipFile
    resources: list[dict[str, Any]] = field(default_factory=list)

    @contextmanager
    def part(self, path: str, *, stored: bool) -> Iterator[BinaryIO]:
        """Give a stream for one file of the package; it is noted with its size and hash."""
        now = datetime.now(UTC)
        info = zipfile.ZipInfo(path, date_time=now.timetuple()[:6])
        info.extra = struct.pack("<HHBI", _UNIX_TIME, 5, 1, int(now.timestamp()))
        info.compress_type = zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED
        info.external_attr = 0o644 << 16
        with self.archive.open(info, "w", force_zip64=True) as out:
            hashed = _Hashed(out)
            yield hashed  # type: ignore[misc]  # all that is asked of it is write()
        name = Path(path).name
        self.resources.append({"name": name, "path": path, "hash": hashed.sha256, "bytes": hashed.bytes})

    def index(self, lines: list[str]) -> None:
        """Write the CDXJ: sorted, in gzip members, and the list of these."""
        chunks: list[tuple[str, bytes]] = []
        content = cdxj.content(lines).splitlines(keepends=True)
        for start in range(0, len(content), LINES):
            block = content[start : start + LINES]
            key = b" ".join(block[0].split(b" ", 2)[:2]).decode()
            chunks.append((key, isal_zlib.compress(b"".join(block), 2, wbits=31)))
        with self.part("indexes/index.cdx.gz", stored=True) as out:
            for _, data in chunks:
                out.write(data)
        listed, offset = ['!meta 0 {"format": "cdxj-gzip-1.0", "filename": "index.cdx.gz"}'], 0
        for key, data in chunks:
            place = {
                "offset": offset,
                "length": len(data),
                "digest": f"sha256:{hashlib.sha256(data).hexdigest()}",
            }
            listed.append(f"{key} {json.dumps(place)}")
            offset += len(data)
        with self.part("indexes/index.idx", stored=False) as out:
            out.write(("\n".join(listed) + "\n").encode())

    def pages(self, entries: Iterator[bytes]) -> None:
        """Write the list of pages; an entry is a line of JSON."""
        head = {"format": "json-pages-1.0", "id": "pages", "title": "Pages"}
        with self.part("pages/pages.jsonl", stored=False) as out:
            out.write(json.dumps(head).encode() + b"\n")
            for line in entries:
                out.write(line)

    def close(self, *, title: str, description: str, software: str, first: dict[str, Any] | None) -> None:
        """Write the manifest, and the hash of it. first: the page to open first, None = no page."""
        package: dict[str, Any] = {
            "profile": "data-package",
            "wacz_version": VERSION,
            "title": title,
            "description": description,
            "software": software,
            "created": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
            "resources": self.resources,
        }
        if first is not None:
            package |= {"mainPageUrl": first["url"], "mainPageDate": first["ts"]}
        data = json.dumps(package, indent=2, ensure_ascii=False).encode()
        digest = {"path": "datapackage.json", "hash": f"sha256:{hashlib.sha256(data).hexdigest()}"}
        self.archive.writestr("datapackage.json", data, zipfile.ZIP_DEFLATED)
        self.archive.writestr("datapackage-digest.json", json.dumps(digest), zipfile.ZIP_DEFLATED)


def page_entry(row: dict[str, Any]) -> dict[str, Any] | None:
    """Return the page list's entry of a record, None for what is no page to be opened: an error, an image."""
    if row["fetch_status"] != 200 or row["content_mime_detected"] not in (
        "text/html",
        "application/xhtml+xml",
    ):
        return None
    stamp = f"{row['fetch_time']:%Y-%m-%dT%H:%M:%SZ}"
    return {
        "id": row["record_id"].rpartition(":")[2],
        "url": row["url"],
        "title": row["title"] or row["url"],
        "ts": stamp,
    }
