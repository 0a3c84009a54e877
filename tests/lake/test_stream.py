"""A data file written in pieces, and the tables that older lakes lack."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import lake
from lake import commit, fsck, upkeep
from lake.errors import DamagedFile, LakeError, LakeMissing
from lake.schema import DERIVED, PAGES
from lake.stream import StreamedFile


def pages(*offsets: int) -> pa.Table:
    columns = {
        field.name: pa.nulls(len(offsets), field.type)
        for field in PAGES.file_schema
        if "offset" not in field.name
    }
    columns["warc_record_offset"] = pa.array(offsets, pa.int64())
    columns["cycle"] = pa.array([1] * len(offsets), pa.int32())
    return pa.table(columns)


def written(root: Path, *pieces: pa.Table, name: str = "c000001/x.parquet") -> StreamedFile:
    with StreamedFile(root / "pages", name, PAGES, {"crawl": "cycle-000001"}) as file:
        for piece in pieces:
            file.write(piece)
    return file


def test_pieces_make_one_file_that_a_commit_accepts(tmp_path: Path) -> None:
    lake.create(tmp_path, buckets=8)
    add = written(tmp_path, pages(1, 5), pages(), pages(5, 9)).add
    assert add.rows == 4
    assert add.stats["minValues"]["warc_record_offset"] == 1
    assert add.stats["maxValues"]["warc_record_offset"] == 9
    commit.commit_table(
        tmp_path, "pages", cycle=1, adds=[add], replace={"crawl": ["cycle-000001"]}, app="extract-c000001"
    )
    held = lake.open(tmp_path)
    assert held.read("pages", columns=["warc_record_offset"]).column(0).to_pylist() == [1, 5, 5, 9]
    assert held.versions["pages"] == 1 and held.cycle == 0
    assert not fsck.check(tmp_path, deep=True)


@pytest.mark.parametrize("pieces", [(pages(5, 1),), (pages(1, 5), pages(4))])
def test_rows_out_of_order_are_refused_and_nothing_is_left(
    tmp_path: Path, pieces: tuple[pa.Table, ...]
) -> None:
    with pytest.raises(DamagedFile, match="not sorted"):
        written(tmp_path, *pieces)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_file_under_way_cannot_be_committed(tmp_path: Path) -> None:
    with (
        StreamedFile(tmp_path, "a.parquet", PAGES, {}) as file,
        pytest.raises(LakeError, match="not written yet"),
    ):
        assert file.add


def test_a_lake_from_before_a_derived_table_works_and_says_what_makes_it(tmp_path: Path) -> None:
    lake.create(tmp_path, buckets=8)
    for table in DERIVED:
        shutil.rmtree(tmp_path / table.name)
    held = lake.open_or_create(tmp_path, buckets=8)
    assert held.rows("pages") == 0 and held.files("pages") == [] and held.size("pages") == 0
    assert held.read("pages").num_rows == 0
    assert "pages" not in held.versions
    assert not fsck.check(tmp_path)
    assert upkeep.vacuum(tmp_path) == []
    with pytest.raises(LakeMissing, match="noria extract"):
        held.sql("select * from pages")
