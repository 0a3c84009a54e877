"""Exchanges as they come from the network, good and dirty, for the tests of WARC files."""

from __future__ import annotations

import gzip
from pathlib import Path

from fastwarc.warc import ArchiveIterator as FastIterator
from warcio.archiveiterator import ArchiveIterator
from warcio.checker import Checker

from pipelines.net.exchange import Exchange
from pipelines.net.warc import WarcInfo, uuid_urn, warc_date

DATE_MS = 1_764_583_200_123
REQUEST = b"GET /a HTTP/1.1\r\nHost: a.example\r\nUser-Agent: Noria\r\nAccept-Encoding: gzip\r\n\r\n"


def info(name: str = "NORIA-20251201100000-00000-p0001.warc.gz") -> WarcInfo:
    """Return what a file says of itself."""
    return WarcInfo(
        uuid_urn("warcinfo", name), name, warc_date(DATE_MS), operator="A. N. Archivist", hostname="crawler.example",
        user_agent="Mozilla/5.0 (compatible; Noria/0.1; +https://bot.example)", robots="RFC 9309, obeyed",
        description="a line\r\nX-Injected: no", is_part_of="cycle-000012",
    )  # fmt: skip


def answer(
    body: bytes = b"", *fields: bytes, status: int = 200, line: bytes | None = None, url: str = "http://a.example/a",
    truncated: str | None = None, method: str = "GET", address: str = "192.0.2.7",
) -> Exchange:  # fmt: skip
    """Return an exchange whose head is the status line and the header lines as given."""
    head = b"\r\n".join([line or b"HTTP/1.1 %d Word" % status, *fields, b"", b""])
    return Exchange(
        url=url, method=method, status=status, request_head=REQUEST.replace(b"GET", method.encode()),
        response_head=head, body=body, truncated=truncated, address=address, started_ms=DATE_MS,
    )  # fmt: skip


class _Command:
    def __init__(self, path: Path) -> None:
        self.inputs, self.verbose = [str(path)], False


def warcio_accepts(path: Path) -> int:
    """Hold a file to `warcio check` and to strict HTTP heads; return its records."""
    assert Checker(_Command(path)).process_all() == 0
    with path.open("rb") as file:
        records = ArchiveIterator(file, verify_http=True, check_digests="raise")
        count = 0
        for record in records:
            record.content_stream().read()
            count += 1
        assert records.err_count == 0
    return count


def fastwarc_accepts(path: Path) -> int:
    """Hold a file to FastWARC with its digests; return its records."""
    count = 0
    with path.open("rb") as file:
        for record in FastIterator(file, parse_http=False):
            assert record.verify_block_digest(consume=False), record.record_id
            record.parse_http()
            if record.headers["WARC-Type"] in ("response", "request"):
                assert record.verify_payload_digest(consume=False), record.record_id
            count += 1
    return count


GZIPPED = gzip.compress(b"<p>plums</p>" * 99, mtime=0)
VARIANTS: dict[str, Exchange] = {
    "03 chunked": answer(b"<p>whole</p>", b"Content-Type: text/html", b"Transfer-Encoding: chunked"),
    "03 chunked, lower case, with a length": answer(b"abc", b"transfer-encoding:chunked", b"content-length: 99"),
    "03 stacked transfer codings": answer(b"abc", b"Transfer-Encoding: gzip, chunked"),
    "04 content coding kept": answer(GZIPPED, b"Content-Encoding: gzip", b"Content-Length: %d" % len(GZIPPED)),
    "18 content coding kept, chunks removed": answer(GZIPPED, b"Content-Encoding: gzip", b"Transfer-Encoding: chunked"),
    "08 cut by our limit": answer(b"x" * 500, b"Content-Length: 90000", truncated="length"),
    "08 cut by the clock": answer(b"x" * 500, b"Transfer-Encoding: chunked", truncated="time"),
    "08 cut by the server": answer(b"", b"Content-Length: 90000", truncated="disconnect"),
    "wrong length": answer(b"x" * 500, b"Content-Length: 10"),
    "two lengths": answer(b"x" * 10, b"Content-Length: 10", b"Content-Length: 10"),
    "no number": answer(b"x" * 10, b"Content-Length: ten"),
    "no length": answer(b"x" * 10, b"Connection: close", line=b"HTTP/1.0 200 OK"),
    "15 HTTP/2 status line": answer(b"x", line=b"HTTP/2 200"),
    "ICY status line": answer(b"x", line=b"ICY 200 OK"),
    "no reason": answer(b"x", b"Content-Length: 1", line=b"HTTP/1.1 200"),
    "19 204": answer(b"", b"Server: a", status=204),
    "304 with a length": answer(b"", b"ETag: \"v1\"", b"Content-Length: 1234", status=304),
    "HEAD": answer(b"", b"Content-Length: 1234", method="HEAD"),
    "empty": answer(b"", b"Content-Length: 0"),
    "20 redirect": answer(b"", b"Location: /b?x=1&y=%2F", b"Content-Length: 0", status=302),
    "line without a colon": answer(b"plums", b"X-Good: 1", b"X-Bad = 2", b"Content-Length: 5"),
    "raw UTF-8": answer(b"plums", "X-Name: Zwetschgenmus für größere Gäste".encode(), b"Content-Length: 5"),
    "Latin-1": answer(b"plums", b"X-Name: fa\xe7ade \xa0", b"Content-Length: 5"),
    "folded": answer(b"plums", b"X-Long: one", b"\ttwo", b"   three", b"Content-Length: 5"),
    "folded length": answer(b"plums", b"Content-Length:", b" 5"),
    "folded before any field": answer(b"plums", b"  X-Odd: 1", b"Content-Length: 5"),
    "blank line of spaces": answer(b"plums", b"X-A: 1", b"   \t ", b"X-B: 2", b"Content-Length: 5"),
    "control bytes": answer(b"plums", b"X-A: a\x00b\x0bc\rd", b"Content-Length: 5"),
    "line feeds only": Exchange(
        url="http://a.example/a", status=200, request_head=REQUEST, body=b"plums", address="192.0.2.7",
        response_head=b"HTTP/1.1 200 OK\nContent-Length: 5\nX-A: 1\n\n",
    ),
    "space before the colon": answer(b"plums", b"Content-Length : 5", b"Content-Type : text/plain"),
    "empty name": answer(b"plums", b": 5", b"Content-Length: 5"),
    "huge header": answer(b"plums", b"X-A: " + b"a" * 31_000, b"Content-Length: 5"),
    "body that looks like a record": answer(b"\r\n\r\nWARC/1.1\r\nWARC-Type: warcinfo\r\n\r\n", b"Content-Length: 35"),
    "body that is a gzip member of a record": answer(gzip.compress(b"WARC/1.1\r\n", mtime=0)),
    "IPv6": answer(b"x", b"Content-Length: 1", url="http://[2001:db8::1]/", address="2001:db8::1"),
    "URL with brackets": answer(b"x", b"Content-Length: 1", url="http://a.example/<ü> |{}"),
    "robots.txt": answer(b"User-agent: *\nDisallow:", b"Content-Length: 23", url="http://a.example/robots.txt"),
}  # fmt: skip
