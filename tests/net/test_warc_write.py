"""What is written is accepted by every reader, and holds what the server sent (issue 2 item 4)."""

from __future__ import annotations

import base64
import os
import re
import threading
import uuid
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from warcio.recordbuilder import RecordBuilder
from warcio.warcwriter import BufferWARCWriter

from pipelines.net import warc_write
from pipelines.net.warc import (
    EMPTY_DIGEST,
    NOT_MODIFIED,
    RecordMaker,
    Revisit,
    Spool,
    WarcError,
    WarcRecord,
    digest_of,
    faults,
    members,
    read_at,
    read_records,
    revisit_member,
    uuid_urn,
    warc_date,
    warcinfo_member,
)
from pipelines.net.warc_head import has_no_body, stored_head
from tests.net.warc_cases import DATE_MS, REQUEST, VARIANTS, answer, fastwarc_accepts, info, warcio_accepts

DATE = warc_date(DATE_MS)


def spooled(path: Path, *exchanges: object, **more: object) -> list[object]:
    """Write a spool of these exchanges, return where they lie."""
    spool = Spool(path, info())
    stored = [
        spool.add(each, record_date=DATE, record_id=uuid_urn("record", str(i)), **more)  # type: ignore[arg-type]
        for i, each in enumerate(exchanges)
    ]
    spool.close()
    return stored


def records(path: Path) -> list[WarcRecord]:
    """Read a file that must be without fault."""
    found = list(read_records(path))
    assert all(isinstance(record, WarcRecord) for record in found), found
    return found  # type: ignore[return-value]


def test_every_reader_accepts_a_file_of_all_variants(tmp_path: Path) -> None:
    path = tmp_path / "all.warc.gz"
    spooled(path, *VARIANTS.values())
    expected = 1 + 2 * len(VARIANTS)
    assert warcio_accepts(path) == expected
    assert fastwarc_accepts(path) == expected
    assert list(faults(path)) == []
    assert len(records(path)) == expected == len(list(members(path)))


@pytest.mark.parametrize("name", VARIANTS)
def test_a_stored_answer_is_what_was_sent(name: str, tmp_path: Path) -> None:
    exchange, path = VARIANTS[name], tmp_path / "one.warc.gz"
    (stored,) = spooled(path, exchange)
    record = read_at(path, stored.offset, stored.length)
    assert record.payload == exchange.body
    assert (
        record.header("WARC-Payload-Digest")
        == f"sha1:{digest_of(exchange.body)}"
        == f"sha1:{stored.payload_digest}"
    )
    assert record.status == exchange.status
    assert record.http_header("Transfer-Encoding") is None
    assert record.http_header("Content-Length") in (None, str(len(exchange.body)))
    request = read_at(path, stored.offset + stored.length, stored.total - stored.length)
    assert (request.type, request.block) == ("request", exchange.request_head)


def test_a_pair_carries_every_field_of_the_checklist(tmp_path: Path) -> None:
    path = tmp_path / "one.warc.gz"
    spooled(path, answer(b"abc", b"Content-Length: 3"))
    head, response, request = records(path)
    assert (head.type, response.type, request.type) == ("warcinfo", "response", "request")
    assert head.header("WARC-Filename") == info().filename
    assert b"format: WARC File Format 1.1\r\n" in head.block and b"\nX-Injected" not in head.block
    assert all(record.version == "1.1" for record in (head, response, request))
    for record in (response, request):
        assert record.header("WARC-Warcinfo-ID") == head.header("WARC-Record-ID")
        assert record.header("WARC-Date") == DATE == "2025-12-01T10:00:00.123000Z"
        assert record.header("WARC-IP-Address") == "192.0.2.7"
        assert record.header("WARC-Target-URI") == "http://a.example/a"
        assert re.fullmatch(r"sha1:[A-Z2-7]{32}", record.header("WARC-Block-Digest") or "")
        assert record.header("Content-Type") == f"application/http;msgtype={record.type}"
    assert request.header("WARC-Concurrent-To") == response.header("WARC-Record-ID")
    assert response.header("WARC-Concurrent-To") is None
    assert len({record.record_id for record in (head, response, request)}) == 3


def test_a_clean_head_stays_byte_for_byte() -> None:
    head = b"HTTP/1.1 200 OK\r\nsERVER:x\r\nX-A:   1  \r\nContent-Length: 3\r\nx-a: 2\r\n\r\n"
    assert stored_head(head, status=200, length=3) == head


