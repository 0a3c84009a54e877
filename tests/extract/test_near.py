"""Near duplicates and boilerplate of stored pages: marked, kept, and counted against their pattern."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import lake
from lake import fsck
from pipelines import config
from pipelines.cluster import InlineRunner
from pipelines.extract.graph import run_extract
from pipelines.rules.yields import PatternYields
from tests.field_cases.journeys import ADDRESS, Crawl, page, serving
from tests.net.raw_server import RawServer

WORDS = [f"word{number}" for number in range(2_000)]


def story(seed: int, *, edited: bool = False, words: int = 600) -> str:
    chosen = random.Random(seed).choices(WORDS, k=words)
    if edited:
        chosen[words // 2] = "another"
    return " ".join(chosen)


class Quiet:
    def files(self, done: int, total: int, pages: int) -> None:
        pass

    def message(self, text: str) -> None:
        pass


def extract(path: Path) -> None:
    run_extract(path, config.load([], environ={}, overrides={}), reporter=Quiet(), runner=InlineRunner(1))


FOOTER = "".join(
    f"<p>Sentence {word} of the footer stands on each page of this host.</p>" for word in "abcdefghijkl"
)


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Crawl:
    """Two cycles: in the first a story, its edit and others; in the second one more edit; boilerplate beside them."""
    made = Crawl.begin(tmp_path_factory.mktemp("near"))
    answers = {
        "GET /one": page(f"<title>One</title><p>{story(1)}</p><a href='/late'>late</a>"),
        "GET /one-edited": page(f"<title>Two</title><p>{story(1, edited=True)}</p>"),
        "GET /other": page(f"<title>Other</title><p>{story(2)}</p>"),
        "GET /late": page(f"<title>Late</title><p>{story(2, edited=True)}</p>"),
        "GET /empty": page(""),
        "GET /tiny": page("<p>two words</p>"),
        "GET /tiny-2": page("<p>two  words</p>"),
        **{f"GET /same/{n}": page(f"<title>{n}</title>{FOOTER}" + (f"<p>{story(9 + n)}</p>" if n else "")) for n in range(6)},
    }  # fmt: skip
    server = RawServer(answers, address=ADDRESS)
    with serving([server]):
        seeds = [target[4:] for target in answers if target != "GET /late"]
        made.seed([f"http://near.example:{server.port}{target}" for target in seeds])
        made.cycle()
        made.cycle()
    extract(made.path)
    return made


def marked(crawl: Crawl) -> dict[str, tuple[str, str]]:
    rows = lake.open(crawl.path).read("lookalikes").to_pylist()
    return {
        row["url"].rpartition("/")[2]: (row["kind"], (row["near_url"] or "").rpartition("/")[2])
        for row in rows
    }


def test_near_duplicates_are_marked_within_a_cycle_and_across_cycles(crawl: Crawl) -> None:
    found = {name: told for name, told in marked(crawl).items() if told[0] == "near"}
    pairs = {frozenset((name, other)) for name, (_, other) in found.items()}
    assert pairs == {frozenset(("one", "one-edited")), frozenset(("late", "other"))}


def test_a_page_of_nothing_but_its_hosts_common_lines_is_named_boilerplate(crawl: Crawl) -> None:
    assert {name for name, told in marked(crawl).items() if told[0] == "boilerplate"} == {"0"}


def test_empty_and_tiny_pages_are_no_lookalikes(crawl: Crawl) -> None:
    assert not {"empty", "tiny", "tiny-2"} & set(marked(crawl))


def test_what_is_marked_is_stored_all_the_same_and_marking_twice_is_once(crawl: Crawl) -> None:
    before = marked(crawl)
    extract(crawl.path)
    assert marked(crawl) == before
    [row] = crawl.rows(
        "select count(*) n from captures where url like '%/one%' and warc_filename is not null"
    )
    assert row["n"] == 2
    assert [str(fault) for fault in fsck.check(crawl.path)] == []


def test_a_lookalike_lowers_the_yield_of_its_pattern() -> None:
    yields = PatternYields()
    yields.update("/a", 1, 1, 0)
    before = yields.by_pattern["/a"].share
    yields.discount("/a")
    yields.discount("/none")
    assert before == 1.0 and yields.by_pattern["/a"].share < 0.01 and yields.by_pattern["/a"].good == 0
