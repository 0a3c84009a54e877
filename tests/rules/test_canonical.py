"""The key form: each step by our own examples, other projects' canonicalisers as far as we mean the same, properties."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.rules import surt
from pipelines.rules.canonical import CANONICAL_STEPS, DEFAULT, CanonPolicy, canonical
from pipelines.rules.hosts import normal_host
from pipelines.rules.urls import parse, resolve, url_key, wire
from tests.shared import shared

GOLDEN = Path(__file__).parents[1] / "golden"
SWITCHES = [step.name for step in CANONICAL_STEPS]
BOLD = CanonPolicy(**dict.fromkeys(SWITCHES, True))
"""Every step on."""


def golden(name: str) -> Any:
    return json.loads((GOLDEN / name).read_text("utf-8"))


def rows(path: str) -> list[dict[str, Any]]:
    file = shared(path)
    opener = gzip.open if file.suffix == ".gz" else open
    with opener(file, "rt", encoding="utf-8") as text:
        return [json.loads(line) for line in text if line.strip()]


@pytest.mark.parametrize("row", golden("urls_canonical.json"), ids=lambda row: row["url"])
def test_each_step_folds_what_it_is_there_for_and_nothing_else(row):
    assert canonical(row["url"], replace(DEFAULT, **row.get("on", {}))) == row["key"], row["why"]


def test_each_step_has_a_switch_a_reason_and_an_example():
    examples = golden("urls_canonical.json")
    for step in CANONICAL_STEPS:
        assert isinstance(getattr(DEFAULT, step.name), bool) and len(step.reason) > 20
        assert any(row["step"] == step.name for row in examples)


def test_a_primary_key_is_no_campaign():
    """Matomo's own names begin with pk_, and so do the keys of many a database."""
    assert canonical("http://a.example/item?pk_id=5") == "http://a.example/item?pk_id=5"
    assert canonical("http://a.example/item?pk_campaign=may&pk_kwd=x") == "http://a.example/item"


def test_a_step_switched_off_changes_nothing():
    url = "https://u@www.a.example//x/%7ey;jsessionid=1/index.html?b=1&&utm_source=z&a=2#!/r"
    off = CanonPolicy(**dict.fromkeys(SWITCHES, False))
    assert canonical(url, off) == url
    assert canonical(url, BOLD) == "http://a.example/x/~y/index.html?a=2&b=1".replace("index.html", "")


# What other projects' tests are compared with. Each of their canonicalisers has its own policy; "right" is the same
# text, or a text of the same key, under ours or with every step on. Parts of a canonicaliser go to our part.


def _same_key(given: str, expected: str | None, *policies: CanonPolicy) -> bool:
    ours, theirs = wire(given), None if expected is None else wire(expected)
    if ours is None or theirs is None:
        return ours is theirs
    return ours == theirs or any(canonical(given, one) == canonical(expected, one) for one in policies)


def _key(given: str, expected: str | None) -> bool:
    return _same_key(given, expected, DEFAULT, BOLD)


def _key_without(*names: str) -> Callable[[str, str | None], bool]:
    policy = CanonPolicy(trackers=names, sort_query=True)
    return lambda given, expected: _same_key(given, expected, policy)


def _archive_key(given: str, expected: str | None) -> bool:
    return _key(given, expected) or (
        parse(given) is not None and surt.surt(given) == surt.surt(expected or "")
    )


def _equals(function: Callable[[str], str | None]) -> Callable[[str, str | None], bool]:
    return lambda given, expected: function(given) == expected


def _unescaped(given: str, expected: str | None) -> bool:
    return surt._minimal(given) == surt._minimal(expected or "")


BY_RULE: tuple[tuple[str, Callable[[str, str | None], bool]], ...] = (
    ("defaultIASurt", _equals(surt.surt)),
    ("alphaR", _equals(surt._sorted)),
    ("massageHost", lambda given, expected: surt._turned(given) == surt._turned(expected)),
    ("hostToSURT", lambda given, expected: surt._turned(given) == expected),
    ("stripPathSessionId", lambda given, expected: _key(f"http://a.example{given}", f"http://a.example{expected}")),
    ("attemptIPFormats", lambda given, expected: normal_host(given) == expected),
    ("unescapeRepeatedly", _unescaped),
    ("BasicURLCanonicalizer.decode", _unescaped),
    ("queryParamsToFilter", _key_without("a", "foo")),
    ("removeHashes", _key_without("xid_0b629")),
    ("iipc/", _archive_key),
    ("", _key),
)  # fmt: skip


