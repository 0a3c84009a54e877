"""What a power cut leaves of a log that nobody was told of stops no cycle, and is told (P4, "also the whole machine")."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import lake
from lake.errors import LakeDamaged
from pipelines.cluster import InlineRunner
from pipelines.cycle.graph import run_cycle
from tests.cycle.wheels import Quiet, faults
from tests.field_cases.journeys import ADDRESS, Crawl, page, serving
from tests.net.raw_server import RawServer


@pytest.fixture
def crawl(tmp_path: Path) -> Iterator[Crawl]:
    """Yield a crawl of one cycle, on pages each of which leads to one for the next cycle."""
    routes = {f"GET /{n}": page(f'<a href="/{n + 1}">{n}</a>') for n in range(5)}
    server = RawServer({"GET /robots.txt": page(""), **routes}, address=ADDRESS)
    with serving([server]):
        crawl = Crawl.begin(tmp_path)
        crawl.seed([f"http://a.example:{server.port}/0"])
        crawl.cycle()
        yield crawl


def newest_entry(crawl: Crawl, table: str) -> Path:
    return max((crawl.path / table / "_delta_log").glob("*.json"))


@pytest.mark.parametrize("table", ["seen", "captures", "pages"])
def test_a_torn_entry_that_no_ledger_names_is_put_aside_by_the_next_cycle(table: str, crawl: Crawl) -> None:
    newest = newest_entry(crawl, table)
    torn = newest.with_name(f"{int(newest.stem) + 1:020d}.json")
    torn.write_bytes(bytes(700))
    assert [str(torn) in text and "mends it" in text for text in faults(crawl.path)] == [True]
    told = Quiet()
    report = run_cycle(crawl.path, crawl.settings, reporter=told, runner=InlineRunner(1))
    assert (report.cycle, report.pages) == (2, 1)
    assert any(str(torn) in text and "put aside" in text for text in told.messages)
    assert faults(crawl.path) == []


def test_a_torn_last_entry_of_the_ledger_is_done_without(crawl: Crawl) -> None:
    newest = newest_entry(crawl, "ledger")
    torn = newest.with_name(f"{int(newest.stem) + 1:020d}.json")
    torn.write_bytes(newest.read_bytes()[:100])
    found = lake.open(crawl.path)
    assert found.cycle == 1 and found.sql("select url from captures where kind = 'page'").num_rows == 1
    assert any("torn log entry" in text for text in faults(crawl.path))
    assert crawl.cycle().cycle == 2 and faults(crawl.path) == []


def test_a_lost_row_of_the_ledger_is_told_and_its_number_not_given_to_another_cycle(crawl: Crawl) -> None:
    crawl.cycle()
    newest = newest_entry(crawl, "ledger")
    whole = newest.read_bytes()
    newest.write_bytes(whole[:100])
    with pytest.raises(LakeDamaged, match=r"holds cycle 2, the ledger ends at 1; restore .*_delta_log"):
        crawl.cycle()
    newest.write_bytes(whole)
    assert crawl.cycle().cycle == 3