@pytest.mark.parametrize(
    ("fields", "length", "expected"),
    [
        (b"A: 1\r\nTransfer-Encoding: chunked\r\nB: 2\r\n", 3,
         b"A: 1\r\nX-Crawl-Transfer-Encoding: chunked\r\nB: 2\r\nContent-Length: 3\r\n"),
        (b"content-length: 9\r\nB: 2\r\n", 3, b"X-Crawl-content-length: 9\r\nB: 2\r\nContent-Length: 3\r\n"),
        (b"Content-Length: 3\r\nContent-Length: 3\r\n", 3, b"Content-Length: 3\r\nX-Crawl-Content-Length: 3\r\n"),
        (b"Content-Length: 9\r\n", None, b"X-Crawl-Content-Length: 9\r\n"),
        (b"X-Content-Length: 9\r\n", 3, b"X-Content-Length: 9\r\n"),
        (b"X-Bad = 2\r\nB: 2\r\n", 3, b"X-Crawl-Header-Line: X-Bad = 2\r\nB: 2\r\n"),
        (b"A: a\x00b\r\n", 3, b"A: a%00b\r\n"),
        (b"Content-Length : 3\r\n", 3, b"Content-Length: 3\r\n"),
    ],
)  # fmt: skip
def test_only_what_would_contradict_the_bytes_is_renamed(
    fields: bytes, length: int | None, expected: bytes
) -> None:
    line = b"HTTP/1.1 200 OK\r\n"
    assert stored_head(line + fields + b"\r\n", status=200, length=length) == line + expected + b"\r\n"


def test_the_original_of_a_mended_status_line_is_kept() -> None:
    head = stored_head(b"HTTP/2 200\r\nA: 1\r\n\r\n", status=200, length=0)
    assert head == b"HTTP/1.1 200 \r\nX-Crawl-Status-Line: HTTP/2 200\r\nA: 1\r\n\r\n"


def test_a_head_of_64_kb_is_stored_whole(tmp_path: Path) -> None:
    """FastWARC alone reads no HTTP head over 32 kB."""
    path = tmp_path / "a.warc.gz"
    spooled(path, answer(b"x", b"X-A: " + b"a" * 65_000, b"Content-Length: 1"))
    assert warcio_accepts(path) == 3 and list(faults(path)) == []
    assert len(records(path)[1].http_header("X-A") or "") == 65_000


def test_truncation_is_marked_with_its_reason(tmp_path: Path) -> None:
    for word in ("length", "time", "disconnect"):
        path = tmp_path / f"{word}.warc.gz"
        spooled(path, answer(b"abc", b"Content-Length: 9", truncated=word))
        record = records(path)[1]
        assert record.header("WARC-Truncated") == word
        assert record.http_header("X-Crawl-Content-Length") == "9"
    with pytest.raises(WarcError, match="bored"):
        spooled(tmp_path / "no.warc.gz", answer(b"abc"), truncated="bored")


def test_a_304_is_a_revisit_with_the_digest_of_the_capture_it_confirms(tmp_path: Path) -> None:
    first = digest_of(b"<p>first capture</p>")
    path, not_modified = tmp_path / "a.warc.gz", answer(b"", b'ETag: "4078134-aed6"', status=304)
    revisit = Revisit("http://a.example/a", "2025-11-01T10:00:00.000000Z", first, "urn:uuid:1-2")
    (stored,) = spooled(path, not_modified, revisit=revisit)
    record = records(path)[1]
    assert (record.type, record.header("WARC-Profile")) == ("revisit", NOT_MODIFIED)
    assert record.header("WARC-Payload-Digest") == f"sha1:{first}" == f"sha1:{stored.payload_digest}"
    assert record.header("WARC-Refers-To-Target-URI") == "http://a.example/a"
    assert record.header("WARC-Refers-To-Date") == "2025-11-01T10:00:00.000000Z"
    assert record.header("WARC-Refers-To") == "<urn:uuid:1-2>"
    assert record.http_header("ETag") == '"4078134-aed6"'
    assert warcio_accepts(path) == fastwarc_accepts(path) == 3
    assert list(faults(path)) == []


def test_a_304_of_an_unknown_capture_has_no_digest_and_never_that_of_no_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a.warc.gz"
    (stored,) = spooled(path, answer(b"", status=304), revisit=Revisit("http://a.example/a", DATE, None))
    assert stored.payload_digest == ""
    assert records(path)[1].header("WARC-Payload-Digest") is None


