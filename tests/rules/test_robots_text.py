"""The text of robots.txt: bytes to lines, lines to groups."""

from __future__ import annotations

import pytest

from pipelines.rules.robots_text import MAX_LINE_CHARS, decoded, prepare, product_token, read_lines

TEXT = "User-agent: a\nDisallow: /x\n"


def values(text: str) -> list[tuple[int, str, str]]:
    return [(line.number, line.field, line.value) for line in read_lines(text)]


@pytest.mark.parametrize(
    "body",
    [
        TEXT.encode(),
        b"\xef\xbb\xbf" + TEXT.encode(),
        b"\xef\xbb" + TEXT.encode(),
        b"\xff\xfe" + TEXT.encode("utf-16-le"),
        b"\xfe\xff" + TEXT.encode("utf-16-be"),
    ],
)
def test_byte_order_marks_hide_no_line(body: bytes):
    assert decoded(body) == TEXT


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_all_three_line_ends_count(end: str):
    assert values(TEXT.replace("\n", end)) == [(1, "agent", "a"), (2, "disallow", "/x")]


def test_other_separators_of_unicode_are_no_line_ends():
    assert values("Disallow: /a\u2028b\x0bc\nAllow: /") == [
        (1, "disallow", "/a\u2028b\x0bc"),
        (2, "allow", "/"),
    ]


def test_nul_is_white_space_at_the_edges():
    assert values("\0User-agent: a\0\n\0\0\nAllow: /\0") == [(1, "agent", "a"), (3, "allow", "/")]


def test_a_body_is_cut_at_its_last_whole_line():
    assert decoded(b"Allow: /a\nAllow: /bcd\n", 15) == "Allow: /a\n"
    assert decoded(b"Allow: /a\rAllow: /bcd\r", 15) == "Allow: /a\r"
    assert decoded(b"x" * 100, 50) == ""


def test_a_line_is_cut_at_its_limit():
    (line,) = read_lines("Allow: /" + "a" * 50_000)
    assert len(line.text) == MAX_LINE_CHARS


def test_typos_tags_and_forgotten_colons_are_understood():
    text = "<pre>User agent: a<br>\nDissalow: /x<BR>\ndisallow /y\nhttp://a.example/sitemap.xml\nnoise\n: :\n"
    assert values(text) == [
        (1, "agent", "a"),
        (2, "disallow", "/x"),
        (3, "disallow", "/y"),
        (4, "sitemap", "http://a.example/sitemap.xml"),
    ]


@pytest.mark.parametrize(
    ("value", "token"),
    [
        ("FooBot/1.2", "foobot"),
        ("foo bar", "foo"),
        ("*", "*"),
        ("Bot*", "bot"),
        ("", ""),
        ("  X;y", "x"),
        ("/", ""),
    ],
)
def test_product_tokens_lose_their_trimmings(value: str, token: str):
    assert product_token(value) == token


@pytest.mark.parametrize(
    "between", ["Unknown: x", "Sitemap: http://a.example/s", "Crawl-delay: 3", "noise", "", "# x"]
)
def test_nothing_but_a_rule_ends_a_run_of_user_agents(between: str):
    groups = prepare(
        read_lines(f"User-agent: a\n{between}\nUser-agent: b\nDisallow: /x\nUser-agent: c\n")
    ).groups
    assert {name: len(group.rules) for name, group in groups.items()} == {"a": 1, "b": 1, "c": 0}


def test_a_crawl_delay_is_for_the_agents_right_above_it():
    text = "User-agent: a\nCrawl-delay: 1\nUser-agent: b\nCrawl-delay: 2\nDisallow: /x\nCrawl-delay: 3\nUser-agent: c"
    groups = prepare(read_lines(text)).groups
    assert {name: group.delay_ms for name, group in groups.items()} == {"a": 1000, "b": 3000, "c": None}


def test_sitemap_lines_stand_anywhere_and_once():
    text = "Sitemap: /a\nUser-agent: x\nsitemap:/b\nDisallow: /\nSITEMAP : /a\nSitemap:\n"
    assert prepare(read_lines(text)).sitemaps == ("/a", "/b")
