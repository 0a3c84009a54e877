"""Field cases: faults that other crawlers met. Every case file is run by its kind; one without a runner fails.

Cases with servers go through whole cycles (journeys.py), all of them at once, so that each is also tried beside
the others' faults: "the worker and the rest of its batch go on".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lake.schema import CAPTURES
from pipelines.cycle.frontier import STATE
from pipelines.cycle.shelves import after_visits
from pipelines.net import warc
from pipelines.rules import dates, urls
from pipelines.rules.charset import charset_of
from pipelines.rules.delay import DelayPolicy, next_delay
from pipelines.rules.outcome import HOST_FAULTS, Outcome
from pipelines.rules.pages import PagePolicy, read_page
from pipelines.rules.recrawl import ProbePolicy, RecrawlPolicy, RetryPolicy, probe_seconds
from pipelines.rules.robots import Rules
from pipelines.rules.sitemaps import SitemapPolicy, interval_seconds, stream
from pipelines.rules.traps import shape_of, trap_of
from tests.field_cases.journeys import Crawl, Journey, journey_of, page, read_cases, travel
from tests.shared import ROOT, shared

Case = dict[str, Any]
FOLDER = ROOT / "field-cases"
ALL: list[Case] = read_cases(FOLDER) if FOLDER.exists() else []
COUNT = 41


def travels(case: Case) -> bool:
    """Say whether a case goes through cycles."""
    return bool(journey_of(case, FOLDER)) and "delay_s" not in case["expect"]


# --- the crawls ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Crawl, list[Journey]]:
    """One cycle with all cases that are asked once."""
    shared("field-cases")
    crawl = Crawl.begin(tmp_path_factory.mktemp("field"))
    mine = [case for case in ALL if travels(case) and "conditional" not in case["input"]]
    journeys = [one for case in mine for one in journey_of(case, FOLDER)]
    travel(crawl, journeys)
    return crawl, journeys


@pytest.fixture(scope="module")
def revisited(tmp_path_factory: pytest.TempPathFactory) -> tuple[Crawl, list[Journey]]:
    """Two cycles, a fortnight apart, with all cases that are asked again with a condition."""
    shared("field-cases")
    crawl = Crawl.begin(tmp_path_factory.mktemp("again"))
    journeys = [one for case in ALL if "conditional" in case["input"] for one in journey_of(case, FOLDER)]
    travel(crawl, journeys, cycles=2, ahead=14)
    return crawl, journeys


SAID: dict[str, Callable[[Case], bool]] = {
    "truncated": lambda row: (
        row["content_truncated"] is not None or row["outcome"] in ("bad_http", "disconnected")
    ),
    "blocked address": lambda row: row["outcome"] == "address_refused",
    "loop": lambda row: row["outcome"] == "redirect_limit",
    "protocol error": lambda row: row["outcome"] == "bad_http",
    "undecoded": lambda row: (
        row["content_mime_detected"] is None or "html" not in row["content_mime_detected"]
    ),
}
"""Outcomes in words, and what of a capture shows them."""


class Trip:
    """What a journey came to: its captures, and what its server saw."""

    def __init__(self, crawl: Crawl, journey: Journey) -> None:
        self.crawl, self.journey = crawl, journey
        self.host = next(iter(journey.hosts))
        self.rows = crawl.captures(self.host)
        self.last = self.rows[-1]

    @property
    def record(self) -> warc.WarcRecord:
        return self.crawl.record(self.last)

    def stored(self) -> list[str]:
        """Return the targets of which a page is stored."""
        return [target_of(row["url"]) for row in self.rows if row["outcome"] == "ok"]

    def refused(self, url: str) -> bool:
        """Say whether a URL that was put among the seeds was refused for its address, or could not be asked."""
        host = urls.host_of(urls.wire(url) or "")
        found = self.crawl.rows(f"select outcome from captures where host = '{host}'")
        return bool(found) and all(Outcome(row["outcome"]) in HOST_FAULTS for row in found)


def target_of(url: str) -> str:
    parsed = urls.parse(url)
    assert parsed is not None
    return parsed.path if parsed.query is None else f"{parsed.path}?{parsed.query}"


CHECKS: dict[str, Callable[[Trip, Any], bool]] = {
    "any_of": lambda trip, value: any(not failing(one, trip) for one in value),
    "status": lambda trip, value: trip.last["fetch_status"] == value,
    "final_status": lambda trip, value: trip.last["fetch_status"] == value,
    "warc_http_status": lambda trip, value: trip.record.status == value,
    "body_text_contains": lambda trip, value: value in trip.crawl.text(trip.last),
    "body_length": lambda trip, value: len(trip.crawl.text(trip.last)) == value,
    "truncated": lambda trip, value: (trip.last["content_truncated"] is not None) == value,
    "warc_truncated_field": lambda trip, value: trip.record.header("WARC-Truncated") == value.split()[0],
    "error": lambda trip, value: trip.last["error"] == value,
    "done_within_s": lambda trip, value: trip.last["response_ms"] < 1_000 * value,
    "requests": lambda trip, value: trip.journey.targets() == value,
    "next_request_target": lambda trip, value: trip.journey.targets()[1] == value,
    "requests_at_most": lambda trip, value: len(trip.journey.targets()) <= value,
    "attempts_at_most": lambda trip, value: len(trip.journey.targets()) <= value,
    "connections_to_listed": lambda trip, value: value == 0 and all(map(trip.refused, trip.journey.links)),
    "outcome": lambda trip, value: any(word in value and said(trip.last) for word, said in SAID.items()),
    "stored": lambda trip, value: trip.stored() == value,
    "stored_count": lambda trip, value: len(trip.stored()) == value,
    "must": lambda trip, value: True,  # in words: each has a test of its own below
}


def failing(expect: Case, trip: Trip) -> list[str]:
    """Return the expectations that do not hold; an unknown one does not."""
    known = ((key, value, CHECKS.get(key)) for key, value in expect.items())
    return [f"{key}={value!r}" for key, value, check in known if check is None or not check(trip, value)]


def one_trip(crawl: Crawl, journeys: list[Journey], case: Case) -> list[Trip]:
    return [Trip(crawl, journey) for journey in journeys if journey.case["id"] == case["id"]]


def run_exchange(case: Case, request: pytest.FixtureRequest) -> None:
    """The kinds http and frontier: a server with raw answers, whole cycles."""
    name = "revisited" if "conditional" in case["input"] else "crawled"
    [trip] = one_trip(*request.getfixturevalue(name), case)
    expect = {**case["expect"]}
    if "connections_to_listed" in expect:
        expect.pop("outcome")  # of the address that the redirect led to, which is another host's capture
        leads_to = trip.last["fetch_redirect"]
        assert leads_to and trip.refused(leads_to)
    assert failing(expect, trip) == [], trip.rows


def run_links(case: Case, request: pytest.FixtureRequest) -> None:
    """A page with links: what is asked for is what was found, to the letter."""
    folder = request.getfixturevalue("tmp_path")
    host = f"{case['id']}.example"
    links, wanted = case["input"]["links"], case["expect"]["requests"]
    html = "".join(f'<a href="{link.replace("&", "&amp;")}">x</a>' for link in links)
    journey = Journey(case, {host: {"GET /start": page(html)}}, [(host, "/start")])
    travel(Crawl.begin(folder), [journey], cycles=2)
    seen = journey.targets()[1:]
    assert set(wanted) <= set(seen) <= set(links)
    sort = urls.CanonPolicy(sort_query=case["input"]["query_sorting"] == "on")
    assert (
        len({urls.url_key(f"http://{host}{link}", policy=sort) for link in links}) == case["expect"]["keys"]
    )


# --- robots.txt ---------------------------------------------------------------------------------------------


def run_robots(case: Case, request: pytest.FixtureRequest) -> None:
    """The kinds robots and robots-generated: through the cycle where one agent asks, and by the rules."""
    if "delay_s" in case["expect"]:
        return run_delays(case, request)
    if "agents" in case["input"]:
        return run_agents(case)
    trips = one_trip(*request.getfixturevalue("crawled"), case)
    allowed = case["expect"]["allowed"]
    for number, trip in enumerate(trips):
        wanted = allowed[number] if isinstance(allowed[0], list) else allowed
        rows = [row for host in trip.journey.hosts for row in trip.crawl.captures(host)]
        verdict = {target_of(row["url"]) if len(trip.journey.hosts) == 1 else row["url"].split("/")[2].split(":")[0]: row["outcome"] != "robots_denied" for row in rows}  # fmt: skip
        asked = [one if len(trip.journey.hosts) == 1 else one.split("/")[2] for one in case["input"]["urls"]]
        found = [verdict.get(one) for one in asked]
        assert all(want in ("either", got) for want, got in zip(wanted, found, strict=True)), (wanted, found)
    hops = case["expect"].get("hops")
    if hops is not None:
        [told] = trips[0].crawl.rows(
            f"select max(hop) n from captures where kind = 'robots' and host = '{trips[0].host}'"
        )
        assert told["n"] == hops


def run_agents(case: Case) -> None:
    """Several agents read one file, in both orders of its groups."""
    data, expect = case["input"], case["expect"]
    star, rest = data["robots"].split("# one named crawler\n")
    for text in (data["robots"], f"{rest}\n{star}"):
        rules = Rules.parse(text.encode())
        delays = [rules.crawl_delay_ms(agent) for agent in data["agents"]]
        assert delays == [None if one is None else 1_000 * one for one in expect["crawl_delay"]]
        for agent, verdicts in expect["allowed"].items():
            assert {
                url: rules.allows(f"http://a.example{url}", agent).allowed for url in verdicts
            } == verdicts


def run_delays(case: Case, request: pytest.FixtureRequest) -> None:
    """Crawl-delays: the pause that a cycle keeps; one too long for the window costs the host its turn, visibly."""
    floor = case["input"]["configured"]["min_delay_s"]
    journeys = journey_of(case, FOLDER)
    crawl = Crawl.begin(
        request.getfixturevalue("tmp_path"),
        set_={"delay.floor_ms": str(1_000 * floor), "window.seconds": "4"},
    )
    travel(crawl, journeys)
    for journey, wanted in zip(journeys, case["expect"]["delay_s"], strict=True):
        [host] = crawl.rows(
            f"select delay_ms, delay_reason from hosts where host = '{next(iter(journey.hosts))}'"
        )
        if isinstance(wanted, str):
            assert journey.targets() == []
            assert host["delay_reason"] == "crawl_delay"
            assert host["delay_ms"] > 1_000 * case["input"]["configured"]["max_delay_s"]
        else:
            assert host["delay_ms"] == 1_000 * wanted


# --- URLs ---------------------------------------------------------------------------------------------------


def run_canon(case: Case, request: pytest.FixtureRequest) -> None:
    """The kind url-canon: the wire form, the key, the Host header."""
    given, expect = case["input"]["urls"], case["expect"]
    wired = [urls.wire(url) for url in given]
    assert all(url is None or urls.wire(url) == url for url in wired)
    assert all(urls.canonical(urls.canonical(url)) == urls.canonical(url) for url in wired if url)
    for url, allowed in zip(wired, expect.get("any_of_each", [[url] for url in wired]), strict=True):
        assert url in allowed
    assert wired == expect.get("canonical", wired)
    for url, header in zip(wired, expect.get("host_header", ()), strict=False):
        assert (urls.site_of(url).partition("//")[2] if url else None) == header
    if "distinct_keys_default" in expect:
        assert len({urls.url_key(url) for url in wired if url}) == expect["distinct_keys_default"]
        assert list(dict.fromkeys(target_of(url) for url in wired if url)) == expect["request_targets"]


def run_resolve(case: Case, request: pytest.FixtureRequest) -> None:
    """The kind url-resolve: a reference joined to its base, and what the archive names it."""
    found = urls.resolve_location(case["input"]["base"], case["input"]["reference"])
    assert found == case["expect"]["url"]
    assert urls.host_of(warc.target_uri(found)) != ""


def run_host_key(case: Case, request: pytest.FixtureRequest) -> None:
    """The kind host-key: one host, one queue, one robots.txt."""
    found = [urls.host_of(urls.wire(url) or "") for url in case["input"]["urls"]]
    assert found == case["expect"].get("host_keys", found)
    assert len({urls.host_key(host) for host in found}) == len(set(found)) == 1
    for name in ("tls_server_name", "host_header"):
        assert case["expect"].get(name, found[0]) == found[0]


def run_values(case: Case, request: pytest.FixtureRequest) -> None:
    """The kind values: a list of stored values and what each is sent as."""
    given, wanted = case["input"]["stored_from_header"], case["expect"]["if_modified_since"]
    for text, allowed in zip(given, wanted, strict=True):
        assert dates.if_modified_since(text) in (allowed if isinstance(allowed, list) else [allowed]), text


# --- pages, sitemaps, traps ---------------------------------------------------------------------------------


def run_html(case: Case, request: pytest.FixtureRequest) -> None:
    """The kind html: links, canonical URL and refresh of each page."""
    for number, served in enumerate(case["input"]["pages"]):
        read = read_page(
            served["html"].encode(), url=served["url"], content_type="text/html; charset=utf-8",
            link_header=None, policy=PagePolicy(),
        )  # fmt: skip
        expect = {key: value[number] for key, value in case["expect"].items() if isinstance(value, list)}
        if "links" in expect:
            assert [link.url for link in read.links if link.kind == "a"] == expect["links"]
        if "canonical" in expect:
            assert read.canonical == expect["canonical"]
        if "refresh" in expect:
            found = [link.url for link in read.links if link.kind == "refresh"]
            assert found == ([expect["refresh"]] if expect["refresh"] else [])


def run_encoding(case: Case, request: pytest.FixtureRequest) -> None:
    """The kind html-encoding: the character set and the title read with it."""
    pages = zip(case["input"]["pages"], case["expect"]["encoding"], case["expect"]["title"], strict=True)
    for served, encoding, title in pages:
        body = served["html_latin1"].encode("latin-1")
        assert charset_of(body, content_type=served["header"])[0] == encoding.split()[0]
        read = read_page(
            body,
            url="http://a.example/",
            content_type=served["header"],
            link_header=None,
            policy=PagePolicy(),
        )
        assert read.title == title and read.charset == encoding.split()[0]


def run_sitemap(case: Case, request: pytest.FixtureRequest) -> None:
    """The kind sitemap: its URLs, and what is believed of what it says."""
    data, expect = case["input"], case["expect"]
    bounds = data["configured"]
    policy = SitemapPolicy(
        min_interval_seconds=bounds["min_interval_s"], max_interval_seconds=bounds["max_interval_s"]
    )
    now_ms = round(datetime.fromisoformat(data["now"].replace("Z", "+00:00")).timestamp() * 1_000)
    served = [data["sitemap"].encode()]
    found = list(stream(served, url="http://www.example.com/sitemap.xml", policy=policy, now_ms=now_ms))
    assert len(found) == expect["eligible"]
    assert [entry.lastmod for entry in found] == expect["lastmod_used"]
    for entry, wanted in zip(found, expect["priority_used"], strict=True):
        assert str(entry.priority) in str(wanted).split(" or ")
    low, high = expect["interval_s_within"]
    hints = [interval_seconds(policy, changefreq=entry.changefreq) for entry in found]
    assert all(hint is None or low <= hint <= high for hint in hints)


def run_classify(case: Case, request: pytest.FixtureRequest) -> None:
    """The kind urls-classify: which URLs are traps."""
    trapped = [trap_of(shape_of(url)) is not None for url in case["input"]["chain"]]
    assert True in trapped[: case["expect"]["stop_at_or_before_index"] + 1]
    assert [url for url in case["input"]["keep"] if trap_of(shape_of(url))] == []


# --- schedule, archive --------------------------------------------------------------------------------------


@pytest.fixture
def in_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Make the process believe to be in a time zone."""

    def move(zone: str) -> None:
        monkeypatch.setenv("TZ", zone)
        time.tzset()

    yield move
    monkeypatch.undo()
    time.tzset()


