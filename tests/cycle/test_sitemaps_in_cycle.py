"""Sitemaps in whole cycles on the toy web: the truth says what they list, the server's log what was asked."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from lake import inbox, snapshot
from lake.errors import LeaseLost
from pipelines.cycle import allot, plan, resolve
from pipelines.cycle import open as opening
from pipelines.cycle.fetch import FetchTask, fetch_partition
from pipelines.cycle.turn import Turn
from pipelines.rules import metadata, urls
from pipelines.toyweb import Mix, ToyWeb, judge, serve_in_thread
from pipelines.toyweb import sitemaps as toy_sitemaps
from pipelines.toyweb.hosts import Sitemap, Validator
from tests.cycle.wheels import Crawl, crawl, faults, new_lake, settings_for, turn

FORMS = {Sitemap.XML, Sitemap.INDEX, Sitemap.GZIP, Sitemap.TEXT, Sitemap.FEED}


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crawl]:
    """Two cycles over a web of plain hosts; the first asks for one page a host only, so all else is the sitemaps' work."""
    web = ToyWeb(hosts=14, seed=3, mix=Mix.plain())
    assert {host.sitemap for host in web.hosts} >= FORMS
    with serve_in_thread(web) as server:
        yield crawl(
            web, server, tmp_path_factory.mktemp("crawl"), cycles=2, overrides={"limits.links_per_page": "0"}
        )


def listed(web: ToyWeb, port: int) -> set[str]:
    """Return every URL that the web's sitemaps list, by the truth."""
    found: set[str] = set()
    for host in web.hosts:
        for target in toy_sitemaps.targets(host):
            known = web.known(f"http://{host.name}:{port}{target}")
            assert known is not None
            found |= {url for url in known.links if "/sitemaps/" not in url}
    return found


def test_every_url_that_a_sitemap_lists_is_known_and_orphans_are_fetched(crawled: Crawl) -> None:
    shelves = " union all ".join(
        f"select url, source, via from frontier_{shelf}" for shelf in ("ready", "backlog", "later", "retired")
    )
    known = {row["url"]: row for row in crawled.rows(shelves)}
    wanted = listed(crawled.web, crawled.server.port)
    assert len(wanted) > 150
    assert wanted <= set(known)
    roots = {url for url, row in known.items() if row["source"] == "seed"}
    assert all(known[url]["source"] == "sitemap" and known[url]["via"] for url in wanted - roots)
    asked = {
        f"http://{row.host.partition(':')[0]}:{crawled.server.port}{row.target}"
        for row in crawled.server.log.rows()
    }
    allowed = {url for url in wanted if (truth := crawled.web.known(url)) is not None and truth.allowed}
    assert allowed <= asked


def test_sitemaps_are_asked_once_and_at_their_hosts_clock(crawled: Crawl) -> None:
    rows = crawled.server.log.rows()
    assert not judge.overlaps(rows)
    assert not judge.violations(rows, judge.delays(crawled.web, floor_ms=100))
    targets = {(host.name, target) for host in crawled.web.hosts for target in toy_sitemaps.targets(host)}
    asked = [(row.host.partition(":")[0], row.target) for row in rows]
    assert {pair for pair in asked if pair in targets} == targets
    assert len([pair for pair in asked if pair in targets]) == len(targets)


def test_the_usual_place_is_tried_once_where_robots_txt_names_none(crawled: Crawl) -> None:
    without = {host.name for host in crawled.web.hosts if host.sitemap is Sitemap.NONE}
    asked = [row.host.partition(":")[0] for row in crawled.server.log.rows() if row.target == "/sitemap.xml"]
    usual = {host.name for host in crawled.web.hosts if host.sitemap is Sitemap.XML}
    assert without and sorted(asked) == sorted(without | usual)


