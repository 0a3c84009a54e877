"""A host's sitemaps, without socket or clock: which are asked, in whose turn, and when again."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.cycle.crew import HOST_COLUMNS, Crew, CrewPolicy
from pipelines.cycle.hoststate import HostState, Item, RobotsCopy
from pipelines.cycle.sitemaps import (
    DAY_MS,
    NO_VALIDATORS,
    NOT_A_SITEMAP,
    HostSitemaps,
    SitemapCopy,
    SitemapRules,
    Validators,
    copies_of,
    rows_of,
)
from pipelines.rules import urls
from pipelines.rules.delay import DelayPolicy
from pipelines.rules.filters import FilterPolicy
from pipelines.rules.recrawl import ProbePolicy
from pipelines.rules.retry_after import RetryAfterPolicy
from pipelines.rules.robots import Rules
from pipelines.rules.robots_policy import RobotsPolicy, RobotsState
from pipelines.rules.schedule import Schedule

NOW = 1_800_000_000_000
SITE = "http://a.example"
RULES = SitemapRules()


def crew(rules: SitemapRules = RULES) -> Crew:
    policy = CrewPolicy(
        "Noria", DelayPolicy(), RobotsPolicy(), RetryAfterPolicy(), 5, ProbePolicy(), sitemaps=rules
    )
    return Crew(policy, Schedule())


def host(robots: str | None, *, pages: int = 0, left: int = 5, requests: int = 100) -> HostState:
    row: dict[str, Any] = dict.fromkeys(HOST_COLUMNS)
    row |= {"host": "a.example", "failures": 0}
    state = HostState(row, None, requests)
    copy_rules = Rules.parse(robots.encode()) if robots is not None else None
    how = RobotsState.RULES if robots is not None else RobotsState.ALLOW_ALL
    state.robots[SITE] = RobotsCopy(how, copy_rules, 200, None, NOW, NOW + DAY_MS, f"{SITE}/robots.txt")
    state.sitemaps = HostSitemaps(left)
    for number in range(pages):
        url = f"{SITE}/p{number}"
        key = urls.url_key(url)
        state.queue.append(Item(url, "a.example", key, key, meta='{"label":"dk"}'))
    return state


def asked(team: Crew, state: HostState, most: int = 30) -> list[str]:
    """Take items until there is none, and return the kinds in order."""
    team.enlist(state)
    kinds = []
    while len(kinds) < most and isinstance(item := team.take(NOW, NOW), Item):
        kinds.append(item.kind)
        team.schedule.release(state.name, ready_ms=0 if state.has_work() else None)
    return kinds


def test_pages_and_sitemaps_go_in_turns_a_page_first() -> None:
    team = crew()
    state = host("Sitemap: /a.xml\nSitemap: /b.xml\nSitemap: /c.xml\n", pages=5)
    team.sitemaps.note_listed(state, SITE, epoch_ms=NOW)
    assert asked(team, state) == ["page", "sitemap", "page", "sitemap", "page", "sitemap", "page", "page"]


def test_a_host_gets_no_more_sitemaps_in_a_cycle_than_allowed() -> None:
    team = crew()
    state = host("".join(f"Sitemap: /{number}.xml\n" for number in range(9)), pages=1, left=2)
    team.sitemaps.note_listed(state, SITE, epoch_ms=NOW)
    assert asked(team, state) == ["page", "sitemap", "sitemap"]
    assert len(state.sitemaps.copies) == 9


def test_robots_rules_hold_for_sitemaps_too() -> None:
    team = crew()
    state = host("User-agent: *\nDisallow: /s/\nSitemap: /s/a.xml\n", pages=1)
    team.sitemaps.note_listed(state, SITE, epoch_ms=NOW)
    assert asked(team, state) == ["page"]
    [denied] = team.denied
    assert denied.item.kind == "sitemap"
    copy = state.sitemaps.copies[f"{SITE}/s/a.xml"]
    assert copy.status == "robots_denied" and copy.expires_ms == NOW + RULES.missing_ms


def test_the_usual_place_is_tried_only_where_none_is_named_and_only_if_wanted() -> None:
    for robots, rules, found in (
        (None, RULES, [f"{SITE}/sitemap.xml"]),
        ("User-agent: *\n", RULES, [f"{SITE}/sitemap.xml"]),
        ("Sitemap: /x.xml\n", RULES, [f"{SITE}/x.xml"]),
        (None, SitemapRules(well_known=False), []),
        ("Sitemap: /x.xml\n", SitemapRules(per_cycle=0), []),
    ):
        team, state = crew(rules), host(robots)
        team.sitemaps.note_listed(state, SITE, epoch_ms=NOW)
        assert list(state.sitemaps.copies) == found


def test_a_sitemap_inherits_the_metadata_of_the_page_that_led_there() -> None:
    team, state = crew(), host("Sitemap: /x.xml\n", pages=1)
    team.sitemaps.note_listed(state, SITE, epoch_ms=NOW)
    assert state.sitemaps.copies[f"{SITE}/x.xml"].meta == '{"label":"dk"}'


def test_a_sitemap_on_another_host_is_told_to_the_merge_and_may_speak_for_us() -> None:
    team, state = crew(), host("Sitemap: https://cdn.example/a.xml\n", pages=1)
    team.sitemaps.note_listed(state, SITE, epoch_ms=NOW)
    assert not state.sitemaps.copies
    copy = team.sitemaps.strangers["cdn.example", "https://cdn.example/a.xml"]
    assert copy.hosts == ("a.example",)
    assert copy.may_speak_for(copy.url, "https://a.example/x")
    assert not copy.may_speak_for(copy.url, "https://b.example/x")
    assert copy.may_speak_for(copy.url, "https://cdn.example/x")


def test_a_blocked_host_is_not_asked_for_a_sitemap() -> None:
    team = crew(SitemapRules(filters=FilterPolicy(blocked_hosts=(".example",))))
    state = host("Sitemap: https://cdn.example/a.xml\nSitemap: /b.xml\n")
    team.sitemaps.note_listed(state, SITE, epoch_ms=NOW)
    assert not team.sitemaps.strangers and not state.sitemaps.copies


def test_a_redirect_within_the_host_is_followed_and_one_away_is_told_to_the_merge() -> None:
    team, state = crew(), host("Sitemap: /a.xml\n")
    team.sitemaps.note_listed(state, SITE, epoch_ms=NOW)
    team.enlist(state)
    item = team.take(NOW, NOW)
    assert isinstance(item, Item) and item.kind == "sitemap"
    team.sitemaps.moved(item, f"{SITE}/b.xml", epoch_ms=NOW)
    hop = state.queue[0]
    assert (hop.url, hop.kind, hop.site, hop.hop) == (f"{SITE}/b.xml", "sitemap", f"{SITE}/a.xml", 1)
    team.sitemaps.moved(hop, "https://www.a.example/c.xml", epoch_ms=NOW)
    assert team.sitemaps.strangers["www.a.example", "https://www.a.example/c.xml"].hosts == ("a.example",)
    assert state.sitemaps.copies[f"{SITE}/a.xml"].status == "redirect"


@pytest.mark.parametrize(
    ("status", "days"),
    [("ok", 7), ("redirect", 7), ("http_5xx", 1), ("read_timeout", 1), ("http_404", 30), (NOT_A_SITEMAP, 30)],
)  # fmt: skip
def test_when_a_sitemap_is_asked_again_follows_from_what_came(status: str, days: int) -> None:
    copy = SitemapCopy(f"{SITE}/a.xml", "robots")
    copy.settle(RULES, status, now_ms=NOW)
    assert copy.expires_ms == NOW + days * DAY_MS


def test_what_was_read_whole_is_asked_for_with_its_validators_and_keeps_them_while_it_has_not_changed() -> (
    None
):
    team, state = crew(), host(None)
    read = SitemapCopy(f"{SITE}/a.xml", "robots")
    read.settle(RULES, "ok", now_ms=NOW - DAY_MS, entries=9, validators=Validators('"v1"', "yesterday"))
    read.expires_ms = NOW
    state.sitemaps.note(RULES, read, now_ms=NOW)
    team.enlist(state)
    item = team.take(NOW, NOW)
    assert isinstance(item, Item) and item.kind == "sitemap"
    assert (item.etag, item.last_modified, item.last_visit_ms) == ('"v1"', "yesterday", NOW - DAY_MS)
    team.sitemaps.came(item, "not_modified", epoch_ms=NOW)
    assert (read.entries, read.validators.etag, read.expires_ms) == (9, '"v1"', NOW + 7 * DAY_MS)
    read.settle(RULES, "http_404", now_ms=NOW)
    assert (read.entries, read.validators) == (None, NO_VALIDATORS)


def test_what_was_passed_over_is_read_anew_once_it_may_be_believed() -> None:
    copy = SitemapCopy(f"{SITE}/a.xml", "robots", ("a.example",), validators=Validators('"v1"'))
    assert not copy.vouch(["a.example"]) and copy.validators
    assert copy.vouch(["b.example"]) and not copy.validators


def test_a_validator_of_any_length_is_not_kept() -> None:
    assert Validators.of('"' + "x" * 5_000 + '"', "Mon") == Validators(None, "Mon")
    assert not Validators.of("", None)


def test_an_index_that_dates_its_sitemaps_spares_the_old_and_calls_the_new() -> None:
    books = HostSitemaps(5)
    for number in range(3):
        books.note(RULES, SitemapCopy(f"{SITE}/{number}.xml", "index"), now_ms=NOW)
        books.take().settle(RULES, "not_modified" if number == 1 else "ok", now_ms=NOW)
    later = NOW + 6 * DAY_MS
    for number, changed_ms in enumerate((NOW - DAY_MS, NOW + DAY_MS, None)):
        books.recall(f"{SITE}/{number}.xml", changed_ms=changed_ms, rules=RULES, now_ms=later)
    assert list(books.due) == [f"{SITE}/1.xml"]
    assert [books.copies[f"{SITE}/{number}.xml"].expires_ms for number in range(3)] == [
        later + 7 * DAY_MS, later, NOW + 7 * DAY_MS,
    ]  # fmt: skip


def test_no_more_sitemaps_than_the_limit_are_kept_and_no_index_nests_for_ever() -> None:
    books = HostSitemaps(5)
    rules = SitemapRules(per_host=10)
    for number in range(50):
        books.note(rules, SitemapCopy(f"{SITE}/{number}.xml", "index", level=number % 6), now_ms=NOW)
    assert len(books.copies) == 10
    assert max(copy.level for copy in books.copies.values()) <= 3


COPIES = st.lists(
    st.builds(
        SitemapCopy,
        url=st.integers(0, 9).map(lambda number: f"{SITE}/{number}.xml"),
        source=st.sampled_from(["robots", "index"]),
        hosts=st.lists(st.sampled_from(["a.example", "b.example"]), unique=True).map(
            lambda names: tuple(sorted(names))
        ),
        meta=st.none() | st.just('{"label":"dk"}'),
        level=st.integers(0, 3),
        fetched_ms=st.sampled_from([0, NOW - 5, NOW + 5]),
        expires_ms=st.sampled_from([0, NOW - 1, NOW + DAY_MS]),
        entries=st.none() | st.integers(0, 50_000),
        status=st.sampled_from([None, "ok", "http_404"]),
        validators=st.builds(Validators, st.none() | st.just('"v1"'), st.none() | st.just("Mon")),
    ),
    unique_by=lambda copy: copy.url,
)


@given(COPIES)
def test_p4_what_the_host_table_holds_is_read_back_as_it_was(copies: list[SitemapCopy]) -> None:
    books = HostSitemaps(5, {copy.url: copy for copy in copies})
    again = copies_of(rows_of(books), RULES, opened_ms=NOW, now_ms=NOW)
    assert again.copies == books.copies
    assert rows_of(again) == rows_of(books)
    assert set(again.due) == {copy.url for copy in copies if copy.expires_ms <= NOW}
    assert again.left == max(5 - sum(copy.fetched_ms >= NOW for copy in copies), 0)


def test_times_in_the_table_are_utc() -> None:
    [row] = rows_of(HostSitemaps(1, {"x": SitemapCopy("x", "seed", fetched_ms=NOW)})) or []
    assert row["fetched_at"] == dt.datetime.fromtimestamp(NOW / 1_000, dt.UTC) and row["expires_at"] is None
