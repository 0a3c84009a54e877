"""The HTTP head of a stored answer: as received, but for what would contradict the bytes stored with it.

Of the ways to keep an answer that came in chunks, cut short, or with a wrong length, one is accepted by every
checker: the header that describes the wire is renamed to `X-Crawl-…`, and `Content-Length` says what is stored.
Lines that HTTP parsers do not read alike (no colon, blank, control bytes) are kept as `X-Crawl-Header-Line`.
"""

from __future__ import annotations

import re

_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]"
_TEXT = rb"[\t -~\x80-\xff]"
_STATUS_LINE = re.compile(rb"HTTP/1\.[01] [1-9][0-9]{2}(?: " + _TEXT + rb"*+)?")
_FIELD = re.compile(rb"(" + _TOKEN + rb"++)[ \t]*+:(" + _TEXT + rb"*+)")
_CLEAN = re.compile(
    _STATUS_LINE.pattern + rb"\r\n"
    rb"(?:"
    + _TOKEN
    + rb"++:"
    + _TEXT
    + rb"*+\r\n(?:[ \t]++[\t \x80-\xff]*+[!-~]"
    + _TEXT
    + rb"*+\r\n)*+)*+\r\n"
)
_FRAMING = re.compile(
    rb"^(content-length|transfer-encoding):[ \t]*+([^\r\n]*+(?:\r\n[ \t][^\r\n]*+)*+)\r\n",  # folded lines belong to it
    re.M | re.I,
)
_INK = re.compile(rb"[!-~]")
_CONTROL = re.compile(rb"[^\t -~\x80-\xff]")


def stored_head(head: bytes, *, status: int, length: int | None) -> bytes:
    """Return the head to store before a payload of `length` bytes; None = an answer that has no body.

    head: as received, with or without its closing blank line. The result ends with the blank line, holds at
    most one `Content-Length`, which is `length`, and no `Transfer-Encoding`; lines that were fit stay byte
    for byte, in order. A head without either header gets none (the body ended with the connection).
    """
    if not _CLEAN.fullmatch(head):
        head = _mended(head, status)
    framing = _FRAMING.findall(head)
    if not framing or (length is not None and _says(framing, length)):
        return head
    return _renamed(head, length)


def has_no_body(method: str, status: int) -> bool:
    """Say whether an answer ends with its head whatever its headers say (RFC 9112 6.3)."""
    return method == "HEAD" or status < 200 or status in (204, 304)


def _says(framing: list[tuple[bytes, bytes]], length: int) -> bool:
    """Say whether the only framing header is the right Content-Length."""
    return len(framing) == 1 and framing[0][0][0] in b"cC" and framing[0][1].rstrip() == b"%d" % length


def _renamed(head: bytes, length: int | None) -> bytes:
    """Rename the framing headers that do not hold for the stored bytes, and say the length that does."""
    wanted, kept = None if length is None else b"%d" % length, False

    def rename(line: re.Match[bytes]) -> bytes:
        nonlocal kept
        right = line[1][0] in b"cC" and line[2].rstrip() == wanted
        if right and not kept:
            kept = True
            return line[0]
        return b"X-Crawl-" + line[0]

    head = _FRAMING.sub(rename, head)
    if length is None or kept:
        return head
    return b"%sContent-Length: %d\r\n\r\n" % (head[:-2], length)


def _mended(head: bytes, status: int) -> bytes:
    """Return a head that every parser reads in the same way; what is unfit is kept under an X-Crawl name."""
    first, *rest = (line.rstrip(b"\r") for line in head.split(b"\n"))
    lines = [first]
    if not _STATUS_LINE.fullmatch(first):
        lines = [_status_line(first, status), b"X-Crawl-Status-Line: " + _plain(first.strip())]
    foldable = False
    for line in rest:
        if not line.strip():
            continue
        if line[:1] in b" \t" and foldable:
            lines.append(b" " + _plain(line.strip()))
            if not _INK.search(line):  # readers that decode first take such a line for a blank one
                lines[-2:] = [b"".join(lines[-2:])]
            continue
        lines.append(_field(line))
        foldable = True
    return b"\r\n".join(lines) + b"\r\n\r\n"


def _status_line(line: bytes, status: int) -> bytes:
    reason = re.fullmatch(rb"\S+[ \t]+[0-9]{3}[ \t]+(\S.*)", _plain(line))
    return b"HTTP/1.1 %03d %s" % (status, reason[1] if reason else b"")


def _field(line: bytes) -> bytes:
    if field := _FIELD.fullmatch(_plain(line)):
        return b"%s:%s" % (field[1], field[2])
    return b"X-Crawl-Header-Line: " + _plain(line.strip())


def _plain(text: bytes) -> bytes:
    """Percent-encode control bytes, which parsers refuse or take for the end of a line."""
    return _CONTROL.sub(lambda byte: b"%%%02X" % byte[0][0], text)