def state_of_new(url: str, *, source: str = "seed") -> dict[str, Any]:
    """Return a frontier row that was never asked."""
    counts = dict.fromkeys(("depth", "visits", "changes", "failures", "visit_seconds"), 0)
    nothing = dict.fromkeys(
        ("first_visit_at", "last_visit_at", "last_change_at", "last_digest", "etag", "last_modified", "meta")
    )
    return {"url": url, "source": source, **counts, **nothing}


def visited(
    state: dict[str, Any], capture: dict[str, Any], recrawl: RecrawlPolicy
) -> tuple[str, dict[str, Any]]:
    """Return the shelf and the new state of one URL after its visit."""
    states = pa.Table.from_pylist([state], schema=STATE)
    captures = pa.Table.from_pylist([capture], schema=CAPTURES.arrow)
    rows, shelf = after_visits(
        states, captures, recrawl=recrawl, retry=RetryPolicy(), prices=np.zeros(1), well=np.zeros(1, bool)
    )
    return str(shelf[0]), rows.to_pylist()[0]


def capture_of(outcome: Outcome, at: datetime, status: int | None = 200) -> dict[str, Any]:
    """Return what decides where a URL goes."""
    nothing = dict.fromkeys(("content_digest", "etag", "last_modified", "error", "fetch_redirect"))
    return {"outcome": outcome.value, "fetch_time": at, "fetch_status": status, **nothing}


