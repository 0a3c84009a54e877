"""robots.txt: who is meant, what is allowed, which line says so."""

from __future__ import annotations

import json
import pickle
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.rules.robots import ALLOW_ALL, DISALLOW_ALL, Rules, Verdict
from pipelines.rules.robots_match import path_form, pattern_form, rules_of
from pipelines.rules.robots_text import MAX_BYTES, Line
from tests.shared import shared

SITE = "http://www.example.com"


def field_case(name: str) -> dict[str, Any]:
    case: dict[str, Any] = json.loads(shared(f"field-cases/{name}.json").read_text("utf-8"))
    return case


def allowed(rules: Rules, agent: str, urls: list[str]) -> list[bool]:
    return [rules.allows(SITE + url, agent).allowed for url in urls]


@pytest.mark.parametrize("name", ["robots-crawl-delay-before-group", "robots-wildcard-in-query"])
def test_field_cases_of_one_file(name: str):
    case = field_case(name)
    rules = Rules.parse(case["input"]["robots"].encode())
    assert allowed(rules, "ourbot", case["input"]["urls"]) == case["expect"]["allowed"]
    assert rules.crawl_delay_ms("ourbot") is None


def test_field_case_specific_group_stands_alone_wherever_it_stands():
    case = field_case("robots-specific-then-star")
    for text, expected in zip(case["input"]["robots"], case["expect"]["allowed"], strict=True):
        assert allowed(Rules.parse(text.encode()), "ourbot", case["input"]["urls"]) == expected


def test_field_case_crawl_delay_leaks_to_nobody_in_either_order():
    case = field_case("robots-crawl-delay-leaks")
    text = case["input"]["robots"]
    star, rest = text[: text.index("# one")], text[text.index("# one") :]
    for order in (text, rest + "\n" + star):
        rules = Rules.parse(order.encode())
        wanted = [None if delay is None else delay * 1000 for delay in case["expect"]["crawl_delay"]]
        assert [rules.crawl_delay_ms(agent) for agent in case["input"]["agents"]] == wanted
        for agent, urls in case["expect"]["allowed"].items():
            assert {url: rules.allows(SITE + url, agent).allowed for url in urls} == urls


def test_field_case_bytes_that_are_not_utf8_spoil_nothing():
    case = field_case("robots-not-utf8")
    body = shared("field-cases/raw/robots-not-utf8.http").read_bytes().partition(b"\n\n")[2]
    body = body or shared("field-cases/raw/robots-not-utf8.http").read_bytes().partition(b"\r\n\r\n")[2]
    rules = Rules.parse(body)
    assert allowed(rules, "ourbot", case["input"]["urls"]) == [False, False, True]
    assert not rules.allows(SITE + "/stra%dfe/x", "ourbot").allowed
    assert rules.allows(SITE + "/stra%E4e/x", "ourbot").allowed


def test_field_case_thousands_of_agents_are_read_in_time():
    case = field_case("robots-thousands-of-agents")
    body = "".join(
        f"User-agent: bot{i % 50}\nUser-agent: *\nDisallow: /x{i}\n" for i in range(20_000)
    ).encode()
    began = time.process_time()
    whole, cut = Rules.parse(body, max_bytes=2_000_000), Rules.parse(body)
    for rules in (whole, cut):
        assert allowed(rules, "ourbot", case["input"]["urls"]) == case["expect"]["allowed"]
    assert time.process_time() - began < case["expect"]["parse_within_s"]
    # RFC 9309 2.5: we stop at 500 KiB and do not know the last rules; here `/x1` covers what they say
    assert len(cut.judge("ourbot").rules) < len(whole.judge("ourbot").rules) == 20_000


def test_thousands_of_agents_before_thousands_of_rules_cost_their_sum():
    agents = "".join(f"User-agent: bot{i}\n" for i in range(12_000))
    rules = Rules.parse((agents + "Disallow: /x\nCrawl-delay: 2\n" * 9_000).encode())
    began = time.process_time()
    assert not rules.allows(SITE + "/x", "bot7").allowed
    assert rules.crawl_delay_ms("bot11999") == 2000
    assert time.process_time() - began < 3.0


def test_field_case_absurd_crawl_delays_are_taken_as_written_or_not_at_all():
    texts = field_case("robots-absurd-crawl-delay")["input"]["robots"]
    delays = [Rules.parse(text.encode()).crawl_delay_ms("ourbot") for text in texts]
    assert delays == [300_000_000, 2_000_000, 0, 500, None, 10**12, None, 7000]


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "-0.1", "1e999", "", "ten", "0x10", "1.2.1", "10a"])
def test_a_crawl_delay_that_is_no_time_is_none(value: str):
    assert Rules.parse(f"User-agent: *\nCrawl-delay: {value}".encode()).crawl_delay_ms("x") is None


def test_the_verdict_names_group_and_line():
    rules = Rules.parse(
        b"User-agent: *\nDisallow: /a # why\n\nUser-agent: Noria/1.0\nallow: /a/b\nDisallow: /a\n"
    )
    assert rules.allows(SITE + "/a/b", "noria") == Verdict(True, "noria", "allow: /a/b", 5)
    assert rules.allows(SITE + "/a/c", "NORIA") == Verdict(False, "noria", "Disallow: /a", 6)
    assert rules.allows(SITE + "/a/c", "other") == Verdict(False, "*", "Disallow: /a # why", 2)
    assert rules.allows(SITE + "/z", "noria") == Verdict(True, "noria", None, None)
    assert ALLOW_ALL.allows(SITE + "/z", "noria") == Verdict(True, "", None, None)
    assert not DISALLOW_ALL.allows(SITE + "/", "noria").allowed


