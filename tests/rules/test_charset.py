"""How bytes become text: html5lib's and html-encoding-sniffer's cases, recorded w3lib calls, field cases."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.rules import charset
from pipelines.rules.charset import charset_of, codec_of, decode, detect, encoding_name, prescan
from pipelines.rules.sniff import media_type
from tests.shared import shared

GOLDEN = Path(__file__).resolve().parents[1] / "golden"


def rows(path: str) -> list[Any]:
    return [json.loads(line) for line in shared(path).read_text(encoding="utf-8").splitlines() if line]


def test_82_html5lib_encoding_cases():
    cases = rows("data/html/encoding-cases.jsonl")
    assert len(cases) == 82
    for case in cases:
        found = charset_of(base64.b64decode(case["input_b64"]), content_type=None)
        assert found[0] == encoding_name(case["encoding"]), case["id"]


def test_16_html_encoding_sniffer_files():
    files = sorted(shared("data/html/encoding-sniffer").iterdir())
    assert len(files) == 16
    for file in files:
        wanted = (
            encoding_name(file.stem.rpartition("_")[2]) or "utf-8"
        )  # "utf__charset-utf-16le": a meta cannot mean it
        assert charset_of(file.read_bytes(), content_type=None)[0] == wanted, file.name


def test_38_content_type_values():
    cases = rows("data/html/content-type-charset.jsonl")
    assert len(cases) == 38
    for case in cases:
        said = media_type(case["content_type"])
        assert (said is not None) == case["parses"], case
        if said is not None:
            wanted = case["encoding"] and encoding_name(case["encoding"])
            assert encoding_name(said[1].get("charset", "")) == wanted, case


def _octets(value: Any) -> Any:
    if isinstance(value, dict) and "bytes_latin1" in value:
        return value["bytes_latin1"].encode("latin-1")
    return value.encode() if isinstance(value, str) else value


def _header(value: Any) -> str | None:
    return value and value.removeprefix("Content-Type:").strip()


def _w3lib_answer(call: dict[str, Any]) -> tuple[Any, Any] | None:
    """Return (what w3lib says, what we say); None for a call that is about an option of w3lib."""
    args, result = call["args"], call["result"]
    name = call["fn"]
    if name == "http_content_type_encoding":
        said = media_type(_header(args[0]))
        label = said[1].get("charset", "").partition(",")[0] if said else ""
        return result and encoding_name(result), encoding_name(label)
    if name == "html_body_declared_encoding":
        return result and encoding_name(result), prescan(_octets(args[0])[:1024])
    if name == "html_to_unicode" and not call["kwargs"]:
        body = _octets(args[1])
        charset = charset_of(body, content_type=_header(args[0]))[0]
        wanted = {"utf-16-be": "utf-16be", "utf-16-le": "utf-16le", "big5hkscs": "big5"}.get(
            result[0], result[0]
        )
        return (codec_of(encoding_name(wanted) or wanted), result[1]), (
            codec_of(charset),
            decode(body, charset),
        )
    if name == "resolve_encoding":
        return result and encoding_name(result), encoding_name(args[0])
    if name == "to_unicode":
        return result, decode(_octets(args[0]), encoding_name(args[1] or "") or "utf-8")
    return None


def test_123_w3lib_calls_are_right_or_reviewed():
    calls = rows("data/html/w3lib-encoding-calls.jsonl")
    assert len(calls) == 123
    reviewed = json.loads((GOLDEN / "html_w3lib.json").read_text())["encoding"]
    for call in calls:
        answer = _w3lib_answer(call)
        if answer is None or answer[0] == answer[1]:
            continue
        text = " ".join(
            value["bytes_latin1"] if isinstance(value, dict) else str(value) for value in call["args"]
        )
        undeclared = call["fn"] == "html_to_unicode" and call["args"][0] is None
        unmarked = "utf-16" in text and call["fn"] == "html_to_unicode"
        listed = any(key.lower() in text.lower() for key in reviewed) or "utf-32" in str(call["result"])
        assert listed or undeclared or unmarked, (call, answer)


def test_field_case_charset_declarations():
    case = json.loads(shared("field-cases/html-charset-declarations.json").read_text())
    pages = zip(case["input"]["pages"], case["expect"]["encoding"], case["expect"]["title"], strict=True)
    for page, encoding, title in pages:
        body = page["html_latin1"].encode("latin-1")
        charset, how = charset_of(body, content_type=page["header"])
        assert charset == encoding.split()[0]
        assert how == "default" or "fallback" not in encoding
        assert title in decode(body, charset)


UNDECLARED = [
    ("shift_jis", "これは日本語のテキストです。東京の天気は晴れです。"),
    ("euc-jp", "これは日本語のテキストです。東京の天気は晴れです。"),
    ("iso-2022-jp", "これは日本語のテキストです。東京の天気は晴れです。"),
    ("gb18030", "这是一个中文网页，北京的天气很好。"),
    ("big5", "這是一個中文網頁，台北的天氣很好。"),
    ("euc-kr", "이것은 한국어 텍스트입니다. 서울의 날씨는 맑습니다."),
    ("windows-1251", "Это русский текст о погоде в Москве."),
    ("koi8-r", "Это русский текст о погоде в Москве."),
    ("utf-8", "Grüße aus Köln und München"),
]


@pytest.mark.parametrize(("name", "text"), UNDECLARED)
def test_undeclared_text_is_detected(name: str, text: str):
    body = f"<html><title>x</title>{text * 8}".encode(codec_of(name))
    assert charset_of(body, content_type="text/html") == (name, "detected")


@pytest.mark.parametrize("name", ["utf-16le", "utf-16be"])
def test_utf_16_is_seen_without_a_mark(name: str):
    assert detect("<html>text".encode(codec_of(name))) == name


def test_order_is_mark_then_header_then_meta_then_detection_then_windows_1252():
    meta, mark = b"<meta charset=koi8-r>", b"\xef\xbb\xbf"
    assert charset_of(mark + meta, content_type="text/html; charset=big5") == ("utf-8", "bom")
    assert charset_of(meta, content_type="text/html; charset=big5") == ("big5", "header")
    assert charset_of(meta, content_type="text/html; charset=nonsense") == ("koi8-r", "meta")
    assert charset_of("ü".encode() * 9, content_type=None) == ("utf-8", "detected")
    assert charset_of(b"plain", content_type=None) == ("windows-1252", "default")
    assert charset_of(b"one \xe9", content_type=None) == ("windows-1252", "default")


def test_meta_behind_the_prescan_counts_but_not_inside_a_script():
    filler = b"<!--" + b"x" * 1100 + b"-->"
    assert charset_of(filler + b"<meta charset=koi8-r>", content_type=None) == ("koi8-r", "meta")
    script = b"<script>'<meta charset=koi8-r>'</script>"
    assert charset_of(filler + script, content_type=None)[1] == "default"


def test_xml_declaration_counts_where_no_meta_does():
    declaration = b'<?xml version="1.0" encoding="iso-8859-2"?>'
    assert prescan(declaration) == "iso-8859-2"
    assert prescan(declaration + b"<meta charset=koi8-r>") == "koi8-r"


def test_bytes_that_python_refuses_and_browsers_do_not():
    assert decode(b"\x81|\x93", "windows-1252") == "\x81|“"
    assert decode(b"100\x80", "gbk") == "100€"
    assert decode(b"x", "replacement") == "\ufffd"


HEAD_PIECES = st.sampled_from(
    [b"<meta charset=", b"<META CHARSET='", b'<meta content="text/html; charset=', b"koi8-r", b"'", b'"', b">", b"<!--",
     b"-->", b" http-equiv=content-type", b"<title>", b"charset", b"<p a='>'", b" utf-8 ", b"<", b"/", b"=", b"x"]
)  # fmt: skip


@given(st.lists(HEAD_PIECES, max_size=14).map(b"".join))
def test_a_remembered_beginning_says_what_the_whole_head_says(head: bytes):
    assert prescan(head) == charset._scan_metas(head)


@given(st.binary(max_size=3000), st.text(max_size=60) | st.none())
def test_any_bytes_have_a_charset_and_a_text(body: bytes, content_type: str | None):
    charset, how = charset_of(body, content_type=content_type)
    assert how in ("bom", "header", "meta", "detected", "default")
    assert isinstance(decode(body, charset), str)


META_LIKE = st.lists(
    st.sampled_from(
        [b"<meta ", b"charset", b"=", b"'", b'"', b">", b"utf-8", b"<!--", b"-->", b"content", b" ", b"http-equiv",
         b"content-type", b"<a ", b"/", b"<?xml encoding='x'>", b"koi8-r", b";", b"<"]
    ),
    max_size=40,
).map(b"".join)  # fmt: skip


@given(META_LIKE)
def test_prescan_names_only_encodings_and_reads_only_the_front(head: bytes):
    found = prescan(head)
    assert found is None or encoding_name(found) == found


@given(META_LIKE)
def test_a_declaration_stands_however_much_follows(head: bytes):
    body = b"<meta charset=koi8-r>" + head
    assert charset_of(body, content_type=None) == ("koi8-r", "meta")
