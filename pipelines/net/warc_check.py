"""What the WARC 1.1 standard asks of a record, as a table of questions; and the digests it carries.

`noria check --deep` runs this over every file of a lake. Clauses are of WARC 1.1.
"""

from __future__ import annotations

import re
from base64 import b16decode, b32decode, b64decode
from binascii import Error as NoDigits
from collections import Counter
from collections.abc import Callable, Iterator
from hashlib import new
from ipaddress import ip_address
from pathlib import Path

from pipelines.net.warc_read import read_records
from pipelines.net.warc_record import WarcFault, WarcRecord
from pipelines.net.warc_stream import Source

_DATE = re.compile(r"\d{4}(-\d\d(-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?Z)?)?)?")
_ID = re.compile(r"<[a-zA-Z][a-zA-Z0-9+.-]*:[!-;=?-~]+>")
_BINARY_BYTES = {"md5": 16, "sha1": 20, "sha256": 32, "sha512": 64}
MANDATORY = ("WARC-Record-ID", "Content-Length", "WARC-Date", "WARC-Type")  # 5.2 to 5.5
# Which types a field may stand on (5.6 to 5.20); what is not listed may stand on any.
ONLY_ON: dict[str, frozenset[str]] = {
    "WARC-Concurrent-To": frozenset({"request", "response", "resource", "metadata", "revisit"}),
    "WARC-IP-Address": frozenset({"request", "response", "resource", "metadata", "revisit"}),
    "WARC-Refers-To": frozenset({"metadata", "revisit", "conversion"}),
    "WARC-Refers-To-Target-URI": frozenset({"revisit"}),
    "WARC-Refers-To-Date": frozenset({"revisit"}),
    "WARC-Profile": frozenset({"revisit"}),
    "WARC-Filename": frozenset({"warcinfo"}),
}
NEEDS_URI = frozenset({"response", "resource", "request", "revisit", "conversion", "continuation"})


def verify(path: Path | str) -> list[str]:
    """Return every fault of a WARC file as a sentence with its byte: structure, digests, the standard's fields."""
    return [f"{path}: {fault}" for fault in faults(path)]


def faults(path: Source) -> Iterator[WarcFault]:
    """Yield what is wrong with a WARC file, in order of place."""
    for number, found in enumerate(read_records(path)):
        if isinstance(found, WarcFault):
            yield found
            continue
        if number == 0 and found.type not in ("warcinfo", "arc_header"):
            yield WarcFault(found.offset, f"the first record is a {found.type}, no warcinfo", found)
        for what in record_faults(found):
            yield WarcFault(found.offset, what, found)


def record_faults(record: WarcRecord) -> Iterator[str]:
    """Yield what is wrong with one record, in words; an ARC record is only asked for what ARC knows."""
    if record.version == "ARC":
        return
    for question in QUESTIONS:
        yield from question(record)


def _fields_present(record: WarcRecord) -> Iterator[str]:
    for name in MANDATORY:
        if not record.header(name):
            yield f"{name} is missing"
    if record.type in NEEDS_URI and not record.header("WARC-Target-URI"):
        yield f"a {record.type} record needs WARC-Target-URI"
    if record.type == "revisit" and not record.header("WARC-Profile"):
        yield "a revisit record needs WARC-Profile"


def _fields_once(record: WarcRecord) -> Iterator[str]:
    counts = Counter(name.lower() for name, _ in record.headers)
    for name, count in counts.items():
        if count > 1 and name not in ("warc-concurrent-to", "warc-protocol"):
            yield f"{name} stands {count} times"


def _fields_allowed(record: WarcRecord) -> Iterator[str]:
    for name, types in ONLY_ON.items():
        if record.header(name) is not None and record.type not in types:
            yield f"{name} must not stand on a {record.type} record"


def _values(record: WarcRecord) -> Iterator[str]:
    for name in ("WARC-Date", "WARC-Refers-To-Date"):
        if (date := record.header(name)) and not _DATE.fullmatch(date):
            yield f"{name} {date!r} is no date of the standard"
    for name in ("WARC-Record-ID", "WARC-Warcinfo-ID", "WARC-Concurrent-To", "WARC-Refers-To"):
        if (text := record.header(name)) and not _ID.fullmatch(text):
            yield f"{name} {text!r} is no URI in angle brackets"
    uri = record.header("WARC-Target-URI")
    if uri and (not uri.isascii() or "<" in uri or " " in uri):
        yield f"WARC-Target-URI {uri[:80]!r} is no plain ASCII URI"
    if (address := record.header("WARC-IP-Address")) and not _is_address(address):
        yield f"WARC-IP-Address {address!r} is no address"


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _digests(record: WarcRecord) -> Iterator[str]:
    asked = [("WARC-Block-Digest", record.block)]
    if record.type != "revisit" and not record.header("WARC-Segment-Number"):
        asked.append(("WARC-Payload-Digest", record.payload))
    for name, data in asked:
        said = record.header(name)
        right = digest_matches(said, data) if said else True
        if right is None:
            yield f"{name} {said!r} cannot be read"
        elif not right:
            yield f"{name} {said} is wrong for the {len(data)} bytes there"


def digest_matches(said: str, data: bytes) -> bool | None:
    """Say whether a labelled digest, in Base32, hex or Base64, is that of the bytes; None = it cannot be read."""
    label, _, text = said.partition(":")
    algorithm = label.lower().replace("-", "")
    if (size := _BINARY_BYTES.get(algorithm)) is None:
        return None
    decoders: tuple[tuple[int, Callable[[str], bytes]], ...] = (
        (size * 2, lambda digits: b16decode(digits, casefold=True)),
        (-(-size * 8 // 5), lambda digits: b32decode(digits + "=" * (-len(digits) % 8), casefold=True)),
        (-(-size * 4 // 3), lambda digits: b64decode(digits + "=" * (-len(digits) % 4), altchars=b"-_")),
    )
    text = text.strip().rstrip("=")
    for length, decode in decoders:
        if len(text) == length:
            try:
                return decode(text) == new(algorithm, data, usedforsecurity=False).digest()
            except (NoDigits, ValueError):
                return None
    return None


def _http(record: WarcRecord) -> Iterator[str]:
    """An answer's own length must be that of its payload, and no chunks may be left (the one accepted form)."""
    if record.type != "response" or not record.http_size:
        return
    length = record.http_header("Content-Length")
    if record.http_header("Transfer-Encoding"):
        yield "the HTTP head says Transfer-Encoding, which readers understand in different ways"
    elif length is not None and length != str(len(record.payload)):
        yield f"the HTTP head says Content-Length {length}, {len(record.payload)} bytes are there"


QUESTIONS: tuple[Callable[[WarcRecord], Iterator[str]], ...] = (
    _fields_present,
    _fields_once,
    _fields_allowed,
    _values,
    _digests,
    _http,
)
