"""Content codings: what browsers show comes out, bombs stop at the limit, and no bytes raise."""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from typing import Any

import brotli
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.net.bodies import Decoded, decode, zstd
from tests.shared import ROOT, shared

PAGE = b"<!doctype html><title>plain page</title><p>harvest of plums</p>" * 20
LIMIT = 1_000_000


def bare(data: bytes) -> bytes:
    machine = zlib.compressobj(wbits=-15)
    return machine.compress(data) + machine.flush()


CODERS = {"gzip": gzip.compress, "deflate": zlib.compress, "br": brotli.compress, "zstd": zstd.compress}


def cases() -> list[Any]:
    file = ROOT / "data/http-bodies/cases.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return [pytest.param(row, id=row["file"]) for row in rows] or [pytest.param(None)]


@pytest.mark.parametrize("case", cases())
def test_16_coded_bodies_decode_to_their_digest_and_stop_at_a_limit(case: dict[str, Any] | None) -> None:
    folder = shared("data/http-bodies")
    assert case is not None and len(cases()) == 16
    body = (folder / case["file"]).read_bytes()
    whole = decode(body, case["content_encoding"], limit=20_000_000)
    assert hashlib.sha256(whole.data).hexdigest() == case["decoded_sha256"]
    assert whole.complete == (case["kind"] != "truncated") and (whole.error is None) == whole.complete
    cut = decode(body, case["content_encoding"], limit=1_000)
    assert (cut.data, cut.complete) == (whole.data[:1_000], False) and cut.error


@pytest.mark.parametrize("coding", CODERS)
@pytest.mark.parametrize("spelling", ["{}", " {} ", "{};q=1", '"{}"', "identity, {}", "{}, identity", ",{},"])
def test_each_coding_is_taken_off_however_it_is_spelt(coding: str, spelling: str) -> None:
    got = decode(CODERS[coding](PAGE), spelling.format(coding.upper()), limit=LIMIT)
    assert got == Decoded(PAGE, True, coding, None)


def test_both_kinds_of_deflate_and_old_names_are_read() -> None:
    assert decode(bare(PAGE), "deflate", limit=LIMIT) == Decoded(PAGE, True, "deflate", None)
    assert decode(gzip.compress(PAGE), "x-gzip", limit=LIMIT).data == PAGE


@pytest.mark.parametrize("header", [None, "", "identity", "none", " , ", "IDENTITY;q=1"])
def test_no_coding_leaves_the_body_as_it_is(header: str | None) -> None:
    assert decode(PAGE, header, limit=LIMIT) == Decoded(PAGE, True, None, None)
    assert decode(PAGE, header, limit=9) == Decoded(PAGE[:9], False, None, "longer than 9 bytes")


@pytest.mark.parametrize("header", ["gzip", "deflate", "br", "zstd", "gzip, br", "compress", "utf-8"])
def test_an_empty_body_has_nothing_to_take_off(header: str) -> None:
    assert decode(b"", header, limit=LIMIT) == Decoded(b"", True, None, None)


def test_codings_on_top_of_each_other_are_taken_off_last_first() -> None:
    stacked = zstd.compress(brotli.compress(zlib.compress(gzip.compress(PAGE))))
    got = decode(stacked, "gzip, deflate, br, zstd", limit=LIMIT)
    assert got == Decoded(PAGE, True, "gzip, deflate, br, zstd", None)


def test_more_codings_than_anyone_needs_are_refused() -> None:
    got = decode(PAGE, ", ".join(["gzip"] * 50), limit=LIMIT)
    assert (got.data, got.complete) == (b"", False) and "50 content codings" in (got.error or "")


@pytest.mark.parametrize("header", ["gzip", "deflate", "br", "zstd", "utf-8", "compress", "8bit"])
@pytest.mark.parametrize("body", [PAGE, b"plums", "<p>é für ö</p>".encode(), b"a"])
def test_a_plain_body_that_is_called_coded_stays_and_is_marked(header: str, body: bytes) -> None:
    got = decode(body, header, limit=LIMIT)
    assert (got.data, got.complete, got.coding) == (body, True, None)
    assert got.error == f"called {header}, but sent plain"


@pytest.mark.parametrize(
    ("header", "real"),
    [("deflate", "gzip"), ("br", "gzip"), ("gzip", "zstd"), ("utf-8", "gzip"), ("br", "zstd")],
)
def test_what_the_bytes_say_goes_before_the_name(header: str, real: str) -> None:
    got = decode(CODERS[real](PAGE), header, limit=LIMIT)
    assert (got.data, got.complete, got.error) == (PAGE, True, f"called {header}, but sent {real}")


