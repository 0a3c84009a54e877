"""WARC 1.1 written: warcio makes a record, isal compresses it, one gzip member a record.

`warc_spool` appends the members, `cycle/seal.py` makes the final files. Clauses are of WARC 1.1 (iipc.github.io/warc-specifications).
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import sha1
from typing import NamedTuple, cast
from urllib.parse import quote

from isal import igzip_lib, isal_zlib
from warcio.recordloader import ArcWarcRecord
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from pipelines.net.exchange import Exchange
from pipelines.net.warc_head import has_no_body, stored_head

IDENTICAL_PAYLOAD = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
NOT_MODIFIED = "http://netpreserve.org/warc/1.1/revisit/server-not-modified"
EMPTY_DIGEST = "3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ"  # SHA-1 of no bytes, Base32
GZIP_LEVEL = 2  # isal: 0.06 ms for a 30 KB page; zlib 9, which warcio fixes, takes 2.3 ms for 2 % less
TRUNCATED = frozenset({"length", "time", "disconnect", "unspecified"})  # WARC 1.1, 5.13

_NAMESPACE = uuid.UUID("6f1a4d0e-9d5b-5f53-8f0e-6e6f72696177")
_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"  # RFC 4648, 6
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_IsalError = cast(type[Exception], isal_zlib.error)
_UNFIT_IN_URI = re.compile(r"[^!-;=?-~]")
Headers = list[tuple[str, str]]


class WarcError(Exception):
    """What cannot be written as, or read from, a WARC file: a sentence with the place and the reason."""


@dataclass(frozen=True)
class WarcInfo:
    """What a file says of itself (6.2). Empty fields are left out.

    warcinfo_id: `urn:uuid:…`, deterministic (`uuid_urn`). filename: the final one, without folders.
    date: as `warc_date` makes it. robots: the policy obeyed.
    """

    warcinfo_id: str
    filename: str
    date: str
    software: str = "Noria"
    operator: str = ""
    user_agent: str = ""
    hostname: str = ""
    robots: str = ""
    description: str = ""
    is_part_of: str = ""


class Revisit(NamedTuple):
    """The capture that a 304 confirms: the one whose validators were sent.

    date: its WARC-Date. digest: its payload digest, 32 characters of Base32; None = not known.
    """

    url: str
    date: str
    digest: str | None
    record_id: str | None = None


class Stored(NamedTuple):
    """Where a pair lies in its spool: the response member, and the request member right behind it.

    payload_digest: SHA-1, 32 characters of Base32; for a 304, that of the capture it confirms (empty: unknown).
    total: bytes of both members.
    """

    record_id: str
    offset: int
    length: int
    payload_digest: str
    total: int


def uuid_urn(*parts: str) -> str:
    """Return the `urn:uuid:…` that always belongs to these words (a version 5 UUID).

    >>> uuid_urn("warcinfo", "a.warc.gz") == uuid_urn("warcinfo", "a.warc.gz")
    True
    """
    made = bytearray(sha1(_NAMESPACE.bytes + "\0".join(parts).encode(), usedforsecurity=False).digest()[:16])
    made[6] = made[6] & 0x0F | 0x50
    made[8] = made[8] & 0x3F | 0x80
    text = made.hex()
    return f"urn:uuid:{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def warc_date(epoch_ms: int) -> str:
    """Return a WARC-Date (5.4) with six fractional digits.

    >>> warc_date(1_764_583_200_123)
    '2025-12-01T10:00:00.123000Z'
    """
    second, ms = divmod(epoch_ms, 1_000)
    return f"{_second_text(second)}.{ms:03}000Z"


@lru_cache(maxsize=256)
def _second_text(second: int) -> str:
    return (_EPOCH + timedelta(seconds=second)).strftime("%Y-%m-%dT%H:%M:%S")


def target_uri(url: str) -> str:
    """Return the URL as WARC-Target-URI: printable ASCII without space or brackets, otherwise as it was sent.

    >>> target_uri("http://a.example/<ü>")
    'http://a.example/%3C%C3%BC%3E'
    """
    return _UNFIT_IN_URI.sub(lambda unfit: quote(unfit[0], safe=""), url)


def storable(exchange: Exchange) -> bool:
    """Say whether an answer came that can be a response record: a status and a head."""
    return exchange.status is not None and bool(exchange.response_head)


def digest_of(*parts: bytes) -> str:
    """Return the SHA-1 of the joined parts as 32 characters of Base32."""
    state = sha1(usedforsecurity=False)
    for part in parts:
        state.update(part)
    return base32(state.digest())


_PAIRS = [one + other for one in _ALPHABET for other in _ALPHABET]
_SHIFTS = range(150, -1, -10)


def base32(digest: bytes) -> str:
    """Return the 20 bytes of a SHA-1 as 32 characters: what `base64.b32encode` gives, in a tenth of its time."""
    number = int.from_bytes(digest, "big")
    return "".join([_PAIRS[number >> shift & 1023] for shift in _SHIFTS])


class _Pieces(list[bytes]):
    """What warcio writes a record into: its pieces, uncopied."""

    write = list.append

    def flush(self) -> None:
        return None


class _Block:
    """A record's block as warcio reads it: in one piece."""

    def __init__(self, content: bytes) -> None:
        self._left = content

    def read(self, _size: int = -1) -> bytes:
        content, self._left = self._left, b""
        return content


