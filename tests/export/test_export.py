"""Exports of a small crawled lake, read back by other readers: pyarrow, csv, json, warcio, zipfile."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from warcio.archiveiterator import ArchiveIterator

import lake
from lake.errors import QueryError
from lake.snapshot import Lake
from pipelines import config
from pipelines.app import export_cmd
from pipelines.cluster import InlineRunner
from pipelines.export.records import digest_key
from pipelines.export.run import export
from pipelines.export.selection import Selection
from pipelines.extract.graph import run_extract
from pipelines.failure import Failure, Misuse
from pipelines.toyweb import ToyWeb, serve_in_thread
from tests.cycle import wheels
from tests.extract.test_extract import Quiet


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    web = ToyWeb(hosts=12, seed=3)
    with serve_in_thread(web) as server:
        crawl = wheels.crawl(
            web, server, tmp_path_factory.mktemp("export"), overrides={"window.seconds": "3"}
        )
    run_extract(crawl.path, crawl.settings, reporter=Quiet(), runner=InlineRunner(2))
    yield lake.open(crawl.path)


def written(held: Lake, selection: Selection, to: str) -> bytes:
    sink, heard = io.BytesIO(), list[tuple[int, int]]()
    done = export(held, selection, to, sink, told=lambda *now: heard.append(now), software="test")
    assert not heard or heard[-1] == (done.rows, done.rows)
    return sink.getvalue()


def records(data: bytes) -> list[Any]:
    found = []
    for record in ArchiveIterator(io.BytesIO(data)):
        record.body = record.content_stream().read()
        found.append(record)
    return found


@pytest.mark.parametrize("what", ["pages", "links", "hosts", "captures"])
def test_every_format_holds_the_same_rows(crawled: Lake, what: str) -> None:
    selection = Selection(what)
    table = pq.read_table(io.BytesIO(written(crawled, selection, "parquet")))
    lines = [json.loads(line) for line in written(crawled, selection, "jsonl").splitlines()]
    text = written(crawled, selection, "csv").decode()
    cells = list(csv.DictReader(io.StringIO(text)))
    assert table.num_rows == len(lines) == len(cells) > 0
    assert table.column_names == list(lines[0]) == list(cells[0])
    key = {"links": "src_host", "hosts": "host"}.get(what, "url")
    assert (
        sorted(table[key].to_pylist())
        == sorted(row[key] for row in lines)
        == sorted(row[key] for row in cells)
    )


def test_an_export_twice_is_the_same_bytes(crawled: Lake) -> None:
    assert len({written(crawled, Selection("pages"), "jsonl") for _ in range(8)}) == 1


def test_pages_are_every_answered_page_with_its_text(crawled: Lake) -> None:
    table = pq.read_table(io.BytesIO(written(crawled, Selection("pages"), "parquet")))
    query = "select count(*) n from captures where subset = 'warc' and kind = 'page'"
    assert table.num_rows == crawled.sql(query)["n"][0].as_py()
    rows = table.to_pylist()
    doubles = [
        row for row in rows if row["record_type"] == "revisit" and row["content_mime_detected"] == "text/html"
    ]
    texts = {row["content_digest"]: row["text"] for row in rows if row["record_type"] == "response"}
    assert doubles and all(row["text"] == texts[row["content_digest"]] for row in doubles)


def test_conditions_cycles_and_columns_choose(crawled: Lake) -> None:
    chosen = Selection("pages", (2,), "words > 20 and host <> ''", ("url", "cycle", "words"))
    table = pq.read_table(io.BytesIO(written(crawled, chosen, "parquet")))
    assert table.column_names == ["url", "cycle", "words"]
    assert set(table["cycle"].to_pylist()) == {2} and min(table["words"].to_pylist()) > 20


@pytest.mark.parametrize("where", ["nonsense = 1", "url like", "1 = 1; drop table x"])
def test_a_condition_that_is_no_sql_is_told_in_a_sentence(crawled: Lake, where: str) -> None:
    with pytest.raises(QueryError, match="the query cannot be run"):
        written(crawled, Selection("captures", None, where), "csv")


def test_a_warc_is_read_by_others_and_its_digests_hold(crawled: Lake) -> None:
    data = written(crawled, Selection("pages"), "warc")
    found = records(data)
    kinds = [record.rec_type for record in found]
    rows = crawled.sql("select * from captures where subset = 'warc' and kind = 'page'").num_rows
    assert kinds[0] == "warcinfo"
    informed = {
        record.rec_headers.get_header("WARC-Record-ID") for record in found if record.rec_type == "warcinfo"
    }
    named = [
        record.rec_headers.get_header("WARC-Warcinfo-ID") for record in found if record.rec_type == "response"
    ]
    assert len(informed) == kinds.count("warcinfo") > 2 and set(named) <= informed
    assert kinds.count("response") + kinds.count("revisit") == rows == kinds.count("request")
    for record in found:
        digest = record.rec_headers.get_header("WARC-Block-Digest")
        assert record.length is not None and (digest is None or digest.startswith("sha1:"))
    for index, record in enumerate(found):
        if record.rec_type == "request":
            about = record.rec_headers.get_header("WARC-Concurrent-To")
            assert about == found[index - 1].rec_headers.get_header("WARC-Record-ID")


def test_a_duplicate_brings_the_record_that_holds_its_bytes(crawled: Lake) -> None:
    data = written(
        crawled, Selection("captures", None, "record_type = 'revisit' and content_digest is not null"), "warc"
    )
    found = records(data)
    held = {
        record.rec_headers.get_header("WARC-Payload-Digest")
        for record in found
        if record.rec_type == "response"
    }
    wanted = {
        record.rec_headers.get_header("WARC-Payload-Digest")
        for record in found
        if record.rec_type == "revisit"
    }
    assert wanted and wanted <= held


def test_a_wacz_is_whole_and_every_index_line_finds_its_record(crawled: Lake) -> None:
    archive = zipfile.ZipFile(io.BytesIO(written(crawled, Selection("pages"), "wacz")))
    assert archive.testzip() is None
    assert archive.getinfo("archive/data.warc.gz").compress_type == zipfile.ZIP_STORED
    package = json.loads(archive.read("datapackage.json"))
    assert package["profile"] == "data-package" and package["wacz_version"] == "1.1.1"
    for resource in package["resources"]:
        data = archive.read(resource["path"])
        assert resource["bytes"] == len(data)
        assert resource["hash"] == f"sha256:{hashlib.sha256(data).hexdigest()}"
    digest = json.loads(archive.read("datapackage-digest.json"))
    assert digest["hash"] == f"sha256:{hashlib.sha256(archive.read('datapackage.json')).hexdigest()}"
    warc = archive.read("archive/data.warc.gz")
    lines = gzip.decompress(archive.read("indexes/index.cdx.gz")).decode().splitlines()
    assert lines == sorted(lines) and len(lines) > 20
    for line in lines:
        surt, stamp, rest = line.split(" ", 2)
        entry = json.loads(rest)
        piece = warc[int(entry["offset"]) : int(entry["offset"]) + int(entry["length"])]
        (record,) = records(piece)
        assert record.rec_headers.get_header("WARC-Target-URI") == entry["url"]
        assert record.rec_headers.get_header("WARC-Payload-Digest") == f"sha1:{entry['digest']}"
        assert entry["filename"] == "data.warc.gz" and len(stamp) == 14 and surt
        assert (record.rec_type == "revisit") == (entry["mime"] == "warc/revisit")


def test_the_index_of_a_wacz_is_found_in_pieces_and_its_pages_are_in_it(crawled: Lake) -> None:
    archive = zipfile.ZipFile(io.BytesIO(written(crawled, Selection("pages"), "wacz")))
    head, *blocks = archive.read("indexes/index.idx").decode().splitlines()
    assert json.loads(head.split(" ", 2)[2]) == {"format": "cdxj-gzip-1.0", "filename": "index.cdx.gz"}
    packed = archive.read("indexes/index.cdx.gz")
    urls = set()
    for block in blocks:
        surt, stamp, rest = block.split(" ", 2)
        place = json.loads(rest)
        piece = packed[place["offset"] : place["offset"] + place["length"]]
        assert place["digest"] == f"sha256:{hashlib.sha256(piece).hexdigest()}"
        lines = gzip.decompress(piece).decode().splitlines()
        assert lines[0].startswith(f"{surt} {stamp} ")
        urls |= {json.loads(line.split(" ", 2)[2])["url"] for line in lines}
    first, *pages = (json.loads(line) for line in archive.read("pages/pages.jsonl").splitlines())
    assert first["format"] == "json-pages-1.0"
    assert pages and all({"id", "url", "title", "ts"} <= set(page) and page["url"] in urls for page in pages)


def test_a_part_whose_local_header_has_an_extra_field_has_one_in_the_directory_too(crawled: Lake) -> None:
    """ReplayWeb.page takes a part for one without, and its bytes for others, where the directory tells of none."""
    data = written(crawled, Selection("pages"), "wacz")
    entries = zipfile.ZipFile(io.BytesIO(data)).infolist()
    extras = [int.from_bytes(data[one.header_offset + 28 :][:2], "little") for one in entries]
    assert any(extras) and [bool(one.extra) for one in entries] == [size > 0 for size in extras]


def test_a_wacz_of_pages_has_the_redirects_that_visits_met_and_a_warc_has_none(crawled: Lake) -> None:
    met = "select url from captures where kind = 'page' and fetch_redirect is not null"
    redirects = set(crawled.sql(met)["url"].to_pylist())
    assert redirects and redirects <= {entry["url"] for entry in indexed(crawled, Selection("pages"))}
    found = records(written(crawled, Selection("pages"), "warc"))
    assert redirects.isdisjoint(one.rec_headers.get_header("WARC-Target-URI") for one in found)


def indexed(held: Lake, selection: Selection) -> list[dict[str, str]]:
    """Return the fields of the lines of a WACZ's index."""
    archive = zipfile.ZipFile(io.BytesIO(written(held, selection, "wacz")))
    lines = gzip.decompress(archive.read("indexes/index.cdx.gz")).decode().splitlines()
    return [json.loads(line.split(" ", 2)[2]) for line in lines]