@pytest.mark.parametrize("header", ["compress", "x-compress", "dcb", "gzip", "zstd"])
def test_bytes_that_nothing_can_be_made_of_are_no_text(header: str) -> None:
    got = decode(b"\x1f\x9d\x90" + bytes(range(256)), header, limit=LIMIT)
    assert (got.data, got.complete) == (b"", False) and got.error


@pytest.mark.parametrize("coding", CODERS)
def test_a_stream_cut_short_keeps_what_was_decoded(coding: str) -> None:
    noise = hashlib.shake_128(b"seed").hexdigest(300_000).encode()
    coded = CODERS[coding](noise)
    got = decode(coded[: len(coded) * 3 // 4], coding, limit=LIMIT)
    assert not got.complete and got.error == "the coded stream ends too early"
    assert len(got.data) > 5_000 and noise.startswith(got.data)


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_a_damaged_stream_keeps_what_stands_before_the_damage(coding: str) -> None:
    noise = hashlib.shake_128(b"seed").hexdigest(20_000).encode()
    coded = bytearray(CODERS[coding](noise))
    coded[len(coded) // 2 : len(coded) // 2 + 40] = bytes(40)
    got = decode(bytes(coded), coding, limit=LIMIT)
    assert not got.complete and "damaged" in (got.error or "") and len(got.data) > 10_000
    assert noise[:10_000] == got.data[:10_000]


def test_a_wrong_check_sum_costs_no_byte() -> None:
    coded = gzip.compress(PAGE)
    got = decode(coded[:-8] + b"\0" * 8, "gzip", limit=LIMIT)
    assert (got.data, got.complete) == (PAGE, False) and "damaged" in (got.error or "")


def test_members_are_joined_and_rubbish_behind_them_is_passed_over() -> None:
    coded = gzip.compress(PAGE) + gzip.compress(b"tail")
    for behind in (b"", b"\0" * 512, b"rubbish"):
        assert decode(coded + behind, "gzip", limit=LIMIT) == Decoded(PAGE + b"tail", True, "gzip", None)
    frames = zstd.compress(PAGE) + zstd.compress(b"tail")
    assert decode(frames, "zstd", limit=LIMIT) == Decoded(PAGE + b"tail", True, "zstd", None)


@pytest.mark.parametrize("coding", CODERS)
def test_a_bomb_stops_at_the_limit(coding: str) -> None:
    bomb = CODERS[coding](bytes(5_000_000))
    got = decode(bomb, coding, limit=4_096)
    assert (got.data, got.complete, got.error) == (bytes(4_096), False, "longer than 4096 bytes")
    twice = decode(CODERS[coding](bomb), f"{coding}, {coding}", limit=4_096)
    assert len(twice.data) <= 4_096 and not twice.complete


@pytest.mark.parametrize("coding", CODERS)
def test_a_body_of_just_the_limit_is_whole(coding: str) -> None:
    assert decode(CODERS[coding](PAGE), coding, limit=len(PAGE)).complete
    assert not decode(CODERS[coding](PAGE), coding, limit=len(PAGE) - 1).complete


def test_ten_thousand_members_take_no_time_beyond_the_limit() -> None:
    got = decode(gzip.compress(b"x" * 10) * 10_000, "gzip", limit=500)
    assert (got.data, got.complete) == (b"x" * 500, False)


HEADERS = st.lists(
    st.sampled_from([*CODERS, "identity", "compress", "x-gzip", "", "\0", "é"]), max_size=4
).map(", ".join)
STARTS = st.sampled_from(
    [b"", b"\x1f\x8b\x08\0", b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\x78\x9c", b"<p>", gzip.compress(b"x" * 99)]
)


@given(STARTS, st.binary(max_size=200), HEADERS, st.integers(0, 300))
def test_no_bytes_raise_and_nothing_passes_the_limit(
    start: bytes, rest: bytes, header: str, limit: int
) -> None:
    got = decode(start + rest, header, limit=limit)
    assert len(got.data) <= limit and (got.complete or got.error is not None)


@given(st.binary(max_size=500), st.lists(st.sampled_from(sorted(CODERS)), max_size=3))
def test_what_was_coded_comes_back(body: bytes, codings: list[str]) -> None:
    coded = body
    for coding in codings:
        coded = CODERS[coding](coded)
    got = decode(coded, ", ".join(codings), limit=LIMIT)
    assert got.data == body and got.complete
