"""Filters: each rule is data, each refusal names its rule, and the quick way says what the rules say."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.rules.filters import (
    DEFAULT_FILTERS,
    RULES,
    Facts,
    FilterPolicy,
    Refusal,
    check_patterns,
    refusal,
    seed_meta,
    verdicts,
)
from pipelines.rules.urls import wire
from tests.shared import shared

SEED = {"seed_host": "www.a.example"}


@pytest.mark.parametrize(
    ("url", "changes", "facts", "rule"),
    [
        ("http://a.example/" + "x" * 2_100, {}, {}, "length"),
        ("http://a.example/xxxx", {"url_chars": 10}, {}, "length"),
        ("http://me@a.example/", {}, {}, "credentials"),
        ("http://me@a.example/", {"credentials": True}, {}, None),
        ("http://a..example/", {}, {}, "host_name"),
        ("http://" + "a" * 64 + ".example/", {}, {}, "host_name"),
        ("http://[2001:db8::1]/", {}, {}, None),
        ("http://a.example/x.JPG", {}, {}, "extension"),
        ("http://a.example/x.jpg?y=1", {}, {}, "extension"),
        ("http://a.example/x.jpg/", {}, {}, None),
        ("http://a.example/wiki/File:Moon.jpg", {}, {}, None),
        ("http://a.example/tags/node.js", {}, {}, None),
        ("http://a.example/sitemap.xml.gz", {}, {}, None),
        ("http://a.example/paper.pdf", {}, {}, None),
        ("http://a.example/x.foo", {"extensions": (".foo",)}, {}, "extension"),
        ("http://a.example/.gz", {}, {}, "extension"),
        ("http://a.example/" + "/".join("abcdefghijklmnopqrstu"), {}, {}, "path_segments"),
        ("http://a.example/?" + "&".join(f"{n}=1" for n in range(21)), {}, {}, "query_parameters"),
        ("http://b.example/", {"blocked_hosts": ("b.example",)}, {}, "blocked"),
        ("http://x.b.example/", {"blocked_hosts": ("b.example",)}, {}, None),
        ("http://x.b.example/", {"blocked_hosts": (".b.example",)}, {}, "blocked"),
        ("http://b.example/", {"blocked_hosts": (".b.example",)}, {}, "blocked"),
        ("http://xb.example/", {"blocked_hosts": (".b.example",)}, {}, None),
        ("http://a.example/x", {"stay": "host"}, {"meta": SEED}, None),
        ("http://b.a.example/x", {"stay": "host"}, {"meta": SEED}, "stay"),
        ("http://b.a.example/x", {"stay": "domain"}, {"meta": SEED}, None),
        ("http://b.example/x", {"stay": "domain"}, {"meta": SEED}, "stay"),
        ("http://b.example/x", {"stay": "domain"}, {}, None),
        ("http://b.example/x", {}, {"meta": {**SEED, "stay": "domain"}}, "stay"),
        ("http://b.example/x", {"stay": "host"}, {"meta": json.dumps({**SEED, "stay": "any"})}, None),
        ("http://a.example/x", {"max_depth": 3}, {"depth": 4}, "max_depth"),
        ("http://a.example/x", {"max_depth": 3}, {"depth": 3}, None),
        ("http://a.example/x", {"max_depth": 3}, {"depth": 4, "meta": {"max_depth": "9"}}, None),
        ("http://a.example/x", {}, {"depth": 4, "meta": {"max_depth": "1"}}, "max_depth"),
        ("http://a.example/x", {}, {"depth": 4, "meta": {"max_depth": "deep"}}, None),
        ("http://a.example/print/x", {"exclude": ("*/print/*",)}, {}, "exclude"),
        ("http://a.example/x?print=1", {"exclude": ("re:[?&]print=",)}, {}, "exclude"),
        ("http://a.example/x", {}, {"meta": {"exclude": "*/y* */x*"}}, "exclude"),
        ("http://a.example/x", {"include": ("*//b.example/*",)}, {}, "include"),
        ("http://b.example/x", {"include": ("*//b.example/*", "*//c.example/*")}, {}, None),
        ("http://b.example/x", {"include": ("*//b.example/*",)}, {"meta": {"include": ["*/y*"]}}, "include"),
        ("http://a.example/x/x/x", {}, {}, "repeated_segments"),
        ("http://a.example/x/x/x", {"rules_off": ("repeated_segments",)}, {}, None),
        ("http://a.example/x/x/x", {"traps_off": ("repeated_segments",)}, {}, None),
        ("http://a.example/x/x/x", {"repeated_segments": 4}, {}, None),
        ("http://a.example/good/page.html?id=7", {}, {}, None),
    ],
)  # fmt: skip
def test_each_rule_refuses_what_it_says_and_names_itself(url, changes, facts, rule):
    policy = replace(DEFAULT_FILTERS, **changes)
    found = refusal(url, policy, **facts)
    assert (found and found.rule) == rule
    refused = [one.rule for one in verdicts(url, Facts(**facts), policy) if not one.ok]
    assert refused[:1] == ([rule] if rule else [])


def test_every_rule_has_a_verdict_and_a_refusal_a_detail():
    found = verdicts("http://a.example/moon.jpg")
    assert [one.rule for one in found] == [name for name, _ in RULES]
    assert refusal("http://a.example/moon.jpg") == Refusal("extension", ".jpg")


def test_a_pattern_that_is_no_regular_expression_is_named():
    with pytest.raises(ValueError, match=r"'re:\('"):
        check_patterns(FilterPolicy(exclude=("*", "re:(")))


def test_a_seed_carries_its_host():
    assert seed_meta("http://WWW.a.example:80/x", {"label": "news"}) == {
        "label": "news",
        "seed_host": "www.a.example",
    }


pieces = st.sampled_from(
    ["/", "a", "x", "/x/", "www.b.example", ".jpg", ".html", "?", "&", "=", "page", "2031", "1200", "/2031/05/", "calendar/",
     "date=", "login", "next=/", "cart", "add", "color=", "sort=", "sid", "session/", "4hqa0555fwsecu455xqckv45", "start=",
     "%20", "é", "..", "-", "2003-04", "size=1", "f[1]=", "order", "wiki", "remove", "Kalender", "/2003/4", "start", "week="]
)  # fmt: skip


@given(st.lists(pieces, max_size=9).map("".join), st.sampled_from([0, 2026]))
def test_the_quick_way_refuses_what_the_rules_refuse(tail, year):
    url = wire(f"http://a.example/{tail}")
    policy = FilterPolicy(this_year=year, query_parameters=3, path_segments=5)
    first = next(((one.rule, one.detail) for one in verdicts(url, policy=policy) if not one.ok), None)
    assert refusal(url, policy) == first


def test_extension_rules_agree_with_12_recorded_ones_but_for_what_is_not_html():
    rows = [
        json.loads(line)
        for line in shared("data/url-normalise/courlan-calls.jsonl").read_text("utf-8").splitlines()
    ]
    calls = [row for row in rows if row["fn"] == "extension_filter"]
    assert len(calls) == 12
    unknown = "/ADC/Art.nsf"  # an ending that says nothing is asked for here
    for row in calls:
        path = row["args"][0]
        assert (refusal(f"http://a.example{path}") is None) == row["result"] or path == unknown


@pytest.mark.parametrize(
    ("url", "refused"),
    [
        ("http://a.example:25/", "25"), ("http://a.example:6000/x?y", "6000"), ("https://[::1]:22/", "22"),
        ("http://127.0.0.1:9/", "9"), ("http://a.example:8080/", None), ("http://[2001:db8::25]/", None),
        ("http://a.example/x:25/", None), ("http://a.example/?to=http://b.example:25/", None),
    ],
)  # fmt: skip
def test_ports_of_other_protocols_are_refused_before_anything_is_asked_there(
    url: str, refused: str | None
) -> None:
    """WHATWG Fetch, bad ports."""
    found = refusal(url)
    assert (None if found is None else (found.rule, found.detail.split()[1])) == (
        refused and ("port", refused)
    )
