"""Reading the head of an HTTP answer as leniently as browsers do: what it says, and how its body is framed.

RFC 9112 says what is right; where servers are wrong, Chromium's net/http is the measure (it shows the page),
and each thing forgiven is named in `flaws`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum

HEAD_START = re.compile(rb"[ \t]{0,4}(?:(?i:HTTP)/\d|ICY[ \t])")
STATUS_LINE = re.compile(
    rb"[ \t]{0,4}(?:(?i:HTTP)/(\d{1,3})(?:\.(\d{1,3}))?|(ICY))(?:[ \t]+(\d*)[ \t]*(.*)|)", re.DOTALL
)
NUMBER = re.compile(r"\d{1,18}")
CODINGS = frozenset({"gzip", "x-gzip", "deflate", "br", "zstd", "compress", "x-compress"})
BODILESS = frozenset({204, 304})


class Framing(Enum):
    """Where the body ends (RFC 9112, 6.3)."""

    NONE = "none"  # no body whatever the header fields say
    LENGTH = "length"
    CHUNKED = "chunked"
    CLOSE = "close"  # at the end of the connection


@dataclass(slots=True)
class Head:
    """What the head of an answer says."""

    status: int
    reason: str
    version: tuple[int, int]
    headers: list[tuple[str, str]]  # in order, names as spelt, Latin-1 text without surrounding blanks
    framing: Framing = Framing.CLOSE
    length: int = 0  # with Framing.LENGTH
    codings: str = ""  # transfer codings to take off after the chunks, in the order applied
    keep: bool = False  # the server would keep the connection
    keep_seconds: int | None = None  # ... for so long, by its Keep-Alive header
    flaws: list[str] = field(default_factory=list)


def read_head(raw: bytes, *, method: str = "GET") -> Head | None:
    """Return what an answer's head says, or None where it is no HTTP head at all.

    raw: from the status line to the blank line, both included (lines may end in a bare LF).
    A status line without a status counts as 200, as in Chromium.
    """
    lines = raw.split(b"\n")
    match = STATUS_LINE.fullmatch(lines[0].rstrip(b"\r"))
    if match is None:
        return None
    major, minor, icy, status, reason = match.groups()
    head = Head(
        status=int(status[:4]) if status else 200,
        reason=(reason or b"").decode("latin-1").strip(),
        version=(1, 0) if icy else (int(major), int(minor or b"1")),
        headers=[],
    )
    if not 100 <= head.status <= 999:
        return None
    if not status:
        head.flaws.append("status line without a status, taken for 200")
    head.headers = _header_lines(lines, head.flaws)
    _frame(head, method)
    return head


def _header_lines(lines: list[bytes], flaws: list[str]) -> list[tuple[str, str]]:
    headers: list[tuple[str, str]] = []
    for number in range(1, len(lines)):
        line = lines[number].rstrip(b"\r")
        if not line:
            continue
        if line[0] in b" \t":
            _fold(headers, line.decode("latin-1").strip(), flaws)
            continue
        name, colon, value = line.decode("latin-1").partition(":")
        if not colon or not (name := name.strip()):
            flaws.append(f"header line without {'a colon' if not colon else 'a name'}: {line[:60]!r}")
            continue
        headers.append((name, value.strip(" \t\r\n\f\v")))
    return headers


def _fold(headers: list[tuple[str, str]], more: str, flaws: list[str]) -> None:
    """Join a continuation line to the header before it (obs-fold, RFC 9112, 5.2)."""
    if headers:
        name, value = headers[-1]
        headers[-1] = (name, f"{value} {more}".strip())
    else:
        flaws.append(f"header section begins with a continuation line: {more[:60]!r}")


def _frame(head: Head, method: str) -> None:
    lengths: list[str] = []
    transfer: list[str] = []
    connection: list[str] = []
    for name, value in head.headers:
        lowered = name.lower()
        if lowered == "content-length":
            lengths += value.split(",")
        elif lowered == "transfer-encoding":
            transfer += value.lower().split(",")
        elif lowered == "connection":
            connection += value.lower().split(",")
        elif lowered == "keep-alive":
            head.keep_seconds = _keep_seconds(value)
    tokens = {token.strip() for token in connection}
    head.keep = "close" not in tokens if head.version >= (1, 1) else "keep-alive" in tokens
    head.keep = head.keep and head.status >= 200
    if method == "HEAD" or head.status in BODILESS or head.status < 200:
        head.framing = Framing.NONE
    elif transfer and _transfer(head, [token.strip() for token in transfer]):
        if lengths:
            head.flaws.append("Content-Length beside Transfer-Encoding, ignored")
            head.keep = False
    elif lengths:
        _length(head, [text.strip() for text in lengths])
    if head.framing is Framing.CLOSE:
        head.keep = False


def _transfer(head: Head, tokens: list[str]) -> bool:
    """Set the framing by Transfer-Encoding; False where it says nothing and Content-Length counts."""
    names = [token.partition(";")[0].strip() for token in tokens]
    head.codings = ", ".join(name for name in names if name in CODINGS)
    strange = [name for name in names if name not in CODINGS and name not in ("chunked", "identity", "")]
    if strange:
        head.flaws.append(f"unknown transfer coding {strange[0][:40]!r}, ignored")
    if "chunked" in names:
        head.framing = Framing.CHUNKED
        if head.version < (1, 1):
            head.flaws.append("chunked in an HTTP/1.0 answer")
            head.keep = False
        return True
    return bool(head.codings)


def _length(head: Head, texts: list[str]) -> None:
    """Set the framing by Content-Length: what is no number is ignored, of several the largest counts."""
    numbers = [int(text) for text in texts if NUMBER.fullmatch(text)]
    if len(numbers) < len(texts):
        head.flaws.append(f"Content-Length that is no number: {', '.join(texts)[:60]!r}")
    if not numbers:
        return
    head.framing, head.length = Framing.LENGTH, max(numbers)
    if len(set(numbers)) > 1 or len(numbers) < len(texts):
        head.keep = False
        if len(set(numbers)) > 1:
            head.flaws.append(f"Content-Length given as {min(numbers)} and {max(numbers)}")


def _keep_seconds(value: str) -> int | None:
    match = re.search(r"timeout\s*=\s*\"?(\d{1,9})", value.lower())
    return int(match[1]) if match else None
