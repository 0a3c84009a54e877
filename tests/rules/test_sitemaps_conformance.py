"""The sitemaps of others, in ../shared/data/sitemaps: right, or reviewed with a reason a row."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest

from pipelines.rules.dates import w3c_date_ms
from pipelines.rules.robots import Rules
from pipelines.rules.sitemaps import WELL_KNOWN_PATHS, Entry, SitemapError, may_list, stream
from tests.shared import shared

REVIEWED: dict[str, str] = {
    row["id"]: row["reason"]
    for row in json.loads((Path(__file__).parents[1] / "golden/sitemaps_reviewed.json").read_text("utf-8"))
}
Row = dict[str, Any]


def rows(name: str) -> list[Row]:
    return [json.loads(line) for line in shared(f"data/sitemaps/{name}").read_text("utf-8").splitlines()]


def read(body: bytes, url: str, piece: int) -> tuple[list[Entry], bool]:
    """Return the entries read and whether the file was refused; the bytes arrive `piece` at a time."""
    entries: list[Entry] = []
    try:
        for entry in stream((body[at : at + piece] for at in range(0, len(body), piece)), url=url):
            entries.append(entry)
    except SitemapError:
        return entries, True
    return entries, False


def faults(row: Row, piece: int) -> list[str]:
    """Return in what the reading of a case differs from what its row says."""
    url = row.get("sitemap_url", "http://www.example.com/sitemap.xml")
    entries, refused = read(shared(f"data/sitemaps/{row['file']}").read_bytes(), url, piece)
    if row["test"] == "testLenientParser" and "option" not in row:
        entries = [entry for entry in entries if may_list(url, entry.url, robots_listed=False)]
    pages = [entry for entry in entries if entry.kind == "url"]
    found = {entry.url for entry in entries}
    checks = {
        "refused": refused is bool(row.get("expect_error")),
        "pages": len(pages) == row.get("n_urls", len(pages)),
        "sitemaps": len(entries) - len(pages) == row.get("n_sitemaps", len(entries) - len(pages)),
        "index": not entries or row.get("is_index", not pages) is (not pages) or "is_index" not in row,
        "contains": found >= set(row.get("contains", [])),
        "locs": not row.get("locs") or [entry.url for entry in entries] == row["locs"],
        "images": row.get("images") in (None, [image for entry in pages for image in entry.images]),
        "videos": all(  # a video has a file, a player or both
            videos <= len(entry.videos) <= 2 * videos
            for videos, entry in zip(row.get("n_video", []), pages, strict=False)
        ),
        "links": row.get("links_each") is None
        or all([list(link) for link in entry.alternates] == row["links_each"] for entry in pages),
    }
    return [name for name, right in checks.items() if not right]


def test_53_sitemaps_are_right_or_reviewed():
    cases = rows("cases.jsonl")
    assert len(cases) == 53
    wrong = {row["id"]: named for row in cases if (named := faults(row, 65_536))}
    assert set(wrong) == {case for case in REVIEWED if not case.startswith("usp-")}, wrong


@pytest.mark.parametrize("piece", [1, 7])
def test_53_sitemaps_are_read_alike_byte_by_byte(piece: int):
    for row in rows("cases.jsonl"):
        body = shared(f"data/sitemaps/{row['file']}").read_bytes()
        url = row.get("sitemap_url", "http://www.example.com/sitemap.xml")
        assert read(body, url, piece) == read(body, url, len(body) or 1), row["id"]


def test_the_feeds_among_them_are_taken_for_feeds():
    for file, count in (
        ("news-crawl/feed-with-sitemap-namespace.xml", 2),
        ("stormcrawler/stormcrawler.rss", 6),
    ):
        entries, refused = read(shared(f"data/sitemaps/{file}").read_bytes(), "http://a.example/feed", 4096)
        assert not refused
        assert len(entries) >= count
        assert all(entry.kind == "url" and entry.lastmod for entry in entries)


def test_4_rows_of_the_location_rule():
    cases = rows("location-rule.jsonl")
    assert len(cases) == 4
    for row in cases:
        assert may_list(row["sitemap"], row["url"], robots_listed=False) is row["inside"], row
        assert may_list(row["sitemap"], row["url"], robots_listed=True)


class Site:
    """A small site as a table of answers, walked as a crawler would: robots.txt, well-known paths, indexes."""

    def __init__(self, row: Row) -> None:
        self.answers = {
            answer["url"]: answer for answer in reversed(row["responses"]) if answer["method"] == "GET"
        }
        self.home = row["home"] or "http://test_ultimate-sitemap-parser.com"
        self.seen: set[str] = set()
        self.pages: list[Entry] = []

    def body(self, url: str, hops: int = 5) -> bytes | None:
        answer = self.answers.get(url)
        if answer is None or hops == 0:
            return None
        if answer["status"] in (301, 302):
            headers = dict(answer["headers"])
            return self.body(urljoin(url, headers["Location"]), hops - 1)
        if answer["status"] != 200:
            return None
        return base64.b64decode(answer["body_b64"]) if "body_b64" in answer else answer["body"].encode()

    def walk(self) -> None:
        robots = Rules.parse(self.body(f"{self.home}/robots.txt") or b"")
        todo = [*robots.sitemaps, *(self.home + path for path in WELL_KNOWN_PATHS)]
        while todo:
            url = todo.pop(0)
            if url in self.seen or url.endswith("/robots.txt"):
                continue
            self.seen.add(url)
            entries, _ = read(self.body(url) or b"", url, 65_536)
            todo += [entry.url for entry in entries if entry.kind == "sitemap"]
            self.pages += [entry for entry in entries if entry.kind == "url"]


def priority_of(page: Row) -> float:
    return float(page.get("priority") or 0.5)


def test_25_small_sites_yield_their_pages_or_are_reviewed():
    with gzip.open(shared("data/sitemaps/usp-sites.jsonl.gz"), "rt", encoding="utf-8") as lines:
        sites = [json.loads(line) for line in lines]
    assert len(sites) == 25
    for row in sites:
        site = Site(row)
        site.walk()
        ours = {entry.url: entry for entry in site.pages}
        as_expected = set(ours) == {page["url"] for page in row["expected_pages"]}
        assert as_expected is (row["id"] not in REVIEWED), row["id"]
        for page in row["expected_pages"]:
            entry = ours[page["url"]]
            if page.get("priority"):
                assert entry.priority == priority_of(page), (row["id"], page)
            if page.get("last_modified") and entry.lastmod:
                assert w3c_date_ms(page["last_modified"]) == round(entry.lastmod.timestamp() * 1000), row[
                    "id"
                ]


def test_gzip_is_told_by_its_bytes_not_its_name():
    body = shared("data/sitemaps/crawler-commons/inline__testSitemapXML.xml").read_bytes()
    twice = gzip.compress(gzip.compress(body))
    for packed in (
        gzip.compress(body),
        twice,
        gzip.compress(body[:200]) + gzip.compress(body[200:]) + b"\0\0",
    ):
        assert read(packed, "http://www.example.com/s", 10) == read(body, "http://www.example.com/s", 10)