def _is_right(row: dict[str, Any]) -> bool:
    judge = next(judge for mark, judge in BY_RULE if mark in f"{row['source']} {row['rule']}")
    return judge(row["input"], row["expected"])


def test_canonicalisers_of_ten_projects_1304_cases_are_right_or_reviewed():
    cases = rows("data/url-normalise/cases.jsonl")
    assert len(cases) == 1304
    reviewed = {case: group["why"] for group in golden("urls_normalise.json") for case in group["cases"]}
    wrong = {row["id"] for row in cases if not _is_right(row)}
    assert wrong - set(reviewed) == set(), "wrong and not reviewed"
    assert set(reviewed) - wrong == set(), "reviewed, but right"


def test_every_input_of_1304_cases_is_folded_once_and_for_all():
    for row in rows("data/url-normalise/cases.jsonl"):
        for policy in (DEFAULT, BOLD):
            key = canonical(row["input"], policy)
            assert canonical(key, policy) == key


def test_recorded_w3lib_canonicalisations_are_right_or_reviewed():
    calls = [
        row for row in rows("data/url-normalise/w3lib-calls.jsonl.gz") if row["fn"] == "canonicalize_url"
    ]
    assert len(calls) == 85
    plain = [
        row for row in calls if isinstance(row["args"][0], str) and "kwargs" not in row and "result" in row
    ]
    reviewed = {row["url"] for row in golden("urls_w3lib.json")}
    wrong = {row["args"][0] for row in plain if not _key(row["args"][0], row["result"])}
    assert wrong == reviewed


def test_recorded_courlan_joins_of_22_cases_are_right():
    calls = [
        row for row in rows("data/url-normalise/courlan-calls.jsonl") if row["fn"] == "fix_relative_urls"
    ]
    assert len(calls) == 22
    left_alone = "{privacy}"  # a template's placeholder, which a browser takes for a relative link
    assert all(resolve(*row["args"]) == wire(row["result"]) for row in calls if row["args"][1] != left_alone)


parts = st.sampled_from(
    ["/", "//", "a", "~", "%7e", "%7E", "%2F", "%", "%25", "4", "1", ";jsessionid=1", ";", "(S(abcdefghijklmnopqrstuvwx))",
     "?", "&", "=", "utm_source", "utm_x=1", "sid", "sid=0123456789abcdef0123456789abcdef", "PHPSESSID=1", "gclid=", "#", "!",
     "b=2", "a=1", "|", "[", "é", "+", "index.html", "_ga=1", "aspsessionidqqabcdef=x"]
)  # fmt: skip
tails = st.lists(parts, max_size=10).map("".join)
policies = st.builds(CanonPolicy, **dict.fromkeys(SWITCHES, st.booleans()), route_fragments=st.booleans())


@given(tails, policies)
def test_folding_twice_is_folding_once_under_every_policy(tail, policy):
    key = canonical(f"http://www.a.example/{tail}", policy)
    assert canonical(key, policy) == key


def test_every_escape_is_folded_or_left_by_the_quick_way_as_by_the_steps():
    unreserved = set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
    for octet in range(256):
        kept = chr(octet) if chr(octet) in unreserved else f"%{octet:02X}"
        for written in (f"%{octet:02X}", f"%{octet:02x}"):
            assert (
                canonical(f"http://a.example/x{written}y?z{written}") == f"http://a.example/x{kept}y?z{kept}"
            )


@given(tails, policies)
def test_the_quick_way_finds_nothing_to_fold_only_where_the_steps_find_nothing(tail, policy):
    url = f"http://www.a.example/{tail}"
    found = parse(url)
    for step in CANONICAL_STEPS:
        if getattr(policy, step.name):
            found = step.run(found, policy)
    query = "" if found.query is None else f"?{found.query}"
    fragment = "" if found.fragment is None else f"#{found.fragment}"
    assert canonical(url, policy) == f"{found.scheme}://{found.host}{found.path}{query}{fragment}"


@given(tails)
def test_spellings_that_the_standard_calls_equal_have_one_key(tail):
    url = wire(f"http://a.example/{tail}")
    assert (
        url_key(url)
        == url_key(url.replace("http://a.example", "HTTP://A.example.:80"))
        == url_key(url + "#x")
    )


@given(tails)
def test_the_wire_form_is_never_folded(tail):
    url = f"http://www.a.example/{tail}"
    assert wire(url) == parse(url).href.partition("#")[0]
