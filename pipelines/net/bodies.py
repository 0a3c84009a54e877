"""Taking content codings off, as browsers do, under a limit on what comes out (P9). Never raises."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Iterable
from typing import NamedTuple

import brotli
from isal import isal_zlib

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

ISAL_ERROR: type[Exception] = isal_zlib.IsalError  # type: ignore[assignment]  # its stub names an instance
STAGES = 5  # codings on top of each other; three have been seen
ZSTD_WINDOW_LOG = 25  # 32 MB of memory at most; RFC 9659 asks for 8 MB, single-segment frames have more
TOO_EARLY = "the coded stream ends too early"
STEP = 512  # bytes fed at a time where a damaged stream is read up to its damage
ALIASES = {"x-gzip": "gzip", "x-deflate": "deflate", "x-zstd": "zstd", "x-br": "br", "brotli": "br"}
BINARY = bytes(byte for byte in range(32) if byte not in b"\t\n\x0c\r\x1b")  # WHATWG MIME sniffing, 3
PLAIN = frozenset({"identity", "", "none"})


class Decoded(NamedTuple):
    """A body with its codings taken off.

    complete: the coded stream ended where it should, within the limit. coding: what was taken off, in the
    order it was applied, None = nothing. error: what was wrong, or None. Where nothing can be made of the
    bytes, `data` is empty: they must not be read as text.
    """

    data: bytes
    complete: bool
    coding: str | None
    error: str | None


class _Stage(NamedTuple):
    data: bytes
    complete: bool
    error: str | None
    taken_off: bool = True


def decode(body: bytes, content_encoding: str | None, *, limit: int) -> Decoded:
    """Return the body without its content codings, at most `limit` bytes of it.

    content_encoding: the header's value; several headers joined by commas. A body that was never coded
    although the header says so is returned as it is, with an error that says it.

    >>> decode(b"plain", "gzip", limit=100)
    Decoded(data=b'plain', complete=True, coding=None, error='called gzip, but sent plain')
    """
    if not content_encoding:
        return _within(body, limit)
    names = [name for text in content_encoding.split(",") if (name := _name(text)) not in PLAIN]
    if not body or not names:
        return _within(body, limit)
    if len(names) > STAGES:
        return Decoded(b"", False, None, f"{len(names)} content codings, more than {STAGES}")
    data, complete, taken_off, errors = body, True, list[str](), list[str]()
    for name in reversed(names):
        stage = _take_off(name, data, limit)
        data, complete = stage.data, complete and stage.complete
        if stage.taken_off:
            taken_off.insert(0, name)
        if stage.error:
            errors.append(stage.error)
        if not data:
            break
    whole = _within(data, limit)
    errors += [whole.error] if whole.error else []
    return Decoded(
        whole.data, complete and whole.complete, ", ".join(taken_off) or None, "; ".join(errors) or None
    )


def is_spoilt(truncated: str | None, decoded: Decoded | None, *, limit: int) -> bool:
    """Tell whether a body was cut off on its way or its coding cannot be taken off; our own cuts do not count.

    truncated: the exchange's word. decoded: the body as `decode` gave it under `limit`; None = nobody tried.
    """
    if truncated is not None:
        return truncated != "length"
    return decoded is not None and not decoded.complete and len(decoded.data) < limit


def _name(text: str) -> str:
    name = text.partition(";")[0].strip().strip("\"'").lower()
    return ALIASES.get(name, name)


def _within(data: bytes, limit: int) -> Decoded:
    if len(data) <= limit:
        return Decoded(data, True, None, None)
    return Decoded(data[:limit], False, None, f"longer than {limit} bytes")


def _take_off(name: str, data: bytes, limit: int) -> _Stage:
    """Take one coding off; what the bytes themselves say goes before the name."""
    real = _coding_of(data) or (name if name in ("br", "deflate") else None)
    if real is None:
        if name in _DECODERS or looks_plain(data):
            return _plain(name, data)
        return _Stage(b"", False, f"unknown content coding {name[:40]!r}", taken_off=False)
    stage = _DECODERS[real](data, limit)
    if stage.error and not stage.complete and len(stage.data) < limit and _was_plain(name, data, stage):
        return _plain(name, data)
    if real != name:
        return stage._replace(
            error=f"called {name}, but sent {real}" + (f"; {stage.error}" if stage.error else "")
        )
    return stage


def _plain(name: str, data: bytes) -> _Stage:
    if not looks_plain(data):
        return _Stage(b"", False, f"called {name[:40]}, but is not", taken_off=False)
    return _Stage(data, True, f"called {name[:40]}, but sent plain", taken_off=False)


def _was_plain(name: str, data: bytes, stage: _Stage) -> bool:
    return name in ("br", "deflate") and looks_plain(data) and len(stage.data) < len(data)


def looks_plain(data: bytes) -> bool:
    """Tell whether bytes can be text: none of the first 1,024 is a control character that text has not."""
    start = data[:1024]
    return len(start.translate(None, BINARY)) == len(start)


def _coding_of(data: bytes) -> str | None:
    """Return the coding that the first bytes show, None where they show none."""
    if data.startswith(b"\x1f\x8b"):
        return "gzip"
    if data.startswith(b"\x28\xb5\x2f\xfd"):
        return "zstd"
    return None


def _gzip(data: bytes, limit: int) -> _Stage:
    """Decode all members of a gzip stream; zeros or rubbish behind the last are passed over."""
    out: list[bytes] = []
    room = limit + 1
    while True:
        stage, rest = _inflate(data, 31, room)
        out.append(stage.data)
        room -= len(stage.data)
        if not stage.complete or room <= 0 or not rest.startswith(b"\x1f\x8b"):
            return stage._replace(data=b"".join(out))
        data = rest


def _deflate(data: bytes, limit: int) -> _Stage:
    """Decode zlib's format as RFC 9110 says, or the bare stream that some servers send instead."""
    wrapped = len(data) >= 2 and data[0] & 15 == 8 and (data[0] << 8 | data[1]) % 31 == 0
    if not wrapped:
        return _inflate(data, -15, limit + 1)[0]
    stage = _inflate(data, 15, limit + 1)[0]
    if stage.complete or stage.data:
        return stage
    bare = _inflate(data, -15, limit + 1)[0]
    return bare if bare.complete else stage


