"""P8: every URL of a crawled toy web has a story that agrees with the lake, and so has every URL beside it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import EntryPoint
from pathlib import Path

import pyarrow as pa
import pytest

import lake.snapshot
from lake import inbox, staging
from lake.schema import SHELVES
from pipelines import plugins
from pipelines.app import explain_cmd, explain_words
from pipelines.cycle import allot, plan, resolve
from pipelines.cycle import open as opening
from pipelines.cycle.turn import Turn
from pipelines.explain import reads
from pipelines.explain.hosts import HostView, host_table
from pipelines.explain.url import UrlView, explain_url, host_now
from pipelines.net import warc
from pipelines.plugins import SCORERS
from pipelines.rules import urls
from pipelines.settings import Plugins as Conf
from pipelines.toyweb import Mix, ToyWeb, serve_in_thread
from tests.cycle.wheels import Crawl, crawl, new_lake, settings_for, turn

PRIVATE = "10.0.0.1"
"""A host that may not be asked, so that it is ailing without any network."""


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crawl]:
    web = ToyWeb(hosts=24, seed=3, mix=Mix.quick())
    folder = tmp_path_factory.mktemp("explain")
    settings = settings_for(web, folder)
    with serve_in_thread(web) as server:
        seeds = [*web.seeds(server.port, all_hosts=True), f"http://{PRIVATE}/"]
        path = new_lake(folder, settings, seeds)
        yield Crawl(web, server, settings, path, [turn(path, settings) for _ in range(2)])


def story(crawled: Crawl, url: str, **more: int) -> UrlView:
    now_ms = more.pop("now_ms", time.time_ns() // 1_000_000)
    return explain_url(crawled.lake, crawled.settings, url, now_ms=now_ms, **more)


def read_aloud(view: UrlView) -> str:
    lines = [f"{label} {told}" for label, told in explain_words.url_lines(view)]
    return "\n".join([explain_words.headline(view), *lines])


def test_p8_every_admitted_url_is_told_with_its_shelf_and_what_comes_next(crawled: Crawl) -> None:
    checked = 0
    for shelf in SHELVES:
        for row in crawled.rows(
            f"select url, reason, visits from frontier_{shelf} order by url_key limit 15"
        ):
            view = story(crawled, row["url"])
            assert (view.shelf, view.row and view.row["url"]) == (shelf, row["url"])
            assert view.next and view.next.words and view.score
            assert "None" not in read_aloud(view)
            explain_cmd.plain_url(view)
            checked += 1
    assert checked > 30


def test_p8_visited_urls_tell_where_their_records_lie(crawled: Crawl) -> None:
    rows = crawled.rows("select url from frontier_later where reason = 'ok' order by url_key limit 6")
    for row in rows:
        view = story(crawled, row["url"])
        [first, *_] = view.captures
        place = crawled.path / "warc" / first["warc_filename"]
        record = warc.read_at(place, first["warc_record_offset"], first["warc_record_length"])
        assert record.url == first["url"]
        assert explain_words.headline(view).startswith("Crawled ")


def test_the_terms_of_the_score_add_up_and_the_band_is_theirs(crawled: Crawl) -> None:
    for row in crawled.rows("select url from frontier_ready order by url_key limit 6"):
        score = story(crawled, row["url"]).score
        assert score is not None
        assert sum(score.terms.values()) == pytest.approx(score.score, abs=1e-6)


def test_no_two_urls_of_a_host_have_one_place_in_its_queue(crawled: Crawl) -> None:
    [host] = crawled.rows("select host from frontier_ready group by host order by count(*) desc limit 1")
    now_ms = time.time_ns() // 1_000_000
    rows = crawled.rows(f"select url from frontier_ready where host = '{host['host']}' limit 15")
    places = [place for row in rows if (place := story(crawled, row["url"], now_ms=now_ms).place)]
    assert len({place.place for place in places}) == len(places) == len(rows)
    assert all(1 <= place.place <= place.of for place in places)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/moon.zip", "Not crawled: rule extension refuses it (.zip)."),
        ("/a/a/a/a", "Not crawled: rule repeated_segments refuses it"),
        ("/nobody/links/here", "Never admitted: no seed names it, and no link to it was taken"),
        ("/robots.txt", "Asked for its host's sake"),
    ],
)
def test_p8_a_url_never_admitted_is_told_which_rule_refuses_it(crawled: Crawl, path: str, words: str) -> None:
    [row] = crawled.rows("select url from frontier_later where reason = 'ok' limit 1")
    view = story(crawled, urls.site_of(row["url"]) + path)
    assert words in explain_words.headline(view)
    assert view.shelf is None and view.next is not None


def test_a_url_that_is_no_web_address_is_told_so(crawled: Crawl) -> None:
    view = story(crawled, "ftp://a.test/")
    assert explain_words.headline(view) == "Never crawled: this is no http(s) URL."
    assert read_aloud(view)


def test_another_spelling_that_the_lake_knows_is_named(crawled: Crawl) -> None:
    [row] = crawled.rows("select url from frontier_later where url like '%/' limit 1")
    view = story(crawled, row["url"].removesuffix("/") if row["url"].count("/") > 3 else f"{row['url']}")
    if view.shelf is None:
        assert row["url"] in view.known_as


def test_robots_denied_urls_name_the_line(crawled: Crawl) -> None:
    rows = crawled.rows("select url from frontier_later where reason = 'robots_denied' limit 5")
    for row in rows:
        view = story(crawled, row["url"])
        assert view.robots and view.robots.verdict == "denied" and view.robots.line_no
        assert "robots.txt forbids it (line" in explain_words.headline(view)


def test_hosts_that_cannot_be_asked_say_until_when(crawled: Crawl) -> None:
    ill = crawled.rows("select host, probe_at from hosts where probe_at is not null and health <> 'ok'")
    assert PRIVATE in {row["host"] for row in ill}
    for row in ill:
        view, now = host_now(crawled.lake, crawled.settings, row["host"])
        assert explain_words.host_headline(view, now).startswith("Idle until ")
        assert view.given == 0


@pytest.mark.parametrize(
    ("due", "words"),
    [
        ([], "Idle: none of its URLs is due."),
        (["https://a.test/"], "Idle until 1970-01-01 00:01:00 UTC"),
        (["https://a.test/", "http://a.test/", "http://a.test/x"], "Well: the next cycle has 2 URLs of it"),
    ],
)
def test_a_host_is_idle_only_if_every_site_with_due_urls_is_out_of_reach(due: list[str], words: str) -> None:
    later = datetime.fromtimestamp(60, UTC)
    row = {"robots": [{"site": "https://a.test", "state": "unreachable", "expires_at": later}]}
    view = HostView("a.test", row, pa.table({"url": pa.array(due, pa.string())}), None, 5, ())
    assert explain_words.host_headline(view, 1_000).startswith(words)


def test_every_host_can_be_told_and_listed(crawled: Crawl) -> None:
    rows, total = host_table(crawled.lake, order="size", most=5)
    assert len(rows) == 5 and total == crawled.lake.rows("hosts")
    assert [row["known_urls"] for row in rows] == sorted((row["known_urls"] for row in rows), reverse=True)
    for row in crawled.rows("select host from hosts"):
        view, now = host_now(crawled.lake, crawled.settings, row["host"])
        told = [explain_words.host_headline(view, now), *map(" ".join, explain_words.host_lines(view, now))]
        assert "None" not in "\n".join(told)
    stranger, now = host_now(crawled.lake, crawled.settings, "nowhere.test")
    assert explain_words.host_headline(stranger, now).startswith("Never met")


def test_what_is_said_to_come_in_the_next_cycle_is_what_the_plan_chooses(tmp_path: Path) -> None:
    web = ToyWeb(hosts=4, seed=5, mix=Mix.plain())
    with serve_in_thread(web) as server:
        done = crawl(web, server, tmp_path, cycles=1, overrides={"window.seconds": "2"})
    now_ms = time.time_ns() // 1_000_000
    views = [story(done, row["url"], now_ms=now_ms) for row in done.rows("select url from frontier_ready")]
    placed = {view.row["url_key"]: view.place for view in views if view.row and view.place}
    said = {key for key, place in placed.items() if place.place <= place.given}
    planned = planned_keys(opening.begin(done.lake, done.settings, slots=1, now_ms=now_ms))
    assert 0 < len(said) < len(placed) == len(views)
    assert said == planned & set(placed)
    again = [story(done, view.asked, now_ms=now_ms).open_cycle for view in views]
    assert sum(one is not None and one.partition is not None for one in again) == len(said)


def planned_keys(turn: Turn) -> set[int]:
    """Plan an open cycle in this process; return the keys it chose."""
    plan.intake(turn)
    for step in (plan.demand, resolve.resolve):
        for group in range(turn.groups):
            step(turn, group)
    allot.allot(turn)
    keys: set[int] = set()
    for group in range(turn.groups):
        plan.select(turn, group)
        rows = staging.read_table(turn.staged("plan", f"urls-{group:04d}.arrow"), columns=["url_key"])
        keys |= set(rows["url_key"].to_pylist())
    return keys


def test_the_inbox_and_an_open_cycle_are_told(tmp_path: Path) -> None:
    web = ToyWeb(hosts=2, seed=1, mix=Mix.plain())
    settings = settings_for(web, tmp_path)
    path = new_lake(tmp_path, settings, ["http://a.test/seed"])
    held = lake.snapshot.open(path)
    view = explain_url(held, settings, "http://a.test/seed#x", now_ms=1_000)
    assert view.inbox == 1 and view.next and view.next.what == "take_in"
    assert "waits in the inbox" in explain_words.headline(view)
    opening.begin(held, settings, slots=1, now_ms=1_000)
    view = explain_url(held, settings, "http://a.test/seed", now_ms=2_000)
    assert view.open_cycle and not view.open_cycle.running and view.open_cycle.partition is None
    assert "was interrupted" in read_aloud(view)
    inbox.drain(path, inbox.pending(path))


def test_reads_touch_only_the_buckets_files(crawled: Crawl) -> None:
    held = crawled.lake
    [row] = crawled.rows("select url_key, host from frontier_later limit 1")
    found = reads.shelf_of(held, row["url_key"])
    assert found is not None and found[1]["url_key"] == row["url_key"]
    assert reads.shelf_of(held, row["url_key"] ^ 1) is None
    assert reads.was_admitted(held, row["url_key"]) and not reads.was_admitted(held, row["url_key"] ^ 1)


def test_a_scorer_plugin_adds_a_term_that_is_named(crawled: Crawl, monkeypatch: pytest.MonkeyPatch) -> None:
    points = [EntryPoint("fond", f"{__name__}:Fond", SCORERS)]
    monkeypatch.setattr(plugins, "installed", lambda: points)
    settings = replace(crawled.settings, plugins=Conf(enabled=("fond",)))
    [row] = crawled.rows("select url from frontier_ready order by url_key limit 1")
    score = explain_url(crawled.lake, settings, row["url"], now_ms=time.time_ns() // 1_000_000).score
    assert score is not None and score.terms["plug-in fond"] == 2.5
    assert sum(score.terms.values()) == pytest.approx(score.score, abs=1e-6)


class Fond:
    """Likes every URL alike."""

    def __init__(self, options: dict[str, str]) -> None:
        pass

    def score(self, rows: pa.Table) -> list[float]:
        return [2.5] * rows.num_rows
