"""The answer machine: every answer that a browser shows is read, however its bytes arrive, and nothing else raises."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.net.answer import HEAD_CEILING, AnswerReader
from pipelines.net.head import Framing, read_head


@dataclass(frozen=True)
class Case:
    """Bytes of an answer, and what they say."""

    raw: bytes
    status: int | None = 200
    body: bytes = b""
    truncated: str | None = None
    reusable: bool = False
    flaw: str = ""  # begins one of the flaws
    fault: str = ""
    closes: bool = False  # the end of the stream is needed


OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
CASES = {
    "a length": Case(OK + b"Content-Length: 5\r\n\r\nplums", body=b"plums", reusable=True),
    "no body": Case(OK + b"Content-Length: 0\r\n\r\n", reusable=True),
    "to the close": Case(OK + b"\r\nplums", body=b"plums", closes=True),
    "HTTP/1.0 to the close": Case(b"HTTP/1.0 200 OK\r\n\r\nplums", body=b"plums", closes=True),
    "HTTP/1.0 keep-alive": Case(
        b"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 1\r\n\r\nx", body=b"x", reusable=True
    ),
    "HTTP/1.0 with a length": Case(b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", body=b"x"),
    "connection close": Case(OK + b"Connection: foo, Close\r\nContent-Length: 1\r\n\r\nx", body=b"x"),
    "chunks": Case(CHUNKED + b"5\r\nplums\r\n7;a=b\r\n & figs\r\n0\r\n\r\n", body=b"plums & figs", reusable=True),
    "chunks with bare line feeds": Case(CHUNKED + b"5\nplums\n0\n\n", body=b"plums", reusable=True),
    "chunk sizes in blanks and capitals": Case(CHUNKED + b" 0A \r\n0123456789\r\n00\r\n\r\n", body=b"0123456789", reusable=True),
    "trailers": Case(CHUNKED + b"1\r\nx\r\n0\r\nA: b\r\nC: d\r\n\r\n", body=b"x", reusable=True),
    "chunks without the last": Case(CHUNKED + b"5\r\nplums\r\n", body=b"plums", truncated="disconnect", closes=True),
    "chunks without the last line end": Case(CHUNKED + b"5\r\nplums\r\n0\r\n", body=b"plums", closes=True),
    "a chunk cut short": Case(CHUNKED + b"5\r\nplu", body=b"plu", truncated="disconnect", closes=True),
    "a chunk without line end": Case(
        CHUNKED + b"5\r\nplumsXX5\r\nplums\r\n0\r\n\r\n", body=b"plums", truncated="disconnect", flaw="chunk 1 is not"
    ),
    "a bad chunk size": Case(
        CHUNKED + b"1\r\nx\r\nzz\r\nmore", body=b"x", truncated="disconnect", flaw="no chunk size behind chunk 1"
    ),
    "a negative chunk size": Case(CHUNKED + b"1\r\nx\r\n-1\r\n", body=b"x", truncated="disconnect", flaw="no chunk size"),
    "an enormous chunk size": Case(
        CHUNKED + b"1\r\nx\r\n" + b"f" * 40 + b"\r\n", body=b"x", truncated="disconnect", flaw="no chunk size"
    ),
    "called chunked, sent plain": Case(
        CHUNKED + b"<p>plums</p>\n<p>1</p>", body=b"<p>plums</p>\n<p>1</p>", flaw="called chunked", closes=True
    ),
    "called chunked, sent plain, like a chunk size at first": Case(
        CHUNKED + b"face of plums", body=b"face of plums", flaw="called chunked", closes=True
    ),
    "called chunked and empty": Case(CHUNKED, truncated="disconnect", closes=True),
    "a trailer without end": Case(CHUNKED + b"1\r\nx\r\n0\r\n" + b"y" * 20_000, body=b"x", flaw="no chunk size", truncated="disconnect"),
    "chunked in HTTP/1.0": Case(
        b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", body=b"x", flaw="chunked in an HTTP/1.0"
    ),
    "length beside chunks": Case(
        OK + b"Content-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", body=b"x", flaw="Content-Length beside"
    ),
    "identity transfer coding": Case(
        OK + b"Transfer-Encoding: identity\r\nContent-Length: 1\r\n\r\nx", body=b"x", reusable=True
    ),
    "strange transfer coding": Case(OK + b"Transfer-Encoding: foo\r\n\r\nx", body=b"x", flaw="unknown transfer", closes=True),
    "length too large": Case(OK + b"Content-Length: 9\r\n\r\nplums", body=b"plums", truncated="disconnect", closes=True),
    "length too small": Case(OK + b"Content-Length: 3\r\n\r\nplums", body=b"plu", flaw="bytes behind"),
    "length twice the same": Case(OK + b"Content-Length: 1, 1\r\nContent-Length: 1\r\n\r\nx", body=b"x", reusable=True),
    "two lengths": Case(OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nxy", body=b"xy", flaw="Content-Length given as"),
    "length that is none": Case(OK + b"Content-Length: abc\r\n\r\nxy", body=b"xy", flaw="Content-Length that is", closes=True),
    "negative length": Case(OK + b"Content-Length: -1\r\n\r\nxy", body=b"xy", flaw="Content-Length that is", closes=True),
    "empty length": Case(OK + b"Content-Length:\r\n\r\nxy", body=b"xy", flaw="Content-Length that is", closes=True),
    "endless digits of a length": Case(
        OK + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\nxy", body=b"xy", flaw="Content-Length that is", closes=True
    ),
    "204 with a body": Case(b"HTTP/1.1 204 No\r\nContent-Length: 5\r\n\r\nplums", status=204),
    "304 with a length": Case(b"HTTP/1.1 304 No\r\nContent-Length: 5\r\n\r\n", status=304, reusable=True),
    "304 chunked": Case(b"HTTP/1.1 304 No\r\nTransfer-Encoding: chunked\r\n\r\n", status=304, reusable=True),
    "interim answers": Case(
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + OK + b"Content-Length: 1\r\n\r\nx",
        body=b"x", reusable=True,
    ),
    "101 unasked": Case(b"HTTP/1.1 101 Switching\r\nUpgrade: h2c\r\n\r\nxyz", status=101),
    "header line without a colon": Case(
        OK + b"X-XSS-Protection=1; mode=block\r\nContent-Length: 1\r\n\r\nx", body=b"x", reusable=True, flaw="header line without a colon"
    ),
    "header line without a name": Case(OK + b": x\r\nContent-Length: 1\r\n\r\nx", body=b"x", reusable=True, flaw="header line without a name"),
    "blank before the colon": Case(OK + b"Content-Length : 1\r\n\r\nx", body=b"x", reusable=True),
    "bare line feeds": Case(b"HTTP/1.1 200 OK\nContent-Length: 1\n\nx", body=b"x", reusable=True),
    "mixed line ends": Case(b"HTTP/1.1 200 OK\nA: b\r\nContent-Length: 1\n\r\nx", body=b"x", reusable=True),
    "bare line ends, then CRLF": Case(b"HTTP/1.1 200 OK\n\n\r\n\r\n", body=b"\r\n\r\n", closes=True),
    "folded header": Case(OK + b"A: b\r\n c\r\n\td\r\nContent-Length: 1\r\n\r\nx", body=b"x", reusable=True),
    "fold before any header": Case(OK + b" c\r\nContent-Length: 1\r\n\r\nx", body=b"x", reusable=True, flaw="header section begins"),
    "NUL and control bytes in a value": Case(OK + b"A: \0\x01\x7f\xff\r\nContent-Length: 1\r\n\r\nx", body=b"x", reusable=True),
    "blank lines first": Case(b"\r\n\r\n\n" + OK + b"Content-Length: 1\r\n\r\nx", body=b"x", reusable=True),
    "no reason": Case(b"HTTP/1.1 200\r\nContent-Length: 1\r\n\r\nx", body=b"x", reusable=True),
    "blanks in the status line": Case(b"HTTP/1.1  200   O K \r\nContent-Length: 1\r\n\r\nx", body=b"x", reusable=True),
    "small letters": Case(b"http/1.1 200 ok\r\ncontent-length: 1\r\n\r\nx", body=b"x", reusable=True),
    "HTTP/2 in the line": Case(b"HTTP/2 200\r\nContent-Length: 1\r\n\r\nx", body=b"x", reusable=True),
    "HTTP/1.1 OK": Case(b"HTTP/1.1 OK\r\n\r\nx", body=b"x", flaw="status line without", closes=True),
    "ICY": Case(b"ICY 200 OK\r\n\r\nx", body=b"x", closes=True),
    "status 999": Case(b"HTTP/1.1 999 Denied\r\nContent-Length: 0\r\n\r\n", status=999, reusable=True),
    "no HTTP": Case(b"<!doctype html><title>no head at all</title>\r\n\r\n", status=None, fault="no HTTP answer"),
    "another protocol": Case(b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n", status=None, fault="no HTTP answer"),
    "status of one digit": Case(b"HTTP/1.1 2 OK\r\n\r\n", status=None, fault="no HTTP answer"),
    "status of four digits": Case(b"HTTP/1.1 2000 OK\r\n\r\n", status=None, fault="no HTTP answer"),
    "nothing": Case(b"", status=None, closes=True),
    "half a head": Case(OK + b"Content-Ty", status=None, closes=True),
    "endless head": Case(OK + b"A: " + b"x" * (HEAD_CEILING + 1), status=None, fault="answer head is longer", truncated="length"),
    "endless interim answers": Case(b"HTTP/1.1 100 C\r\n\r\n" * 100, status=None, fault="more than 64 interim"),
}  # fmt: skip


def read(pieces: list[bytes], *, ends: bool = True, method: str = "GET", **limits: int) -> AnswerReader:
    reader = AnswerReader(method=method, **limits)
    for piece in pieces:
        reader.feed(piece)
    if ends:
        reader.end_of_stream()
    return reader


def said(reader: AnswerReader) -> tuple[object, ...]:
    status = reader.head.status if reader.head else None
    return status, reader.body(), reader.truncated, reader.fault


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_an_answer_is_read_as_a_browser_reads_it(case: Case) -> None:
    reader = read([case.raw], ends=False)
    assert reader.done != case.closes
    reader.end_of_stream()
    assert said(reader)[:3] == (case.status, case.body, case.truncated)
    assert (reader.fault or "").startswith(case.fault) and bool(reader.fault) == bool(case.fault)
    assert reader.reusable == case.reusable
    assert any(flaw.startswith(case.flaw) for flaw in reader.flaws) if case.flaw else not reader.flaws


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_an_answer_is_the_same_byte_by_byte(case: Case) -> None:
    if len(case.raw) > 100_000:
        pieces = [case.raw[i : i + 4_001] for i in range(0, len(case.raw), 4_001)]
    else:
        pieces = [case.raw[i : i + 1] for i in range(len(case.raw))]
    whole, slow = read([case.raw]), read(pieces)
    assert said(slow)[:3] == said(whole)[:3] and bool(slow.fault) == bool(whole.fault)
    assert slow.raw_head == whole.raw_head and slow.reusable == whole.reusable


@pytest.mark.parametrize("case", [c for c in CASES.values() if c.reusable])
def test_rubbish_behind_an_answer_is_not_part_of_it_and_ends_the_connection(case: Case) -> None:
    for reader in (read([case.raw + b"HTTP/1.1 500 No\r\n\r\n"]), read([case.raw, b"rubbish"])):
        assert said(reader)[:2] == (case.status, case.body)
        assert not reader.reusable


def test_the_head_is_kept_as_received_without_interim_answers() -> None:
    head = b"HTTP/1.1  200 OK\nx-A:b\r\nBROKEN LINE\r\nContent-Length: 1\r\n\r\n"
    reader = read([b"HTTP/1.1 102 Wait\r\n\r\n" + head + b"x"])
    assert reader.raw_head == head
    assert reader.head and reader.head.headers == [("x-A", "b"), ("Content-Length", "1")]


def test_a_body_stops_at_its_limit_and_only_then_is_truncated() -> None:
    for raw in (
        OK + b"Content-Length: 6\r\n\r\nabcdef",
        OK + b"\r\nabcdef",
        CHUNKED + b"6\r\nabcdef\r\n0\r\n\r\n",
    ):
        assert said(read([raw], body_bytes=6))[1:3] == (b"abcdef", None)
        cut = read([raw], ends=False, body_bytes=5)
        assert said(cut)[1:3] == (b"abcde", "length") and cut.done and not cut.reusable


def test_a_huge_head_is_cut_but_its_page_is_kept() -> None:
    lines = b"".join(b"X-%d: %s\r\n" % (i, b"y" * 100) for i in range(1_000))
    reader = read([OK + lines + b"Content-Length: 5\r\n\r\nplums"], header_bytes=10_000)
    assert said(reader) == (200, b"plums", "length", None)
    assert len(reader.raw_head) <= 10_002 and reader.raw_head.endswith(b"\r\n\r\n")
    assert reader.head and len(reader.head.headers) == reader.raw_head.count(b"X-")


def test_an_answer_to_head_has_no_body() -> None:
    reader = read([OK + b"Content-Length: 500\r\n\r\n"], ends=False, method="HEAD")
    assert reader.done and reader.reusable and reader.body() == b""


def test_a_reset_makes_a_body_to_the_close_incomplete() -> None:
    reader = read([OK + b"\r\nplums"], ends=False)
    reader.end_of_stream(clean=False)
    assert said(reader)[:3] == (200, b"plums", "disconnect")


def test_the_codings_under_chunks_are_named_in_order() -> None:
    head = read_head(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: GZIP, deflate;q=1\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    assert head and head.codings == "gzip, deflate" and head.framing is Framing.CHUNKED


def test_a_promise_to_keep_the_connection_is_read() -> None:
    head = read_head(b"HTTP/1.1 200 OK\r\nKeep-Alive: max=100, Timeout=5\r\nContent-Length: 0\r\n\r\n")
    assert head and head.keep and head.keep_seconds == 5


PARTS = st.sampled_from([
    b"HTTP/1.1 200 OK", b"\r\n", b"\n", b"\r", b" ", b"Content-Length: 3", b"Transfer-Encoding: gzip, chunked",
    b"3", b"abc", b"0", b":", b"\0", b"HTTP/1.0", b"ffffffff", b"\r\n\r\n", b"Connection: close", b"100", b";",
])  # fmt: skip


@given(
    st.lists(st.one_of(PARTS, st.binary(max_size=8)), max_size=40), st.lists(st.integers(1, 40), max_size=40)
)
def test_no_bytes_raise_and_how_they_are_cut_changes_nothing(parts: list[bytes], cuts: list[int]) -> None:
    raw, pieces = b"".join(parts), list[bytes]()
    rest = raw
    for cut in cuts:
        pieces.append(rest[:cut])
        rest = rest[cut:]
    whole, cut_up = read([raw], body_bytes=20), read([*pieces, rest], body_bytes=20)
    assert said(cut_up)[:3] == said(whole)[:3]
    assert len(whole.body()) <= 20
