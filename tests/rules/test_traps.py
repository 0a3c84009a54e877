"""Traps: our own examples, the field case, the toy web's traps, and how few real links are lost."""

from __future__ import annotations

import gzip
import json
from collections import Counter, deque
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.rules import urls
from pipelines.rules.filters import FilterPolicy, refusal
from pipelines.rules.traps import (
    TRAPS,
    PatternYields,
    Quarantines,
    TrapPolicy,
    YieldPolicy,
    leads_out,
    path_pattern,
    same_as_referrer,
    shape_of,
    skeleton_of,
    soft_404_hint,
    trap_of,
)
from pipelines.toyweb.hosts import Kind, Mix
from pipelines.toyweb.pages import EXTRA_PATHS
from pipelines.toyweb.truth import ToyWeb
from tests.shared import shared

NOW = TrapPolicy(this_year=2026)
EXAMPLES = json.loads((Path(__file__).parents[1] / "golden" / "urls_traps.json").read_text("utf-8"))


@pytest.mark.parametrize("row", EXAMPLES, ids=lambda row: row["url"])
def test_each_trap_is_told_by_its_urls_and_its_neighbours_are_kept(row):
    found = trap_of(shape_of(row["url"]), NOW)
    assert (found and found[0]) == row["rule"], (row["why"], found)


def test_each_trap_has_a_reason_and_examples_and_can_be_switched_off():
    for trap in TRAPS:
        caught = [row["url"] for row in EXAMPLES if row["rule"] == trap.name]
        assert caught and len(trap.reason) > 10
        off = TrapPolicy(this_year=2026, traps_off=(trap.name,))
        assert all((trap_of(shape_of(url), off) or ("",))[0] != trap.name for url in caught)


def test_field_case_of_hosts_joined_to_paths_is_stopped_by_the_fourth_and_keeps_four():
    case = json.loads(shared("field-cases/trap-concatenated-host-path.json").read_text("utf-8"))
    chain = [trap_of(shape_of(url)) is not None for url in case["input"]["chain"]]
    assert chain.index(True) <= case["expect"]["stop_at_or_before_index"]
    assert [url for url in case["input"]["keep"] if trap_of(shape_of(url))] == []


def test_without_a_year_dates_are_bounded_all_the_same():
    assert trap_of(shape_of("https://a.example/calendar/2036/01")) == (
        "calendar",
        "a date in 2036, after 2035",
    )
    assert trap_of(shape_of("https://a.example/calendar/1950/01")) is None


MOST_LOST = {
    "length": 0.0005, "credentials": 0.0005, "host_name": 0.0005, "extension": 0.01, "path_segments": 0.0005,
    "query_parameters": 0.0005, "login": 0.001, "cart": 0.0002, "facets": 0.0002, "repeated_segments": 0.0002,
    "parameter_repeats": 0.0002, "pager": 0.0002, "calendar": 0.0002,
}  # fmt: skip


@pytest.mark.parametrize(
    ("tail", "trap"),
    [
        ("viewtopic.php?t=5&start=2035", None), ("list?from=2050", None), ("map?x=10&y=2100", None),
        ("events?start=2050", "calendar"), ("list?start=2050-01", "calendar"), ("list?year=2050", "calendar"),
    ],
)  # fmt: skip
def test_an_offset_that_looks_like_a_year_is_one_only_where_the_words_say_calendar(
    tail: str, trap: str | None
):
    refused = refusal(f"https://a.example/{tail}", FilterPolicy(this_year=2026))
    assert (refused.rule if refused else None) == trap


def test_of_142848_real_links_no_rule_refuses_more_than_its_share():
    links: set[str] = set()
    with gzip.open(shared("data/frontier/outlinks.tsv.gz"), "rt", encoding="utf-8") as rows:
        next(rows)
        links.update(row.rstrip("\n").split("\t")[3] for row in rows)
    with gzip.open(shared("data/frontier/kasztp-urls.txt.gz"), "rt", encoding="utf-8") as rows:
        links.update(row.strip() for row in rows)
    found = sorted({url for url in map(urls.wire, links) if url})
    assert len(found) == 142_848
    policy = FilterPolicy(this_year=2023)  # of the pages
    refused = Counter(one.rule for one in (refusal(url, policy) for url in found) if one)
    for rule, count in refused.items():
        assert count / len(found) <= MOST_LOST[rule], (rule, count)
    traps = sum(refused[trap.name] for trap in TRAPS if trap.name not in ("login", "cart"))
    assert traps / len(found) < 0.001


