"""WARC records as the lake's own check reads them: gzip members at known places, their headers and digests.

No WARC library: what our writer made is judged by other code than made it.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from dataclasses import dataclass
from pathlib import Path

MAGIC = b"\x1f\x8b\x08"
_GZIP = 31  # zlib's window bits for a gzip wrapper
UnpackError = zlib.error
_DIGESTED = ("response", "resource")


@dataclass(frozen=True)
class Place:
    """Where a table says that a record lies, and what it says of it; None = it does not say."""

    file: str
    offset: int
    length: int
    record_id: str | None = None
    url: str | None = None
    digest: str | None = None
    record_type: str | None = None


def place_fault(place: Place, size: int, edges: tuple[bytes, bytes]) -> str | None:
    """Return what is wrong with a place, told from the file's size and three bytes at both its ends."""
    start, end = edges
    if place.offset < 0 or place.length <= 0 or place.offset + place.length > size:
        return f"a record at {place.offset} of {place.length} bytes, the file has {size}"
    if start != MAGIC:
        return f"no gzip member begins at offset {place.offset}"
    if place.offset + place.length < size and end != MAGIC:
        return f"the member at {place.offset} does not end after {place.length} bytes"
    return None


def record_fault(member: bytes, place: Place) -> str | None:
    """Return what is wrong with the record in a gzip member: wrapping, headers, lengths, digests."""
    try:
        unpacked = unpacker()
        record = unpacked.decompress(member)
    except zlib.error as error:
        return f"the member at {place.offset} cannot be decompressed ({error})"
    if not unpacked.eof or unpacked.unused_data:
        return f"the member at {place.offset} is not exactly {place.length} bytes long"
    return plain_fault(record, place)


def unpacker() -> zlib._Decompress:
    """Return what decompresses one gzip member; it raises UnpackError."""
    return zlib.decompressobj(_GZIP)


def kind_of(record: bytes) -> str:
    """Return the WARC-Type of a record, "" where it tells none."""
    return _headers(record.partition(b"\r\n\r\n")[0]).get("warc-type", "")


def plain_fault(record: bytes, place: Place) -> str | None:
    """Return what is wrong with a record that is decompressed: headers, lengths, digests."""
    head, found, rest = record.partition(b"\r\n\r\n")
    if not found or not head.startswith(b"WARC/1."):
        return f"no WARC record at offset {place.offset}"
    return _content_fault(_headers(head), rest, place)


def _headers(head: bytes) -> dict[str, str]:
    lines = head.decode("utf-8", "replace").split("\r\n")[1:]
    pairs = (line.partition(":") for line in lines)
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


def _content_fault(headers: dict[str, str], rest: bytes, place: Place) -> str | None:
    length = headers.get("content-length", "")
    if not length.isdigit() or len(rest) != int(length) + 4 or not rest.endswith(b"\r\n\r\n"):
        return f"the record at {place.offset} has {len(rest) - 4} bytes of content, its header says {length or 'none'}"
    block = rest[:-4]
    return _mismatch(headers, place) or _digest_fault(headers, block, place)


def _mismatch(headers: dict[str, str], place: Place) -> str | None:
    """Compare the record's headers with what the table says."""
    pairs = (
        ("warc-record-id", f"<{place.record_id}>" if place.record_id else None),
        ("warc-target-uri", place.url),
        ("warc-type", place.record_type),
    )
    for name, told in pairs:
        if told is not None and headers.get(name) != told:
            return f"the record at {place.offset} has {name} {headers.get(name)}, the table says {told}"
    return None


def _digest_fault(headers: dict[str, str], block: bytes, place: Place) -> str | None:
    told = headers.get("warc-block-digest")
    if told and told.startswith("sha1:") and told[5:] != sha1(block):
        return f"the record at {place.offset}: its content does not have the digest {told}"
    if headers.get("warc-type") not in _DIGESTED:
        return None
    payload = block.partition(b"\r\n\r\n")[2] if "http" in headers.get("content-type", "") else block
    digest = sha1(payload)
    for said in (place.digest, (headers.get("warc-payload-digest") or "").removeprefix("sha1:")):
        if said and said != digest:
            return f"the record at {place.offset}: its payload has the digest {digest}, not {said}"
    return None


def sha1(data: bytes) -> str:
    """Return the SHA-1 as WARC files write it: Base32, 32 characters.

    >>> sha1(b"")
    '3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ'
    """
    return base64.b32encode(hashlib.sha1(data, usedforsecurity=False).digest()).decode()


def edges(path: Path, places: list[Place]) -> list[tuple[bytes, bytes]]:
    """Return three bytes at the beginning and behind the end of each place, read in one pass."""
    with path.open("rb", buffering=0) as file:
        found = []
        for place in places:
            ends = []
            for offset in (place.offset, place.offset + place.length):
                file.seek(max(offset, 0))
                ends.append(file.read(len(MAGIC)))
            found.append((ends[0], ends[1]))
    return found