class _Head:
    """The HTTP head of a revisit as warcio asks for it: its bytes, as they are."""

    def __init__(self, head: bytes) -> None:
        self.headers_buff = head

    def compute_headers_buffer(self, _header_filter: object) -> None:
        return None


class RecordMaker:
    """Makes gzip members of one record each; for one thread at a time."""

    def __init__(self) -> None:
        self._pieces = _Pieces()
        self._writer = WARCWriter(self._pieces, gzip=False, warc_version="WARC/1.1")

    def member(self, headers: Headers, *block: bytes) -> bytes:
        """Return the member for a record; `headers` begin with WARC-Type and hold Content-Type.

        Block digest and length are added here. `headers` is used up.
        """
        return compressed(self.record(headers, *block))

    def record(self, headers: Headers, *block: bytes) -> bytes:
        """Return the record uncompressed, as warcio serialises it.

        The payload digest of an HTTP message is made here where `headers` have none.
        """
        content = b"".join(block)
        if headers[0][1] in ("response", "request") and not any(
            name == "WARC-Payload-Digest" for name, _ in headers
        ):
            payload = content.partition(b"\r\n\r\n")[2]
            headers.append(("WARC-Payload-Digest", "sha1:" + digest_of(payload)))
        headers.append(("WARC-Block-Digest", "sha1:" + digest_of(content)))
        fields = StatusAndHeaders("", headers, protocol="WARC/1.1")
        kind = headers[0][1]
        head = (
            _Head(content) if kind == "revisit" else None
        )  # warcio writes no more of a revisit than its head
        record = ArcWarcRecord("warc", kind, fields, _Block(content), head, None, len(content))
        self._pieces.clear()
        self._writer.write_record(record)
        return b"".join(self._pieces)


def compressed(record: bytes) -> bytes:
    """Return the bytes as one gzip member; the same bytes give the same member."""
    return bytes(igzip_lib.compress(record, level=GZIP_LEVEL, flag=igzip_lib.COMP_GZIP))


def warcinfo_member(info: WarcInfo) -> bytes:
    """Return the gzip member of the warcinfo record (6.2), the first of a file."""
    fields = {
        "software": info.software,
        "format": "WARC File Format 1.1",
        "conformsTo": "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/",
        "operator": info.operator,
        "hostname": info.hostname,
        "robots": info.robots,
        "http-header-user-agent": info.user_agent,
        "isPartOf": info.is_part_of,
        "description": info.description,
    }
    lines = (f"{name}: {' '.join(text.split())}\r\n" for name, text in fields.items() if text)
    headers = [
        ("WARC-Type", "warcinfo"),
        ("WARC-Record-ID", f"<{info.warcinfo_id}>"),
        ("WARC-Date", info.date),
        ("WARC-Filename", info.filename),
        ("Content-Type", "application/warc-fields"),
    ]
    return RecordMaker().member(headers, "".join(lines).encode())


def _response_headers(exchange: Exchange, common: Headers, record_id: str, truncated: str | None) -> Headers:
    headers = [("WARC-Type", "response"), ("WARC-Record-ID", f"<{record_id}>"), *common]
    if truncated:
        headers.append(("WARC-Truncated", truncated))
    headers.append(("Content-Type", "application/http;msgtype=response"))
    return headers


def _revisit_headers(revisit: Revisit, common: Headers, record_id: str, profile: str) -> Headers:
    headers = [("WARC-Type", "revisit"), ("WARC-Record-ID", f"<{record_id}>"), *common]
    headers.append(("WARC-Profile", profile))
    if revisit.record_id:
        headers.append(("WARC-Refers-To", f"<{revisit.record_id}>"))
    headers.append(("WARC-Refers-To-Target-URI", target_uri(revisit.url)))
    headers.append(("WARC-Refers-To-Date", revisit.date))
    headers.append(("Content-Type", "application/http;msgtype=response"))
    if revisit.digest:
        headers.append(("WARC-Payload-Digest", f"sha1:{revisit.digest}"))
    return headers