def test_sitemaps_are_archived_and_kept_in_the_host_table(crawled: Crawl) -> None:
    captures = crawled.rows(
        "select url, host, outcome, subset, warc_filename from captures where kind = 'sitemap' and outcome = 'ok'"
    )
    assert captures and all(row["warc_filename"] and row["subset"] == "warc" for row in captures)
    books = {row["host"]: row["sitemaps"] for row in crawled.rows("select host, sitemaps from hosts")}
    for row in captures:
        [copy] = [one for one in books[row["host"]] if one["url"] == row["url"]]
        assert copy["status"] == "ok" and copy["entries"] > 0
        assert (copy["expires_at"] - copy["fetched_at"]).days == 7
    missing = [one for copies in books.values() for one in copies or () if one["source"] == "well_known"]
    assert missing and all((one["expires_at"] - one["fetched_at"]).days == 30 for one in missing)
    indexed = [one for copies in books.values() for one in copies or () if one["source"] == "index"]
    assert len(indexed) >= 2 and all(one["level"] == 1 for one in indexed)


def test_what_a_sitemap_says_of_a_url_is_kept_with_it_and_not_inherited(crawled: Crawl) -> None:
    rows = crawled.rows("select url, meta, host from frontier_later where source = 'sitemap'")
    dated = [row for row in rows if row["meta"]]
    assert dated
    for row in dated:
        hints = metadata.read(row["meta"])["sitemap"]
        assert hints["lastmod"] > 0
        assert metadata.inherited(row["meta"]) is None


def test_the_lake_is_sound(crawled: Crawl) -> None:
    assert faults(crawled.path) == []


def with_seeds(web: ToyWeb, server: Any, folder: Any, rows: list[dict[str, Any]], **overrides: str) -> Crawl:
    settings = settings_for(
        web, folder, {name.replace("__", "."): value for name, value in overrides.items()}
    )
    path = new_lake(folder, settings, [])
    for name in inbox.pending(path):
        inbox.drain(path, [name])
    inbox.put(path, rows, kind="seed")
    return Crawl(web, server, settings, path, [])


def host_with(web: ToyWeb, form: Sitemap) -> str:
    return next(host.name for host in web.hosts if host.sitemap is form)


def test_a_sitemap_given_as_seed_is_asked_though_no_page_of_its_host_is_known(tmp_path: Any) -> None:
    web = ToyWeb(hosts=14, seed=3, mix=Mix.plain())
    with serve_in_thread(web) as server:
        name = host_with(web, Sitemap.GZIP)
        url = f"http://{name}:{server.port}/sitemap.xml.gz"
        seeds = [{"url": url, "source": "sitemap", "meta": {"label": "dk"}}]
        crawled = with_seeds(web, server, tmp_path, seeds)
        crawled.reports.append(turn(crawled.path, crawled.settings))
        assert [row.target for row in server.log.rows()] == ["/robots.txt", "/sitemap.xml.gz"]
        rows = crawled.rows("select url, source, meta, host from frontier_ready")
        assert len(rows) > 10 and {row["source"] for row in rows} == {"sitemap"}
        assert {metadata.label_of(row["meta"]) for row in rows} == {"dk"}
        assert crawled.rows("select label from hosts") == [{"label": "dk"}]
        assert faults(crawled.path) == []


