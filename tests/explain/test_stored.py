"""`noria get`: the stored bytes of a page are those the server sent, also where a revisit stands for them."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from pipelines.app import get_cmd
from pipelines.config import Settings
from pipelines.explain.stored import stored_page
from pipelines.failure import Failure, Misuse
from pipelines.toyweb import Mix, ToyWeb, serve_in_thread
from tests.cycle.wheels import Crawl, crawl, settings_for


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crawl]:
    web = ToyWeb(hosts=16, seed=4, mix=Mix.quick())
    with serve_in_thread(web) as server:
        yield crawl(web, server, tmp_path_factory.mktemp("get"), cycles=2)


def test_p5_a_page_and_its_duplicates_come_back_as_the_server_sent_them(crawled: Crawl) -> None:
    asked = (
        "select url, request_ms, record_type from captures where outcome = 'ok' and kind = 'page' and cycle = 2 "
        "and content_truncated is null and record_type = '{}' order by url_key limit 20"
    )
    rows = [row for kind in ("response", "revisit") for row in crawled.rows(asked.format(kind))]
    seen = {"response": 0, "revisit": 0}
    for row in rows:
        known = crawled.web.known(row["url"])
        if known is None or not known.good:
            continue
        page = stored_page(crawled.lake, row["url"], cycle=2)
        assert page.body == crawled.web.payload(row["url"], row["request_ms"]), row["url"]
        assert page.head.startswith(b"HTTP/1.1 200")
        seen[row["record_type"]] += 1
    assert seen["response"] > 5 and seen["revisit"] > 3


def test_headers_and_decoding_are_on_request(
    crawled: Crawl, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    [row] = crawled.rows("select url from captures where kind = 'robots' and outcome = 'ok' limit 1")
    flags = {"cycle": None, "decoded": True, "headers": True, "as_json": False}
    get_cmd.run(_settings(crawled), row["url"], **flags)  # type: ignore[arg-type]
    head, _, body = capfdbinary.readouterr().out.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200") and body
    get_cmd.run(_settings(crawled), row["url"], **{**flags, "as_json": True})  # type: ignore[arg-type]
    told = json.loads(capfdbinary.readouterr().out)
    assert told["capture"]["kind"] == "robots" and told["warc_record_offset"] > 0


def _settings(crawled: Crawl) -> Settings:
    return settings_for(crawled.web, crawled.path.parent, {"lake.path": str(crawled.path)})


def test_what_is_not_stored_is_a_sentence(crawled: Crawl) -> None:
    with pytest.raises(Failure, match="not captured yet; `noria explain`"):
        stored_page(crawled.lake, "http://nowhere.test/")
    with pytest.raises(Misuse, match="no http"):
        stored_page(crawled.lake, "ftp://a.test/")
    with pytest.raises(Misuse, match="has cycles 1 to 2"):
        stored_page(crawled.lake, "http://a.test/", cycle=9)
    failed = crawled.rows("select url from captures where warc_filename is null and kind = 'page' limit 1")
    for row in failed:
        with pytest.raises(Failure, match="nothing is stored; what came of it in cycle"):
            stored_page(crawled.lake, row["url"])
