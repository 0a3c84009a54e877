"""Traps in whole cycles on the toy web: found within 200 fetches, and good URLs are not lost with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from pipelines.toyweb import Mix, ToyWeb, serve_in_thread
from pipelines.toyweb.hosts import Kind
from pipelines.toyweb.pages import EXTRA_PATHS
from tests.cycle.wheels import Crawl, faults, new_lake, settings_for, turn

KINDS = (
    Kind.CALENDAR, Kind.SEGMENTS, Kind.SESSIONS, Kind.FACETS, Kind.SOFT404, Kind.PAGER, Kind.LOGIN,
)  # fmt: skip
FAST = {
    "delay.floor_ms": "8",
    "delay.address_floor_ms": "0",
    "window.seconds": "9",
    "sitemaps.per_cycle": "0",
}
MOST = 200
"""Fetches within which a trap must be left."""


@pytest.fixture(scope="module")
def trapped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crawl]:
    """Cycles over a web of plain and trap hosts, entered at the traps' doors too."""
    web = ToyWeb(hosts=16, seed=5, mix=Mix(kinds=KINDS, steady=True, change=0.0, sharing=0))
    folder = tmp_path_factory.mktemp("traps")
    settings = settings_for(web, folder, FAST)
    with serve_in_thread(web) as server:
        doors = [
            f"http://{host.name}:{server.port}{path}"
            for host in web.hosts
            for path in EXTRA_PATHS.get(host.kind, ())
            if host.kind in KINDS
        ]
        path = new_lake(folder, settings, [*web.seeds(server.port, all_hosts=True), *doors])
        reports = [turn(path, settings) for _ in range(5)]
        yield Crawl(web, server, settings, path, reports)


def trap_fetches(crawl: Crawl) -> Counter[tuple[str, str]]:
    """Return the requests into traps, by host and trap."""
    found: Counter[tuple[str, str]] = Counter()
    for row in crawl.server.log.rows():
        name = row.host.partition(":")[0]
        known = crawl.web.known(f"http://{name}:{crawl.server.port}{row.target}")
        if known is not None and known.trap is not None:
            found[name, known.trap] += 1
    return found


def test_each_trap_is_left_within_200_fetches_in_five_cycles(trapped: Crawl) -> None:
    found = trap_fetches(trapped)
    assert {trap for _, trap in found} >= {"calendar", "soft404", "pager"}
    assert {key: count for key, count in found.items() if count > MOST} == {}


def test_a_trap_is_left_in_the_middle_of_a_cycle(trapped: Crawl) -> None:
    days = trapped.rows(
        "select cycle, count(*) n from captures where url like '%/calendar/____/__/__' group by cycle order by cycle"
    )
    assert (
        sum(row["n"] for row in days[:2]) < 50
    )  # 28 days are known after the first month, 56 more after the next
    assert any(report.planned - report.requests > 20 for report in trapped.reports)


def test_fewer_than_one_good_url_in_a_thousand_is_lost(trapped: Crawl) -> None:
    retired = trapped.rows("select url from frontier_retired where reason like 'trap:%'")
    known = [trapped.web.known(row["url"]) for row in retired]
    good = [one.url for one in trapped.web.urls(trapped.server.port) if one.good]
    lost = [one.url for one in known if one is not None and one.good]
    assert len(retired) > 50 and len(good) > 300
    assert len(lost) < 0.001 * len(good), lost


def test_what_is_set_aside_says_why_with_its_numbers(trapped: Crawl) -> None:
    rows = trapped.rows(
        "select url, reason, detail, shelf_cycle from frontier_retired where reason like 'trap:%'"
    )
    assert all(
        row["reason"] == "trap:yield" and "% of the last fetches of /" in row["detail"] for row in rows
    )
    hosts = {
        row["host"]: row
        for row in trapped.rows("select host, traps, yields from hosts where traps is not null")
    }
    assert {row["url"].split("/")[2].partition(":")[0] for row in rows} <= set(hosts)


def test_p2_holds_with_traps(trapped: Crawl) -> None:
    assert faults(trapped.path) == []


def test_soft_404s_are_noted_and_stored(trapped: Crawl) -> None:
    rows = trapped.rows(
        "select notes, warc_filename from captures where url like '%/lost/%' and outcome = 'ok'"
    )
    assert rows and all(row["notes"].startswith("soft_404: ") and row["warc_filename"] for row in rows)


def test_good_pages_have_no_note(trapped: Crawl) -> None:
    rows = trapped.rows("select url, notes from captures where notes is not null and kind = 'page'")
    good = [trapped.web.known(row["url"]) for row in rows]
    assert [one.url for one in good if one is not None and one.good] == []
