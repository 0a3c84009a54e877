"""The crew of a partition under a pretend clock: who is asked when, what robots.txt and failures do to a host."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lake.schema import HOSTS
from pipelines.cycle import parts, policies
from pipelines.cycle.crew import HOST_COLUMNS, Crew
from pipelines.cycle.hoststate import HostState, Item, RobotsCopy
from pipelines.net.exchange import Exchange
from pipelines.rules import urls
from pipelines.rules.budget import month_of
from pipelines.rules.outcome import Outcome, of_status
from pipelines.rules.robots_policy import RobotsState
from pipelines.rules.schedule import Schedule, Wait
from tests.cycle.plans import NOW_MS, settings

Web = Callable[[Item, int], tuple[Exchange, bytes]]
DAY = 86_400_000


def says(status: int, ms: int = 20, **headers: str) -> tuple[Exchange, bytes]:
    """Return an answer with headers and no body."""
    named = [(name.replace("_", "-"), value) for name, value in headers.items()]
    exchange = Exchange(
        "", status=status, outcome=of_status(status), headers=named, first_byte_ms=ms, total_ms=ms
    )
    return exchange, b""


def rules(text: str) -> tuple[Exchange, bytes]:
    """Return a robots.txt."""
    return says(200)[0], text.encode()


def refused() -> tuple[Exchange, bytes]:
    """Return a refused connection."""
    return Exchange("", outcome=Outcome.CONNECT_REFUSED, error="refused", total_ms=1), b""


@dataclass
class Bench:
    """A crew, a pretend clock, and a web that is a function."""

    web: Web
    crew: Crew = field(default_factory=lambda: new_crew())
    epoch_ms: int = NOW_MS
    now_ms: int = 0
    asked: list[tuple[str, int, int]] = field(default_factory=list)  # URL, start, end
    jumps: dict[int, int] = field(default_factory=dict)  # after so many requests, the wall clock jumps by

    def run(self, window_ms: int = 3_600_000, connections: int = 50) -> list[str]:
        """Ask until nothing is left or the window closes; return the URLs asked for, in order."""
        open_: list[tuple[int, int, Item, Exchange, bytes]] = []
        deadline = self.now_ms + window_ms
        while self.now_ms < deadline or open_:
            until = deadline
            while len(open_) < connections and self.now_ms < deadline:
                item = self.crew.take(self.now_ms, self.epoch_ms)
                if not isinstance(item, Item):
                    until = item.until_ms if isinstance(item, Wait) else deadline
                    break
                exchange, body = self.web(item, self.epoch_ms)
                exchange.url = item.url
                self.crew.hosts[item.host].spend(month_of(self.epoch_ms))
                end = self.now_ms + exchange.total_ms
                self.asked.append((item.url, self.now_ms, end))
                heapq.heappush(open_, (end, len(self.asked), item, exchange, body))
                self.epoch_ms += self.jumps.pop(len(self.asked), 0)
            if open_ and (open_[0][0] <= until or self.now_ms >= deadline):
                self._hear(*heapq.heappop(open_))
            elif until >= deadline:
                break
            else:
                self._wait(until)
        return [url for url, _, _ in self.asked]

    def _wait(self, until: int) -> None:
        self.epoch_ms += max(until - self.now_ms, 0)
        self.now_ms = max(until, self.now_ms)

    def _hear(self, end: int, _: int, item: Item, exchange: Exchange, body: bytes) -> None:
        self._wait(end)
        if item.kind == "robots":
            self.crew.robots.came(item, exchange, body, "digest", epoch_ms=self.epoch_ms)
        self.crew.settle(item, exchange, now_ms=self.now_ms, epoch_ms=self.epoch_ms)

    def pauses(self, host: str) -> list[int]:
        """Return the pauses between the requests to a host, ms."""
        spans = sorted((start, end) for url, start, end in self.asked if urls.host_of(url) == host)
        return [b[0] - a[1] for a, b in pairwise(spans)]

    def row(self, host: str) -> dict[str, Any]:
        """Return a host's row as the table will have it."""
        values = self.crew.hosts[host].as_row(HOST_COLUMNS, 1)
        table = parts.table_of(parts.HOST_SCHEMA, [values])
        row: dict[str, Any] = table.to_pylist()[0]
        return row