def test_a_duplicate_becomes_a_revisit_that_names_the_original(tmp_path: Path) -> None:
    path = tmp_path / "a.warc.gz"
    (stored,) = spooled(path, VARIANTS["18 content coding kept, chunks removed"])
    data = path.read_bytes()
    response = data[stored.offset : stored.offset + stored.length]
    made = revisit_member(
        response, record_id=stored.record_id, refers_to_url="http://b.example/", refers_to_date=DATE,
        refers_to_id="urn:uuid:of-b",
    )  # fmt: skip
    path.write_bytes(data[: stored.offset] + made + data[stored.offset + stored.length :])
    before, (_, record, request) = next(iter(read_records(response))), records(path)
    assert isinstance(before, WarcRecord)
    for name in ("WARC-Record-ID", "WARC-Date", "WARC-Target-URI", "WARC-IP-Address", "WARC-Warcinfo-ID",
                 "WARC-Payload-Digest"):  # fmt: skip
        assert record.header(name) == before.header(name)
    assert (record.type, record.header("WARC-Truncated")) == ("revisit", "length")
    assert record.block == before.http_head and record.payload == b""
    assert record.header("WARC-Refers-To") == "<urn:uuid:of-b>"
    assert request.header("WARC-Concurrent-To") == record.header("WARC-Record-ID")
    assert warcio_accepts(path) == fastwarc_accepts(path) == 3
    assert list(faults(path)) == []


@pytest.mark.parametrize("broken", [b"", b"no gzip", warcinfo_member(info())])
def test_only_a_response_member_can_become_a_revisit(broken: bytes) -> None:
    with pytest.raises(WarcError):
        revisit_member(
            broken, record_id="urn:uuid:1", refers_to_url="u", refers_to_date=DATE, refers_to_id=None
        )


def test_what_is_no_answer_is_no_record(tmp_path: Path) -> None:
    dead = answer(b"")
    dead.status, dead.response_head = None, b""
    with pytest.raises(WarcError, match="no answer to store"):
        spooled(tmp_path / "a.warc.gz", dead)


def test_a_record_has_the_bytes_that_warcio_itself_would_write() -> None:
    """The pieces we prepare make no difference to what warcio's own builder and writer make of the same fields."""
    block = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"
    fields = [("WARC-Type", "response"), ("WARC-Record-ID", "<urn:uuid:1>"), ("WARC-Date", DATE),
              ("WARC-Target-URI", "http://a.example/"), ("Content-Type", "application/http;msgtype=response"),
              ("WARC-Payload-Digest", f"sha1:{digest_of(b'abc')}")]  # fmt: skip
    builder = RecordBuilder(warc_version="WARC/1.1")
    writer = BufferWARCWriter(gzip=False, warc_version="WARC/1.1")
    record = builder.create_warc_record(
        "http://a.example/", "response", payload=BytesIO(block), length=len(block),
        warc_content_type="application/http;msgtype=response", warc_headers_dict=dict(fields),
    )  # fmt: skip
    writer.write_record(record)
    assert RecordMaker().record(list(fields), block) == writer.get_contents()


field_names = st.from_regex(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,12}", fullmatch=True)
values = st.binary(max_size=30).map(lambda text: text.replace(b"\n", b""))
odd_lines = st.one_of(
    st.builds(lambda name, value: name + b":" + value, field_names, values),
    st.builds(
        lambda value: b"Content-Length:" + value,
        st.one_of(values, st.integers(0, 99).map(lambda n: b" %d" % n)),
    ),
    st.builds(
        lambda value: b"transfer-ENCODING:" + value, st.sampled_from([b" chunked", b"", b"gzip, chunked"])
    ),
    st.builds(lambda value: b" " + value, values),
    values,
)
odd_heads = st.builds(
    lambda line, lines, end: end.join([line, *lines]) + end + end,
    st.one_of(st.just(b"HTTP/1.1 {} OK"), st.just(b"HTTP/2 {}"), values), st.lists(odd_lines, max_size=8),
    st.sampled_from([b"\r\n", b"\n"]),
)  # fmt: skip


def test_a_folded_line_belongs_to_the_length_that_it_spoils() -> None:
    head = stored_head(b"HTTP/1.1 200 OK\r\nContent-Length: 14\r\n !\r\n\r\n", status=200, length=14)
    assert head == b"HTTP/1.1 200 OK\r\nX-Crawl-Content-Length: 14\r\n !\r\nContent-Length: 14\r\n\r\n"


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    heads=st.lists(st.tuples(odd_heads, st.binary(max_size=200), st.sampled_from([200, 204, 304, 404, 503])),
                   min_size=1, max_size=4),
)  # fmt: skip
def test_no_head_and_no_body_makes_a_file_that_a_reader_refuses(
    tmp_path: Path, heads: list[tuple[bytes, bytes, int]]
) -> None:
    exchanges = []
    for head, body, status in heads:
        exchange = answer(body, status=status)
        exchange.response_head = head.replace(b"{}", b"%d" % status)
        exchanges.append(exchange)
    path = tmp_path / "odd.warc.gz"
    spooled(path, *exchanges)
    assert warcio_accepts(path) == fastwarc_accepts(path) == 1 + 2 * len(heads)
    assert list(faults(path)) == []
    for exchange, record in zip(exchanges, records(path)[1::2], strict=True):
        bodiless = has_no_body("GET", exchange.status or 0)
        assert record.payload == (b"" if bodiless else exchange.body)
        assert record.status == exchange.status


