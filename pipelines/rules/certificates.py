"""The host names that an X.509 certificate is for, from its bytes (DER); nothing of it is verified.

RFC 5280, 4.2.1.6 (subject alternative name) and ITU-T X.690 (DER).
"""

from __future__ import annotations

from collections.abc import Iterator

_SUBJECT_ALT_NAME = bytes.fromhex("0603551d11")
_COMMON_NAME = bytes.fromhex("0603550403")
_DNS_NAME = 0x82
_OCTETS, _SEQUENCE, _BOOLEAN = 0x04, 0x30, 0x01
_TEXTS = frozenset({0x0C, 0x13, 0x16})  # UTF8String, PrintableString, IA5String
MOST_NAMES = 1_000


def names_of(der: bytes) -> tuple[str, ...]:
    """Return the DNS names of a certificate, each once, in its order; of one without any the last common name.

    Bytes that are no certificate have none.
    """
    names = list(dict.fromkeys(_alternatives(der)))[:MOST_NAMES]
    if names:
        return tuple(names)
    place = der.rfind(_COMMON_NAME)
    value = _value(der, place + len(_COMMON_NAME)) if place >= 0 else None
    return (_text(value[1]),) if value and value[0] in _TEXTS else ()


def _alternatives(der: bytes) -> Iterator[str]:
    place = der.find(_SUBJECT_ALT_NAME)
    if place < 0:
        return
    at = place + len(_SUBJECT_ALT_NAME)
    found = _value(der, at)
    if found and found[0] == _BOOLEAN:  # critical
        at += 2 + len(found[1])
        found = _value(der, at)
    inner = _value(found[1], 0) if found and found[0] == _OCTETS else None
    if not inner or inner[0] != _SEQUENCE:
        return
    rest, at = inner[1], 0
    while (name := _value(rest, at)) is not None:
        if name[0] == _DNS_NAME:
            yield _text(name[1])
        at = name[2]


def _value(data: bytes, at: int) -> tuple[int, bytes, int] | None:
    """Return tag, content and end of the value at a place; None if there is no whole one."""
    if at + 2 > len(data):
        return None
    tag, size = data[at], data[at + 1]
    at += 2
    if size & 0x80:
        count = size & 0x7F
        if not 1 <= count <= 4:
            return None
        size = int.from_bytes(data[at : at + count], "big")
        at += count
    return (tag, data[at : at + size], at + size) if at + size <= len(data) else None


def _text(data: bytes) -> str:
    return data.decode("ascii", "replace")
