"""The report's tables on a small crawled lake and on empty ones; the page; the crawl reports; each figure can be drawn."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest

import lake
from lake import commit
from lake.errors import LakeError
from lake.files import write_data
from lake.schema import BY_NAME, SHELVES
from lake.snapshot import Lake
from pipelines import config
from pipelines.app import report_cmd
from pipelines.cluster import InlineRunner
from pipelines.extract.graph import run_extract
from pipelines.failure import Failure, Misuse
from pipelines.report import (
    content,
    crawlreports,
    freshness,
    frontier,
    hosts,
    last_cycle,
    linkgraph,
    page,
    picture,
    politeness,
    timetravel,
)
from pipelines.rules.budget import BudgetPolicy
from pipelines.rules.outcome import Outcome
from pipelines.toyweb import ToyWeb, serve_in_thread
from tests.cycle import wheels
from tests.extract.test_extract import Quiet
from tests.lake.sample import rows_of


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    web = ToyWeb(hosts=12, seed=3)
    with serve_in_thread(web) as server:
        crawl = wheels.crawl(
            web, server, tmp_path_factory.mktemp("report"), overrides={"window.seconds": "3"}
        )
    run_extract(crawl.path, crawl.settings, reporter=Quiet(), runner=InlineRunner(2))
    yield lake.open(crawl.path)


@pytest.fixture
def bare(tmp_path: Path) -> Lake:
    return lake.create(tmp_path / "bare", buckets=8)


def test_the_funnel_adds_up_to_the_plan(crawled: Lake) -> None:
    for cycle in (1, 2):
        found = last_cycle.funnel(crawled, cycle)
        counts = last_cycle.ledger_row(crawled, cycle).counts
        assert (found["urls"] >= 0).all()
        assert found["urls"].sum() == counts["planned"] > 0
        by_stage = dict(zip(found["stage"], found["urls"], strict=True))
        assert by_stage["stored"] + by_stage["duplicate"] <= counts["pages"]


def test_outcomes_are_the_ledgers_and_known_words(crawled: Lake) -> None:
    found = last_cycle.outcomes(crawled, 1)
    assert set(found["outcome"]) <= {one.value for one in Outcome}
    rows = crawled.sql("select count(*) n from captures where cycle = 1")
    assert found["requests"].sum() == rows["n"][0].as_py()


def test_the_pace_counts_every_page(crawled: Lake) -> None:
    found = last_cycle.pace(crawled, 1)
    good = "cycle = 1 and kind = 'page' and outcome in ('ok', 'not_modified')"
    pages = crawled.sql(f"select count(*) n from captures where {good}")["n"][0].as_py()
    step = found["seconds"][1] - found["seconds"][0]
    assert (found["pages_s"] * step).sum() == pytest.approx(pages)
    assert found["hosts"].iloc[0] > 0 and (found["hosts"] >= 0).all()


def test_no_host_was_asked_too_soon(crawled: Lake) -> None:
    found = politeness.gaps(crawled)
    assert (found["too_soon"] == 0).all() and (found["slack_ms"] >= 0).all()
    assert (found["gap_ms"] - found["delay_ms"] == found["slack_ms"]).all()
    slack = politeness.slack(crawled)
    assert slack["requests"][0] == 0
    assert slack["requests"].sum() == found["requests"].sum() - len(found)


def holding(
    held: Lake, table: str, where: dict[str, int | str], /, *, cycle: int = 1, **columns: Sequence[object]
) -> Lake:
    """Return the lake with the rows given in a table, at a partition."""
    spec = BY_NAME[table]
    rows = rows_of(table, **columns)
    add = write_data(held.layout.table(table), f"c{cycle:06d}/x.parquet", rows, spec, where)
    return held.at({table: commit.commit_table(held.root, table, cycle=cycle, adds=[add], replace=None)})


def asked_three_times(bare: Lake) -> Lake:
    return holding(
        bare,
        "captures",
        {"crawl": "cycle-000001", "subset": "warc"},
        url_surtkey=["a", "b", "c"],
        host=["h.test"] * 3,
        request_ms=[0, 1_100, 2_000],
        response_ms=[50, 100, 10],
        delay_ms=[1_000] * 3,
        delay_reason=["floor"] * 3,
    )


def test_a_host_asked_too_soon_is_seen(bare: Lake) -> None:
    found = politeness.gaps(asked_three_times(bare))
    assert found.to_dict("records") == [
        {
            "host": "h.test",
            "requests": 3,
            "median_ms": 925.0,
            "slack_ms": -200,
            "gap_ms": 800,
            "delay_ms": 1_000,
            "too_soon": 1,
        }
    ]


def test_nobody_waits_before_a_hosts_first_request(bare: Lake) -> None:
    held = asked_three_times(bare)
    assert politeness.reasons(held)["hours"].tolist() == pytest.approx([2_000 / 3_600_000])
    slowest = last_cycle.slowest_hosts(held, 1)
    assert slowest[["requests", "busy_s", "pause_s"]].to_numpy().tolist() == [[3, 0.16, 2.0]]


def test_shelves_waits_and_bands_count_every_url(crawled: Lake) -> None:
    found = frontier.shelves(crawled)
    assert found["cycle"].tolist() == [1, 2]
    assert found[list(SHELVES)].iloc[-1].sum() == crawled.rows("seen")
    ready = crawled.rows("frontier_ready")
    assert frontier.bands(crawled)["urls"].sum() == frontier.waiting(crawled)["urls"].sum() == ready


def test_budgets_spent_and_left(crawled: Lake) -> None:
    month = crawled.sql("select max(month) m from hosts")["m"][0].as_py()
    found = frontier.budgets(crawled, BudgetPolicy(requests_per_month=20), month=month)
    assert len(found) == crawled.rows("hosts")
    assert (found["left"] == (found["budget"] - found["spent"]).clip(lower=0)).all()
    assert found["spent"].sum() == crawled.sql("select sum(month_requests) n from hosts")["n"][0].as_py() > 0
    assert (frontier.budgets(crawled, BudgetPolicy(), month=month + 1)["spent"] == 0).all()
    top = frontier.uncrawled(found)
    assert (top["waiting"] > 0).all() and (top["beyond"] <= top["waiting"]).all()


def test_hosts_are_counted_once(crawled: Lake) -> None:
    sizes = hosts.sizes(crawled)
    assert sizes["by_pages"].sum() == sizes["by_known"].sum() == crawled.rows("hosts")
    assert hosts.health(crawled)["hosts"].sum() == crawled.rows("hosts")
    assert hosts.shares(crawled)["share"].iloc[-1] == pytest.approx(1)
    assert set(hosts.robots(crawled)["state"]) <= {"rules", "allow_all", "unreachable"}
    assert hosts.domains(crawled)["pages"].sum() > 0


def test_content_counts_every_page(crawled: Lake) -> None:
    pages = sum(last_cycle.ledger_row(crawled, cycle).counts["pages"] for cycle in (1, 2))
    assert content.types(crawled, most=100)["pages"].sum() == pages
    assert content.languages(crawled, most=100)["pages"].sum() <= crawled.rows("pages")
    doubles = content.duplicates(crawled)
    assert (
        doubles["exact"].sum()
        == crawled.sql(
            "select count(*) n from captures where duplicate and outcome = 'ok' and kind = 'page'"
        )["n"][0].as_py()
    )
    assert hosts.domains(crawled, most=100)["pages"].sum() == pages
    assert (content.families(crawled)["copies"] > 1).all()
    assert (content.near_families(crawled)["pages"] > 1).all()


def test_freshness_counts_every_answered_url(crawled: Lake) -> None:
    later = crawled.rows("frontier_later")
    dues = freshness.dues(crawled)
    assert dues["visits"].sum() + dues["retries"].sum() == later
    found = freshness.revisits(crawled)
    assert found[["first", "changed", "same", "not_modified"]].to_numpy().sum() > 0


def test_pagerank_of_a_known_graph() -> None:
    edges = pd.DataFrame(
        [("a", "b", 5), ("a", "c", 1), ("b", "c", 9), ("c", "a", 1), ("d", "c", 100)],
        columns=["src_host", "dst_host", "links"],
    )
    ranked = linkgraph.pagerank(edges)
    assert ranked["rank"].sum() == pytest.approx(1)
    assert ranked["host"].tolist() == ["c", "a", "b", "d"]
    # solved by hand from r = 0.85 M r + 0.15 / 4, to four digits
    assert ranked["rank"].to_numpy() == pytest.approx([0.3941, 0.3725, 0.1958, 0.0375], abs=1e-4)
    assert ranked.set_index("host").loc["c", ["in_hosts", "in_links"]].tolist() == [3, 110]


def test_pagerank_shares_the_vote_of_hosts_without_links_out() -> None:
    ranked = linkgraph.pagerank(pd.DataFrame([("a", "b", 1)], columns=["src_host", "dst_host", "links"]))
    assert ranked["rank"].sum() == pytest.approx(1)
    assert ranked["rank"].to_numpy() == pytest.approx([1.85 / 2.85, 1 / 2.85], abs=1e-6)


def test_pagerank_of_no_graph_is_empty() -> None:
    empty = pd.DataFrame({"src_host": [], "dst_host": [], "links": []})
    assert len(linkgraph.pagerank(empty)) == 0


def test_every_url_moved_from_somewhere_to_somewhere(crawled: Lake) -> None:
    before = timetravel.at(crawled, 1)
    found = timetravel.moves(before, crawled)
    assert found.to_numpy().sum() == crawled.rows("seen")
    assert found.loc["not known"].sum() == crawled.rows("seen") - before.rows("seen")
    for shelf in SHELVES:
        assert found.loc[shelf].sum() == before.rows(f"frontier_{shelf}")
        assert found[shelf].sum() == crawled.rows(f"frontier_{shelf}")
    grown = timetravel.states(before, crawled)
    assert (grown["after"] - grown["before"] == grown["grown"]).all()


def figures(held: Lake, cycle: int) -> Iterator[picture.Picture]:
    for chapter in page.CHAPTERS:
        for part in chapter.parts(held, cycle, BudgetPolicy()):
            if isinstance(part.shown, picture.Picture):
                yield part.shown


def test_figures_have_titles_and_labelled_axes_and_nothing_runs_over_the_edge(crawled: Lake) -> None:
    drawn = list(figures(crawled, 2))
    assert len(drawn) > 20
    for figure in drawn:
        figure.draw_without_rendering()
        box = figure.bbox
        for axes in figure.axes:
            if not axes.axison:
                continue
            assert axes.get_title(loc="left") and axes.get_xlabel()
            tight = axes.get_tightbbox()
            assert tight is not None
            assert tight.x0 >= box.x0 - 1 and tight.x1 <= box.x1 + 1, axes.get_title(loc="left")
            assert tight.y0 >= box.y0 - 1 and tight.y1 <= box.y1 + 1, axes.get_title(loc="left")
            labels = [one.get_window_extent() for one in axes.get_xticklabels() if one.get_text()]
            inside = [one for one in labels if one.x1 > tight.x0 and one.x0 < tight.x1]
            assert all(a.x1 <= b.x0 + 1 for a, b in pairwise(inside)), axes.get_title(loc="left")


def test_the_page_stands_alone_and_is_small(crawled: Lake) -> None:
    text = page.page(crawled, BudgetPolicy(), files=[("hosts", "a row a host", 3)])
    assert len(text.encode()) < 3_000_000
    assert "<script" not in text and "<link" not in text
    assert set(re.findall(r'(?:src|href)="([^"#]{1,12})', text)) <= {
        "data:image/p",
        "hosts.csv",
        "hosts.parque",
    }
    assert text.count("<img ") > 20 and "Cycle 2" in text


def test_text_of_the_web_is_escaped_on_the_page() -> None:
    rows = pd.DataFrame({"url": ["<script>alert(1)</script>"], "n": [1234.5], "none": [np.nan]})
    assert "<script>" not in page.table(rows)
    assert "1,234.50" in page.table(rows) and "–" in page.table(rows)


def test_crawl_reports_hold_what_the_cycle_did(crawled: Lake, tmp_path: Path) -> None:
    written = {report.name: (rows, files) for report, rows, files in crawlreports.write(crawled, 2, tmp_path)}
    assert set(written) == {"hosts", "status", "mime", "seeds", "frontier", "skipped"}
    for rows, (csv_path, parquet_path) in written.values():
        assert csv.read_csv(csv_path).num_rows == pq.read_table(parquet_path).num_rows == rows
    captures = crawled.sql("select count(*) n from captures where cycle = 2")["n"][0].as_py()
    assert sum(pq.read_table(tmp_path / "status.parquet")["urls"].to_pylist()) == captures
    pages = last_cycle.ledger_row(crawled, 2).counts["pages"]
    assert sum(pq.read_table(tmp_path / "hosts.parquet")["pages"].to_pylist()) == pages
    assert sum(pq.read_table(tmp_path / "frontier.parquet")["urls"].to_pylist()) == crawled.rows("seen")
    assert (
        written["seeds"][0]
        == len({row["seed"] for row in pq.read_table(tmp_path / "seeds.parquet").to_pylist()})
        > 0
    )
    assert all(row["reason"] for row in pq.read_table(tmp_path / "skipped.parquet").to_pylist())


def test_urls_of_hosts_out_of_reach_are_skipped_with_the_reason(bare: Lake) -> None:
    probe = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
    names = ["dead.test", "slow.test", "well.test"]
    held = holding(
        bare,
        "hosts",
        {"bucket": 0},
        host=names,
        host_key=[1, 2, 3],
        health=["dns_nxdomain", "http_5xx", "ok"],
        probe_at=[probe, None, None],
    )
    paths = ["dead.test/tried", "dead.test/waits", "dead.test/found-just-now", "slow.test/", "well.test/"]
    held = holding(
        held,
        "frontier_ready",
        {"bucket": 0},
        url_key=list(range(5)),
        url=[f"http://{path}" for path in paths],
        host=[path.partition("/")[0] for path in paths],
        source=["link"] * 5,
        added_cycle=[1, 1, 2, 1, 1],
    )
    held = holding(
        held,
        "captures",
        {"crawl": "cycle-000002", "subset": "crawldiagnostics"},
        cycle=2,
        url_surtkey=["a"],
        url_key=[0],
        url=["http://dead.test/tried"],
        host=["dead.test"],
        kind=["page"],
        outcome=["dns_nxdomain"],
        error=["no such name"],
    )
    assert [tuple(row.values()) for row in crawlreports.skipped(held, 2).to_pylist()] == [
        ("http://dead.test/tried", "dead.test", "dns_nxdomain", "no such name", "not asked in this cycle"),
        (
            "http://dead.test/waits",
            "dead.test",
            "dns_nxdomain",
            "host tried again from 2026-01-02 03:04 UTC",
            "host out of reach",
        ),
    ]


def settings(root: Path) -> config.Settings:
    return config.load([], environ={}, overrides={"lake.path": str(root)})


def test_the_command_writes_page_and_tables(
    crawled: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    report_cmd.run(settings(crawled.root), "1", tmp_path, as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert told["cycle"] == 1 and Path(told["page"]).stat().st_size < 3_000_000
    assert len(list(Path(told["folder"]).iterdir())) == 13
    assert Path(told["folder"]) == tmp_path / "cycle-000001"
    monkeypatch.chdir(tmp_path)
    report_cmd.run(settings(crawled.root), "1", None, as_json=True)
    folder = Path(json.loads(capsys.readouterr().out)["folder"])
    assert folder == Path("reports", crawled.root.name, "cycle-000001") and folder.is_dir()


def test_a_lake_without_a_cycle_is_told_so(bare: Lake, tmp_path: Path) -> None:
    with pytest.raises(Failure, match="no cycle is committed yet"):
        report_cmd.run(settings(bare.root), None, tmp_path, as_json=False)


def test_a_cycle_that_is_not_there_is_told_so(crawled: Lake, tmp_path: Path) -> None:
    with pytest.raises(Misuse, match="committed are the cycles 1 to 2"):
        report_cmd.run(settings(crawled.root), "9", tmp_path, as_json=False)


def test_a_lake_without_a_cycle_has_no_last_one(bare: Lake) -> None:
    for ask in (last_cycle.funnel, last_cycle.outcomes, last_cycle.seconds):
        with pytest.raises(LakeError, match="no cycle is committed yet"):
            ask(bare, bare.cycle)


def test_figures_of_an_empty_lake_say_that_there_is_nothing(bare: Lake) -> None:
    nothing = linkgraph.pagerank(linkgraph.edges(bare))
    for drawn in (
        politeness.plot_gaps(politeness.gaps(bare)),
        politeness.plot_reasons(politeness.reasons(bare)),
        frontier.plot_shelves(frontier.shelves(bare)),
        frontier.plot_ready(frontier.bands(bare), frontier.waiting(bare)),
        hosts.plot_shares(hosts.shares(bare)),
        hosts.plot_health(hosts.health(bare), hosts.robots(bare)),
        hosts.plot_errors(hosts.errors(bare)),
        content.plot_types(content.types(bare)),
        content.plot_speech(content.languages(bare), content.charsets(bare)),
        content.plot_families(content.families(bare), content.near_families(bare)),
        freshness.plot_revisits(freshness.revisits(bare), freshness.change_rates(bare)),
        linkgraph.plot_top_hosts(nothing),
        linkgraph.plot_in_degrees(linkgraph.in_degrees(nothing), nothing),
    ):
        assert picture.png(drawn).startswith(b"\x89PNG")
