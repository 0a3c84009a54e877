"""The judge sees what is too soon, by host and by address, and what was not asked for."""

from __future__ import annotations

from dataclasses import replace

from pipelines.toyweb import Kind, Mix, Row, ToyWeb, judge
from pipelines.toyweb.answer import origin


def row(number, start, end, host="a.test", address="127.20.0.1", first=None, hold_ms=0, target="/"):
    return Row(
        number,
        start,
        first,
        end,
        0,
        host,
        "GET",
        target,
        200,
        10,
        True,
        hold_ms,
        "127.0.0.1:9",
        address,
        1,
        1,
    )


def test_gaps_run_from_the_end_of_one_request_to_the_start_of_the_next():
    rows = [row(1, 0, 300), row(2, 1_300, 1_400), row(3, 2_000, 2_100), row(4, 500, 600, host="b.test")]
    assert judge.gaps(rows) == {"a.test": [1_000, 600], "b.test": []}
    assert judge.smallest_gap(rows) == 600


def test_overlap_is_seen_also_behind_a_short_request_and_an_unfinished_one():
    rows = [
        row(1, 0, 5_000),
        row(2, 100, 200),
        row(3, 3_000, 3_100),
        row(4, 9_000, None),
        row(5, 20_000, 20_001),
    ]
    assert [(a.id, b.id) for a, b in judge.overlaps(rows)] == [(1, 2), (1, 3), (4, 5)]


def test_a_violation_names_both_requests_and_the_delay_that_was_due():
    rows = [row(1, 0, 300, target="/one"), row(2, 1_299, 1_400, target="/two")]
    (found,) = judge.violations(rows, lambda host: 1_000)
    assert str(found) == "a.test: /two was asked 999 ms after the end of /one, 1000 ms were due (delay)"
    assert judge.violations(rows, lambda host: 1_000, slack_ms=1) == []


def test_slow_answers_and_retry_after_lengthen_the_delay_that_is_due():
    rows = [row(1, 0, 300, first=250), row(2, 2_000, 2_001, hold_ms=4_000), row(3, 5_000, 5_001)]
    wish = judge.Wish(response_factor=10, hold_cap_ms=60_000)
    found = judge.violations(rows, lambda host: 1_000, wish=wish)
    assert [(one.wanted_ms, one.reason) for one in found] == [
        (2_500, "response time"),
        (4_000, "Retry-After"),
    ]
    assert judge.violations(rows, lambda host: 1_000) == []


def test_a_little_is_forgiven_after_a_request_that_the_client_broke_off():
    rows = [replace(row(1, 0, 5_010), whole=False), row(2, 6_000, 6_010), row(3, 7_000, 7_001)]
    (found,) = judge.violations(rows, lambda host: 1_000)
    assert (found.before.id, found.gap_ms) == (2, 990)


def test_hosts_at_one_address_are_judged_together_by_address():
    rows = [row(1, 0, 10), row(2, 100, 110, host="b.test")]
    assert judge.violations(rows, lambda host: 250) == []
    assert len(judge.violations(rows, lambda address: 250, unit=judge.by_address)) == 1


def test_the_delay_of_a_host_is_its_crawl_delay_where_that_is_longer_than_the_floor():
    web = ToyWeb()
    host = next(host for host in web.hosts if host.robots == "delay")
    assert judge.delays(web)(host.name) == 2_000
    assert judge.delays(web, floor_ms=3_000)(host.name) == 3_000
    assert judge.delays(web)(web.hosts[0].name) == 1_000


def test_coverage_tells_missing_forbidden_trapped_and_unlisted():
    web = ToyWeb()
    truth = [known for known in web.urls(80) if known.good and known.sort == "page"]
    denied = next(host for host in web.hosts if host.robots == "deny")
    calendar = next(host for host in web.hosts if host.kind is Kind.CALENDAR)
    rows = [row(n, n, n, host=known.host, target=known.target) for n, known in enumerate(truth[1:])]
    rows.append(row(90_001, 1, 1, host=denied.name, target="/"))
    rows.append(row(90_002, 1, 1, host=calendar.name, target="/calendar/2031/07"))
    rows.append(row(90_003, 1, 1, host="w001.test", target="/no/such/page"))
    found = judge.coverage(rows, web, 80)
    assert found.missing == (truth[0].url,)
    assert found.forbidden == (origin(denied.name, 80) + "/",)
    assert found.trapped == {"calendar": 1}
    assert found.unlisted == ("http://w001.test/no/such/page",)
    assert found.share == (len(truth) - 1) / len(truth)


def test_nothing_is_missing_when_all_that_is_allowed_was_asked():
    web = ToyWeb(5, 1, Mix.plain())
    allowed = [known for known in web.urls(80) if known.allowed]
    found = judge.coverage(
        [row(n, n, n, host=one.host, target=one.target) for n, one in enumerate(allowed)], web, 80
    )
    assert (found.missing, found.forbidden, found.unlisted, found.share) == ((), (), (), 1.0)


def test_repeats_and_the_most_open_requests_are_counted():
    rows = [row(1, 0, 100), row(2, 50, 60, host="b.test"), row(3, 200, 210)]
    assert judge.repeats(rows) == {"a.test/": 2}
    assert judge.peak_open(rows) == 2
