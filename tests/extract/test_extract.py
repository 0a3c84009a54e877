"""Extract on a small lake: every stored page once, also after kills, in older lakes, and twice at once."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import lake
from lake import fsck, staging
from pipelines import config
from pipelines.cluster import InlineRunner
from pipelines.extract import graph
from pipelines.extract.graph import ExtractReport, run_extract
from pipelines.extract.warcfile import extract_file, folder
from pipelines.failure import Failure
from pipelines.toyweb import ToyWeb, serve_in_thread
from tests.cycle import wheels

SETTINGS = config.load([], environ={}, overrides={})


class Quiet:
    def files(self, done: int, total: int, pages: int) -> None:
        pass

    def message(self, text: str) -> None:
        pass


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    web = ToyWeb(hosts=12, seed=3)
    with serve_in_thread(web) as server:
        yield wheels.crawl(web, server, tmp_path_factory.mktemp("crawled")).path


@pytest.fixture
def path(crawled: Path, tmp_path: Path) -> Path:
    shutil.copytree(crawled, tmp_path / "lake")
    return tmp_path / "lake"


def run(path: Path, cycles: list[int] | None = None) -> ExtractReport:
    return run_extract(path, SETTINGS, reporter=Quiet(), cycles=cycles, runner=InlineRunner(2))


def digests(path: Path) -> list[str]:
    rows = lake.open(path).read("pages", columns=["content_digest"])
    return sorted(rows["content_digest"].to_pylist())


def stored(path: Path) -> list[str]:
    query = """select content_digest from captures where subset = 'warc' and kind = 'page' and record_type = 'response'
               and (content_mime_detected in ('text/html', 'text/plain', 'application/xhtml+xml')
                    or body_bytes = 0)"""
    return sorted(lake.open(path).sql(query)["content_digest"].to_pylist())


def test_every_stored_page_is_there_once(path: Path) -> None:
    report = run(path)
    assert report.cycles == [1, 2] and report.pages == len(stored(path)) > 50
    assert digests(path) == stored(path)
    assert not fsck.check(path, deep=True)
    titles = lake.open(path).sql(
        "select p.title a, c.title b from pages p join captures c using (warc_filename, warc_record_offset)"
    )
    assert titles.num_rows == report.pages and titles["a"].to_pylist() == titles["b"].to_pylist()


def test_a_second_run_finds_nothing_to_do(path: Path) -> None:
    run(path)
    version = lake.open(path).versions["pages"]
    again = run(path)
    assert (again.cycles, again.left) == ([], 2)
    assert lake.open(path).versions["pages"] == version


def test_a_cycle_alone_and_the_rest_later(path: Path) -> None:
    assert run(path, [2]).cycles == [2]
    assert run(path).cycles == [1]
    assert digests(path) == stored(path)


def test_what_was_finished_before_a_kill_is_not_read_again(path: Path) -> None:
    held = lake.open(path)
    first = graph.files(held, SETTINGS, 1)[0]
    extract_file(first)
    held.layout.warc_file(first.filename).rename(path / "moved")  # reading it again would fail
    run(path)
    assert digests(path) == stored(path)


def test_a_file_half_written_is_written_again(path: Path) -> None:
    first = graph.files(lake.open(path), SETTINGS, 1)[0]
    manifest = extract_file(first)
    (path / "pages" / manifest["add"]["path"]).write_bytes(b"PAR1")
    run(path)
    assert digests(path) == stored(path)


def test_a_commit_whose_acknowledgement_was_lost_is_not_repeated(path: Path) -> None:
    run(path, [1])
    held = lake.open(path)
    for task in graph.files(held, SETTINGS, 1):
        staging.claim_manifest(folder(path, 1) / "left-over.json", {"file": task.filename})
    again = run(path)
    assert again.cycles == [2] and not folder(path, 1).exists()
    assert digests(path) == stored(path)


def test_two_at_once_store_each_page_once(path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        reports = list(pool.map(run, [path, path]))
    assert sum(len(report.cycles) for report in reports) >= 2
    assert digests(path) == stored(path)
    assert not fsck.check(path, deep=True)


def test_a_folder_that_another_extraction_has_swept_stops_nobody(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def swept(manifest: Path, content: dict[str, object]) -> bool:
        raise FileNotFoundError(manifest)

    monkeypatch.setattr("pipelines.extract.warcfile.staging.claim_manifest", swept)
    run(path)
    assert digests(path) == stored(path)


def test_an_older_lake_gets_the_table(path: Path) -> None:
    shutil.rmtree(path / "pages")
    run(path)
    assert digests(path) == stored(path)


def test_a_newer_extraction_replaces_what_an_older_one_made(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(path)
    for module in ("graph", "warcfile"):
        monkeypatch.setattr(f"pipelines.extract.{module}.VERSION", 2)
    assert run(path).cycles == [1, 2]
    assert digests(path) == stored(path)
    assert {file.path.name[:2] for file in lake.open(path).files("pages")} == {"v2"}


def test_a_damaged_record_is_a_row_that_says_so(path: Path) -> None:
    held = lake.open(path)
    name = graph.files(held, SETTINGS, 1)[0].filename
    rows = held.sql(f"select * from captures where warc_filename = '{name}' and subset = 'warc'").to_pylist()
    place = next(
        row for row in rows if row["record_type"] == "response" and "html" in row["content_mime_detected"]
    )
    with held.layout.warc_file(name).open("r+b") as file:
        file.seek(place["warc_record_offset"])
        file.write(bytes(40))
    assert run(path).unread >= 1
    (row,) = (
        lake.open(path)
        .sql(f"select * from pages where content_digest = '{place['content_digest']}'")
        .to_pylist()
    )
    assert row["problem"] == "damaged" and row["url"] == place["url"]


def test_a_missing_file_is_named_before_anything_is_read(path: Path) -> None:
    held = lake.open(path)
    name = graph.files(held, SETTINGS, 1)[0].filename
    held.layout.warc_file(name).unlink()
    with pytest.raises(Failure, match=rf"{name} is missing; restore it"):
        run(path)


def test_a_cycle_that_is_not_committed_is_refused(path: Path) -> None:
    with pytest.raises(Failure, match="cycle 7 is not committed; cycles 1 to 2 are"):
        run(path, [7])


def test_a_manifest_is_plain_json(path: Path) -> None:
    manifest = extract_file(graph.files(lake.open(path), SETTINGS, 1)[0])
    assert json.loads(json.dumps(manifest)) == manifest
    assert len(json.dumps(manifest)) < 10_000
