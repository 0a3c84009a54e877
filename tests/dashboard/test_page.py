"""The live page in a scheduler's own server: it answers, and in a browser nothing overlaps or comes from elsewhere."""

from __future__ import annotations

import asyncio
import os
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from distributed import Client, LocalCluster

from pipelines.cluster import DaskRunner
from pipelines.dashboard import serve, words
from pipelines.dashboard.figures import Figures, Point
from tests.dashboard.browser import HEIGHT, WIDTH, program, tab
from tests.dashboard.lakes import fetching, live

NARROW = 360
READY = "typeof Bokeh != 'undefined' && Bokeh.documents.length > 0 && Bokeh.documents[0].is_idle"
BOXES = """(() => {
  const found = [];
  const walk = view => {
    const inner = view.child_views || [];
    const type = view.model.type;
    if (inner.length && type != 'Figure') { inner.forEach(walk); return; }
    const box = view.el.getBoundingClientRect();
    if (type != 'Notifications') found.push([type, box.left, box.top, box.right, box.bottom]);
  };
  const roots = Bokeh.index.roots || Object.values(Bokeh.index);
  roots.forEach(walk);
  return found;
})()"""
CUT = """(() => {
  const cut = [];
  const walk = node => {
    for (const one of node.querySelectorAll('*')) {
      if (one.matches('.card b, th') && one.scrollWidth > one.clientWidth + 1) cut.push(one.textContent);
      if (one.shadowRoot) walk(one.shadowRoot);
    }
  };
  walk(document);
  return cut;
})()"""


@pytest.fixture(scope="module")
def runner() -> Iterator[DaskRunner]:
    with (
        LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            processes=False,
            dashboard_address="127.0.0.1:0",
            silence_logs=40,
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield DaskRunner(client, None, 1)


def links(runner: DaskRunner, lake: Path) -> list[str]:
    port = urlsplit(runner.dashboard or "").port
    return list(serve.links(f"http://127.0.0.1:{port}/status", runner.serve, lake))


def text(url: str) -> str:
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=10) as answer:
        found: str = answer.read().decode()
        return found


def test_the_link_is_told_once_it_has_answered_and_the_metrics_are_among_dasks(
    runner: DaskRunner, tmp_path: Path
) -> None:
    fetching(tmp_path, [live(0)])
    told = links(runner, tmp_path)
    page = told[0].removeprefix("Live: ")
    assert urlsplit(page).path == "/crawl" and told[1].startswith("Dask: ")
    assert "cdn" not in text(page)
    metrics = text(page.partition("/crawl")[0] + "/metrics")
    assert "noria_pages_total{" in metrics and "dask_scheduler_" in metrics
    assert links(runner, tmp_path)[0] == told[0]


def test_a_page_that_does_not_answer_is_not_called_a_link() -> None:
    told = list(serve.links("http://127.0.0.1:9/status", lambda *_: "crawl", Path("lake")))
    assert len(told) == 1 and "does not answer from here" in told[0]


def test_a_scheduler_that_does_not_share_the_disk_is_named(runner: DaskRunner, tmp_path: Path) -> None:
    (told,) = links(runner, tmp_path / "elsewhere")
    assert "/status" in told and "share the lake's disk" in told


def test_in_a_browser_the_page_is_whole(runner: DaskRunner, tmp_path: Path) -> None:
    program()
    now = time.time_ns() // 1_000_000
    fetching(tmp_path, [live(0, told_ms=now), live(1, told_ms=now)])
    page = links(runner, tmp_path)[0].removeprefix("Live: ")

    async def look() -> tuple[list[list[float]], list[str], list[str], list[int], list[list[float]], int]:
        async with tab() as browser:
            await browser.open(page)
            await browser.until(READY)
            await browser.picture(Path(os.environ.get("NORIA_PICTURES", tmp_path)) / "crawl.png")
            size = await browser.ask(
                "[document.documentElement.scrollWidth, document.documentElement.scrollHeight]"
            )
            boxes, cut = await browser.ask(BOXES), await browser.ask(CUT)
            await browser.narrow(NARROW)
            await browser.until(f"document.documentElement.scrollWidth <= {NARROW}")
            await browser.picture(Path(os.environ.get("NORIA_PICTURES", tmp_path)) / "crawl_narrow.png")
            thin = await browser.ask(BOXES)
            cut += await browser.ask(CUT)
            return boxes, cut, browser.asked, size, thin, await browser.ask("innerWidth")

    boxes, cut, asked, size, thin, width = asyncio.run(look())
    assert width == NARROW and all(left >= 0 and right <= NARROW for _, left, _, right, _ in thin)
    assert {urlsplit(url).hostname for url in asked} == {"127.0.0.1"}
    assert sorted(kind for kind, *_ in boxes) == ["Div"] * 4 + ["Figure"] * 5
    assert size[0] <= WIDTH and size[1] <= HEIGHT
    assert cut == []
    for found in (boxes, thin):
        for at, (_, left, top, right, bottom) in enumerate(found):
            for _, left2, top2, right2, bottom2 in found[at + 1 :]:
                assert right <= left2 or right2 <= left or bottom <= top2 or bottom2 <= top


def test_words_from_outside_are_escaped() -> None:
    nasty = "<script>x</script>"
    host = {"host": nasty, "left": 1, "pause_ms": 1, "reason": nasty, "response_ms": 1, "work_ms": 1}
    figures = Figures(0, cycle=1, step="fetch", slow_hosts=(host,), writer=nasty)
    told = (
        words.head(figures, Point(0, 1, 1, 1, 1, 1, 1), 1_000, lake=nasty) + words.slow(figures) + words.leases(figures)
        + words.workers([words.Slots(nasty, 1, (nasty,), 1)]) + words.head(Figures(0, writer=nasty), None, None, lake=nasty)
    )  # fmt: skip
    assert "<script" not in told