def run_schedule(case: Case, request: pytest.FixtureRequest) -> None:
    """The kind schedule: when a URL comes again."""
    if "TZ" in case["input"]:
        for zone in case["input"]["TZ"]:
            request.getfixturevalue("in_zone")(zone)
            _due_after_interval(case)
        return
    for seed in case["input"]["seeds"]:
        tries = seed_tries(seed, days=case["input"]["days"])
        assert len(tries) > 1, seed
        later = [one for one in tries if one > timedelta(days=7)]
        assert all(after - before >= timedelta(days=7) for before, after in pairwise(later)), (seed, tries)


def _due_after_interval(case: Case) -> None:
    for told, wanted in zip(case["input"]["cases"], case["expect"]["next_due"], strict=True):
        last = datetime.fromisoformat(told["last_fetch"].replace("Z", "+00:00"))
        recrawl = RecrawlPolicy(first_seconds=told["interval_s"], min_seconds=1)
        _, after = visited(state_of_new("http://a.example/"), capture_of(Outcome.OK, last), recrawl)
        assert after["due_at"] == datetime.fromisoformat(wanted.replace("Z", "+00:00"))


def seed_tries(seed: dict[str, Any], *, days: int) -> list[timedelta]:
    """Return when a seed that always fails alike is asked within so many days."""
    status = seed["status"] if isinstance(seed["status"], int) else None
    outcome = {301: Outcome.REDIRECT, 404: Outcome.NOT_FOUND, 500: Outcome.SERVER_ERROR, None: Outcome.DNS_NXDOMAIN}[status]  # fmt: skip
    begin = at = datetime(2026, 3, 1, tzinfo=UTC)
    state, tries = state_of_new(seed["url"]), []
    while at < begin + timedelta(days=days):
        tries.append(at - begin)
        shelf, state = visited(state, capture_of(outcome, at, status), RecrawlPolicy())
        assert shelf in ("ready", "later"), seed
        pause = probe_seconds(ProbePolicy(), failures=len(tries))  # of the host, while its URL stays on ready
        at = state["due_at"] if shelf == "later" else at + timedelta(seconds=pause)
    return tries


