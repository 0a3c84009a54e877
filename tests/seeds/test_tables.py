"""Seeds from Parquet files, sitemaps and feeds, with labels."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lake
from lake import inbox
from pipelines.app import seeds_cmd
from pipelines.failure import Failure, Misuse
from pipelines.rules import metadata
from pipelines.seeds import tables
from pipelines.seeds.add import Wish, add_all, check_all
from pipelines.seeds.read import BadLine


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return lake.create(tmp_path / "lake", buckets=8).root


def quiet(source: str, line: BadLine) -> None:
    pass


def index(path: Path, urls: list[str | None]) -> str:
    rows = len(urls)
    pq.write_table(pa.table({"url_surtkey": ["x"] * rows, "url": urls, "fetch_status": [200] * rows}), path)
    return str(path)


def test_an_index_gives_its_urls_and_bad_rows_are_told_by_number(root: Path, tmp_path: Path) -> None:
    path = index(
        tmp_path / "part.parquet", ["https://a.example/", None, "ftp://b.example/", "https://c.example/x"]
    )
    told: list[int] = []
    wish = Wish(parquet=(path,), meta={"country": "dk", "topic": "news"})
    added = add_all(root, wish, report=lambda _, line: told.append(line.number))
    assert (added.added, added.refused, told) == (2, 2, [2, 3])
    rows = inbox.read(root, inbox.pending(root)).to_pylist()
    assert [row["url"] for row in rows] == ["https://a.example/", "https://c.example/x"]
    assert {metadata.label_of(row["meta"]) for row in rows} == {"dk/news"}


def test_a_large_index_is_streamed(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.seeds.add.ROWS_A_FILE", 1_000)
    path = index(tmp_path / "part.parquet", [f"https://h{at}.example/{'x' * 300}" for at in range(40_000)])
    tracemalloc.start()
    added = add_all(root, Wish(parquet=(path,)), report=quiet)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (added.added, len(added.files)) == (40_000, 40)
    assert peak < 12_000_000


@pytest.mark.parametrize("table", [{"address": ["https://a.example/"]}, {"url": [1, 2]}])
def test_a_table_without_urls_is_refused_by_name(table: dict[str, list[object]], tmp_path: Path) -> None:
    pq.write_table(pa.table(table), tmp_path / "x.parquet")
    with pytest.raises(Misuse, match="column"):
        check_all(Wish(parquet=(str(tmp_path / "x.parquet"),)))


def test_a_file_that_is_no_parquet_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_text("https://a.example/\n")
    with pytest.raises(Misuse, match="cannot be read as a Parquet file"):
        tables.check(tmp_path / "x.parquet")


def test_sitemaps_and_feeds_are_told_apart_in_the_inbox(root: Path) -> None:
    wish = Wish(
        sitemaps=("https://a.example/s.xml",), feeds=("https://a.example/f.rss",), meta={"label": "dk"}
    )
    add_all(root, wish, report=quiet)
    rows = {row["url"]: row for row in inbox.read(root, inbox.pending(root)).to_pylist()}
    assert rows["https://a.example/s.xml"]["source"] == "sitemap"
    feed = rows["https://a.example/f.rss"]
    assert feed["source"] == "seed" and json.loads(feed["meta"]) == {"label": "dk", "feed": "true"}
    with pytest.raises(Misuse):
        check_all(Wish(sitemaps=("s.xml",)))


def test_metadata_of_a_line_goes_before_that_of_the_command(root: Path, tmp_path: Path) -> None:
    (tmp_path / "seeds.txt").write_text("https://a.example/\tlabel=se\nhttps://b.example/\n")
    meta = seeds_cmd.metadata_of(["stay=host"], label="dk", country=None, topic=None)
    add_all(root, Wish((str(tmp_path / "seeds.txt"),), meta=meta), report=quiet)
    rows = inbox.read(root, inbox.pending(root)).to_pylist()
    assert [json.loads(row["meta"]) for row in rows] == [
        {"label": "se", "stay": "host"}, {"label": "dk", "stay": "host"},
    ]  # fmt: skip


@pytest.mark.parametrize("pair", ["stay", "=x", "a b=1"])
def test_metadata_that_is_no_pair_is_refused(pair: str) -> None:
    with pytest.raises(Misuse, match="KEY=VALUE"):
        seeds_cmd.metadata_of([pair], label=None, country=None, topic=None)


def test_a_damaged_index_is_named_and_a_label_that_is_no_utf8_text_is_refused(
    root: Path, tmp_path: Path
) -> None:
    path = tmp_path / "part.parquet"
    index(path, [f"http://{number}.example/" for number in range(5_000)])
    garbled = bytearray(path.read_bytes())
    garbled[len(garbled) // 3 : len(garbled) // 2] = b"Z" * (len(garbled) // 2 - len(garbled) // 3)
    path.write_bytes(garbled)
    with pytest.raises(Failure, match=f"{path} cannot be read to its end"):
        add_all(root, Wish(parquet=(str(path),)), report=quiet)
    for pairs, label in ((["x=\udcff"], None), ([], "\udcff")):
        with pytest.raises(Misuse, match="no UTF-8 text"):
            seeds_cmd.metadata_of(pairs, label=label, country=None, topic=None)