TRAP_KINDS = (Kind.CALENDAR, Kind.SEGMENTS, Kind.SESSIONS, Kind.FACETS, Kind.SOFT404, Kind.PAGER, Kind.LOGIN)


@pytest.fixture(scope="module")
def toy() -> ToyWeb:
    return ToyWeb(120, 1, Mix.full())


def crawl(web: ToyWeb, host: str, start: list[str]) -> tuple[int, set[int]]:
    """Crawl one toy host with rules and yields alone. Returns trap pages fetched, and the keys of all pages."""
    policy, yields, quarantines = FilterPolicy(this_year=2026), PatternYields(), Quarantines()
    waiting, seen, trapped, payloads = deque(start), {urls.url_key(url) for url in start}, 0, set()
    fetched: set[int] = set()
    while waiting and trapped < 1_000:
        url = waiting.popleft()
        pattern = path_pattern(url)
        if quarantines.refusal(pattern, 1) or refusal(url, policy):
            continue
        answer = web.answer(host, url.partition(host)[2])
        fetched.add(urls.url_key(url))
        trapped += answer.trap is not None
        links = [link for link in map(urls.wire, answer.links) if link and urls.host_of(link) == host]
        fresh = [link for link in links if refusal(link, policy) is None and urls.url_key(link) not in seen]
        seen.update(map(urls.url_key, fresh))
        waiting.extend(fresh)
        is_new = answer.body not in payloads and not soft_404_hint(answer.body[:300].decode("latin-1")[:119])
        payloads.add(answer.body)
        yields.update(pattern, 1, is_new, leads_out(url, fresh), skeleton=skeleton_of(answer.body))
        quarantines.review(yields, 1)
    return trapped, fetched


@pytest.mark.parametrize("kind", TRAP_KINDS)
def test_a_trap_of_the_toy_web_is_left_within_200_fetches_and_no_good_page_is_lost(toy, kind):
    host = next(host for host in toy.hosts if host.kind is kind)
    start = [f"http://{host.name}{path}" for path in dict.fromkeys(["/", *EXTRA_PATHS.get(kind, ())])]
    pages = {
        known.url for known in toy.urls(80) if known.host == host.name and known.good and known.sort == "page"
    }
    trapped, fetched = crawl(toy, host.name, [*start, *sorted(pages)])
    assert trapped <= 200
    assert {url for url in pages if urls.url_key(url) not in fetched} == set()


def test_of_the_toy_webs_good_urls_none_is_refused(toy):
    policy = FilterPolicy(this_year=2026)
    good = [known.url for known in toy.urls(80) if known.good and not known.url.endswith(".png")]
    assert len(good) > 2_000
    assert [url for url in good if refusal(url, policy)] == []


@pytest.mark.parametrize(
    ("url", "pattern"),
    [
        ("https://a.example/", "/"),
        ("https://a.example/item/123?b=2&a=1", "/item/0?a&b"),
        ("https://a.example/2024/05/17/x.html", "/0/0/0/x.html"),
        ("https://a.example/log-2024-05-17", "/log-D"),
        ("https://a.example/c/9f86d081884c7d65", "/c/H"),
        ("https://a.example/123e4567-e89b-12d3-a456-426614174000.json", "/H.json"),
        ("https://a.example/a-long-story-about-nothing", "/S"),
        ("https://a.example/about", "/about"),
        ("https://a.example/x?f1=1&f2=2", "/x?f0"),
    ],
)
def test_a_pattern_says_what_kind_of_page_it_is(url, pattern):
    assert path_pattern(url) == pattern


@given(st.text(alphabet="ab/-0129.?&=%", max_size=40))
def test_pages_that_differ_in_digits_only_have_one_pattern(tail):
    url = urls.wire(f"http://a.example/x/{tail}")
    assert path_pattern(url) == path_pattern(url)
    assert path_pattern("http://a.example/x/7/") == path_pattern("http://a.example/x/1234/")


def test_links_of_the_pages_own_pattern_are_no_way_out():
    links = ["http://a.example/list?page=3", "http://a.example/entry/9", "http://a.example/about"]
    assert leads_out("http://a.example/list?page=2", links) == 2


