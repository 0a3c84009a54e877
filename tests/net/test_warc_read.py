"""What others wrote, good and broken, is read (issue 4 item 8); the counts are of shared/data/warc."""

from __future__ import annotations

import gzip
import json
import zlib
from base64 import b32encode
from functools import cache
from hashlib import sha1
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from warcio.archiveiterator import ArchiveIterator

from pipelines.net import bodies
from pipelines.net.warc import (
    RecordMaker,
    WarcError,
    WarcFault,
    WarcRecord,
    dechunked,
    faults,
    members,
    read_at,
    read_records,
    warcinfo_member,
)
from pipelines.net.warc_check import digest_matches
from pipelines.net.warc_stream import zstd
from tests.net.warc_cases import info
from tests.shared import shared

# Files in which warcio reads every record, and we find fewer sound ones: what is named as damage instead.
REVIEWED = {
    "warcio/bad.arc": "three of four records have no usable length",
    "warcio/example-space-in-url.arc": "the last record is 12 bytes short of its length",
    "warcio/example-trunc.warc": "a length that is too small",
    "warcio.js/example-bad-length.warc": "a length that is too small",
    "pywb/warcs__example.warc": "a length that is too small",
    "fastwarc/clipped.warc.gz": "the file is clipped within its only record",
    "jwat/invalid-warcfile-fields-missing.warc": "no length",
    "jwat/invalid-warcfile-lonely-continuation.warc": "no length",
    "jwat/invalid-warcfile-lonely-monkeys.warc": "no length",
    "jwat/invalid-warcfile-lonely-warcinfo-metadata.warc": "no lengths",
    "jwat/test-arc-1.0-dashed-fields.arc": "a length that is too small by 80 blanks",
}
# Sound records whose body warcio decodes in another way than we do.
REVIEWED_BODIES = {("pywb/warcs__example-extra.warc", 3207): "its status line is HTTPX/1.1: no HTTP message"}


@cache
def described() -> tuple[dict[str, Any], ...]:
    return tuple(json.loads(shared("data/warc/files.json").read_text()))


def read(file: str) -> tuple[list[WarcRecord], list[WarcFault]]:
    """Return the sound records of a file of shared/data/warc, and its faults."""
    found = list(read_records(shared("data/warc") / file))
    return (
        [record for record in found if isinstance(record, WarcRecord)],
        [fault for fault in found if isinstance(fault, WarcFault)],
    )


def test_135_files_are_read_without_an_error_and_damage_is_never_hidden() -> None:
    assert len(described()) == 135
    for case in described():
        records, damage = read(case["file"])
        assert records or damage, case["file"]
        assert all(fault.what for fault in damage)
        warcio = case.get("warcio_1_8_1")
        if warcio is None:
            assert not records and damage, f"{case['file']} is no archive that we read"
        elif warcio["error"]:
            assert damage or len(records) > warcio["records"], case["file"]


def test_82_sound_files_give_the_records_that_warcio_counts() -> None:
    sound = [case for case in described() if case.get("warcio_1_8_1") and not case["warcio_1_8_1"]["error"]]
    assert len(sound) == 82
    for case in sound:
        records, damage = read(case["file"])
        saved = [fault.record for fault in damage if fault.record]
        assert len(records) + len(saved) >= case["warcio_1_8_1"]["records"], case["file"]
        assert bool(damage) == (case["file"] in REVIEWED), (case["file"], damage)


def test_13_broken_files_give_what_follows_the_damage() -> None:
    """warcio stops in these; FastWARC goes on in those that are WARC."""
    broken = [case for case in described() if case.get("warcio_1_8_1") and case["warcio_1_8_1"]["error"]]
    assert len(broken) == 13
    for case in broken:
        records, damage = read(case["file"])
        fast = case["fastwarc_2_0_1"]["records"]
        assert len(records) + sum(fault.record is not None for fault in damage) >= fast, case["file"]


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("warcio/example-bad-non-chunked.warc.gz", "does not hold exactly one record"),
        ("fastwarc/clipped.warc.gz", "the gzip member is cut off"),
        ("webarchive-commons/double-single-inflate-error.gz", "invalid distance too far back"),
        ("webarchive-commons/empty.gz", "no record in the file"),
        ("jwat/invalid-warcfile-record-then-garbage.warc", "bytes that begin no record"),
        ("jwat/invalid-warcfile-lonely-revisit.warc", "Content-Length is missing"),
        ("jwat/invalid-warcfile-fields-invalidformat.warc", "'very lengthy', no number"),
        ("warcio.js/example-bad-length.warc", "Content-Length says 974, which is too few"),
        ("jwat/invalid-entries.gz", "unknown header flags"),
        ("fastwarc/warcfile.warc.lz4", "LZ4"),
        ("pywb/waczs__valid_example_1.wacz", "WACZ"),
    ],
)
def test_damage_is_named(file: str, words: str) -> None:
    assert words in "; ".join(map(str, read(file)[1]))


