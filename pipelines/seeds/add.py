"""Put seeds into a lake's inbox, in files of bounded size; the next cycle's plan takes them from there."""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow as pa

from lake import inbox
from pipelines.failure import Failure, Misuse
from pipelines.rules.urls import wire
from pipelines.seeds import tables
from pipelines.seeds.read import BadLine, Seed, bounded, is_text, read

ROWS_A_FILE = 25_000
"""Seeds held in memory before they become an inbox file: about 20 MB. A file is one task of the plan."""

DAMAGED = (EOFError, OSError, UnicodeDecodeError, pa.ArrowException, zlib.error)
"""What readers of gzip and Parquet raise for bytes that they cannot make sense of."""

Report = Callable[[str, BadLine], None]


@dataclass
class Added:
    """What came of it: seeds put into the inbox, lines refused, and the names of the inbox files."""

    added: int = 0
    refused: int = 0
    files: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Wish:
    """What is to be added, beside plain sources: sitemaps and feeds by URL, Parquet files; metadata for all of it."""

    sources: tuple[str, ...] = ()
    sitemaps: tuple[str, ...] = ()
    feeds: tuple[str, ...] = ()
    parquet: tuple[str, ...] = ()
    meta: Mapping[str, str] = field(default_factory=dict)


def add(root: Path, sources: Iterable[str], *, report: Report) -> Added:
    """Put the seeds of all sources into the inbox of the lake at `root`, as `add_all` does."""
    return add_all(root, Wish(tuple(sources)), report=report)


def add_all(root: Path, wish: Wish, *, report: Report) -> Added:
    """Put all that is wished for into the inbox of the lake at `root`.

    sources: files of seed lines (also .gz), "-" for standard input, or URLs. Metadata of a line goes before the
    wish's. `report` is told the source and each line that is no seed. What is read becomes durable in steps:
    stopped half-way, adding it all again is harmless, since a URL that is known stays one URL. Raises Failure, with
    the source's name, for one that cannot be read to its end.
    """
    result = Added()
    for source in wish.sources:
        with _open(source) as lines:
            _put(
                root,
                _good(_whole(read(lines), source, result), source, report, result),
                wish.meta,
                "seed",
                result,
            )
    for path in wish.parquet:
        rows = _whole(tables.read(Path(path)), path, result)
        _put(root, _good(rows, path, report, result), wish.meta, "seed", result)
    for source, named, more in (("sitemap", wish.sitemaps, {}), ("seed", wish.feeds, {"feed": "true"})):
        found = (Seed(url) for text in named if (url := wire(text)) is not None)
        _put(root, found, {**wish.meta, **more}, source, result)
    return result


def _put(root: Path, seeds: Iterator[Seed], meta: Mapping[str, str], source: str, result: Added) -> None:
    for chunk in _chunks(seeds):
        result.files.append(inbox.put(root, [_row(seed, meta, source) for seed in chunk], kind=source))
        result.added += len(chunk)


def check_all(wish: Wish) -> None:
    """Raise Misuse for what can never be added; nothing is put anywhere yet."""
    for source in wish.sources:
        check(source)
    for path in wish.parquet:
        tables.check(Path(path))
    for url in (*wish.sitemaps, *wish.feeds):
        if not _is_url(url):
            raise Misuse(f"{url if is_text(url) else repr(url)} is not an http or https URL")


def check(source: str) -> None:
    """Raise Misuse for a source that is neither a file, a URL nor "-"; nothing is read yet."""
    path = Path(source)
    if source == "-" or path.is_file() or _is_url(source) or path.is_fifo():
        return
    if not is_text(source):
        raise Misuse(f"{source!r} holds bytes that are no UTF-8 text, and no file has that name")
    if path.is_dir():
        raise Misuse(f"{source} is a folder; name a file of seeds in it")
    if "://" in source:
        raise Misuse(f"{source} is not an http or https URL")
    raise Misuse(
        f"{source} is neither a file nor a URL; a URL begins with http:// or https://, a seed file has one a line"
    )


def _is_url(source: str) -> bool:
    return "://" in source and is_text(source) and wire(source) is not None


@contextmanager
def _open(source: str) -> Iterator[Iterable[bytes]]:
    if source == "-":
        yield bounded(sys.stdin.buffer)
    elif _is_url(source):
        yield [source.encode()]
    else:
        opener: Callable[[str], BinaryIO] = (
            cast("Any", gzip.open) if source.endswith(".gz") else cast("Any", _binary)
        )
        with opener(source) as file:
            yield bounded(file)


def _binary(path: str) -> BinaryIO:
    return open(path, "rb")


def _whole(rows: Iterable[Seed | BadLine], source: str, result: Added) -> Iterator[Seed | BadLine]:
    """Yield the rows; what a damaged or cut off source makes its reader raise becomes a Failure that names it."""
    try:
        yield from rows
    except DAMAGED as error:
        why = (str(error) or type(error).__name__).splitlines()[0].rstrip(". ")
        before = "none of its seeds is in the inbox: mend it and add it again"
        if result.added:
            before = (
                f"the {result.added:,} seeds before that are in the inbox: mend it and add it again, a URL that is there "
                "already stays one URL"
            )
        raise Failure(f"{named(source)} cannot be read to its end ({why}); {before}") from error


def named(source: str) -> str:
    """Return what a source is called in a message."""
    return "standard input" if source == "-" else source


def _good(rows: Iterable[Seed | BadLine], source: str, report: Report, result: Added) -> Iterator[Seed]:
    for found in rows:
        if isinstance(found, Seed):
            yield found
        else:
            result.refused += 1
            report(source, found)


def _chunks(seeds: Iterator[Seed]) -> Iterator[list[Seed]]:
    chunk: list[Seed] = []
    for seed in seeds:
        chunk.append(seed)
        if len(chunk) >= ROWS_A_FILE:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _row(seed: Seed, meta: Mapping[str, str], source: str) -> dict[str, Any]:
    told = {**meta, **dict(seed.meta)}
    return {
        "url": seed.url,
        "meta": json.dumps(told, ensure_ascii=False) if told else None,
        "source": source,
    }