def test_allow_wins_against_disallow_of_the_same_length():
    rules = Rules.parse(b"User-agent: *\nDisallow: /page\nAllow: /page\nAllow: /p\nDisallow: /p\n")
    assert rules.allows(SITE + "/page", "x").line_no == 3


def test_octets_are_counted_as_spelled_where_protego_counts_escapes():
    """`/*?s=` has five octets and `/shop/` six, so the shop's search is allowed."""
    rules = Rules.parse(b"User-agent: *\nDisallow: /*?s=\nAllow: /shop/\n")
    assert rules.allows(SITE + "/shop/?s=1", "x") == Verdict(True, "*", "Allow: /shop/", 3)
    assert not rules.allows(SITE + "/?s=1", "x").allowed
    assert rules.judge("x").protego_says("/") is None


def test_no_spelling_slips_past_a_disallow_line():
    rules = Rules.parse(b"User-agent: *\nDisallow: /secret\nDisallow: /%7Ejoe\nDisallow: /a%2Fb\n")
    urls = ["/%73ecret", "/se%63ret", "/~joe", "/%7ejoe", "/a%2fb", "/a/b"]
    assert allowed(rules, "x", urls) == [False, False, False, False, False, True]


def test_special_characters_can_be_meant_literally():
    rules = Rules.parse(b"User-agent: *\nDisallow: /file-%2A.html\nDisallow: /cost-%24\nDisallow: /end$\n")
    urls = ["/file-*.html", "/file-%2a.html", "/file-x.html", "/cost-$5", "/end", "/end$", "/ending"]
    assert allowed(rules, "x", urls) == [False, False, True, False, False, True, True]


def test_robots_txt_itself_may_always_be_asked():
    assert DISALLOW_ALL.allows(SITE + "/robots.txt", "noria").allowed
    assert not DISALLOW_ALL.allows(SITE + "/x/robots.txt", "noria").allowed


def test_several_agents_in_a_line_with_commas_are_each_meant():
    rules = Rules.parse(b"User-agent: One, Noria/1.0, Three\nDisallow: /\n\nUser-agent: *\nDisallow:\n")
    assert [rules.allows(SITE + "/", name).allowed for name in ("one", "noria", "three", "four")] == [
        0,
        0,
        0,
        1,
    ]


def test_rules_pickle_and_equal_bytes_are_equal_rules():
    rules = Rules.parse(b"User-agent: *\nDisallow: /a\nSitemap: http://a.example/s.xml\n")
    rules.allows(SITE + "/a", "noria")
    again = pickle.loads(pickle.dumps(rules))
    assert again == rules
    assert again.allows(SITE + "/a", "noria") == rules.allows(SITE + "/a", "noria")
    assert again.sitemaps == ("http://a.example/s.xml",)


def test_a_verdict_takes_ten_microseconds_at_most():
    """Measured: 6 to 8 µs for these 40 lines; over the 4,230 real files 4.8 µs, p90 7.3 µs, p99 15.5 µs."""
    lines = "".join(f"Disallow: /area{i}/*/private\nDisallow: /part{i}/\n" for i in range(20))
    rules = Rules.parse(f"User-agent: *\n{lines}".encode())
    urls = [f"{SITE}/part{i % 40}/blog/2024/{i}" for i in range(1000)]
    fastest = float("inf")
    for _ in range(5):
        began = time.process_time()
        for url in urls:
            rules.allows(url, "noria")
        fastest = min(fastest, (time.process_time() - began) / len(urls))
    assert fastest < 30e-6  # three times the promise, for a busy machine


@given(st.binary(max_size=400))
def test_no_bytes_raise(body: bytes):
    rules = Rules.parse(body)
    verdict = rules.allows(SITE + "/a?b=c", "noria")
    assert verdict.line is None or verdict.line.encode("utf-8")
    assert all(sitemap.encode("utf-8") for sitemap in rules.sitemaps)


LETTERS = st.text(st.sampled_from("/ab?*$%2fF~=é"), max_size=8)
ROWS = st.lists(st.tuples(st.sampled_from(["allow", "disallow"]), LETTERS), max_size=8)


@given(ROWS, LETTERS)
def test_the_index_finds_what_a_walk_through_all_rules_finds(rows: list[tuple[str, str]], path: str):
    lines = [Line(n, field, f"/{value}", f"{field}: /{value}") for n, (field, value) in enumerate(rows, 1)]
    text = "User-agent: *\n" + "".join(f"{line.text}\n" for line in lines)
    judge, form = Rules.parse(text.encode()).judge("x"), path_form(f"{SITE}/{path}")
    if form.spelled is form.folded:
        walked = next((rule for rule in rules_of(lines) if rule.matches(form.spelled)), None)
        found = judge.deciding(form.spelled)
        assert (found and found.line.number) == (walked and walked.line.number + 1)
        assert judge.protego_says(form.spelled) in (None, found is None or found.allow)


@given(st.text(st.characters(codec="utf-8"), max_size=30), st.booleans())
def test_forms_hold_only_letters_that_protego_leaves_alone(text: str, allow: bool):
    form = pattern_form(text, allow=allow)
    assert set(form) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-~=*$")
    assert "$" not in form[:-1]


def test_no_more_than_500_kib_are_kept_or_read():
    line = b"Disallow: /aaaaaaaaaaaaaaaaaaaa\n"
    body = b"User-agent: *\n" + line * 20_000 + b"Disallow: /late\n"
    rules = Rules.parse(body)
    assert len(rules.body) <= MAX_BYTES + 1
    assert rules.allows(SITE + "/late", "x").allowed
    assert not rules.allows(SITE + "/aaaaaaaaaaaaaaaaaaaa", "x").allowed