def run_warc(case: Case, request: pytest.FixtureRequest) -> None:
    """The kind warc: a page, then 304: what the archive says of the second visit."""
    first, second, expect = case["input"]["first"], case["input"]["second"], case["expect"]
    host, target = "warc.example", target_of(first["url"])
    answer = f"HTTP/1.1 {second['status']} Not Modified\r\nETag: {second['etag']}\r\n\r\n".encode()
    routes = {
        f"GET {target} (no If-None-Match)": page(first["payload_text"], headers=f"ETag: {first['etag']}\r\n"),
        f"GET {target} (If-None-Match)": answer,
    }
    crawl = Crawl.begin(request.getfixturevalue("tmp_path"))
    travel(crawl, [Journey(case, {host: dict(routes)}, [(host, target)])], cycles=2, ahead=14)
    stored, again = crawl.captures(host)
    record = crawl.record(again)
    assert record.header("WARC-Type") == expect["warc_type"]
    assert (record.header("WARC-Profile") or "").endswith("/revisit/server-not-modified")
    digest = record.header("WARC-Payload-Digest")
    assert digest in (None, f"sha1:{stored['content_digest']}") and digest != expect["never"]
    assert all(record.header(name) for name in expect["refers_to"])
    assert record.header("WARC-Refers-To-Date") == warc.warc_date(stored["request_ms"])


