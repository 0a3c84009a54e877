"""Our WACZ in ReplayWeb.page, the replayer that archivists use, in a headless Chromium (`make test-replay`)."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from aiohttp import web

import lake
from pipelines.export import wacz
from pipelines.export.run import export
from pipelines.export.selection import Selection
from tests.dashboard.browser import Tab, program, tab
from tests.field_cases.journeys import Crawl, page
from tests.replay.two_cycles import BODIES, HOSTS, TAGGED, TEXT, captures_of, crawled, stamp

REPLAYER = Path(__file__).resolve().parents[2] / ".venv-replay" / "replaywebpage"

PACKED = gzip.compress(b"<title>Packed</title>as it came, in gzip")
FOUND = "HTTP/1.1 302 Found\r\nLocation: /%s/\r\nContent-Type: text/html\r\nContent-Length: 8\r\n\r\n<p>found"
LEADS = {
    "leads.example": {
        # the end is cut off by as much as the port makes the link longer
        "GET /": page('<a href="http://old.example/">on</a> <a href="/one">1</a> <a href="/two">2</a> <a href="/gz">3</a> the end'),
        "GET /one": (FOUND % "one").encode(),
        "GET /two": (FOUND % "two").encode(),
        "GET /one/": page("<title>One</title>what the first leads to"),
        "GET /two/": page("<title>Two</title>what the second leads to, though both redirects have one body"),
        "GET /gz": b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\n"
        b"Content-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(PACKED), PACKED),
    }
}  # fmt: skip

FIND = """
const found = (root, wanted) => {
  for (const one of root.querySelectorAll('*')) {
    if (one.matches(wanted)) return one;
    const inner = one.shadowRoot && found(one.shadowRoot, wanted);
    if (inner) return inner;
  }
};
const frame = found(document, 'iframe[name=___wb_replay_top_frame]')?.contentDocument;
"""
"""JavaScript: the replayed page's document, which lies deep in the shadow DOM; and how to find something else there."""


@dataclass
class Reader:
    """Someone who reads a WACZ in the replayer."""

    tab: Tab
    address: str

    async def visit(self, url: str, *, at: str = "", led_to: str = "") -> str:
        """Return the text of the page that is shown for a URL. at: 14 digits, else the newest; led_to: by a redirect."""
        await self.tab.open("about:blank")
        await self.tab.open(f"{self.address}#view=pages&url={quote(url, safe='')}&ts={at}")
        return await self.shown(led_to or url)

    async def shown(self, url: str) -> str:
        """Return the text of the replayed page once it is the one of this URL."""
        whole = f"frame?.location.href.endswith({json.dumps('/' + url)}) && frame.readyState == 'complete'"
        await self.until(whole.replace("endswith", "endsWith"))
        text: str = await self.ask("frame.body.innerText")
        return text

    async def ask(self, value: str) -> Any:
        return await self.tab.ask(f"(() => {{ {FIND} return {value}; }})()")

    async def until(self, value: str) -> None:
        await self.tab.until(f"(() => {{ {FIND} return {value}; }})()")


@contextlib.asynccontextmanager
async def reading(file: Path) -> AsyncIterator[Reader]:
    """Serve the replayer and a WACZ from loopback, and open a browser."""

    async def index(_: web.Request) -> web.FileResponse:
        return web.FileResponse(REPLAYER / "index.html")

    app = web.Application()
    app.router.add_get("/", index)
    app.router.add_static("/lake/", file.parent)
    app.router.add_static("/", REPLAYER)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        origin = f"http://127.0.0.1:{runner.addresses[0][1]}/"
        async with tab() as opened:
            yield Reader(opened, f"{origin}?source={quote(f'{origin}lake/{file.name}', safe='')}")
            assert [
                url for url in opened.asked if not url.startswith((origin, "data:", "about:", "blob:"))
            ] == []
    finally:
        await runner.cleanup()


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Crawl:
    if not (REPLAYER / "sw.js").exists():
        pytest.skip("ReplayWeb.page is not installed: `make test-replay` installs it with npm and runs this")
    program()
    return crawled(tmp_path_factory.mktemp("replayed"), HOSTS | LEADS)


