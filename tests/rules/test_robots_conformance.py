"""The robots.txt cases and files of others, in ../shared/data/robots: right, or reviewed with a reason a row."""

from __future__ import annotations

import base64
import gzip
import json
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from pipelines.rules.robots import Rules, governs, robots_url, state_of
from pipelines.rules.robots_match import path_form, path_of, pattern_form
from pipelines.rules.robots_policy import RobotsState
from pipelines.rules.robots_text import decoded, is_product_token, read_lines
from tests.shared import shared

REVIEWED: dict[str, str] = {
    row["id"]: row["reason"]
    for row in json.loads((Path(__file__).parents[1] / "golden/robots_reviewed.json").read_text("utf-8"))
}
CASES = {"google": 145, "crawler-commons": 507, "protego": 402, "robots-parser": 205}
Row = dict[str, Any]


def rows(name: str) -> list[Row]:
    with shared(f"data/robots/{name}.jsonl").open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def rules_of(row: Row) -> Rules:
    if "robots_b64" in row:
        return Rules.parse(base64.b64decode(row["robots_b64"]))
    if "robots_file" in row:
        return Rules.parse(shared(f"data/robots/{row['robots_file']}").read_bytes())
    return Rules.parse(row["robots"].encode("utf-8", "surrogatepass"))


def agent_of(row: Row) -> str:
    agent: str | None = row.get("user_agent")
    return agent if agent is not None else (row.get("user_agents") or ["*"])[0]


def governed(row: Row) -> bool:
    """A row with a robots_url asks for the site, too: relative addresses on both sides count as one site."""
    robots, url = row.get("robots_url"), row["url"]
    if robots is None or (robots.startswith("/") and url.startswith("/")):
        return True
    return governs(robots, url)


def allowed(row: Row) -> bool | None:
    return rules_of(row).allows(row["url"], agent_of(row)).allowed if governed(row) else None


def seconds(row: Row) -> float | None:
    delay_ms = rules_of(row).crawl_delay_ms(agent_of(row))
    return None if delay_ms is None else delay_ms / 1000


def is_the_same_rate(row: Row) -> bool:
    rate, delay_ms = row["expected"], rules_of(row).crawl_delay_ms(agent_of(row))
    return delay_ms == (None if rate is None else rate["seconds"] * 1000 / rate["requests"])


def agents_own_rules(row: Row) -> int:
    return len({rule.line.number for rule in rules_of(row).judge(agent_of(row)).rules})


def explicitly_disallowed(row: Row) -> bool | None:
    if not governed(row):
        return None
    verdict = rules_of(row).allows(row["url"], agent_of(row))
    return not verdict.allowed and verdict.group != "*"


def disallowed(row: Row) -> bool | None:
    answer = allowed(row)
    return None if answer is None and row["expected"] is None else not answer


ANSWERS = {
    "allowed": allowed,
    "disallowed": disallowed,
    "explicitly_disallowed": explicitly_disallowed,
    "crawl_delay": seconds,
    "crawl_delay_ms": lambda row: rules_of(row).crawl_delay_ms(agent_of(row)),
    "sitemaps": lambda row: list(rules_of(row).sitemaps),
    "n_sitemaps": lambda row: len(rules_of(row).sitemaps),
    "sitemap_0": lambda row: rules_of(row).sitemaps[0],
    "matching_line": lambda row: rules_of(row).allows(row["url"], agent_of(row)).line_no or -1,
    "n_rules": agents_own_rules,
    "defer_visits": lambda row: False,
}


def status_answer(row: Row) -> bool:
    state = state_of(row["robots_status"])
    return (
        (state is RobotsState.UNREACHABLE)
        if row["what"] == "defer_visits"
        else state is RobotsState.ALLOW_ALL
    )


def is_right(row: Row) -> bool:
    what = row.get("what", "allowed")
    expected = row["expected"] if "expected" in row else row["allowed"]
    if "robots_status" in row:
        return status_answer(row) == expected
    if what == "request_rate":
        return is_the_same_rate(row)
    return what in ANSWERS and ANSWERS[what](row) == expected


def wrong(name: str) -> list[str]:
    return [row["id"] for row in rows(f"{name}-cases") if not is_right(row)]


def test_145_google_cases_are_right_and_all_72_of_scope_rfc9309():
    cases = rows("google-cases")
    assert (len(cases), sum(row["scope"] == "rfc9309" for row in cases)) == (145, 72)
    assert [row["id"] for row in cases if row["scope"] == "rfc9309" and not is_right(row)] == []
    assert set(wrong("google")) == {"google-040"} <= set(REVIEWED)


@pytest.mark.parametrize(("name", "count"), [item for item in CASES.items() if item[0] != "google"])
def test_507_and_402_and_205_cases_of_other_parsers_are_right_or_reviewed(name: str, count: int):
    assert len(rows(f"{name}-cases")) == count
    assert [case for case in wrong(name) if case not in REVIEWED] == []