def new_crew(**overrides: Any) -> Crew:
    """Return a crew without hosts, under default settings."""
    conf = settings(**overrides)
    return Crew(policies.crew_policy(conf), Schedule(address_floor_ms=conf.delay.address_floor_ms))


def enlist(
    bench: Bench, name: str, pages: int, *, left: int = 1_000, known: bool = True, **row: Any
) -> HostState:
    """Bring a host with pages to fetch into the crew; known: its robots.txt allows all and is fresh."""
    blank = dict.fromkeys(HOSTS.arrow.names)
    host = HostState({**blank, "host": name, "failures": 0, **row}, row.pop("address", None), left)
    host.settle_delay(bench.crew.policy.delay)
    if known:
        site = f"http://{name}"
        host.robots[site] = RobotsCopy(RobotsState.ALLOW_ALL, None, 404, None, NOW_MS, NOW_MS + DAY, site)
    for number in range(pages):
        url = f"http://{name}/p{number}"
        host.queue.append(Item(url, name, urls.url_key(url), urls.url_key(url)))
    bench.crew.enlist(host)
    return host


def test_p6_no_host_is_asked_more_than_its_allowance() -> None:
    bench = Bench(lambda item, now: says(200))
    enlist(bench, "a.sim", 20, left=7)
    enlist(bench, "b.sim", 20, left=0)
    assert len(bench.run()) == 7
    assert bench.crew.hosts["a.sim"].requests_left == 0


def test_p6_months_never_go_back_when_the_clock_does() -> None:
    bench = Bench(lambda item, now: says(200), jumps={3: -40 * DAY, 6: 40 * DAY})
    enlist(bench, "a.sim", 9, month=202701, month_requests=5)
    assert len(bench.run()) == 9
    assert (bench.row("a.sim")["month"], bench.row("a.sim")["month_requests"]) == (202701, 14)


def test_p6_a_new_month_begins_in_the_middle_of_a_cycle() -> None:
    bench = Bench(lambda item, now: says(200), epoch_ms=NOW_MS + 17 * DAY - 8 * 3_600_000 - 2_500)
    enlist(bench, "a.sim", 6, month=202701, month_requests=5)
    bench.run()
    assert (bench.row("a.sim")["month"], bench.row("a.sim")["month_requests"]) == (202702, 4), (
        "robots.txt among them"
    )


def test_p1_a_wall_clock_that_jumps_does_not_shorten_a_pause() -> None:
    bench = Bench(lambda item, now: says(200), jumps={2: 10 * DAY, 4: -20 * DAY})
    enlist(bench, "a.sim", 6)
    bench.run()
    assert len(bench.pauses("a.sim")) >= 5 and min(bench.pauses("a.sim")) >= 1_000


@pytest.mark.parametrize(
    ("line", "pause"),
    [("5", 5_000), ("0.5", 1_000), ("-3", 1_000), ("nan", 1_000), ("ten", 1_000), ("1e999", 1_000)],
)
def test_p1_a_crawl_delay_is_kept_in_full_and_an_absurd_one_is_none(line: str, pause: int) -> None:
    bench = Bench(
        lambda item, now: rules(f"User-agent: *\nCrawl-delay: {line}") if item.kind == "robots" else says(200)
    )
    enlist(bench, "a.sim", 4, known=False)
    assert len(bench.run()) == 5
    assert min(bench.pauses("a.sim")) >= pause
    assert max(bench.pauses("a.sim")) < pause + 10


def test_p1_a_crawl_delay_of_32_years_is_written_down_and_waited_for() -> None:
    bench = Bench(
        lambda item, now: rules("User-agent: *\nCrawl-delay: 1e9") if item.kind == "robots" else says(200)
    )
    enlist(bench, "a.sim", 4, known=False)
    assert bench.run() == ["http://a.sim/robots.txt"]
    row = bench.row("a.sim")
    assert row["crawl_delay_ms"] == row["delay_ms"] == 10**12
    assert row["next_allowed_at"].year > 2050