def test_digest_keys_are_those_of_the_table(crawled: Lake) -> None:
    rows = crawled.read("contents", columns=["digest", "digest_key"]).to_pylist()
    assert rows and all(digest_key(row["digest"]) == row["digest_key"] for row in rows)


def test_a_record_that_is_gone_is_named(crawled: Lake, tmp_path: Path) -> None:
    name = sorted((crawled.root / "warc" / "c000001").glob("*-p*.warc.gz"))[0]
    moved = name.rename(tmp_path / name.name)
    try:
        with pytest.raises(Failure, match="is missing; restore it"):
            written(crawled, Selection("captures", (1,)), "warc")
    finally:
        moved.rename(name)


def settings(root: Path) -> config.Settings:
    return config.load([], environ={}, overrides={"lake.path": str(root)})


def run(root: Path, what: str, **asked: Any) -> None:
    given = {
        "cycle": None,
        "where": None,
        "columns": None,
        "to": None,
        "out": None,
        "as_json": False,
        **asked,
    }
    export_cmd.run(settings(root), what, **given)


def test_the_command_writes_a_file_and_says_so(
    crawled: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run(crawled.root, "pages", to="wacz", cycle="last")
    assert "records" in capsys.readouterr().out and zipfile.is_zipfile("pages.wacz")
    run(crawled.root, "links", to="csv", out=tmp_path / "a" / "links.csv", as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert told["rows"] == crawled.rows("links") and Path(told["file"]).stat().st_size == told["bytes"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "pages.wacz"]


def test_the_ending_of_the_name_is_the_format(crawled: Lake, tmp_path: Path) -> None:
    first = {
        "a.csv": b'"host"',
        "b.jsonl": b'{"host"',
        "c.ndjson": b'{"host"',
        "d.parquet": b"PAR1",
        "e": b"PAR1",
    }
    for name, begin in first.items():
        run(crawled.root, "hosts", columns="host", out=tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(begin), name
    with pytest.raises(Misuse, match=r"\.xlsx is the ending of no format; end it \.parquet, .*or say --to"):
        run(crawled.root, "hosts", out=tmp_path / "hosts.xlsx")
    assert not (tmp_path / "hosts.xlsx").exists()
    run(crawled.root, "pages", out=tmp_path / "F.WARC.GZ", where="depth = 0")
    assert records((tmp_path / "F.WARC.GZ").read_bytes())[0].rec_headers["WARC-Filename"] == "F.WARC.GZ"


def test_the_object_tells_of_what_went_to_a_device(crawled: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    run(crawled.root, "hosts", to="csv", out=Path("/dev/null"), as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert found == {"file": "/dev/null", "rows": crawled.rows("hosts"), "originals": 0, "bytes": None}


def test_only_files_outside_the_lake_are_replaced(crawled: Lake, tmp_path: Path) -> None:
    pipe, file, link = tmp_path / "pipe", tmp_path / "kept.csv", tmp_path / "link.csv"
    os.mkfifo(pipe)
    file.write_text("old")
    link.symlink_to(file)
    with open(os.open(pipe, os.O_RDWR | os.O_NONBLOCK), "rb") as reader:
        run(crawled.root, "hosts", columns="host", to="csv", out=pipe)
        assert os.read(reader.fileno(), 1 << 16).startswith(b'"host"')
    run(crawled.root, "hosts", columns="host", out=link)
    assert link.is_symlink() and file.read_text().startswith('"host"')
    before = (crawled.root / "noria.json").read_bytes()
    for inside in (crawled.root / "noria.json", crawled.root / "new.csv"):
        with pytest.raises(Misuse, match="inside the lake"):
            run(crawled.root, "hosts", to="csv" if inside.suffix == ".csv" else None, out=inside)
    assert (crawled.root / "noria.json").read_bytes() == before


def test_a_failed_export_leaves_no_file(crawled: Lake, tmp_path: Path) -> None:
    with pytest.raises(Misuse, match="--where nonsense: "):
        run(crawled.root, "pages", where="nonsense", out=tmp_path / "x.parquet")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("what", "asked", "sentence"),
    [
        ("sheets", {}, "what can be exported are pages, links"),
        ("pages", {"to": "xlsx"}, "the formats are parquet, csv"),
        ("links", {"to": "warc"}, "links have no records"),
        ("hosts", {"cycle": "1-2"}, "name one cycle"),
        ("pages", {"cycle": "7"}, "committed are the cycles 1 to 2"),
        ("pages", {"columns": "url,txet"}, "pages have no such column"),
        ("pages", {"to": "warc", "columns": "url"}, "leave the option out"),
        ("pages", {"to": "parquet", "out": Path("-")}, "cannot go to standard output"),
        ("pages", {"to": "parquet", "out": Path("pages.csv")}, "ends like csv"),
        ("pages", {"to": "warc", "out": Path("pages.warc")}, r"name it pages\.warc\.gz"),
        ("pages", {"to": "csv", "out": Path("-"), "as_json": True}, "takes the rows or the object"),
        ("pages", {"where": " "}, "a condition in SQL is wanted"),
        ("pages", {"columns": ","}, "names of columns are wanted"),
        ("pages", {"columns": "url,host, url"}, "url is named twice"),
        ("pages", {"out": Path("/dev/null")}, "a parquet cannot go to what is no file"),
        ("pages", {"out": Path("/")}, "that is a folder"),
    ],
)
def test_what_cannot_be_is_told_with_what_can(
    crawled: Lake, tmp_path: Path, what: str, asked: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(Misuse, match=sentence):
        run(crawled.root, what, **{"out": tmp_path / "x", **asked})


def test_hosts_are_as_the_cycle_left_them(crawled: Lake) -> None:
    before = lake.open(crawled.root, cycle=1)
    table = pq.read_table(io.BytesIO(written(before, Selection("hosts"), "parquet")))
    assert table.num_rows == before.rows("hosts")