def test_2110_records_have_the_place_type_url_date_and_status_that_warcio_gives() -> None:
    lines = gzip.decompress(shared("data/warc/records-by-warcio.jsonl.gz").read_bytes()).splitlines()
    expected = [json.loads(line) for line in lines]
    assert len(expected) == 2110
    compared, ours = 0, {case["file"]: {r.offset: r for r in read(case["file"])[0]} for case in described()}
    for row in expected:
        found = ours[row["file"]].get(row["offset"])
        if found is None or not found.length:
            continue  # damaged, or in a file compressed as a whole: see the tests above
        compared += 1
        assert found.type.strip() == row["type"].strip()
        if found.version != "ARC":  # warcio counts the line end behind an ARC record
            assert found.length == row["record_length"], row
        if found.version != "ARC":
            assert (found.url or "").replace(" ", "%20") == (row["uri"] or "").removeprefix("%20")
            assert found.header("WARC-Date") == (row["date"] or "").strip() or not row["date"]
        if found.type == "response" and (row["file"], row["offset"]) not in REVIEWED_BODIES:
            assert str(found.status or "") == (row.get("status") or ""), row
    assert compared == 2090


def decoded(record: WarcRecord) -> bytes:
    """Return what a reader of the page gets."""
    coding = record.http_header("Content-Encoding") if record.type != "request" else None
    return bodies.decode(record.entity, coding, limit=1 << 26).data or record.entity


def test_the_bodies_of_all_sound_files_are_those_that_warcio_decodes() -> None:
    """Compared with warcio itself: the payload digests in shared/data/warc are all those of no bytes."""
    compared, different = 0, set()
    for case in described():
        if not case.get("warcio_1_8_1") or case["warcio_1_8_1"]["error"] or case["file"] in REVIEWED:
            continue
        with (shared("data/warc") / case["file"]).open("rb") as file:
            for ours, theirs in zip(read(case["file"])[0], ArchiveIterator(file), strict=True):
                if ours.type == "arc_header":  # warcio takes its block for headers
                    continue
                compared += 1
                try:
                    body = theirs.content_stream().read()
                except AttributeError:  # warcio and this brotli do not go together
                    continue
                if decoded(ours) != body:
                    different.add((case["file"], ours.offset))
    assert compared > 2000
    assert different == set(REVIEWED_BODIES)


def test_every_sound_record_is_written_back_with_the_same_block(tmp_path: Path) -> None:
    maker, path = RecordMaker(), tmp_path / "back.warc.gz"
    for case in described():
        records = [record for record in read(case["file"])[0] if record.version != "ARC"]
        ours = []
        for record in records:
            left_out = ("content-length", "warc-block-digest", "warc-type")
            fields = [(name, value) for name, value in record.headers if name.lower() not in left_out]
            ours.append(maker.member([("WARC-Type", record.type.strip() or "-"), *fields], record.block))
        path.write_bytes(b"".join(ours))
        again = list(read_records(path)) if ours else []
        assert all(isinstance(record, WarcRecord) for record in again), case["file"]
        assert [record.block for record in again] == [record.block for record in records]  # type: ignore[union-attr]


def test_822_records_of_a_heritrix_crawl_are_found_again_at_their_places() -> None:
    path = shared("data/warc/jwat/IAH-20080430204825-00000-blackbook.warc.gz")
    records, damage = read("jwat/IAH-20080430204825-00000-blackbook.warc.gz")
    assert len(records) == 822 and not damage
    assert [(record.offset, record.length) for record in records] == list(members(path))
    for record in records[::40]:
        assert read_at(path, record.offset, record.length) == record
    with pytest.raises(WarcError, match="byte 1, 10 bytes"):
        read_at(path, 1, 10)