def test_a_pattern_without_yield_is_set_aside_after_its_minimum_and_not_before():
    policy = YieldPolicy(min_fetches=10, min_yield=0.2)
    yields = PatternYields(policy=policy)
    for count in range(1, 20):
        yields.update("/x/0", 1, 0, 0)
        assert (yields.judge("/x/0") is not None) == (count >= 10)
    yields.update("/y", 50, 40, 0)
    assert list(yields.verdict()) == ["/x/0"] and "/x/0" in yields.verdict()["/x/0"]


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 40), st.integers(0, 40)), max_size=30))
def test_a_share_is_between_nothing_and_all_and_survives_the_lake(batches):
    yields = PatternYields()
    for fetched, payloads, links in batches:
        yields.update("/p", fetched, payloads, links)
    for row in yields.by_pattern.values():
        assert 0 <= row.share <= 1 and row.good <= row.total
    again = PatternYields.from_json(yields.to_json())
    assert again.to_json() == yields.to_json() and set(again.verdict()) == set(yields.verdict())


def test_old_fetches_fade_so_that_a_pattern_gone_bad_is_found():
    yields = PatternYields()
    yields.update("/p", 2_000, 2_000, 0)
    for _ in range(300):
        yields.update("/p", 1, 0, 0)
    assert yields.judge("/p") is not None


def test_pages_that_differ_in_digits_only_are_new_once():
    yields = PatternYields(policy=YieldPolicy(min_fetches=10))
    for page in range(20):
        yields.update("/list?page", 1, 1, 0, skeleton=skeleton_of(b"<h1>Page %d</h1>" % page))
    assert yields.by_pattern["/list?page"].good == 1
    assert PatternYields.from_json(yields.to_json()).to_json() == yields.to_json()


def test_patterns_of_a_host_are_bounded_and_the_least_fetched_go():
    yields = PatternYields(policy=YieldPolicy(patterns=20))
    yields.update("/much", 100, 1, 0)
    for number in range(500):
        yields.update(f"/x{number}", 1, 1, 0)
    assert len(yields.by_pattern) <= 20 and "/much" in yields.by_pattern


def test_a_quarantine_is_sampled_later_doubled_in_vain_and_ended_by_yield():
    yields = PatternYields(policy=YieldPolicy(min_fetches=10, sample_cycles=4))
    quarantines = Quarantines()
    yields.update("/x", 20, 0, 0)
    assert quarantines.review(yields, 100) == (["/x"], [])
    assert quarantines.refusal("/x", 103) and quarantines.refusal("/x", 104) is None
    assert quarantines.refusal("/other", 101) is None
    yields.update("/x", 3, 0, 0)
    assert quarantines.review(yields, 104) == ([], [])
    assert quarantines.by_pattern["/x"].sample == 112
    again = Quarantines.from_json(quarantines.to_json())
    assert again == quarantines
    yields.update("/x", 3, 2, 0)
    assert again.review(yields, 112) == ([], ["/x"])
    assert again.refusal("/x", 112) is None and again.to_json() is None
    assert yields.judge("/x") is None


def test_empty_columns_are_none():
    assert PatternYields().to_json() is None and Quarantines().to_json() is None
    assert PatternYields.from_json(None).by_pattern == {} and Quarantines.from_json(None).by_pattern == {}


@pytest.mark.parametrize(
    ("facts", "is_hint"),
    [
        ({"title": "Page not found"}, True),
        ({"title": "404 | Shop"}, True),
        ({"title": "Seite nicht gefunden"}, True),
        ({"title": "Lost and found"}, False),
        ({"title": None, "text_chars": 3}, True),
        ({"title": "", "text_chars": 300}, False),
        ({"title": "Home", "redirected_to": "/errors/page-not-found"}, True),
        ({"title": "Page not found", "status": 404}, False),
    ],
)
def test_a_soft_404_is_told_by_its_title_its_emptiness_or_its_redirect(facts, is_hint):
    assert (soft_404_hint(**facts) is not None) == is_hint


def test_a_page_that_equals_its_referrer_is_told_by_digest():
    assert (
        same_as_referrer("ABC", "ABC")
        and not same_as_referrer("ABC", None)
        and not same_as_referrer("ABC", "D")
    )
