"""Payloads too small for `contents`: stored anew at each place, and found all the same where a revisit stands for one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import lake
from lake.snapshot import Lake
from pipelines.cluster import InlineRunner
from pipelines.explain.stored import stored_page
from pipelines.export.selection import Selection
from pipelines.extract.graph import run_extract
from tests.export.test_export import records, written
from tests.extract.test_extract import Quiet
from tests.field_cases.journeys import ADDRESS, Crawl, page, serving
from tests.net.raw_server import RawServer

BODY = "<title>Small</title><p>plums and pears in a small basket"
URLS = [f"/{number}" for number in range(3)]


@pytest.fixture(scope="module")
def revisited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Lake, str]]:
    """Three pages with the same few bytes, read in the first cycle and unchanged in the second."""
    routes = {"GET /robots.txt": page("")}
    for url in URLS:
        routes[f"GET {url}"] = page(BODY, headers='ETag: "v1"\r\n')
        routes[f"GET {url} (If-None-Match)"] = b'HTTP/1.1 304 Not Modified\r\nETag: "v1"\r\n\r\n'
    server = RawServer(routes, address=ADDRESS)
    with serving([server]):
        crawl = Crawl.begin(tmp_path_factory.mktemp("small"), set_={"warc.revisit_min_bytes": "1024"})
        site = f"http://a.example:{server.port}"
        crawl.seed([site + url for url in URLS])
        crawl.cycle()
        crawl.cycle(days_ahead=14)
    run_extract(crawl.path, crawl.settings, reporter=Quiet(), runner=InlineRunner(2))
    yield lake.open(crawl.path), site


def test_a_page_that_was_unchanged_is_got_from_where_its_bytes_lie(revisited: tuple[Lake, str]) -> None:
    held, site = revisited
    assert held.rows("contents") == 0
    for url in URLS:
        got = stored_page(held, site + url)
        assert (got.capture["cycle"], got.capture["record_type"]) == (2, "revisit")
        assert got.body == BODY.encode()


def test_each_visit_is_one_row_of_an_export_with_its_text_and_title(revisited: tuple[Lake, str]) -> None:
    held, _ = revisited
    rows = held.sql(Selection("pages").query(held)).to_pylist()
    assert len(rows) == 6 and len({row["record_id"] for row in rows}) == 6
    assert {row["title"] for row in rows} == {"Small"}
    assert all("pears" in row["text"] for row in rows)


def test_an_export_of_revisits_alone_brings_their_bytes(revisited: tuple[Lake, str]) -> None:
    held, _ = revisited
    found = records(written(held, Selection("pages", (2,)), "warc"))
    kinds = [record.rec_type for record in found]
    assert kinds.count("revisit") == 3 and kinds.count("response") == 1
    [original] = [record for record in found if record.rec_type == "response"]
    assert original.body == BODY.encode()
