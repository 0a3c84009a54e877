"""CPU time of reading a page, stage by stage, on documentation pages of about 30 KB.

Run it from the checkout: `python -m tests.bench.bench_parse [--documents FOLDER]`. FOLDER holds HTML files; without it
the pages of Debian's python3.11-doc are read. Prints microseconds a page, the best of five rounds.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from selectolax.lexbor import LexborHTMLParser

from pipelines.rules.charset import charset_of
from pipelines.rules.dedup import NearIndex, minhash, simhash, text_kind
from pipelines.rules.links import Collector
from pipelines.rules.pages import PagePolicy, page_text, read_page
from pipelines.rules.sniff import junk_of, sniff_type

DOCUMENTATION = Path("/usr/share/doc/python3.11/html")
URL = "https://docs.example/3/library/page.html"
POLICY = PagePolicy()


def load(folder: Path, *, least: int = 20_000, most: int = 45_000, count: int = 100) -> list[bytes]:
    """Return up to `count` pages of `least` to `most` bytes."""
    bodies = (file.read_bytes() for file in sorted(folder.rglob("*.html")))
    return [body for body in bodies if least <= len(body) <= most][:count]


def read(body: bytes, *, charset: str = "; charset=utf-8", with_text: bool = False) -> Any:
    return read_page(
        body,
        url=URL,
        content_type="text/html" + charset,
        link_header=None,
        policy=POLICY,
        with_text=with_text,
    )


def microseconds(work: Callable[[Any], Any], items: Sequence[Any], rounds: int = 5) -> float:
    """Return CPU microseconds an item, the best of some rounds."""
    best = float("inf")
    for _ in range(rounds):
        began = time.process_time()
        for item in items:
            work(item)
        best = min(best, time.process_time() - began)
    return best / len(items) * 1e6


def hrefs_of(body: bytes) -> list[str]:
    return [href for node in LexborHTMLParser(body).tags("a") if (href := node.attributes.get("href"))]


def join_all(hrefs: list[str]) -> None:
    into = Collector(URL, limit=10_000, longest=8_192)
    for href in dict.fromkeys(hrefs):
        into.add(href, "a")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--documents",
        type=Path,
        metavar="FOLDER",
        default=DOCUMENTATION,
        help=f"read the HTML files under FOLDER [{DOCUMENTATION}]",
    )
    folder = parser.parse_args().documents
    pages = load(folder)
    if not pages:
        sys.exit(
            f"no HTML files of 20 to 45 KB under {folder}: sudo apt install python3.11-doc, "
            "or name a folder with --documents"
        )
    hrefs = [hrefs_of(page) for page in pages]
    texts = [page_text(page, "utf-8") for page in pages]
    hashes = np.random.default_rng(1).integers(0, 2**64, 200_000, dtype=np.uint64)
    index = NearIndex(hashes)
    size, links = sum(map(len, pages)) / len(pages), sum(map(len, hrefs)) / len(pages)
    print(f"{len(pages)} pages, {size:,.0f} bytes and {links:.0f} anchors each; CPU µs a page")
    stages: list[tuple[str, Callable[[Any], Any], Sequence[Any]]] = [
        ("media type", lambda page: sniff_type(page, "text/html"), pages),
        ("charset from the page", lambda page: charset_of(page, content_type="text/html"), pages),
        ("junk check", junk_of, pages),
        ("lexbor: parse", LexborHTMLParser, pages),
        ("lexbor: parse and all a[href]", hrefs_of, pages),
        ("links: joined and kept once", join_all, hrefs),
        ("read_page, charset in header", read, pages),
        ("read_page, charset in page", lambda page: read(page, charset=""), pages),
        ("read_page, with anchor text", lambda page: read(page, with_text=True), pages),
        ("text (for near duplicates)", lambda page: page_text(page, "utf-8"), pages),
        ("simhash", simhash, texts),
        ("minhash, 128 values", minhash, texts),
        ("text kind", text_kind, texts),
        ("search within 3 bits of 200,000", lambda value: index.near(value), np.split(hashes[:100], 100)),
    ]
    for name, work, items in stages:
        print(f"{name:34s} {microseconds(work, items):9.1f}")


if __name__ == "__main__":
    main()