@given(odd_heads, st.one_of(st.none(), st.integers(0, 99)))
def test_mending_a_head_twice_is_mending_it_once(head: bytes, length: int | None) -> None:
    once = stored_head(head, status=200, length=length)
    assert stored_head(once, status=200, length=length) == once
    assert len(re.findall(rb"(?im)^content-length:", once)) <= 1


# the spool


def test_sizes_and_places_are_those_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.warc.gz"
    spool = Spool(path, info())
    places = [(0, spool.size)]
    for i in range(5):
        stored = spool.add(answer(b"%d" % i), record_date=DATE, record_id=uuid_urn(str(i)))
        places += [
            (stored.offset, stored.length),
            (stored.offset + stored.length, stored.total - stored.length),
        ]
    assert path.stat().st_size == 0  # buffered
    assert spool.flush() == spool.size == path.stat().st_size
    assert list(members(path)) == places
    spool.close()
    spool.close()


def test_a_torn_tail_is_cut_at_every_byte_of_the_last_member(tmp_path: Path) -> None:
    path, whole = tmp_path / "a.warc.gz", tmp_path / "whole.warc.gz"
    spooled(whole, answer(b"one"), answer(b"two"))
    *_, (last, length) = members(whole)
    data = whole.read_bytes()
    for cut in range(last, last + length):
        path.write_bytes(data[:cut])
        sound = [record for record in read_records(path) if isinstance(record, WarcRecord)]
        torn = [fault for fault in read_records(path) if not isinstance(fault, WarcRecord)]
        assert len(sound) == 4 and len(torn) == (cut > last), cut
        spool = Spool.reopen(path, info(), last)
        spool.add(answer(b"three"), record_date=DATE, record_id=uuid_urn("3"))
        spool.close()
        assert list(faults(path)) == [] and len(records(path)) == 6, cut


def test_reopening_a_spool_that_lost_flushed_bytes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.warc.gz"
    spooled(path, answer(b"one"))
    size = path.stat().st_size
    os.truncate(path, size - 1)
    with pytest.raises(WarcError, match=f"{size} bytes were flushed, {size - 1} are there"):
        Spool.reopen(path, info(), size)
    with pytest.raises(WarcError, match="captures are lost"):
        Spool.reopen(tmp_path / "absent.warc.gz", info(), 10)


def test_a_full_disk_leaves_whole_members_and_nothing_is_lost(tmp_path: Path) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full on this system")
    spool = Spool(tmp_path / "a.warc.gz", info())
    spool.flush()
    stored = spool.add(answer(b"x"), record_date=DATE, record_id=uuid_urn("1"))
    disk, spool._fd = spool._fd, os.open(full, os.O_WRONLY)
    with pytest.raises(OSError):
        spool.flush()
    os.close(spool._fd)
    spool._fd = disk
    spool.close()
    assert read_at(tmp_path / "a.warc.gz", stored.offset, stored.length).payload == b"x"
    assert list(faults(tmp_path / "a.warc.gz")) == []


def test_flushing_in_another_thread_keeps_every_member_in_order(tmp_path: Path) -> None:
    path, stop = tmp_path / "a.warc.gz", threading.Event()
    spool = Spool(path, info())

    def flush() -> None:
        while not stop.is_set():
            spool.flush()

    thread = threading.Thread(target=flush)
    thread.start()
    for i in range(300):
        spool.add(answer(b"%d" % i * 50), record_date=DATE, record_id=uuid_urn(str(i)))
    stop.set()
    thread.join()
    spool.close()
    assert list(faults(path)) == []
    assert [record.payload for record in records(path)[1::2]] == [b"%d" % i * 50 for i in range(300)]


def test_the_same_capture_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        spooled(tmp_path / name, *VARIANTS.values())
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_an_empty_body_has_the_digest_of_no_bytes() -> None:
    assert digest_of(b"") == EMPTY_DIGEST
    assert REQUEST.endswith(b"\r\n\r\n")


@given(
    st.binary(min_size=20, max_size=20), st.integers(0, 4_000_000_000_000), st.lists(st.text(), max_size=3)
)
def test_the_quick_spellings_are_the_standard_librarys(
    digest: bytes, epoch_ms: int, words: list[str]
) -> None:
    assert warc_write.base32(digest) == base64.b32encode(digest).decode()
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=epoch_ms)
    assert warc_write.warc_date(epoch_ms) == moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    name = "\0".join(words)
    assert warc_write.uuid_urn(*words) == f"urn:uuid:{uuid.uuid5(warc_write._NAMESPACE, name)}"
