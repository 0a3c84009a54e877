"""Seed lines: what is a seed, what is not, and what is said of it."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.seeds.read import LINE_BYTES, BadLine, Seed, bounded, read


def lines(data: bytes) -> list[Seed | BadLine]:
    return list(read(bounded(io.BytesIO(data))))


def test_metadata_is_tab_separated_as_in_nutch() -> None:
    data = b"https://a.example/\tlabel=dk\tnutch.score=10\ttitle=a = b\n"
    assert lines(data) == [
        Seed("https://a.example/", (("label", "dk"), ("nutch.score", "10"), ("title", "a = b")))
    ]


def test_blank_lines_comments_bom_and_windows_line_ends_are_no_trouble() -> None:
    data = b"\xef\xbb\xbfhttp://a.example/\r\n\r\n  \n# http://b.example/\nhttp://c.example/"
    assert lines(data) == [Seed("http://a.example/"), Seed("http://c.example/")]


def test_the_url_goes_on_the_wire_as_it_was_spelt() -> None:
    assert lines("HTTP://Bücher.example/%7eA?b#c\n".encode()) == [Seed("http://xn--bcher-kva.example/%7eA?b")]


RUBBISH = {
    b"foo": "'foo' is not an http or https URL",
    b"ftp://a.example/": "'ftp://a.example/' is not an http or https URL",
    b"example.org/a": "'example.org/a' has no scheme; write https://example.org/a",
    b"http://": "is not an http or https URL",
    b"http://a.example/\tlabel": "'label' is not key=value metadata",
    b"http://a.example/\tmy label=3": "is not key=value metadata",
    b"http://a.example/\texclude=/ok re:(": "exclude: filter pattern 're:(' is no regular expression",
    b"http://a.example/\tinclude=re:" + b"(" * 5_000: "nested too deep",
    b"http://a.example/\tstay=hsot": "stay=hsot: it is one of any, host, domain",
    b"http://a.example/\tmax_depth=-1": "max_depth=-1: it is a whole number of links",
    b"http://a.example/\xff": "not UTF-8 text (byte 18 of the line)",
    b"http://a.example/" + b"x" * LINE_BYTES: "longer than 65,536 bytes",
    b"\x00\x01\x02": "is not an http or https URL",
}


@pytest.mark.parametrize("line", RUBBISH)
def test_a_rubbish_line_is_told_by_its_number_and_the_good_ones_are_kept(line: bytes) -> None:
    before, bad, after = lines(b"http://a.example/1\n" + line + b"\nhttp://a.example/2\n")
    assert (before, after) == (Seed("http://a.example/1"), Seed("http://a.example/2"))
    assert isinstance(bad, BadLine)
    assert bad.number == 2
    assert RUBBISH[line] in bad.why
    assert len(bad.why) < 250


@given(st.binary(max_size=300))
def test_no_bytes_make_reading_fail(data: bytes) -> None:
    for found in lines(data):
        assert isinstance(found, Seed | BadLine)


@given(st.lists(st.binary(max_size=40), max_size=10))
def test_every_line_is_a_seed_a_fault_or_blank_and_faults_are_in_order(parts: list[bytes]) -> None:
    numbers = [found.number for found in lines(b"\n".join(parts)) if isinstance(found, BadLine)]
    assert numbers == sorted(set(numbers))


def test_a_line_without_end_takes_no_memory() -> None:
    class Endless(io.BytesIO):
        left = 1000

        def readline(self, size: int | None = -1, /) -> bytes:
            assert size == LINE_BYTES
            self.left -= 1
            return b"x" * LINE_BYTES if self.left > 0 else b""

    (bad,) = read(bounded(Endless()))
    assert bad == BadLine(1, "longer than 65,536 bytes")