# --- every case has a runner --------------------------------------------------------------------------------

Runner = Callable[[Case, pytest.FixtureRequest], None]
RUNNERS: dict[str, Runner] = {
    "http": run_exchange, "frontier": run_exchange, "robots": run_robots, "robots-generated": run_robots,
    "url-canon": run_canon, "url-resolve": run_resolve, "host-key": run_host_key, "values": run_values,
    "html": run_html, "html-encoding": run_encoding, "sitemap": run_sitemap, "urls-classify": run_classify,
    "schedule": run_schedule, "warc": run_warc,
}  # fmt: skip


def runner_of(case: Case) -> Runner | None:
    """Return what runs a case; None = nothing does."""
    if case["kind"] == "frontier" and "links" in case["input"]:
        return run_links
    return RUNNERS.get(case["kind"])


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in ALL] or [pytest.param(None)])
def test_field_case(case: Case | None, request: pytest.FixtureRequest) -> None:
    shared("field-cases")
    assert case is not None
    run = runner_of(case)
    assert run is not None, f"no runner for cases of the kind {case['kind']}"
    run(case, request)


def test_each_of_the_41_case_files_has_a_runner() -> None:
    shared("field-cases")
    assert [case["id"] for case in ALL if runner_of(case) is None] == []
    assert [Path(case["id"] + ".json").stem for case in ALL] == [
        path.stem for path in sorted(FOLDER.glob("*.json"))
    ]
    assert len(ALL) >= COUNT