def written(crawl: Crawl, name: str, cycles: tuple[int, ...] | None = None) -> Path:
    path = crawl.path.parent / name
    with path.open("wb") as sink:
        export(
            lake.open(crawl.path),
            Selection("pages", cycles),
            "wacz",
            sink,
            told=lambda *_: None,
            software="test",
        )
    return path


@pytest.fixture(scope="module")
def whole(crawl: Crawl) -> Path:
    """Return all pages; the index in pieces of three lines, so that the replayer must look for the right one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wacz, "LINES", 3)
        return written(crawl, "whole.wacz")


def bare(html: str) -> str:
    """Return the text of one of our pages."""
    text = html.partition("</title>")[2]
    return " ".join(text.replace('<a href="/">again</a>', "again").split())


def test_every_page_is_listed(crawl: Crawl, whole: Path) -> None:
    async def listed() -> str:
        async with reading(whole) as reader:
            await reader.tab.open(f"{reader.address}#view=pages")
            await reader.until("found(document, '.num-results')?.textContent.match(/[1-9]/)")
            told: str = await reader.ask("found(document, '.num-results').textContent")
            return told

    pages = [one for one in captures_of(crawl) if one["fetch_status"] == 200]
    assert asyncio.run(listed()).split() == [str(len(pages)), "pages"]


def test_a_page_its_duplicates_and_its_revisits_show_their_text(crawl: Crawl, whole: Path) -> None:
    wanted = [one for one in captures_of(crawl) if one["fetch_status"] == 200 and one["host"] in BODIES]

    async def texts() -> list[str]:
        async with reading(whole) as reader:
            return [await reader.visit(one["url"], at=stamp(one)) for one in wanted]

    assert {one["record_type"] for one in wanted} == {"response", "revisit"} and len(wanted) == 7
    assert asyncio.run(texts()) == [bare(BODIES[one["host"]]) for one in wanted]


def test_a_redirect_leads_to_its_target_and_links_lead_on(crawl: Crawl, whole: Path) -> None:
    [old, *_], [leads, *_] = crawl.captures("old.example"), crawl.captures("leads.example")

    async def texts() -> list[str]:
        async with reading(whole) as reader:
            direct = await reader.visit(old["url"], at=stamp(old), led_to=old["fetch_redirect"])
            await reader.visit(leads["url"])
            await reader.ask("frame.querySelector('a').click()")
            linked = await reader.shown(old["fetch_redirect"])
            twins = [
                await reader.visit(leads["url"] + name, led_to=f"{leads['url']}{name}/")
                for name in ("one", "two")
            ]
            return [direct, linked, *twins, await reader.visit(leads["url"] + "gz")]

    moved = "where the old page went"
    first, second = (bare(LEADS["leads.example"][f"GET /{name}/"].decode()) for name in ("one", "two"))
    twins = [one for one in captures_of(crawl) if one["fetch_status"] == 302]
    assert sorted(one["record_type"] for one in twins) == ["response", "revisit"]
    assert asyncio.run(texts()) == [moved, moved, first, second, "as it came, in gzip"]


def test_who_asks_for_a_page_at_its_304_or_for_its_newest_copy_gets_the_page(
    crawl: Crawl, whole: Path
) -> None:
    [confirmed] = [one for one in captures_of(crawl) if one["outcome"] == "not_modified"]

    async def texts() -> list[str]:
        async with reading(whole) as reader:
            return [await reader.visit(confirmed["url"], at=at) for at in (stamp(confirmed), "")]

    assert asyncio.run(texts()) == [bare(TAGGED)] * 2


def test_a_cycle_whose_pages_are_stored_in_an_earlier_one_is_shown_by_itself(crawl: Crawl) -> None:
    wanted = [
        one
        for one in captures_of(crawl)
        if one["cycle"] == 2 and one["host"] in ("page.example", "twin.example", "tagged.example")
    ]

    async def texts() -> list[str]:
        async with reading(written(crawl, "second.wacz", (2,))) as reader:
            return [await reader.visit(one["url"], at=stamp(one)) for one in wanted]

    assert {one["record_type"] for one in wanted} == {"revisit"} and len(wanted) == 3
    assert sorted(asyncio.run(texts())) == sorted([bare(TEXT), bare(TEXT), bare(TAGGED)])
