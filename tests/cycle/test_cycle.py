"""Whole cycles on the toy web; the server's log is the judge."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake.schema import DERIVED, TABLES
from pipelines.net import warc
from pipelines.rules import urls
from pipelines.toyweb import Kind, Mix, ToyWeb, judge, serve_in_thread
from pipelines.toyweb.hosts import Robots
from tests.cycle.wheels import Crawl, crawl, faults


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crawl]:
    web = ToyWeb(hosts=24, seed=3, mix=Mix.quick())
    with serve_in_thread(web) as server:
        yield crawl(web, server, tmp_path_factory.mktemp("crawl"), cycles=3)


def test_p1_no_host_and_no_address_is_asked_too_soon(crawled: Crawl) -> None:
    rows = crawled.server.log.rows()
    assert len(rows) > 100
    assert not judge.overlaps(rows)
    delays = judge.delays(crawled.web, floor_ms=100)
    assert [str(one) for one in judge.violations(rows, delays)] == []
    assert not judge.overlaps(rows, judge.by_address)
    by_address = judge.smallest_gap(rows, judge.by_address)
    assert by_address is not None and by_address >= 20


def test_p2_p5_the_lake_is_sound(crawled: Crawl) -> None:
    assert faults(crawled.path) == []


def test_p2_every_url_lies_on_one_shelf(crawled: Crawl) -> None:
    shelves = " union all ".join(
        f"select url_key from frontier_{shelf}" for shelf in ("ready", "backlog", "later", "retired")
    )
    [row] = crawled.rows(f"select count(*) n, count(distinct url_key) d from ({shelves})")
    [seen] = crawled.rows("select count(*) n, count(distinct url_key) d from seen")
    assert row["n"] == row["d"] == seen["n"] == seen["d"] > 100


def test_every_request_of_the_log_is_a_capture_and_no_other(crawled: Crawl) -> None:
    logged = sorted((row.host.partition(":")[0], row.target) for row in crawled.server.log.rows())
    captured = crawled.rows(
        "select url, host from captures where request_ms is not null and address is not null"
    )
    asked = sorted((row["host"], _target(row["url"])) for row in captured)
    assert asked == logged


def _target(url: str) -> str:
    parts = urls.parse(url)
    assert parts is not None
    return parts.path + (f"?{parts.query}" if parts.query is not None else "")


def test_p5_a_stored_page_is_what_the_server_sent(crawled: Crawl) -> None:
    pages = crawled.rows(
        "select url, request_ms, warc_filename f, warc_record_offset o, warc_record_length l from captures "
        "where outcome = 'ok' and kind = 'page' and record_type = 'response' and content_truncated is null"
    )
    compared = 0
    for page in pages:
        record = warc.read_at(crawled.path / "warc" / page["f"], page["o"], page["l"])
        known = crawled.web.known(page["url"])
        if known is None or not known.good:
            continue
        assert record.payload == crawled.web.payload(page["url"], page["request_ms"]), page["url"]
        compared += 1
    assert compared > 50


def test_p5_duplicates_are_revisits_that_name_the_original(crawled: Crawl) -> None:
    revisits = crawled.rows("select content_digest, refers_to from captures where record_type = 'revisit'")
    stored = {row["digest"]: f"{row['url']} {row['date']}" for row in crawled.rows("select * from contents")}
    assert len(revisits) > 5
    assert all(stored[row["content_digest"]] == row["refers_to"] for row in revisits)


def test_p6_the_books_of_the_month_are_the_requests_made(crawled: Crawl) -> None:
    told = {
        row["host"]: row["n"]
        for row in crawled.rows("select host, month_requests n from hosts where requests > 0")
    }
    counted: dict[str, int] = {}
    for row in crawled.rows("select host from captures where request_ms is not null"):
        counted[row["host"]] = counted.get(row["host"], 0) + 1
    assert told == counted


def test_robots_txt_is_obeyed_and_archived(crawled: Crawl) -> None:
    assert not [row for row in crawled.server.log.rows() if _denied(crawled, row.host, row.target)]
    [archived] = crawled.rows(
        "select count(*) n from captures where kind = 'robots' and warc_filename is not null"
    )
    assert archived["n"] > 10
    denied = crawled.rows("select url, error from captures where outcome = 'robots_denied'")
    assert denied and all(row["error"].startswith("line ") for row in denied)


def _denied(crawled: Crawl, host: str, target: str) -> bool:
    known = crawled.web.known(f"http://{host.partition(':')[0]}:{crawled.server.port}{target}")
    return known is not None and known.sort != "robots" and not known.allowed


def test_the_index_names_every_file_and_its_records(crawled: Crawl) -> None:
    files = {
        row["f"]
        for row in crawled.rows(
            "select distinct warc_filename f from captures where warc_filename is not null"
        )
    }
    on_disk = {
        str(path.relative_to(crawled.path / "warc"))
        for path in (crawled.path / "warc").rglob("*.warc.gz")
        if not path.name.endswith("-meta.warc.gz")
    }
    assert files <= on_disk
    indexed = {path.name for path in (crawled.path / "cdxj").rglob("*.cdxj")}
    assert len(indexed) == len(on_disk) > 0
    assert not list(crawled.path.glob("staging/cycle=*"))


def test_the_archive_tells_with_what_settings_and_seeds_it_was_made(crawled: Crawl) -> None:
    papers = [
        [record for record in warc.read_records(path) if isinstance(record, warc.WarcRecord)]
        for path in sorted((crawled.path / "warc").rglob("*-meta.warc.gz"))
    ]
    assert len(papers) == len(crawled.reports) == 3
    told = {record.header("WARC-Target-URI"): record for cycle in papers for record in cycle[1:]}
    assert [record.type for record in papers[0]] == ["warcinfo", "resource", "resource", "resource"]
    assert [record.type for record in papers[1]] == ["warcinfo", "resource", "resource"], (
        "its inbox was empty"
    )
    settings = json.loads(told["urn:x-noria:test:cycle-000001:settings"].block)
    assert settings["lake"]["buckets"] == 8
    assert json.loads(told["urn:x-noria:test:cycle-000003:ledger"].block)["cycle"] == 3
    (seeds,) = (record.block for target, record in told.items() if ":cycle-000001:seeds:" in (target or ""))
    assert [row["url"] for row in csv.DictReader(seeds.decode().splitlines())] == crawled.web.seeds(
        crawled.server.port, all_hosts=True
    )


def test_p10_the_same_lake_and_clock_give_the_same_plan(crawled: Crawl) -> None:
    planned = [report.planned for report in crawled.reports]
    assert planned[0] >= 20 and planned[1] > planned[0]


def test_a_host_whose_robots_txt_is_unreachable_is_probed_and_otherwise_left_alone(crawled: Crawl) -> None:
    ill = [host.name for host in crawled.web.hosts if host.robots is Robots.ERROR and host.kind is Kind.PLAIN]
    assert ill
    asked = [row.target for row in crawled.server.log.rows() if row.host.partition(":")[0] in ill]
    assert asked == ["/robots.txt"] * len(ill), "one probe in three cycles, an hour apart"
    told = {row["host"]: row for row in crawled.rows("select host, health, failures, probe_at from hosts")}
    for name in ill:
        assert told[name]["health"] == "robots_unreachable" and told[name]["probe_at"] is not None


def test_the_host_table_counts_pages_and_bytes(crawled: Crawl) -> None:
    told = {
        row["host"]: row["pages"] for row in crawled.rows("select host, pages from hosts where pages > 0")
    }
    counted = crawled.rows(
        "select host, count(*) n from captures where kind = 'page' and outcome = 'ok' group by host"
    )
    assert told == {row["host"]: row["n"] for row in counted}


def test_a_file_alone_tells_its_partition_as_the_log_does(crawled: Crawl) -> None:
    """Polars reads partition columns from the files, and finds nulls where they are absent."""
    for table in TABLES:
        for file in crawled.lake.files(table.name) if table.partitions and table not in DERIVED else []:
            rows = pq.read_table(file.path, columns=list(table.partitions), partitioning=None)
            assert rows.schema == pa.schema([table.arrow.field(name) for name in table.partitions])
            assert set(map(tuple, map(dict.values, rows.to_pylist()))) == {
                tuple(file.partition[name] for name in table.partitions)
            }