def test_old_writers_brackets_are_taken_off_the_url() -> None:
    urls = {record.url for record in read("warcio/example-wget-bad-target-uri.warc.gz")[0]}
    assert "http://example.com/" in urls and not any(url and url.startswith("<") for url in urls)


# damage made here

MEMBERS = [
    warcinfo_member(info()),
    *(
        RecordMaker().member(
            [("WARC-Type", "resource"), ("WARC-Record-ID", f"<urn:x:{i}>"), ("Content-Type", "text/plain")],
            (b"%d " % i) * 50,
        )
        for i in range(5)
    ),
]


def whole() -> bytes:
    return b"".join(MEMBERS)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_bytes_changed_in_one_member_cost_no_record_of_another(data: st.DataObject) -> None:
    victim = data.draw(st.integers(0, len(MEMBERS) - 1))
    member = bytearray(MEMBERS[victim])
    place = data.draw(st.integers(0, len(member) - 1))
    member[place] ^= data.draw(st.integers(1, 255))
    file = b"".join([*MEMBERS[:victim], bytes(member), *MEMBERS[victim + 1 :]])
    found = [record.block for record in read_records(file) if isinstance(record, WarcRecord)]
    sound = [record.block for i, m in enumerate(MEMBERS) if i != victim for record in read_records(m)]  # type: ignore[union-attr]
    assert [block for block in found if block in sound] == sound


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300), st.integers(0, len(MEMBERS)))
def test_garbage_between_members_is_named_and_passed_over(garbage: bytes, at: int) -> None:
    assume(garbage[1:4] != b"\x2a\x4d\x18")  # a zstd frame
    assume(not garbage.startswith((b"PK", b"BZh", b"\xfd7zX", b"\x04\x22\x4d\x18", b"\x28\xb5\x2f\xfd")))
    file = b"".join([*MEMBERS[:at], garbage, *MEMBERS[at:]])
    found = list(read_records(file))
    sound = sum(isinstance(record, WarcRecord) for record in found)
    assert sound == len(MEMBERS)
    assert (len(found) > sound) == bool(garbage)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=400))
def test_no_bytes_make_the_reader_fail(data: bytes) -> None:
    for file in (data, gzip.compress(data), b"WARC/1.0\r\n" + data, gzip.compress(b"WARC/1.1\r\n" + data),
                 b"filedesc://x 0.0.0.0 20080430204825 text/plain 9\n" + data, MEMBERS[0] + data):  # fmt: skip
        assert list(read_records(file))


def test_a_file_compressed_as_a_whole_gives_its_records_and_says_so() -> None:
    plain = b"".join(zlib.decompress(member, 31) for member in MEMBERS)
    found = list(read_records(gzip.compress(plain)))
    assert sum(isinstance(record, WarcRecord) for record in found) == len(MEMBERS)
    assert [str(fault) for fault in found if isinstance(fault, WarcFault)] == [
        "byte 0: the gzip member does not hold exactly one record: no random access"
    ]


@pytest.mark.parametrize("size", [1, 7, 64, 4096])
def test_members_that_cut_records_anywhere_are_joined(size: int) -> None:
    plain = b"".join(zlib.decompress(member, 31) for member in MEMBERS)
    file = b"".join(gzip.compress(plain[i : i + size]) for i in range(0, len(plain), size))
    found = [record.block for record in read_records(file) if isinstance(record, WarcRecord)]
    assert found == [record.block for record in read_records(whole()) if isinstance(record, WarcRecord)]


def test_a_plain_file_is_read_with_places_that_can_be_read_again(tmp_path: Path) -> None:
    path = tmp_path / "a.warc"
    path.write_bytes(b"".join(zlib.decompress(member, 31) for member in MEMBERS))
    records = [record for record in read_records(path) if isinstance(record, WarcRecord)]
    assert len(records) == len(MEMBERS)
    for record in records:
        assert read_at(path, record.offset, record.length) == record


