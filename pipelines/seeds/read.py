"""Read seed lines: a URL, then tab-separated `key=value` metadata as in Nutch's seed files.

    https://example.org/<TAB>label=dk<TAB>depth=3

Blank lines and lines that begin with # are skipped. A line that is no seed becomes a BadLine; reading goes on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from pipelines.rules.filters import unusable
from pipelines.rules.urls import wire

LINE_BYTES = 65_536
"""Longest line that is looked at: the memory that one line may take."""

KEY = re.compile(r"[A-Za-z0-9_.\-]{1,100}")

LONE = re.compile(r"[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Seed:
    """A URL as it goes on the wire, and its metadata in the order given."""

    url: str
    meta: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that is no seed: its number from 1, and why."""

    number: int
    why: str


def read(lines: Iterable[bytes]) -> Iterator[Seed | BadLine]:
    """Yield a Seed or a BadLine for every line that holds something; memory does not grow with the lines.

    lines: as from `bounded`; a part of a line that is too long is reported once.
    """
    for number, line in enumerate(lines, 1):
        if len(line) >= LINE_BYTES:
            yield BadLine(number, f"longer than {LINE_BYTES:,} bytes")
            continue
        found = _seed(line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line)
        if isinstance(found, str):
            yield BadLine(number, found)
        elif found is not None:
            yield found


def bounded(source: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a file, each cut at LINE_BYTES; the rest of a longer one is read and dropped."""
    while line := source.readline(LINE_BYTES):
        tail = line
        while len(tail) == LINE_BYTES and not tail.endswith(b"\n"):
            tail = source.readline(LINE_BYTES)
        yield line


def is_text(words: str) -> bool:
    """Say whether words can be written: bytes of a command line that are no UTF-8 become lone surrogates."""
    return words.isascii() or not LONE.search(words)


def _seed(line: bytes) -> Seed | str | None:
    """Return the line's seed, the reason why it is none, or None for a blank line or a comment."""
    try:
        text = line.decode("utf-8").strip("\r\n \t")
    except UnicodeDecodeError as error:
        return f"not UTF-8 text (byte {error.start + 1} of the line)"
    if not text or text.startswith("#"):
        return None
    address, *pairs = text.split("\t")
    url = wire(address.strip())
    if url is None:
        return _not_a_url(address.strip())
    meta = _meta(pairs)
    return meta if isinstance(meta, str) else Seed(url, meta)


def _not_a_url(text: str) -> str:
    shown = repr(text if len(text) <= 100 else f"{text[:97]}...")
    if re.fullmatch(r"[\w.-]+\.[A-Za-z]{2,}(/\S*)?", text):
        return f"{shown} has no scheme; write https://{text[:100]}"
    return f"{shown} is not an http or https URL"


def _meta(pairs: list[str]) -> tuple[tuple[str, str], ...] | str:
    found = []
    for pair in filter(None, (pair.strip() for pair in pairs)):
        key, equals, value = pair.partition("=")
        if not equals or not KEY.fullmatch(key.strip()):
            return f"{pair[:100]!r} is not key=value metadata"
        found.append((key.strip(), value.strip()))
    why = unusable(dict(found))
    return why[:200] if why else tuple(found)
