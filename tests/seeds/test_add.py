"""Seeds from files, arguments and standard input reach the inbox."""

from __future__ import annotations

import gzip
import io
import json
import sys
import tracemalloc
from pathlib import Path

import pytest

import lake
from lake import inbox
from pipelines.failure import Failure, Misuse
from pipelines.seeds import add as adding
from pipelines.seeds.add import Wish, add, check, check_all
from pipelines.seeds.read import BadLine


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return lake.create(tmp_path / "lake", buckets=8).root


def quiet(source: str, line: BadLine) -> None:
    pass


def test_files_and_urls_go_into_the_inbox_with_their_metadata(root: Path, tmp_path: Path) -> None:
    seeds = tmp_path / "seeds.txt"
    seeds.write_bytes(b"http://a.example/\tlabel=dk\nrubbish\n")
    told: list[tuple[str, BadLine]] = []
    added = add(
        root, [str(seeds), "http://b.example/"], report=lambda source, line: told.append((source, line))
    )
    assert (added.added, added.refused) == (2, 1)
    assert told == [(str(seeds), BadLine(2, "'rubbish' is not an http or https URL"))]
    rows = inbox.read(root, inbox.pending(root)).to_pylist()
    assert [(row["url"], row["source"]) for row in rows] == [
        ("http://a.example/", "seed"),
        ("http://b.example/", "seed"),
    ]
    assert json.loads(rows[0]["meta"]) == {"label": "dk"}
    assert rows[1]["meta"] is None


def test_gzipped_files_and_standard_input_are_read(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = tmp_path / "seeds.txt.gz"
    packed.write_bytes(gzip.compress(b"http://a.example/\n"))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"http://b.example/\n")))
    assert add(root, [str(packed), "-"], report=quiet).added == 2


DAMAGED = {
    "cut.gz": gzip.compress(b"http://a.example/\n")[:25],
    "not.gz": b"http://a.example/\n",
    "garbled.gz": gzip.compress(b"http://a.example/\n", 0)[:12] + b"\xff" * 20,
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_file_that_cannot_be_read_to_its_end_is_named(root: Path, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(DAMAGED[name])
    with pytest.raises(Failure, match=rf"^{path} cannot be read to its end \(.+\); none of its seeds"):
        add(root, [str(path)], report=quiet)


def test_what_came_before_the_damage_is_in_the_inbox_and_counted(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adding, "ROWS_A_FILE", 10)
    path = tmp_path / "cut.gz"
    path.write_bytes(
        gzip.compress(b"".join(b"http://%x.example/\n" % hash(str(n)) for n in range(1_000)))[:-100]
    )
    with pytest.raises(Failure, match=r"the \d+ seeds before that are in the inbox: mend it"):
        add(root, ["http://z.example/", str(path)], report=quiet)
    rows = inbox.read(root, inbox.pending(root)).num_rows
    assert rows > 1 and rows % 10 == 1


@pytest.mark.parametrize(
    "wish",
    [
        Wish(("http://a.example/\udcff",)),
        Wish(("\udcff.txt",)),
        Wish(sitemaps=("http://a.example/\udcff.xml",)),
        Wish(feeds=("http://a.example/\udcff.xml",)),
    ],
)
def test_a_url_that_is_no_utf8_text_is_refused_in_a_sentence(wish: Wish) -> None:
    with pytest.raises(Misuse) as refused:
        check_all(wish)
    str(refused.value).encode()


@pytest.mark.parametrize("source", ["nowhere.txt", "ftp://a.example/", "example.org", "."])
def test_what_is_no_source_is_refused(source: str) -> None:
    with pytest.raises(Misuse):
        check(source)


def test_a_large_file_is_streamed_into_files_of_bounded_size(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adding, "ROWS_A_FILE", 1000)
    seeds = tmp_path / "seeds.txt"
    seeds.write_text(
        "".join(f"http://h{number}.example/{'x' * 200}\n" for number in range(20_500)), encoding="utf-8"
    )
    tracemalloc.start()
    added = add(root, [str(seeds)], report=quiet)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (added.added, len(added.files)) == (20_500, 21)
    assert peak < seeds.stat().st_size
