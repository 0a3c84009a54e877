"""What a power cut leaves of a log that nobody was told of stops no cycle, and is told (P4, "also the whole machine")."""

from __future__ import annotations

from pathlib import Path

import pytest

import lake
from lake.errors import LakeDamaged
from pipelines.cluster import InlineRunner
from pipelines.cycle.graph import run_cycle
from pipelines.toyweb import Mix, ToyWeb, serve_in_thread
from tests.cycle.wheels import Quiet, crawl, faults, turn


@pytest.mark.parametrize("table", ["seen", "captures", "pages"])
def test_a_torn_entry_that_no_ledger_names_is_put_aside_by_the_next_cycle(table: str, tmp_path: Path) -> None:
    web = ToyWeb(hosts=14, seed=3, mix=Mix.plain())
    with serve_in_thread(web) as server:
        crawled = crawl(web, server, tmp_path, cycles=1)
        version = crawled.lake.versions[table]
        torn = crawled.path / table / "_delta_log" / f"{version + 1:020d}.json"
        torn.write_bytes(bytes(700))
        assert [str(torn) in text and "mends it" in text for text in faults(crawled.path)] == [True]
        told = Quiet()
        report = run_cycle(crawled.path, crawled.settings, reporter=told, runner=InlineRunner(2))
        assert report.cycle == 2 and report.pages > 0
        assert any(str(torn) in text and "put aside" in text for text in told.messages)
        assert faults(crawled.path) == []


def test_a_torn_last_entry_of_the_ledger_is_done_without(tmp_path: Path) -> None:
    web = ToyWeb(hosts=14, seed=3, mix=Mix.plain())
    with serve_in_thread(web) as server:
        crawled = crawl(web, server, tmp_path, cycles=1)
        newest = max((crawled.path / "ledger" / "_delta_log").glob("*.json"))
        torn = newest.with_name(f"{int(newest.stem) + 1:020d}.json")
        torn.write_bytes(newest.read_bytes()[:100])
        found = lake.open(crawled.path)
        assert found.cycle == 1 and found.sql("select count(*) n from captures").to_pylist() == [
            {"n": crawled.lake.rows("captures")}
        ]
        assert any("torn log entry" in text for text in faults(crawled.path))
        report = run_cycle(crawled.path, crawled.settings, reporter=Quiet(), runner=InlineRunner(2))
        assert report.cycle == 2 and faults(crawled.path) == []


def test_a_lost_row_of_the_ledger_is_told_and_its_number_not_given_to_another_cycle(tmp_path: Path) -> None:
    web = ToyWeb(hosts=14, seed=3, mix=Mix.plain())
    with serve_in_thread(web) as server:
        crawled = crawl(web, server, tmp_path, cycles=2)
        newest = max((crawled.path / "ledger" / "_delta_log").glob("*.json"))
        whole = newest.read_bytes()
        newest.write_bytes(whole[:100])
        with pytest.raises(LakeDamaged, match=r"holds cycle 2, the ledger ends at 1; restore .*_delta_log"):
            turn(crawled.path, crawled.settings)
        newest.write_bytes(whole)
        assert turn(crawled.path, crawled.settings).cycle == 3
