"""A sitemap that tells of a change calls forward what waits on the later shelf, as far as it may be believed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lake import inbox, snapshot
from pipelines.cycle import open as cycle_open
from pipelines.cycle.calling import ROWS_A_CANDIDATE, trust_by_host
from tests.cycle import crash_driver
from tests.cycle.crash_driver import Death, Job
from tests.cycle.wheels import faults
from tests.field_cases.journeys import ADDRESS, DAY_MS, Crawl, now_ms, page, serving
from tests.net.raw_server import RawServer

PAGES, FIRST_DAYS = 11, 30
NEWS, OLD, TO_COME = "/p0", "/p2", "/p3"
"""Pages of which the sitemap says: changed since the visit; changed before it; will change. Of the others, nothing."""


@dataclass
class Site:
    """A host with pages and a sitemap, and a crawl of it."""

    crawl: Crawl
    server: RawServer
    host: str = "news.example"

    def url(self, target: str) -> str:
        return f"http://{self.host}:{self.server.port}{target}"

    def tell(self, name: str, lastmods: dict[str, datetime], *, pages: int = PAGES) -> None:
        """Put up a sitemap of the first pages and name it to the crawl, which asks for it in its next cycle."""
        rows = "".join(
            f"<url><loc>{self.url(target)}</loc>"
            + (f"<lastmod>{lastmods[target]:%Y-%m-%dT%H:%M:%SZ}</lastmod>" if target in lastmods else "")
            + "</url>"
            for target in (f"/p{number}" for number in range(pages))
        )
        body = f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{rows}</urlset>'
        answer = page(body).replace(b"text/html", b"application/xml")
        self.server.routes = {**self.server.routes, f"GET /{name}": answer}
        row = {"url": self.url(f"/{name}"), "source": "sitemap"}
        inbox.put(self.crawl.path, [row], kind="seed", now_ms=now_ms())

    def later(self) -> dict[str, dict[str, Any]]:
        rows = self.crawl.rows("select * from frontier_later")
        return {"/" + row["url"].split("/", 3)[3]: row for row in rows}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    routes = {f"GET /p{number}": page(f"page {number}") for number in range(PAGES)}
    crawl = Crawl.begin(
        tmp_path,
        set_={"recrawl.first_days": str(FIRST_DAYS), "sitemaps.per_cycle": "5", "delay.floor_ms": "200"},
    )
    made = Site(crawl, RawServer(routes, address=ADDRESS))
    with serving([made.server]):
        made.tell("all.xml", {})
        crawl.cycle()
        crawl.cycle()
        assert len(made.later()) == PAGES
        yield made


def hear(site: Site, name: str = "changes.xml", *, days_ahead: int = 8) -> None:
    """Turn a cycle, some days ahead, in which a sitemap tells of changes."""
    tell_of_changes(site, name)
    site.crawl.cycle(days_ahead=days_ahead)


def tell_of_changes(site: Site, name: str) -> None:
    """Name a sitemap of all pages to the crawl, in which some have changed."""
    visited = site.later()[NEWS]["last_visit_at"].replace(microsecond=0)
    after = visited + timedelta(seconds=1)  # over by now: the host was asked for much else since
    month = timedelta(days=30)
    site.tell(name, {NEWS: after, OLD: visited - month, TO_COME: visited + month})


def moved(before: dict[str, dict[str, Any]], after: dict[str, dict[str, Any]]) -> set[str]:
    """Return the targets whose next visit has another time."""
    return {target for target in after if after[target]["due_at"] != before[target]["due_at"]}


def test_a_lastmod_since_the_visit_calls_a_waiting_url_forward_and_no_other(site: Site) -> None:
    before = site.later()
    hear(site)
    after = site.later()
    assert faults(site.crawl.path) == []
    assert moved(before, after) == {NEWS}
    left = before[NEWS]["due_at"] - datetime.now(UTC) - timedelta(days=8)
    now_left = after[NEWS]["due_at"] - datetime.now(UTC) - timedelta(days=8)
    assert abs(now_left / left - 0.5) < 0.01, "a sitemap that has proved nothing is believed by half"
    visible = {name for name in before[NEWS] if before[NEWS][name] != after[NEWS][name]}
    assert visible == {"due_day", "due_at", "meta"}


def test_the_same_word_calls_once_and_is_answered_by_a_visit(site: Site) -> None:
    hear(site)
    once = site.later()
    hear(site, "the-same.xml", days_ahead=9)
    assert site.later() == once
    site.crawl.cycle(days_ahead=FIRST_DAYS - 8)
    asked = site.crawl.rows("select url from captures where kind = 'page' and cycle = 5")
    assert [row["url"] for row in asked] == [site.url(NEWS)]
    assert faults(site.crawl.path) == []


def test_p7_a_large_file_is_not_written_anew_for_a_short_list(site: Site) -> None:
    before = site.later()
    assert len(before) > ROWS_A_CANDIDATE
    visited = before[NEWS]["last_visit_at"].replace(microsecond=0)
    dates = {NEWS: visited + timedelta(seconds=1), "/p1": visited - timedelta(days=9)}
    site.tell("one.xml", dates, pages=1)
    site.crawl.cycle(days_ahead=8)
    assert moved(before, site.later()) == set()
    site.tell("two.xml", dates, pages=2)
    site.crawl.cycle(days_ahead=8)
    assert moved(before, site.later()) == {NEWS}


def test_p4_a_cycle_that_is_killed_when_the_files_have_given_way_is_finished(site: Site) -> None:
    before = site.later()
    tell_of_changes(site, "changes.xml")
    there = snapshot.open(site.crawl.path)
    cycle_open.begin(there, site.crawl.settings, slots=1, now_ms=now_ms() + 8 * DAY_MS)
    job = Job(site.crawl.path, site.crawl.settings.to_json())
    dying = replace(job, death=Death(("after commit frontier_later of 3",)))
    assert crash_driver.run(dying).word == "killed"
    assert moved(before, site.later()) == set(), "readers see whole cycles only"
    assert crash_driver.run(job).word == "done"
    assert moved(before, site.later()) == {NEWS}
    assert faults(site.crawl.path) == []


def test_sitemaps_are_believed_as_far_as_visits_found_the_changes_they_told_of() -> None:
    first, word, last = (datetime(2026, 3, day, tzinfo=UTC) for day in (1, 5, 9))
    meta = f'{{"sitemap":{{"lastmod":{int(word.timestamp())}}}}}'
    row = {"host": "true.example", "meta": meta, "first_visit_at": first, "last_visit_at": last}
    found, missed = {**row, "last_change_at": last}, {**row, "last_change_at": first, "host": "lies.example"}
    silent = {**row, "meta": None, "last_change_at": None, "host": "new.example"}
    unvisited = {**silent, "meta": meta, "first_visit_at": None, "last_visit_at": None}
    trust = trust_by_host([found] * 8 + [missed] * 8 + [silent, unvisited])
    assert trust == {"true.example": 0.9, "lies.example": 0.1, "new.example": 0.5}
