"""Media types told from bytes, and junk that is named."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.rules.sniff import junk_of, media_type, sniff_type

HTML = b"<!DOCTYPE html><html><body>x"

TYPES = [
    # bytes, Content-Type, what it is
    (HTML, "text/html; charset=utf-8", "text/html"),
    (HTML, None, "text/html"),
    (HTML, "application/octet-stream", "text/html"),
    (HTML, "image/png", "text/html"),
    (HTML, "text/plain", "text/plain"),
    (HTML, "application/json", "application/json"),
    (b"\n <!-- c --><p>", None, "text/html"),
    (b"\xef\xbb\xbf<html >", None, "text/html"),
    (b"%PDF-1.7\n", "text/html", "application/pdf"),
    (b"\x89PNG\r\n\x1a\n..", "text/html", "image/png"),
    (b"\xff\xd8\xff\xe0", None, "image/jpeg"),
    (b"GIF89a..", "text/plain", "image/gif"),
    (b"RIFF....WEBPVP8 ", "text/html", "image/webp"),
    (b"....ftypisom", None, "video/mp4"),
    (b"PK\x03\x04", "application/vnd.oasis.opendocument.text", "application/vnd.oasis.opendocument.text"),
    (b"PK\x03\x04", "text/html", "application/zip"),
    (b"\x1f\x8b\x08\0", "text/html", "application/gzip"),
    (b'<?xml version="1.0"?><rss version="2.0">', None, "application/rss+xml"),
    (b'<?xml version="1.0"?><feed xmlns="x">', None, "application/atom+xml"),
    (b'<?xml version="1.0"?><!DOCTYPE html PUBLIC "x">', None, "application/xhtml+xml"),
    (b'<?xml version="1.0"?><x>', "application/xhtml+xml", "application/xhtml+xml"),
    (b"just words", None, "text/plain"),
    (b"just words", "nonsense", "text/plain"),
    (b"\x00\x01\x02\x03", "text/plain", "application/octet-stream"),
    (b"\x00\x05\x02\x03", None, "application/octet-stream"),
    (b"\xff\xfew\0o\0", "text/plain", "text/plain"),
    (b"", None, "application/x-empty"),
    (b"", "text/html", "text/html"),
    (HTML, "text/html, text/html", "text/html"),
]


@pytest.mark.parametrize(("body", "content_type", "wanted"), TYPES)
def test_type_is_told_from_bytes_and_header(body: bytes, content_type: str | None, wanted: str):
    assert sniff_type(body, content_type) == wanted


@given(st.binary(max_size=200), st.text(max_size=40) | st.none())
def test_any_bytes_have_a_type(body: bytes, content_type: str | None):
    assert "/" in sniff_type(body, content_type)


@given(st.text(alphabet=';=" \\abz/,', max_size=40))
def test_any_content_type_is_read_or_refused(value: str):
    said = media_type(value)
    assert said is None or said[0].count("/") == 1


BOMBS = {
    "nesting": b"<div>" * 200_000,
    "formatting": b"<p>" + b"".join(b"<i a%d>" % i for i in range(20_000)) + b"<p>x" * 20_000,
    "attributes": b"<a " + b" ".join(b"a%d=1" % i for i in range(50_000)) + b">",
    "binary": bytes(range(32)) * 100,
}


@pytest.mark.parametrize("name", BOMBS)
def test_junk_is_named(name: str):
    assert junk_of(BOMBS[name]) == name


def test_attributes_spread_over_many_root_tags_are_junk():
    assert junk_of(b"".join(b"<html a%d=1>" % i for i in range(50_000))) == "attributes"


def test_ends_without_a_start_do_not_hide_what_is_open():
    assert junk_of(b"</div>" * 200_000 + b"<div>" * 200_000) == "nesting"


def test_ordinary_pages_are_not_junk():
    rows = b"<tr><td><b>x</b><td><a href=1>y</a><img src=z><br>\n" * 5_000
    assert junk_of(b"<html><table>" + rows + b"</table>") is None
    assert junk_of(b"<p>one<li>two" * 20_000) is None
    assert junk_of("<p>ü".encode("utf-16")) is None


@given(st.binary(max_size=400))
def test_any_bytes_are_junk_or_not(body: bytes):
    assert junk_of(body * 50) in {None, *BOMBS}


def test_noise_is_binary():
    assert junk_of(np.random.default_rng(1).bytes(50_000)) == "binary"
