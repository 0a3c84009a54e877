"""CDXJ lines and files."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from pipelines.net import cdxj
from tests.shared import shared

FIELDS = {
    "url": "http://a.example/",
    "mime": "text/html",
    "status": 200,
    "digest": None,
    "length": 7,
    "offset": 0,
}


def test_a_line_has_the_fields_in_order_as_strings_and_leaves_out_what_is_not_known() -> None:
    shuffled = dict(reversed(FIELDS.items())) | {"filename": "cycle=000001/a.warc.gz"}
    assert cdxj.line("example,a)/", "20251201100000", shuffled) == (
        'example,a)/ 20251201100000 {"url": "http://a.example/", "mime": "text/html", "status": "200", '
        '"length": "7", "offset": "0", "filename": "cycle=000001/a.warc.gz"}'
    )


def test_a_capture_has_a_line_unless_it_is_a_304() -> None:
    capture = {
        "url_surtkey": "org,a)/", "url": "http://a.org/", "fetch_time": datetime(2025, 12, 1, 10, tzinfo=UTC),
        "fetch_status": 200, "content_digest": "A" * 32, "content_mime_type": "text/plain",
        "content_mime_detected": "text/html", "record_type": "response", "warc_record_length": 7,
    }  # fmt: skip
    made = cdxj.of_capture(capture, filename="a.warc.gz", offset=5)
    assert made is not None and made.startswith("org,a)/ 20251201100000 {")
    assert '"mime": "text/plain"' in made and '"length": "7", "offset": "5", "filename": "a.warc.gz"' in made
    revisit = cdxj.of_capture(capture | {"record_type": "revisit"}, filename="a.warc.gz", offset=5)
    assert revisit is not None and '"mime": "warc/revisit", "status": "200"' in revisit
    assert cdxj.of_capture(capture | {"fetch_status": 304}, filename="a.warc.gz", offset=5) is None


@given(st.lists(st.tuples(st.sampled_from("ab)/,é~0 "), st.integers(0, 10**13)), max_size=30))
def test_the_order_is_that_of_bytes_and_of_nothing_else(keys: list[tuple[str, int]]) -> None:
    lines = [cdxj.line(f"x,{key})/", f"2{number:013}", FIELDS) for key, number in keys]
    content = cdxj.content(lines)
    assert content == cdxj.content(reversed(lines))
    assert content.splitlines() == sorted({text.encode() for text in lines})


def test_sort_of_the_system_agrees(tmp_path: Path) -> None:
    lines = [
        cdxj.line(key, "20251201100000", FIELDS)
        for key in ("b,a)/", "b)/", "b,a)/é", "b,a)/~", "B)/", "b,A)/")
    ]
    cdxj.write(tmp_path / "a.cdxj", lines)
    check = ["env", "LC_ALL=C", "sort", "-c", str(tmp_path / "a.cdxj")]
    assert subprocess.run(check, check=False).returncode == 0


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.cdxj"
    size = cdxj.write(path, [cdxj.line("example,a)/", "20251201100000", FIELDS)])
    assert size == path.stat().st_size and [file.name for file in tmp_path.iterdir()] == ["a.cdxj"]
    (entry,) = cdxj.read(path)
    assert isinstance(entry, cdxj.Entry)
    assert (entry.surt, entry.timestamp, entry.fields["length"]) == ("example,a)/", "20251201100000", "7")


def test_18_index_files_of_pywb_are_read() -> None:
    files = [path for path in sorted(shared("data/warc/pywb").iterdir()) if path.suffix in (".cdx", ".cdxj")]
    assert len(files) == 18
    for path in files:
        for entry in cdxj.read(path):
            assert isinstance(entry, cdxj.Entry) or "bad" in path.name, (path.name, entry)


def test_a_bad_line_is_a_sentence_and_the_next_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.cdxj"
    path.write_text('rubbish\nexample,a)/ 20251201100000 {"url": "http://a.example/"}\na b {}\n')
    first, second, third = cdxj.read(path)
    assert first == f"{path}: line 1: no CDXJ line: 'rubbish'"
    assert isinstance(second, cdxj.Entry) and isinstance(third, str)