def test_every_reviewed_row_still_differs_and_has_a_reason():
    differs = {case for name in CASES for case in wrong(name)}
    assert set(REVIEWED) == differs
    assert all(len(reason) > 20 for reason in REVIEWED.values())


def fact_holds(row: Row) -> bool:
    kind, given, expected = row["kind"], row.get("input", ""), row["expected"]
    if kind == "product_token_valid":
        return is_product_token(given) is expected
    if kind == "path_of_url":
        return path_of(given) == expected
    if kind == "escape_pattern":
        return pattern_form(given, allow=True) == pattern_form(expected, allow=True)
    body = base64.b64decode(row["robots_b64"]) if "robots_b64" in row else row["robots"].encode()
    lines = list(read_lines(decoded(body)))
    filled = sum(bool(line.strip()) for line in decoded(body).splitlines())
    stats = {
        "valid_directives": len(lines),
        "unknown_directives": filled - len(lines),
        "last_line_seen": lines[-1].number,
        "sitemap": next((line.value for line in lines if line.field == "sitemap"), None),
    }
    return bool(stats[row["stat"]] == expected)


def test_56_google_parse_facts_hold():
    facts = rows("google-parse-facts")
    assert len(facts) == 56
    assert [row for row in facts if not fact_holds(row)] == []


@cache
def top_sites() -> list[tuple[str, bytes]]:
    with gzip.open(shared("data/robots/top-sites.jsonl.gz"), "rt", encoding="utf-8") as lines:
        found = [json.loads(line) for line in lines]
    return [
        (row["host"], base64.b64decode(row["body_b64"]) if "body_b64" in row else row["body"].encode())
        for row in found
    ]


def test_4230_real_files_parse_without_an_exception_in_bounded_time():
    """Measured: 2.5 s for all, 0.22 s for the slowest (19,125 rules), in CPU time."""
    slowest = 0.0
    for _, body in top_sites():
        began = time.process_time()
        rules = Rules.parse(body)
        assert rules.allows("http://a.example/robots.txt", "noria").allowed
        assert rules.crawl_delay_ms("noria") is None or rules.crawl_delay_ms("noria") >= 0
        assert all(sitemap.encode() for sitemap in rules.sitemaps)
        slowest = max(slowest, time.process_time() - began)
    assert len(top_sites()) == 4230
    assert slowest < 3.0


def test_the_oddities_of_4230_real_files_are_read():
    odd = json.loads(shared("data/robots/top-sites-odd.json").read_text("utf-8"))
    bodies = dict(top_sites())

    def named(kind: str) -> Iterator[Rules]:
        for row in odd[kind]:
            yield Rules.parse(bodies[row if isinstance(row, str) else row[0]])

    assert all(rules.allows("http://a.example/x", "noria").allowed for rules in named("empty"))
    assert all(rules.judge("noria").rules or rules.sitemaps for rules in named("utf16-bom"))
    assert sum(bool(rules.judge("noria").rules) for rules in named("utf8-bom")) >= 60
    assert all(len(rules.sitemaps) > 40 for rules in named("over-50-sitemap-lines"))
    assert all(len(rules.body) <= 512_001 for rules in named("over-500KiB"))


def paths_of(rules: Rules) -> list[str]:
    """Return addresses that a file's own lines are about, and a few that they are not."""
    own = [line.line.value.replace("*", "x").rstrip("$") for line in rules.judge("noria").rules[:8]]
    plain = [
        "/",
        "/a/b.html",
        "/search?q=1&page=2",
        "/wp-admin/x.php",
        "//x",
        "/tag/x?utm_source=q",
        "/%E3%83%84",
    ]
    return [f"http://a.example{path}" for path in plain + own if path.startswith("/") and path.isascii()]


def test_protego_and_our_index_agree_on_4230_real_files():
    asked = both = 0
    for host, body in top_sites():
        rules = Rules.parse(body)
        judge = rules.judge("noria")
        for url in paths_of(rules):
            path = path_form(url)
            if path.spelled == "/robots.txt":
                continue
            asked += 1
            rule = judge.deciding(path.spelled)
            theirs = judge.protego_says(path.spelled)
            both += theirs is not None
            assert theirs in (None, rule is None or rule.allow), (host, url)
            if path.spelled is path.folded:
                assert rules.allows(url, "noria").line_no == (rule and rule.line.number)
    assert both / asked > 0.6


def test_protego_and_our_index_agree_on_all_case_rows():
    asked = 0
    for name in CASES:
        for row in rows(f"{name}-cases"):
            if row.get("what", "allowed") not in ("allowed", "disallowed") or "robots_status" in row:
                continue
            judge, path = rules_of(row).judge(agent_of(row)), path_form(row["url"])
            if path.spelled is path.folded and path.spelled != "/robots.txt":
                rule = judge.deciding(path.spelled)
                assert judge.protego_says(path.spelled) in (None, rule is None or rule.allow), row["id"]
                asked += 1
    assert asked > 900


def test_crawler_commons_robots_urls_lie_at_the_root_of_the_site():
    assert robots_url("https://u:p@a.example:8443/x?y#z") == "https://a.example:8443/robots.txt"