def test_a_crawl_delay_longer_than_a_copy_of_robots_txt_holds_still_gets_pages() -> None:
    """One request in two days, a copy that holds for one: without care it would be robots.txt for ever."""
    bench = Bench(
        lambda item, now: rules("User-agent: *\nCrawl-delay: 172800") if item.kind == "robots" else says(200)
    )
    enlist(bench, "a.sim", 4, known=False)
    asked = bench.run(window_ms=20 * DAY)
    assert sum(not url.endswith("robots.txt") for url in asked) == 4
    assert min(bench.pauses("a.sim")) >= 172_800_000


@pytest.mark.parametrize(("window_minutes", "days"), [(60, 1), (10, 2), (1, 12)])
def test_a_host_that_is_well_again_is_asked_for_pages_though_its_pause_fills_the_window(
    window_minutes: int, days: int
) -> None:
    """A cycle a day, a back-off of an hour, a robots.txt that is not there and is looked for each day."""
    bench = Bench(lambda item, now: says(404) if item.kind == "robots" else says(200))
    host = enlist(bench, "a.sim", 50, known=False, backoff_ms=3_600_000)
    for day in range(days):
        bench.now_ms, bench.epoch_ms = day * DAY, NOW_MS + day * DAY
        bench.run(window_minutes * 60_000)
    assert any(not url.endswith("robots.txt") for url, _, _ in bench.asked)
    assert host.row["backoff_ms"] < 3_600_000


@pytest.mark.parametrize(
    ("value", "pause"),
    [
        ("30", 30_000),
        ("Fri, 15 Jan 2027 08:02:00 GMT", 110_000),
        ("Fri, 15 Jan 2010 08:02:00 GMT", 5_000),
        ("soon", 5_000),
        ("-1", 5_000),
        ("", 5_000),
    ],
)
def test_p1_retry_after_is_kept_in_both_forms(value: str, pause: int) -> None:
    answers = iter([says(429, retry_after=value), says(200)])
    bench = Bench(lambda item, now: next(answers))
    enlist(bench, "a.sim", 2)
    bench.run()
    assert pause <= bench.pauses("a.sim")[0] < pause + 15_000


def test_p1_a_retry_after_in_ten_years_ends_with_the_longest_that_conf_allows() -> None:
    bench = Bench(lambda item, now: says(503, retry_after="Fri, 15 Jan 2037 08:02:00 GMT"))
    enlist(bench, "a.sim", 2)
    assert len(bench.run()) == 1
    ahead = bench.row("a.sim")["next_allowed_at"].timestamp() * 1_000 - NOW_MS
    assert 604_800_000 <= ahead < 604_900_000


def test_a_host_that_goes_down_costs_one_probe_not_its_queue() -> None:
    bench = Bench(lambda item, now: refused())
    enlist(bench, "dead.sim", 500)
    assert len(bench.run()) == 1
    row = bench.row("dead.sim")
    assert (
        row["failures"] == 1
        and row["health"] == "connect_refused"
        and row["probe_at"]
        and row["failing_since"]
    )


def test_a_probe_that_succeeds_heals_and_the_next_failure_waits_longer() -> None:
    answers = iter([refused(), says(200), refused(), refused()])
    waits = []
    row: dict[str, Any] = {}
    for _ in range(4):
        bench = Bench(lambda item, now: next(answers))
        enlist(
            bench,
            "a.sim",
            1,
            **{name: row[name] for name in ("failures", "failing_since", "probe_at")} if row else {},
        )
        bench.run()
        row = bench.row("a.sim")
        waits.append(None if row["probe_at"] is None else round(row["probe_at"].timestamp() - NOW_MS / 1_000))
    assert waits == [3_600, None, 3_600, 7_200]


