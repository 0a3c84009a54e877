"""SURT keys: as the IIPC's tools and Common Crawl make them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.rules import surt
from tests.shared import shared

FORMS = {
    "ssurtHost": surt.ssurt_host,
    "reverseHost": surt.reverse_host,
    "ssurt": surt.ssurt,
    "surt": surt.surt_form,
    "surtWithoutScheme": lambda url: surt.surt_form(url, with_scheme=False),
    "surtWithoutTrailingComma": lambda url: surt.surt_form(url, trailing_comma=False),
    "wayback key km.makeKey": surt.surt,
}


def test_surt_forms_of_56_cases_are_those_of_the_archives():
    rows = [
        json.loads(line)
        for line in shared("data/url-normalise/surt-cases.jsonl").read_text("utf-8").splitlines()
    ]
    assert len(rows) == 56
    for row in rows:
        assert FORMS[row["group"]](row["input"]) == row["expected"], row


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("https://www.a.example/B/c/?Z=1&a=2", "example,a)/b/c?a=2&z=1"),
        ("http://a.example", "example,a)/"),
        ("http://a.example:8080/", "example,a:8080)/"),
        ("https://a.example:443/x/../y//z/", "example,a)/y/z"),
        ("http://cag-www.a.example/", "example,a,cag-www)/"),
        ("http://www2.a.example/", "example,a)/"),
        ("http://a.example/?a-b=1&a=1", "example,a)/?a=1&a-b=1"),
        ("http://a.example/x?sid=0123456789abcdef0123456789abcdef&y=1", "example,a)/x?y=1"),
        ("http://a.example/%7Ex%2525", "example,a)/~x%25"),
        ("http://192.0.2.1/x", "1,2,0,192)/x"),
    ],
)
def test_surt_of_our_own_examples(url, key):
    assert surt.surt(url) == key


pieces = st.sampled_from(
    ["a", "B", "/", "//", ".", "?", "&", "=", "%41", "%", ";", "~", "sid=", "é", "(", "#", "-", "id"]
)


@given(st.lists(pieces, max_size=10).map("".join))
def test_the_quick_way_gives_the_long_ways_key(tail):
    url = f"http://www.a.example/{tail}"
    assert surt.surt(url) == surt._surt(url)


@given(st.lists(pieces, max_size=10).map("".join))
def test_a_key_sorts_below_its_host(tail):
    assert surt.surt(f"http://a.example/{tail}").startswith("example,a)/")