def test_a_sitemap_that_has_not_changed_is_not_sent_again(tmp_path: Any) -> None:
    """Of hosts that give validators; what was listed stays known, and a seed has it read anew."""
    web = ToyWeb(hosts=14, seed=3, mix=Mix.plain())
    with serve_in_thread(web) as server:
        settings = settings_for(web, tmp_path, {"limits.links_per_page": "0", "sitemaps.ttl_days": "0"})
        path = new_lake(tmp_path, settings, web.seeds(server.port, all_hosts=True))
        crawled = Crawl(web, server, settings, path, [])
        for _ in range(2):
            turn(path, settings)
        asked = crawled.rows(
            "select cycle, host, outcome, etag, body_bytes from captures where kind = 'sitemap'"
        )
        read = {row["host"] for row in asked if row["cycle"] == 1 and row["outcome"] == "ok"}
        unchanged = [row for row in asked if row["outcome"] == "not_modified"]
        assert {row["cycle"] for row in unchanged} == {2}
        validated = {host.name for host in web.hosts if host.validator is not Validator.NONE} & read
        assert {row["host"] for row in unchanged} == validated and validated
        assert all(row["body_bytes"] == 0 for row in unchanged)
        books = {row["host"]: row["sitemaps"] for row in crawled.rows("select host, sitemaps from hosts")}
        assert all(
            copy["entries"] for host in validated for copy in books[host] if copy["status"] == "not_modified"
        )
        shelves = " union all ".join(
            f"select url from frontier_{shelf}" for shelf in ("ready", "backlog", "later", "retired")
        )
        assert listed(web, server.port) <= {row["url"] for row in crawled.rows(shelves)}
        again = next(
            copy for host in sorted(validated) for copy in books[host] if copy["status"] == "not_modified"
        )
        inbox.put(path, [{"url": again["url"], "source": "sitemap"}], kind="sitemap")
        turn(path, settings)
        [last] = crawled.rows(f"select outcome from captures where cycle = 3 and url = '{again['url']}'")
        assert last["outcome"] == "ok"
        assert faults(path) == []


def test_a_label_gets_no_more_requests_than_its_budget(tmp_path: Any) -> None:
    web = ToyWeb(hosts=14, seed=3, mix=Mix.plain())
    with serve_in_thread(web) as server:
        names = [host.name for host in web.hosts]
        seeds: list[dict[str, Any]] = [
            {
                "url": f"http://{name}:{server.port}/",
                "source": "seed",
                "meta": {"country": "dk" if at % 2 else "se"},
            }
            for at, name in enumerate(names)
        ]
        crawled = with_seeds(web, server, tmp_path, seeds, budget__labels='{"dk" = 13}')
        for _ in range(2):
            before = len(server.log.rows())
            turn(crawled.path, crawled.settings)
            rows = [row.host.partition(":")[0] for row in server.log.rows()[before:]]
            mine = [name for at, name in enumerate(names) if at % 2]
            assert 7 <= sum(name in mine for name in rows) <= 13
            assert sum(name not in mine for name in rows) > 13
        assert faults(crawled.path) == []


