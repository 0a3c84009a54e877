"""The two plug-ins of the tree: what they say of links and pages, and a whole cycle with both at work."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pipelines.config import load
from pipelines.cycle.hoststate import Item
from pipelines.cycle.plugged import Plugged, report_path
from pipelines.cycle.turn import Turn
from pipelines.extras.images import Images
from pipelines.extras.monitor import Monitor
from pipelines.net.exchange import Exchange
from pipelines.plugins import Answer
from pipelines.rules.filters import FilterPolicy, Refusal, refusal
from pipelines.rules.links import Link
from pipelines.rules.pages import Page
from pipelines.toyweb import Kind, Mix, ToyWeb, serve_in_thread
from tests.cycle.wheels import Crawl, crawl, faults

PAGE = Answer("http://a.test/", "a.test", 0, None, 200, "text/html", "utf-8", "A", b"")


@pytest.mark.parametrize(
    ("url", "admitted"),
    [
        ("http://a.test/moon.png", True),
        ("http://a.test/moon.JPG?w=300", True),
        ("http://a.test/moon.jpeg", True),
        ("http://a.test/moon.gif", False),
        ("http://a.test/moon.zip", False),
        ("http://a.test/a/a/a/moon.png", True),
    ],
)
def test_images_overrules_the_ending_of_pictures_alone(url: str, admitted: bool) -> None:
    said = refusal(url)
    assert (Images({}).judge(url, said, depth=1, meta=None) is None) is admitted


def test_images_overrules_no_other_rule() -> None:
    said = Refusal("exclude", "*.png")
    assert Images({}).judge("http://a.test/moon.png", said, depth=1, meta=None) is said


def test_images_keeps_links_and_the_pictures_wanted() -> None:
    links = [
        Link("http://a.test/b", "a", "", ""),
        Link("http://a.test/moon.png", "img", "", ""),
        Link("http://a.test/count?id=1", "img", "", ""),
        Link("http://a.test/moon-2x.jpg", "srcset", "", ""),
        Link("http://a.test/moon.webp", "srcset", "", ""),
    ]
    kept = [link.url for link in Images({}).extract(PAGE, links)]
    assert kept == ["http://a.test/b", "http://a.test/moon.png", "http://a.test/moon-2x.jpg"]
    assert len(list(Images({"endings": ".webp"}).extract(PAGE, links))) == 2


def test_monitor_reports_a_text_whatever_its_case() -> None:
    page = replace(PAGE, body=b"<p>Ein WASSERRAD hebt; das Wasserrad dreht.</p>")
    [line] = Monitor({"text": "wasserrad | noria"}).page(page)
    assert line == "'wasserrad' 2 times, first: … <p>Ein WASSERRAD hebt; das Wasserrad dreht.</p> …"
    assert list(Monitor({"text": "wasserrad"}).page(replace(page, charset=""))) == []


def test_monitor_needs_a_text() -> None:
    with pytest.raises(ValueError, match=r"monitor\.text"):
        Monitor({"text": " | "})


def test_what_is_reported_while_the_disk_is_waited_for_is_of_the_next_flush(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = load(
        environ={}, overrides={"plugins.enabled": "monitor", "plugins.options": "monitor.text=noria"}
    )
    turn = Turn(str(tmp_path), 1, 0, 0, 1, 1, 1, {}, settings.to_json())
    plugs = Plugged(turn, 0, 1, FilterPolicy())

    def see(path: str) -> None:
        item = Item(f"http://a.test{path}", "a.test", 1, 1)
        plugs.see(
            item, Exchange(item.url, status=200), b"noria", Page("text/html", item.url, charset="utf-8")
        )

    def meanwhile(_: int) -> None:
        monkeypatch.undo()
        see("/second")

    see("/first")
    monkeypatch.setattr(os, "fsync", meanwhile)
    plugs.flush(plugs.take())
    plugs.flush(plugs.take())
    lines = report_path(turn, 0, 1).read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["url"] for line in lines] == ["http://a.test/first", "http://a.test/second"]


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crawl]:
    web = ToyWeb(hosts=12, seed=3, mix=replace(Mix.quick(), kinds=(Kind.MARKUP,)))
    overrides = {
        "plugins.enabled": "images,monitor",
        "plugins.options": "monitor.text=<title>,images.endings=.png",
    }
    with serve_in_thread(web) as server:
        yield crawl(web, server, tmp_path_factory.mktemp("extras"), cycles=2, overrides=overrides)


def test_pictures_are_stored_beside_the_pages(crawled: Crawl) -> None:
    rows = crawled.rows(
        "select url, content_mime_detected m, warc_filename f from captures where outcome = 'ok'"
    )
    pictures = [row for row in rows if row["m"] == "image/png"]
    assert pictures and all(row["f"] for row in pictures)
    assert {row["m"] for row in rows} > {"text/html", "image/png"}


def test_the_monitors_report_has_a_line_for_every_page_with_the_text(crawled: Crawl) -> None:
    lines = [
        json.loads(line)
        for path in Path(crawled.path).glob("reports/c*/*.jsonl")
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    titled = crawled.rows(
        "select count(*) n from captures where kind = 'page' and outcome = 'ok' and title is not null"
    )
    assert len(lines) >= titled[0]["n"] > 20
    assert {"plugin", "url", "fetched_ms", "cycle", "says"} == set(lines[0])
    counted = sum(row.counts.get("plugin_notes.monitor", 0) for row in crawled.lake.ledger())
    assert counted == len(lines)


def test_p2_p5_the_lake_is_sound_with_plugins(crawled: Crawl) -> None:
    assert faults(crawled.path) == []
