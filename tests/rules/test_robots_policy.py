"""What answers to robots.txt mean and how long they hold."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.rules.robots_policy import (
    DAY_MS,
    RobotsPolicy,
    RobotsState,
    effective_state,
    governs,
    is_fresh,
    may_follow,
    next_fetch_ms,
    robots_url,
    state_of,
)
from tests.shared import shared

POLICY = RobotsPolicy()
DOWN = RobotsState.UNREACHABLE


@pytest.mark.parametrize(
    ("statuses", "state"),
    [
        ([200, 204, 206, 299], RobotsState.RULES),
        ([301, 307, 400, 401, 403, 404, 410, 418, 451, 499], RobotsState.ALLOW_ALL),
        ([None, 429, 500, 502, 503, 504, 599, 100, 0], RobotsState.UNREACHABLE),
    ],
)
def test_every_status_has_its_meaning(statuses: list[int | None], state: RobotsState):
    assert {state_of(status) for status in statuses} == {state}


def test_five_redirects_are_followed_and_no_sixth():
    case = json.loads(shared("field-cases/robots-five-redirects.json").read_text("utf-8"))
    followed = [hops for hops in range(10) if may_follow(POLICY, hops=hops)]
    assert len(followed) == case["expect"]["hops"] == 5


def test_rules_hold_for_a_day_and_no_longer():
    assert next_fetch_ms(POLICY, state=RobotsState.RULES, fetched_ms=5) == 5 + DAY_MS
    assert is_fresh(POLICY, fetched_ms=5, now_ms=4 + DAY_MS)
    assert not is_fresh(POLICY, fetched_ms=5, now_ms=5 + DAY_MS)
    assert not is_fresh(POLICY, fetched_ms=5, now_ms=4)  # the clock jumped back


@given(st.integers(1, 10_000))
def test_an_unreachable_site_is_asked_again_with_growing_pauses(failures: int):
    def pause_ms(n: int) -> int:
        return next_fetch_ms(POLICY, state=DOWN, fetched_ms=0, failures=n)

    assert pause_ms(1) == 600_000
    assert pause_ms(failures) <= pause_ms(failures + 1) <= DAY_MS


def test_after_thirty_days_out_of_reach_the_policy_decides_and_stays_strict_by_default():
    late = {"state": DOWN, "unreachable_since_ms": 0, "now_ms": 30 * DAY_MS}
    lenient = RobotsPolicy(unreachable_after_days=RobotsState.ALLOW_ALL)
    assert effective_state(POLICY, **late) is DOWN
    assert effective_state(lenient, **late) is RobotsState.ALLOW_ALL
    assert effective_state(lenient, **{**late, "now_ms": 30 * DAY_MS - 1}) is DOWN
    assert effective_state(lenient, **{**late, "state": RobotsState.RULES}) is RobotsState.RULES


@pytest.mark.parametrize(
    "url", ["https://a.example:8443/x?y#z", "https://me:pw@a.example:8443", "https://a.example:8443/"]
)
def test_robots_txt_lies_at_the_root_of_scheme_host_and_port(url: str):
    assert robots_url(url) == "https://a.example:8443/robots.txt"


def test_a_file_governs_its_own_scheme_host_and_port():
    robots = "http://www.münich.example/robots.txt"
    assert governs(robots, "http://WWW.xn--mnich-kva.example:80/x")
    others = [
        "https://www.münich.example/",
        "http://münich.example/",
        "http://www.münich.example:81/",
        "/x",
        "data:,",
    ]
    assert not any(governs(robots, url) for url in others)