def _request_headers(common: Headers, record_id: str) -> Headers:
    return [
        ("WARC-Type", "request"),
        ("WARC-Record-ID", f"<{uuid_urn('request', record_id)}>"),
        *common,
        ("WARC-Concurrent-To", f"<{record_id}>"),
        ("Content-Type", "application/http;msgtype=request"),
        ("WARC-Payload-Digest", f"sha1:{EMPTY_DIGEST}"),
    ]


def pair(
    maker: RecordMaker, exchange: Exchange, *, warcinfo_id: str, record_date: str, record_id: str,
    payload: bytes | None = None, truncated: str | None = None, revisit: Revisit | None = None,
) -> tuple[bytes, bytes, str]:  # fmt: skip
    """Return the response (or 304 revisit) member, the request member, and the payload digest.

    payload: the bytes to store; None = the exchange's body. truncated: None = what the exchange says.
    Raises WarcError where the exchange holds no answer (`storable`), or `truncated` is no word of 5.13.
    """
    status = exchange.status
    if status is None or not exchange.response_head:
        raise WarcError(f"no answer to store for {exchange.url}: status {status}, no response head")
    truncated = truncated or exchange.truncated
    if truncated and truncated not in TRUNCATED:
        raise WarcError(f"WARC-Truncated: {truncated!r} for {exchange.url}: use one of {sorted(TRUNCATED)}")
    common: Headers = [("WARC-Date", record_date), ("WARC-Target-URI", target_uri(exchange.url))]
    if exchange.address:
        common.append(("WARC-IP-Address", exchange.address))
    common.append(("WARC-Warcinfo-ID", f"<{warcinfo_id}>"))
    bodiless = has_no_body(exchange.method, status)
    body = b"" if bodiless else exchange.body if payload is None else payload
    head = stored_head(exchange.response_head, status=status, length=None if bodiless else len(body))
    if revisit is not None:
        digest = revisit.digest or ""
        answer = maker.member(_revisit_headers(revisit, common, record_id, NOT_MODIFIED), head)
    else:
        digest = digest_of(body) if body else EMPTY_DIGEST
        headers = _response_headers(exchange, common, record_id, truncated)
        headers.append(("WARC-Payload-Digest", f"sha1:{digest}"))
        answer = maker.member(headers, head, body)
    return answer, maker.member(_request_headers(common, record_id), exchange.request_head), digest


def first_member(data: bytes, place: str) -> int:
    """Return the bytes of the gzip member that the data begin with; WarcError names `place` where none does."""
    inflater = isal_zlib.decompressobj(wbits=31)
    try:
        inflater.decompress(data)
    except _IsalError as fault:
        raise WarcError(f"{place}: no gzip member at the start: {fault}") from fault
    if not inflater.eof:
        raise WarcError(f"{place}: the first gzip member has no end")
    return len(data) - len(inflater.unused_data)


def revisit_member(
    response_member: bytes, *, record_id: str, refers_to_url: str, refers_to_date: str,
    refers_to_id: str | None, profile: str = IDENTICAL_PAYLOAD,
) -> bytes:  # fmt: skip
    """Return the revisit (6.7) that takes the place of a response member: its head, without its payload.

    Date, URL, address, warcinfo and payload digest stay. Raises WarcError for bytes that are no response member.
    """
    try:
        plain = isal_zlib.decompress(response_member, wbits=31)
    except _IsalError as fault:
        raise WarcError(f"response member of {record_id}: {fault}") from fault
    fields, _, block = plain.partition(b"\r\n\r\n")
    old = dict(line.split(": ", 1) for line in fields.decode().split("\r\n")[1:])
    head, end, _ = block.partition(b"\r\n\r\n")
    if old.get("WARC-Type") != "response" or not end:
        raise WarcError(f"member of {record_id}: a response was expected, found {old.get('WARC-Type')!r}")
    carried = ("WARC-Date", "WARC-Target-URI", "WARC-IP-Address", "WARC-Warcinfo-ID")
    common = [(name, old[name]) for name in carried if name in old]
    digest = old["WARC-Payload-Digest"].removeprefix("sha1:")
    revisit = Revisit(refers_to_url, refers_to_date, digest, refers_to_id)
    headers = _revisit_headers(revisit, common, record_id, profile)
    headers.insert(-1, ("WARC-Truncated", "length"))
    return RecordMaker().member(headers, head, end)