@pytest.mark.parametrize(
    "most", [pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow), 7]
)
def test_a_label_with_more_new_hosts_than_budget_serves_them_in_turns(most: int, tmp_path: Any) -> None:
    web = ToyWeb(hosts=7, seed=3, mix=Mix.plain())
    with serve_in_thread(web) as server:
        seeds = [
            {"url": f"http://{host.name}:{server.port}/", "source": "seed", "meta": {"country": "dk"}}
            for host in web.hosts
        ]
        crawled = with_seeds(web, server, tmp_path, seeds, budget__labels=f'{{"dk" = {most}}}')
        for _ in range(3):
            before = len(server.log.rows())
            turn(crawled.path, crawled.settings)
            assert (
                len(server.log.rows()) - before == most
            )  # robots.txt and pages; nothing of the budget is wasted
        pages = {row.host for row in server.log.rows() if row.target != "/robots.txt"}
        asked = {row.host for row in server.log.rows()}
        assert len(pages) >= min(7, 3 * (most // 2)) and len(asked) >= min(7, 3 * -(-most // 2))


def test_a_feed_given_as_seed_is_read_at_each_visit_and_other_feeds_only_if_asked_for(tmp_path: Any) -> None:
    web = ToyWeb(hosts=14, seed=3, mix=Mix.plain())
    with serve_in_thread(web) as server:
        url = f"http://{host_with(web, Sitemap.FEED)}:{server.port}/feed.rss"
        for place, meta in enumerate(({"feed": "true"}, {})):
            seeds = [{"url": url, "source": "seed", "meta": meta}]
            crawled = with_seeds(web, server, tmp_path / str(place), seeds, sitemaps__per_cycle="0")
            turn(crawled.path, crawled.settings)
            found = crawled.rows("select source, meta from frontier_ready")
            assert {row["source"] for row in found} == ({"feed"} if meta else set())
            assert not any(metadata.is_set(row["meta"], "feed") for row in found)


def test_a_seed_calls_a_retired_url_back_and_a_known_one_becomes_a_seed(tmp_path: Any) -> None:
    web = ToyWeb(hosts=14, seed=3, mix=Mix.plain())
    with serve_in_thread(web) as server:
        root = f"http://{web.hosts[0].name}:{server.port}/"
        gone = f"{root}gone-for-good"
        settings = {"recrawl__not_found_tries": "1"}
        crawled = with_seeds(
            web,
            server,
            tmp_path,
            [{"url": root, "source": "seed"}, {"url": gone, "source": "test"}],
            **settings,
        )
        turn(crawled.path, crawled.settings)
        [retired] = crawled.rows("select url, reason from frontier_retired")
        assert retired == {"url": gone, "reason": "http_404"}
        [waiting, *_] = crawled.rows("select url from frontier_ready where source <> 'seed' order by url")
        inbox.put(
            crawled.path,
            [{"url": gone, "source": "seed"}, {"url": waiting["url"], "source": "seed"}],
            kind="seed",
        )
        before = len(server.log.rows())
        turn(crawled.path, crawled.settings)
        assert urls.parse(gone).path in [row.target for row in server.log.rows()[before:]]  # type: ignore[union-attr]
        assert crawled.rows("select url from frontier_retired") == []
        rows = {row["url"]: row for row in crawled.rows("select url, source from frontier_later")}
        assert rows[gone]["source"] == "seed" and rows[waiting["url"]]["source"] == "seed"
        assert faults(crawled.path) == []


@pytest.mark.parametrize("requests", [pytest.param(one, marks=pytest.mark.slow) for one in (20, 28, 36)])
def test_p4_a_fetch_that_is_cut_off_loses_no_sitemap_and_no_entry(requests: int, tmp_path: Any) -> None:
    web = ToyWeb(hosts=14, seed=3, mix=Mix.plain())
    with serve_in_thread(web) as server:
        settings = settings_for(web, tmp_path, {"limits.links_per_page": "0"})
        path = new_lake(tmp_path, settings, web.seeds(server.port, all_hosts=True))
        opened = opening.begin(snapshot.open(path), settings, slots=1, now_ms=time.time_ns() // 1_000_000)
        planned(opened)
        with pytest.raises(LeaseLost):
            fetch_partition(FetchTask(opened, 0), lambda: len(server.log.rows()) < requests)
        for _ in range(2):
            turn(path, settings, slots=1)
        crawled = Crawl(web, server, settings, path, [])
        assert faults(path) == []
        shelves = " union all ".join(
            f"select url from frontier_{shelf}" for shelf in ("ready", "backlog", "later", "retired")
        )
        assert listed(web, server.port) <= {row["url"] for row in crawled.rows(shelves)}
        statuses = [
            copy for row in crawled.rows("select sitemaps from hosts") for copy in row["sitemaps"] or ()
        ]
        targets = sum(len(toy_sitemaps.targets(host)) for host in web.hosts)
        assert sum(copy["status"] == "ok" for copy in statuses) == targets
        rows = server.log.rows()
        assert not judge.violations(rows, judge.delays(web, floor_ms=100))
        books = {row["host"]: row["n"] for row in crawled.rows("select host, month_requests n from hosts")}
        made = Counter(row.host.partition(":")[0] for row in rows)
        assert {host: (books[host], count) for host, count in made.items() if books[host] < count} == {}


def planned(opened: Turn) -> None:
    """Do all of a turn's plan."""
    opening.tell_ledger(opened)
    plan.intake(opened)
    for step in (plan.demand, resolve.resolve):
        for group in range(opened.groups):
            step(opened, group)
    allot.allot(opened)
    for group in range(opened.groups):
        plan.select(opened, group)