# --- what the cases say in words ----------------------------------------------------------------------------


def test_compressed_bytes_are_never_stored_as_if_they_were_html(crawled: tuple[Crawl, list[Journey]]) -> None:
    crawl, _ = crawled
    for row in crawl.rows("select * from captures where outcome = 'ok' and kind = 'page'"):
        html = "html" in (row["content_mime_type"] or "") and row["title"] is not None
        assert not html or "\x1f\x8b" not in crawl.text(row)[:2], row["url"]


def test_what_arrived_of_a_broken_answer_is_kept_and_marked(crawled: tuple[Crawl, list[Journey]]) -> None:
    crawl, _ = crawled
    [row] = crawl.captures("http-content-length-too-large.example")
    assert row["content_truncated"] == "disconnect" and "harvest" in crawl.text(row)


def test_one_case_does_not_stop_another(crawled: tuple[Crawl, list[Journey]]) -> None:
    crawl, journeys = crawled
    hosts = {host for journey in journeys for host in journey.hosts}
    assert {row["host"] for row in crawl.rows("select distinct host from captures")} >= hosts


def test_a_seed_that_fails_is_on_no_retired_shelf_after_two_years(tmp_path: Path) -> None:
    gone = b"HTTP/1.1 %d X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    hosts = {f"s{status}.example": {"GET /feed": gone % status} for status in (404, 410, 500)}
    crawl = Crawl.begin(tmp_path, set_={"retry.tries": "2", "window.seconds": "5"})
    journey = Journey(
        {}, {host: dict(routes) for host, routes in hosts.items()}, [(host, "/feed") for host in hosts]
    )
    travel(crawl, [journey], cycles=4, ahead=200)
    assert [row["url"] for row in crawl.rows("select url from frontier_retired")] == []
    assert all(len(journey.targets(host)) == 4 for host in hosts)


def test_a_crawl_delay_is_never_shorter_than_the_floor_and_kept_in_full() -> None:
    policy = DelayPolicy(floor_ms=1_000)
    assert [next_delay(policy, crawl_delay_ms=ms, first_byte_ms=0, backoff_ms=0).ms for ms in (0, 500, 7_000, 300_000_000)] == [1_000, 1_000, 7_000, 300_000_000]  # fmt: skip