@pytest.mark.parametrize("status", [500, 503, 429, None])
def test_nothing_is_asked_while_robots_txt_is_unreachable_and_its_pause_doubles(status: int | None) -> None:
    failures, probes = 0, []
    for _ in range(3):
        bench = Bench(lambda item, now: refused() if status is None else says(status))
        host = enlist(bench, "a.sim", 5, known=False, failures=failures)
        assert bench.run() == ["http://a.sim/robots.txt"]
        row = bench.row("a.sim")
        failures = row["failures"]
        probes.append(row["probe_at"].timestamp() - NOW_MS / 1_000)
        assert host.robots["http://a.sim"].state is RobotsState.UNREACHABLE
        assert row["health"] in ("robots_unreachable", "connect_refused")
    assert probes[0] >= 3_600 and probes[1] >= 1.9 * probes[0] and probes[2] >= 1.9 * probes[1]


def test_robots_txt_that_redirects_to_a_host_of_the_partition_is_read_there() -> None:
    def web(item: Item, now: int) -> tuple[Exchange, bytes]:
        if item.url == "http://a.sim/robots.txt":
            return says(301, location="http://www.a.sim/robots.txt")
        return rules("User-agent: *\nDisallow: /p0") if item.kind == "robots" else says(200)

    bench = Bench(web)
    enlist(bench, "a.sim", 3, known=False)
    enlist(bench, "www.a.sim", 2)
    asked = bench.run()
    assert asked.index("http://www.a.sim/robots.txt") < asked.index("http://a.sim/p1")
    assert "http://a.sim/p0" not in asked and "http://www.a.sim/p0" in asked
    assert min(bench.pauses("www.a.sim")) >= 1_000 and min(bench.pauses("a.sim")) >= 1_000


def test_robots_txt_that_redirects_out_of_the_partition_names_the_companion_and_asks_no_more() -> None:
    def web(item: Item, now: int) -> tuple[Exchange, bytes]:
        place = "http://b.sim/r" if item.host == "a.sim" else "http://c.sim/r"
        return says(302, location=place)

    bench = Bench(web)
    enlist(bench, "a.sim", 3, known=False)
    assert bench.run() == ["http://a.sim/robots.txt"]
    assert bench.row("a.sim")["companion"] == "b.sim"
    bench = Bench(web)
    enlist(bench, "a.sim", 3, known=False, companion="b.sim")
    enlist(bench, "b.sim", 0)
    assert bench.run() == ["http://a.sim/robots.txt", "http://b.sim/r"]
    assert bench.row("a.sim")["companion"] == "b.sim c.sim"


@pytest.mark.parametrize("left", [0, 1])
def test_rules_on_a_host_that_may_not_be_asked_are_unreachable(left: int) -> None:
    """The other host has no budget, or spends the last of it on a page meanwhile: nobody waits for it."""

    def web(item: Item, now: int) -> tuple[Exchange, bytes]:
        if item.kind == "robots":
            return says(301, location="http://b.sim/robots.txt")
        return says(200, ms=500)

    bench = Bench(web)
    host = enlist(bench, "a.sim", 3, known=False)
    enlist(bench, "b.sim", 1, left=left)
    bench.run()
    assert host.robots["http://a.sim"].state is RobotsState.UNREACHABLE
    assert not host.waiting and bench.row("a.sim")["probe_at"] is not None


def test_rules_on_a_host_that_goes_down_are_unreachable() -> None:
    def web(item: Item, now: int) -> tuple[Exchange, bytes]:
        if item.host == "b.sim":
            return refused() if item.kind == "page" else rules("")
        return says(301, ms=1, location="http://b.sim/robots.txt")

    bench = Bench(web)
    host = enlist(bench, "a.sim", 3, known=False)
    enlist(bench, "b.sim", 5)
    bench.crew.hosts["b.sim"].queue[0].url = "http://b.sim/slow"
    asked = bench.run()
    assert [url for url in asked if url.startswith("http://a.sim/p")] == []
    assert host.robots["http://a.sim"].state is RobotsState.UNREACHABLE and not host.waiting