def _inflate(data: bytes, wbits: int, room: int) -> tuple[_Stage, bytes]:
    machine = isal_zlib.decompressobj(wbits=wbits)
    try:
        out = machine.decompress(data, room)
        while not machine.eof and len(out) < room and machine.unconsumed_tail:
            out += machine.decompress(machine.unconsumed_tail, room - len(out))
    except (ISAL_ERROR, ValueError):
        return _salvage(lambda: zlib.decompressobj(wbits), data, room), b""
    if machine.eof:
        return _Stage(out, True, None), machine.unused_data
    return _Stage(out, False, None if len(out) >= room else TOO_EARLY), b""


def _salvage(start: Callable[[], zlib._Decompress], data: bytes, room: int) -> _Stage:
    """Decode up to the damage, byte by byte at the end; zlib gives out what isal keeps to itself then."""
    machine, out, got = start(), list[bytes](), 0
    for step in _steps(data, machine_fails=lambda piece: _fails(machine, piece)):
        try:
            piece = machine.decompress(step, room - got)
        except zlib.error as error:
            return _Stage(b"".join(out), False, f"damaged: {error}")
        out.append(piece)
        got += len(piece)
        if got >= room or machine.eof:
            break
    return _Stage(b"".join(out), machine.eof, None if machine.eof else "damaged")


def _fails(machine: zlib._Decompress, piece: bytes) -> bool:
    try:
        machine.copy().decompress(piece)
    except zlib.error:
        return True
    return False


def _steps(data: bytes, *, machine_fails: Callable[[bytes], bool]) -> Iterable[bytes]:
    for at in range(0, len(data), STEP):
        piece = data[at : at + STEP]
        if machine_fails(piece):
            yield from (piece[i : i + 1] for i in range(len(piece)))
        else:
            yield piece


def _brotli(data: bytes, limit: int) -> _Stage:
    machine = brotli.Decompressor()
    out, got = list[bytes](), 0
    try:
        piece = machine.process(data, output_buffer_limit=limit + 1)
        while True:
            out.append(piece)
            got += len(piece)
            if got > limit:
                return _Stage(b"".join(out), False, None)
            if machine.is_finished():
                return _Stage(b"".join(out), True, None)
            if not piece and machine.can_accept_more_data():
                return _Stage(b"".join(out), False, TOO_EARLY)
            piece = machine.process(b"", output_buffer_limit=limit + 1 - got)
    except brotli.error as failure:
        return _Stage(b"".join(out), False, f"damaged: {failure}")


def _zstd(data: bytes, limit: int) -> _Stage:
    """Decode all frames of a zstd stream."""
    out, got, rest = list[bytes](), 0, data
    try:
        while rest.startswith(b"\x28\xb5\x2f\xfd"):
            machine = zstd.ZstdDecompressor(
                options={zstd.DecompressionParameter.window_log_max: ZSTD_WINDOW_LOG}
            )
            piece = machine.decompress(rest, limit + 1 - got)
            while piece or machine.eof:
                out.append(piece)
                got += len(piece)
                if machine.eof or got > limit or machine.needs_input:
                    break
                piece = machine.decompress(b"", limit + 1 - got)
            if got > limit:
                return _Stage(b"".join(out), False, None)
            if not machine.eof:
                return _Stage(b"".join(out), False, TOO_EARLY)
            rest = machine.unused_data
    except zstd.ZstdError as failure:
        return _Stage(b"".join(out), False, f"damaged: {failure}")
    return _Stage(b"".join(out), True, None)


_DECODERS: dict[str, Callable[[bytes, int], _Stage]] = {
    "gzip": _gzip,
    "deflate": _deflate,
    "br": _brotli,
    "zstd": _zstd,
}
