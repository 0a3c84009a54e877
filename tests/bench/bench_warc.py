"""CPU cost of WARC files: `python -m tests.bench.bench_warc [pages]`. Prints microseconds a page; times no test.

The page is 30,000 bytes of HTML made from a seed, 90 links; gzip bodies are the same page compressed.
"""

from __future__ import annotations

import argparse
import gzip
import random
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from pipelines.cycle.seal import SealTask, SpoolFile, seal_partition
from pipelines.net.exchange import Exchange
from pipelines.net.warc import (
    RecordMaker,
    Spool,
    WarcInfo,
    WarcRecord,
    digest_of,
    read_records,
    uuid_urn,
    warc_date,
)
from pipelines.net.warc_head import stored_head
from pipelines.net.warc_write import compressed

DATE = warc_date(1_764_583_200_123)
INFO = WarcInfo(uuid_urn("bench"), "BENCH-20251201100000-00000-p0001.warc.gz", DATE)
PAGE_BYTES = 30_000


def page(seed: int = 1) -> bytes:
    """Return the page: words drawn from 3,000, so that it compresses as real text does (about 3:1)."""
    draw = random.Random(seed)
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(2, 9))) for _ in range(3000)]
    text = ""
    while len(text) < PAGE_BYTES:
        text += f'<p><a href="/{draw.choice(words)}">{draw.choice(words)}</a> {" ".join(draw.choices(words, k=40))}</p>\n'
    return text[:PAGE_BYTES].encode()


def exchange(body: bytes, *fields: bytes) -> Exchange:
    """Return a usual answer with this body."""
    head = [b"HTTP/1.1 200 OK", b"Server: nginx/1.22.1", b"Date: Mon, 01 Dec 2025 10:00:00 GMT",
            b"Content-Type: text/html; charset=utf-8", *fields, b"Connection: keep-alive", b'ETag: "5f-600"',
            b"Last-Modified: Thu, 01 Jan 2024 00:00:00 GMT", b"Accept-Ranges: bytes", b"", b""]  # fmt: skip
    request = (b"GET /docs/a/b.html HTTP/1.1\r\nHost: www.example.org\r\nUser-Agent: Mozilla/5.0 (compatible; Noria/0.1; "
               b"+https://bot.example)\r\nAccept: text/html,*/*;q=0.5\r\nAccept-Encoding: gzip\r\n\r\n")  # fmt: skip
    return Exchange(url="http://www.example.org/docs/a/b.html", status=200, request_head=request,
                    response_head=b"\r\n".join(head), body=body, address="192.0.2.7")  # fmt: skip


def microseconds(work: Callable[[], object], times: int) -> float:
    """Return the CPU time of one call, the best of five rounds."""
    best = float("inf")
    for _ in range(5):
        start = time.process_time()
        for _ in range(times):
            work()
        best = min(best, time.process_time() - start)
    return best / times * 1e6


def spool_costs(folder: Path, pages: int) -> None:
    body = page()
    for name, what in {
        "plain, length right": exchange(body, b"Content-Length: 30000"),
        "plain, was chunked": exchange(body, b"Transfer-Encoding: chunked"),
        "gzip kept": exchange(
            gzip.compress(body, 6), b"Content-Encoding: gzip", b"Transfer-Encoding: chunked"
        ),
    }.items():
        spool = Spool(folder / "cost", INFO)
        cost = microseconds(lambda: spool.add(what, record_date=DATE, record_id=INFO.warcinfo_id), pages)  # noqa: B023
        spool.close()
        print(f"response + request, {name:22} {cost:7.1f} µs a page")


def part_costs(pages: int) -> None:
    body = page()
    head = exchange(body, b"Transfer-Encoding: chunked").response_head
    maker = RecordMaker()
    record = maker.record([("WARC-Type", "resource"), ("Content-Type", "text/html")], head, body)
    parts: dict[str, Callable[[], object]] = {
        "the head, chunked": lambda: stored_head(head, status=200, length=len(body)),
        "SHA-1 of the payload": lambda: digest_of(body),
        "isal level 2": lambda: compressed(record),
        "warcio's record, its block digest with it": lambda: maker.record(
            [("WARC-Type", "resource"), ("Content-Type", "text/html"), ("WARC-Payload-Digest", "-")],
            head,
            body,
        ),
    }
    for name, work in parts.items():
        print(f"  of which {name:42} {microseconds(work, pages):7.1f} µs")


def seal_and_read_costs(folder: Path, pages: int) -> None:
    spool, rows = Spool(folder / "spool", INFO), []
    for number in range(pages):
        body = page(number % 20)
        stored = spool.add(
            exchange(body, b"Content-Length: 30000"), record_date=DATE, record_id=uuid_urn(str(number))
        )
        rows.append({"record_id": stored.record_id, "record_type": "response", "url": "http://www.example.org/",
                     "url_surtkey": "org,example)/", "fetch_time": datetime.now(UTC), "fetch_status": 200,
                     "content_digest": stored.payload_digest, "content_mime_type": "text/html", "spool": 0,
                     "spool_offset": stored.offset, "spool_length": stored.length,
                     "request_length": stored.total - stored.length})  # fmt: skip
    spool.close()
    verdicts = [{"record_id": row["record_id"], "duplicate": number % 100 < 29, "refers_url": "http://a.example/",
                 "refers_date": DATE, "refers_id": "urn:uuid:1"} for number, row in enumerate(rows)]  # fmt: skip
    files = (SpoolFile(folder / "spool", spool.size, "BENCH.warc.gz", INFO),)
    task = SealTask(
        files, pa.Table.from_pylist(rows), pa.Table.from_pylist(verdicts), folder / "w", folder / "c"
    )
    start = time.process_time()
    seal_partition(task)
    print(
        f"sealed, 29 % duplicates, CDXJ{'':13} {(time.process_time() - start) / pages * 1e6:7.1f} µs a page"
    )
    start = time.process_time()
    count = sum(isinstance(record, WarcRecord) for record in read_records(folder / "w" / "BENCH.warc.gz"))
    print(f"read, both records{'':24} {(time.process_time() - start) / count * 2e6:7.1f} µs a page")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", type=int, nargs="?", default=400, help="pages a round [400]")
    pages = parser.parse_args().pages
    with tempfile.TemporaryDirectory() as folder:
        spool_costs(Path(folder), pages)
        part_costs(pages)
        seal_and_read_costs(Path(folder), max(pages, 100))


if __name__ == "__main__":
    main()