def test_what_robots_txt_forbids_costs_no_request_and_names_its_line() -> None:
    bench = Bench(
        lambda item, now: rules("User-agent: *\nDisallow: /p1") if item.kind == "robots" else says(200)
    )
    enlist(bench, "a.sim", 3, known=False, left=3)
    assert "http://a.sim/p1" not in bench.run() and len(bench.asked) == 3
    assert [(one.item.url, one.detail) for one in bench.crew.denied] == [
        ("http://a.sim/p1", "line 2: Disallow: /p1")
    ]


def test_a_big_host_among_small_ones_is_never_kept_waiting() -> None:
    """Least slack first: with two connections for 200 hosts the one with most work is asked whenever its clock allows."""
    bench = Bench(lambda item, now: says(200, ms=20))
    enlist(bench, "big.sim", 100)
    for number in range(200):
        enlist(bench, f"h{number}.sim", 3)
    bench.run(connections=2)
    assert len(bench.asked) == 700
    assert max(bench.pauses("big.sim")) < 1_000 + 2 * 20 + 5


hosts = st.lists(
    st.tuples(st.integers(1, 6), st.sampled_from([1, 50, 900, 4_000]), st.sampled_from([0, 1_500, 20_000])),
    min_size=1,
    max_size=8,
)


@given(
    hosts,
    st.lists(st.sampled_from([200, 200, 200, 404, 429, 500, 0]), min_size=1, max_size=40),
    st.integers(1, 4),
)
def test_p1_no_answer_makes_a_host_be_asked_too_soon(
    plan: list[tuple[int, int, int]], statuses: list[int], connections: int
) -> None:
    answers = iter(statuses * 10)
    took = {f"h{number}.sim": ms for number, (_, ms, _) in enumerate(plan)}

    def web(item: Item, now: int) -> tuple[Exchange, bytes]:
        status = next(answers, 200)
        return says(status, took[item.host]) if status else refused()

    bench = Bench(web)
    for number, (pages, _, crawl_delay) in enumerate(plan):
        enlist(bench, f"h{number}.sim", pages, crawl_delay_ms=crawl_delay, address=f"192.0.2.{number % 3}")
    bench.run(connections=connections)
    for number, (_, ms, crawl_delay) in enumerate(plan):
        least = max(1_000, crawl_delay, min(10 * ms, 30_000))
        assert all(pause >= least for pause in bench.pauses(f"h{number}.sim"))
    for address in range(3):
        mine = {f"h{number}.sim" for number in range(len(plan)) if number % 3 == address}
        spans = sorted((start, end) for url, start, end in bench.asked if urls.host_of(url) in mine)
        assert all(b[0] - a[1] >= 250 for a, b in pairwise(spans))


def test_a_port_that_is_never_asked_for_pages_fails_its_own_urls_only() -> None:
    """As in older lakes, whose filters let such links in."""

    def web(item: Item, now: int) -> tuple[Exchange, bytes]:
        if ":25/" not in item.url:
            return says(404 if item.kind == "robots" else 200)
        return Exchange("", outcome=Outcome.URL_REFUSED, error="port 25"), b""

    bench = Bench(web)
    host = enlist(bench, "a.sim", 3)
    for number in range(2):
        url = f"http://a.sim:25/{number}"
        bench.crew.follow(Item(url, "a.sim", urls.url_key(url), urls.url_key(url)), first=True)
    asked = bench.run()
    assert sum(url.startswith("http://a.sim/p") for url in asked) == 3 and not host.down
    assert [one.outcome for one in bench.crew.denied] == [Outcome.URL_REFUSED] * 2
    assert (host.row["failures"], host.row["health"]) in ((0, "ok"), (0, None))


def test_a_page_that_is_refused_says_nothing_of_the_others_of_its_site() -> None:
    def web(item: Item, now: int) -> tuple[Exchange, bytes]:
        refused = Exchange("", outcome=Outcome.URL_REFUSED, error="no URL"), b""
        return refused if item.url.endswith("/p1") else says(200)

    bench = Bench(web)
    enlist(bench, "a.sim", 4)
    assert len(bench.run()) == 4 and bench.crew.denied == []
