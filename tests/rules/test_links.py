"""Link fields, meta refresh, srcset and base, by the reference cases; the collector joins as `resolve` does."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.rules.links import (
    Collector,
    HeaderLink,
    add_header_links,
    base_of,
    folders_of,
    header_links,
    link_kind,
    refresh_of,
    srcset_urls,
)
from pipelines.rules.urls import resolve
from tests.shared import shared


def rows(path: str) -> list[Any]:
    return [json.loads(line) for line in shared(path).read_text(encoding="utf-8").splitlines() if line]


def test_69_meta_refresh_cases():
    cases = rows("data/html/meta-refresh.jsonl")
    assert len(cases) == 69
    for case in cases:
        found = refresh_of(case["content"])
        assert (found is not None) == case["redirects"], case
        if found is not None:
            url = found.url and found.url.strip().translate({9: None, 10: None, 13: None})
            assert (found.seconds, url) == (case["seconds"], case["url"]), case


def test_60_srcset_cases():
    cases = rows("data/html/srcset.jsonl")
    assert len(cases) == 60
    for case in cases:
        found = srcset_urls(case["srcset"])
        if "urls" in case:
            assert found == case["urls"], case
        elif case["selected"]:
            assert case["selected"] in found, case
        else:
            assert found == [], case


@pytest.mark.parametrize("text", ["," * 10**6, "(" * 10**6, "a (" * 3 * 10**5, " " * 10**6, "a 1x," * 10**5])
def test_long_rubbish_in_srcset_costs_little(text: str):
    began = time.process_time()
    srcset_urls(text)
    assert time.process_time() - began < 3


LINK_FIELDS = [
    ("", []),
    ("<a>", [HeaderLink("a", "", "", None)]),
    ("<a>;rel=next", [HeaderLink("a", "next", "", None)]),
    ('<a>; rel="Next  Prefetch" ; title="a, b; <c>"', [HeaderLink("a", "next prefetch", "", None)]),
    ("<a>; rel=next, <b>;rel=prev", [HeaderLink("a", "next", "", None), HeaderLink("b", "prev", "", None)]),
    ('<a>; rel=alternate; hreflang=de-CH; anchor="#x"', [HeaderLink("a", "alternate", "de-CH", "#x")]),
    ("<a>; REL=next; rel=prev", [HeaderLink("a", "next", "", None)]),
    ('<a>; rel="ne\\xt"', [HeaderLink("a", "next", "", None)]),
    ('<a>; rel="unclosed', [HeaderLink("a", "unclosed", "", None)]),
    ("<a, b>;;; rel = next ;", [HeaderLink("a, b", "next", "", None)]),
    ("no brackets; rel=next", []),
    ("<unclosed; rel=next", []),
]


@pytest.mark.parametrize(("field", "wanted"), LINK_FIELDS)
def test_link_fields(field: str, wanted: list[HeaderLink]):
    assert header_links(field) == wanted


@given(st.text(alphabet='<>;,="\\ ab', max_size=80))
def test_any_link_field_is_read(field: str):
    assert all("<" not in link.rel for link in header_links(field) if '"' not in field)


def test_a_link_field_is_relative_to_the_page_and_other_anchors_do_not_count():
    into = Collector("http://a.example/b/c", limit=9, longest=99)
    field = (
        '<d>; rel=canonical, <e>; rel=preload, <f>; rel=next; anchor="/other", </g>; rel="prev"; anchor=""'
    )
    assert add_header_links(into, field, url="http://a.example/b/c") == "http://a.example/b/d"
    assert [(link.url, link.kind, link.rel) for link in into.found] == [
        ("http://a.example/b/d", "header", "canonical"),
        ("http://a.example/g", "header", "prev"),
    ]


@pytest.mark.parametrize(
    ("href", "base"),
    [
        (None, "http://a.example/b/c"),
        ("d/", "http://a.example/b/d/"),
        ("/", "http://a.example/"),
        (" \n/x y/ ", "http://a.example/x%20y/"),
        ("//b.example", "http://b.example/"),
        ("", "http://a.example/b/c"),
        ("http://[bad", "http://a.example/b/c"),
        ("javascript:1", "http://a.example/b/c"),
        ("data:text/html,x", "http://a.example/b/c"),
        ("ftp://a.example/x/", "ftp://a.example/x/"),
    ],
)
def test_base(href: str | None, base: str):
    assert base_of("http://a.example/b/c", href) == base


def test_kinds_of_link_elements():
    assert link_kind("canonical") == "canonical"
    assert link_kind("alternate stylesheet") is None
    assert link_kind("previous") == "prev"
    assert link_kind("icon") is None


REFERENCE = st.text(alphabet="ab/.?#&=%2e:\\ @;~üé-\t", max_size=14)
BASES = st.sampled_from(
    ["http://a.example", "https://a.example/b/c/d.html?e#f", "http://a.example:8080/b/", "http://127.0.0.1/x/y",
     "http://a.example/../b/./c", "ftp://a.example/b/", "http://a.example/b?c/d"]
)  # fmt: skip


@given(BASES, st.lists(REFERENCE, max_size=6))
def test_collector_joins_as_resolve_does(base: str, raws: list[str]):
    into = Collector(base, limit=99, longest=99)
    for raw in raws:
        into.add(raw, "a")
    wanted = [url for raw in raws if (url := resolve(base, raw)) is not None]
    assert [link.url for link in into.found] == list(dict.fromkeys(wanted))


@given(BASES, st.lists(REFERENCE, max_size=6), st.integers(0, 4))
def test_anchors_taken_together_are_those_taken_one_by_one(base: str, raws: list[str], limit: int):
    single, together = (Collector(base, limit=limit, longest=99) for _ in range(2))
    for into in (single, together):
        into.add("c/d.html", "area")
        into.add("b", "a", "next")
    for raw in raws:
        single.add(raw, "a")
    together.add_anchors(raws[:3])
    together.add_anchors(raws[3:])
    assert (together.found, together.full) == (single.found, single.full)


@given(st.sampled_from(["../", "../../", "", "../../../../"]), st.text(alphabet="ab/.?=&-_~", max_size=10))
def test_plain_references_are_put_behind_the_right_folder(up: str, rest: str):
    base = "https://a.example/b/c/d.html"
    assert Collector(base, limit=9, longest=99).join(up + rest) == resolve(base, up + rest)


def test_folders():
    assert folders_of("http://a.example") == ()
    assert folders_of("http://a.example/") == ("http://a.example/",)


def test_non_ascii_queries_are_sent_in_the_encoding_of_the_page():
    into = Collector("http://a.example/", codec="cp1251", limit=9, longest=99)
    assert into.join("/я?q=я#я") == "http://a.example/%D1%8F?q=%FF"


def test_limits():
    into = Collector("http://a.example/", limit=2, longest=5)
    assert [into.add(raw, "a") for raw in ("1", "2", "1", "3", "toolong")] == [
        True,
        True,
        False,
        False,
        False,
    ]
    assert into.full
    assert len(into.found) == 2


@pytest.mark.parametrize(
    "raw", ["javascript:void(0)", " JavaScript:x", "mailto:a@b", "tel:1", "data:,x", "\x01ftp://a/"]
)
def test_what_leads_nowhere_on_the_web(raw: str):
    assert Collector("http://a.example/", limit=9, longest=99).join(raw) is None
