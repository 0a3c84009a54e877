"""What is set aside and what comes back: dead hosts, and patterns whose samples are tried again."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.cycle.hoststate import Item
from pipelines.cycle.watch import EQUAL_PAGES, NO_PAGE, UNLIKE, Watch
from pipelines.net.exchange import Exchange
from pipelines.rules.outcome import Outcome
from pipelines.rules.traps import Quarantines, YieldPolicy
from tests.cycle.wheels import faults
from tests.field_cases.journeys import ADDRESS, Crawl, page, serving, settings_of
from tests.net.raw_server import RawServer


def item(url: str, *, source: str = "link", hop: int = 0, via: str | None = None) -> Item:
    return Item(url, "a.example", hash(url) & 0xFFFF, 0, source=source, hop=hop, via=via)


def see(watch: Watch, one: Item, body: bytes, *, digest: str, title: str = "", links=()):
    exchange = Exchange(one.url, outcome=Outcome.OK, started_ms=0)
    return watch.see(one, exchange, body, digest=digest, title=title, links=links)


def pages(count: int) -> list[tuple[str, bytes]]:
    return [
        (f"http://a.example/day/{n}", f"<title>Day {n}</title>nothing on {n}".encode()) for n in range(count)
    ]


def test_a_pattern_is_left_when_its_pages_differ_in_digits_only() -> None:
    watch = Watch(1, YieldPolicy(min_fetches=10))
    for url, body in pages(30):
        see(watch, item(url), body, digest=url)
    assert watch.refuses(item("http://a.example/day/99"))
    assert not watch.refuses(item("http://a.example/day/99", source="seed"))
    assert not watch.refuses(item("http://a.example/other"))


def test_new_links_keep_a_pattern_and_known_ones_do_not() -> None:
    for new in (True, False):
        watch = Watch(1, YieldPolicy(min_fetches=10))
        watch.is_new = lambda key, new=new: new
        for number, (url, body) in enumerate(pages(30)):
            see(
                watch,
                item(url),
                body,
                digest=url,
                links=[(number, f"http://a.example/item-{number}", "a.example")],
            )
        assert watch.refuses(item("http://a.example/day/99")) is not new


def test_a_page_unlike_any_in_size_is_not_compared() -> None:
    watch = Watch(1, YieldPolicy())
    assert see(watch, item("http://a.example/1"), b"x" * 100, digest="1").skeleton == UNLIKE
    assert see(watch, item("http://a.example/2"), b"x" * 500, digest="2").skeleton == UNLIKE
    assert (see(watch, item("http://a.example/3"), b"x" * 501, digest="3").skeleton or 0) > 0
    assert see(watch, item("http://a.example/4"), b"x" * 501, digest="3").skeleton > 0
    assert (
        see(watch, item("http://a.example/5"), b"x", digest="5", title="Page not found").skeleton == NO_PAGE
    )


def test_notes_name_what_a_page_is() -> None:
    watch = Watch(1, YieldPolicy())
    assert see(watch, item("http://a.example/x"), b"a", digest="1", title="Page not found").notes == (
        "soft_404: the title says 'Page not found'"
    )
    see(watch, item("http://a.example/p"), b"b", digest="2")
    assert (
        see(watch, item("http://a.example/q", via="http://a.example/p"), b"b", digest="2").notes
        == "same_as_referrer"
    )
    assert see(watch, item("http://a.example/login?next=/q", hop=1), b"c", digest="3").notes == (
        "login: redirected to /login"
    )


def test_one_page_under_many_addresses_is_noted_as_not_found() -> None:
    watch = Watch(1, YieldPolicy())
    notes = [
        see(watch, item(f"http://a.example/{word}"), b"sorry", digest="1").notes for word in "abcdefghij"
    ]
    assert notes[0] is None and notes[-1] is not None and notes[-1].startswith("soft_404: ")
    assert sum(note is not None for note in notes) <= len(notes) - EQUAL_PAGES


def shelves(crawl: Crawl, host: str) -> dict[str, str]:
    """Return the shelf of each URL of a host, with the reason."""
    found = {}
    for shelf in ("ready", "backlog", "later", "retired"):
        for row in crawl.rows(f"select url, reason from frontier_{shelf} where host = '{host}'"):
            found[row["url"].rpartition("/")[2]] = f"{shelf} {row['reason']}" if shelf == "retired" else shelf
    return found


def test_a_host_that_fails_too_long_is_retired_and_comes_back_when_it_answers(tmp_path: Path) -> None:
    set_ = {"health.retire_days": "2", "window.seconds": "4"}
    crawl = Crawl.begin(tmp_path, set_=set_)
    dead = RawServer({"GET /a": page("<p>here again")}, address=ADDRESS)
    front = RawServer({}, address=ADDRESS)
    with serving([front, dead]):
        links = "".join(f'<a href="http://dead.test:{dead.port}/{name}">x</a>' for name in "abc")
        front.routes = {"GET /": page(links)}
        crawl.seed([f"http://live.example:{front.port}/"])
        crawl.cycle()
        crawl.cycle()
        assert shelves(crawl, "dead.test") == dict.fromkeys("abc", "ready")
        crawl.cycle(days_ahead=5)
        assert shelves(crawl, "dead.test") == dict.fromkeys("abc", "retired host_gone")
        [told] = crawl.rows("select detail from frontier_retired where url like '%/a'")
        assert told["detail"].startswith("dns_") and "failures in a row" in told["detail"]
        assert faults(crawl.path) == []
        crawl.settings = settings_of(tmp_path, set_, names=("*.example", "dead.test"))
        crawl.seed([f"http://dead.test:{dead.port}/a"])
        crawl.cycle(days_ahead=40)
    assert shelves(crawl, "dead.test") == {"a": "later", "b": "ready", "c": "ready"}
    assert faults(crawl.path) == []


@pytest.fixture(scope="module")
def sampled(tmp_path_factory: pytest.TempPathFactory) -> Crawl:
    """A host whose days say nothing, in cycles until their sample was tried."""
    crawl = Crawl.begin(
        tmp_path_factory.mktemp("sample"),
        set_={
            "traps.min_fetches": "30",
            "traps.sample_cycles": "1",
            "window.seconds": "6",
            "delay.floor_ms": "20",
        },
    )
    days = [f"/day/{n}" for n in range(70)]
    routes = {f"GET {day}": page(f"<title>Day {day[5:]}</title><p>nothing") for day in days}
    routes["GET /"] = page("".join(f'<a href="{day}">x</a>' for day in days))
    server = RawServer(routes, address=ADDRESS)
    with serving([server]):
        crawl.seed([f"http://days.example:{server.port}/"])
        for _ in range(4):
            crawl.cycle()
    return crawl


def test_a_sample_of_what_was_set_aside_is_tried_again(sampled: Crawl) -> None:
    rows = sampled.rows(
        "select cycle, count(*) n from captures where url like '%/day/%' group by cycle order by cycle"
    )
    assert [row["n"] for row in rows][1:] == [3], rows


def test_a_sample_that_brought_nothing_puts_the_next_one_off(sampled: Crawl) -> None:
    [host] = sampled.rows("select traps from hosts where host = 'days.example'")
    found = Quarantines.from_json(host["traps"]).by_pattern["/day/0"]
    assert found.misses >= 1 and found.sample > found.since + 1
    [told] = sampled.rows("select count(*) n from frontier_retired where reason = 'trap:yield'")
    assert told["n"] >= 70 - 40


def test_p2_holds_when_samples_leave_the_retired_shelf(sampled: Crawl) -> None:
    assert faults(sampled.path) == []