def test_zstd_frames_are_read_with_and_without_the_dictionary_frame() -> None:
    plain = [zlib.decompress(member, 31) for member in MEMBERS]
    blocks = [record.block for record in read_records(whole()) if isinstance(record, WarcRecord)]
    frames = b"".join(zstd.compress(record) for record in plain)
    trained = zstd.train_dict([plain[0] + bytes([i]) for i in range(64)], 512)
    shown = trained.dict_content
    held = b"\x5d\x2a\x4d\x18" + len(shown).to_bytes(4, "little") + shown
    for file in (frames, held + b"".join(zstd.compress(record, zstd_dict=trained) for record in plain)):
        found = list(read_records(file))
        assert [record.block for record in found if isinstance(record, WarcRecord)] == blocks
        assert all(isinstance(record, WarcRecord) and record.length for record in found)
    assert "cut off" in str(list(read_records(frames[:-3]))[-1])


def test_a_bomb_is_not_read_into_memory() -> None:
    bomb = (
        b"WARC/1.0\r\nWARC-Type: resource\r\nContent-Length: 60000000\r\n\r\n"
        + bytes(60_000_000)
        + b"\r\n\r\n"
    )
    found = list(read_records(gzip.compress(bomb, 1) + MEMBERS[1], block_bytes=1 << 20))
    assert "60000000" in str(found[0]) or "over the limit" in str(found[0])
    assert isinstance(found[-1], WarcRecord)


def test_a_body_that_looks_like_a_record_is_no_record() -> None:
    text = b"\r\n\r\nWARC/1.0\r\nWARC-Type: response\r\nContent-Length: 0\r\n\r\n\r\n\r\n"
    file = RecordMaker().member([("WARC-Type", "resource"), ("Content-Type", "text/plain")], text)
    (record,) = read_records(file)
    assert isinstance(record, WarcRecord) and record.block == text


@given(st.binary(max_size=300), st.lists(st.integers(1, 50), max_size=9))
def test_chunks_are_taken_off(body: bytes, cuts: list[int]) -> None:
    parts, at = [], 0
    for cut in cuts:
        parts.append(body[at : at + cut])
        at += cut
    parts.append(body[at:])
    framed = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts if part) + b"0\r\n\r\n"
    assert dechunked(framed) == body


@pytest.mark.parametrize(
    ("said", "right"),
    [
        ("sha1:" + b32encode(sha1(b"x").digest()).decode(), True),
        ("SHA-1:" + sha1(b"x").hexdigest(), True),
        ("sha1:" + sha1(b"y").hexdigest().upper(), False),
        ("sha256:2D711642B726B04401627CA9FBAC32F5C8530FB1903CC4DB02258717921A4881", True),
        ("md5:9dd4e461268c8034f5c8564e155c67a6", True),
        ("crc32:12345678", None),
        ("sha1:1112H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ", None),
        ("", None),
    ],
)
def test_digests_are_read_in_every_spelling(said: str, right: bool | None) -> None:
    assert digest_matches(said, b"x") is right


def test_the_standard_is_asked_of_every_record() -> None:
    def words(*fields: tuple[str, str], block: bytes = b"") -> str:
        return "; ".join(map(str, faults_of(RecordMaker().member(list(fields), block))))

    def faults_of(member: bytes) -> list[WarcFault]:
        return list(faults(BytesIO(warcinfo_member(info()) + member)))

    good = [("WARC-Type", "response"), ("WARC-Record-ID", "<urn:x:1>"), ("WARC-Date", "2025-12-01T10:00:00Z"),
            ("WARC-Target-URI", "http://a.example/"), ("Content-Type", "application/http;msgtype=response")]  # fmt: skip
    block = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx"
    assert words(*good, block=block) == ""
    assert "WARC-Date is missing" in words(*good[:2], *good[3:], block=block)
    assert "needs WARC-Target-URI" in words(*good[:3], good[4], block=block)
    assert "must not stand on a response" in words(*good, ("WARC-Refers-To-Date", "2025"), block=block)
    assert "stands 2 times" in words(*good, good[2], block=block)
    assert "is no date" in words(*good[:2], ("WARC-Date", "blue monday"), *good[3:], block=block)
    assert "is wrong for" in words(*good, ("WARC-Payload-Digest", "sha1:" + "A" * 32), block=block)
    assert "Content-Length 1, 2 bytes" in words(*good, block=block + b"y")
    assert "Transfer-Encoding" in words(*good, block=b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
