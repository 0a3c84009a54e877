"""The inbox: what comes in waits, whole, until a committed cycle has taken it."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake import inbox
from lake.errors import DamagedFile, InboxError
from lake.layout import Layout


def test_rows_come_back_as_they_were_put(tmp_path: Path) -> None:
    name = inbox.put(
        tmp_path,
        [{"url": "http://a.test/", "meta": {"topic": "water", "boost": 2}}, {"url": "b", "meta": '{"x": 1}', "source": "feed"}, {"url": "c"}],
        kind="seed",
        now_ms=1_700_000_000_123,
    )  # fmt: skip
    rows = inbox.read(tmp_path, [name]).to_pylist()
    assert [(row["url"], row["meta"], row["source"]) for row in rows] == [
        ("http://a.test/", '{"boost":2,"topic":"water"}', "seed"),
        ("b", '{"x":1}', "feed"),
        ("c", None, "seed"),
    ]
    assert rows[0]["received_at"] == dt.datetime.fromtimestamp(1_700_000_000, dt.UTC) + dt.timedelta(
        milliseconds=123
    )


def test_files_wait_in_order_and_are_drained_once(tmp_path: Path) -> None:
    names = [inbox.put(tmp_path, [{"url": str(ms)}], kind="api", now_ms=ms) for ms in (5, 1_000, 20)]
    assert inbox.pending(tmp_path) == [names[0], names[2], names[1]]
    inbox.drain(tmp_path, names[:1])
    inbox.drain(tmp_path, names[:1])
    assert inbox.read(tmp_path, names).column("url").to_pylist() == ["1000", "20"]
    assert inbox.pending(tmp_path) == [names[2], names[1]]


def test_rows_are_counted_without_reading_them(tmp_path: Path) -> None:
    names = [
        inbox.put(tmp_path, [{"url": f"http://a.test/{n}"} for n in range(many)], kind="seed")
        for many in (3, 5)
    ]
    (Layout(tmp_path).inbox / "torn.parquet").write_bytes(b"PAR1")
    assert inbox.count(tmp_path, [*names, "torn.parquet", "gone.parquet"]) == 8


def test_an_empty_or_missing_inbox_is_no_error(tmp_path: Path) -> None:
    assert inbox.pending(tmp_path) == []
    inbox.drain(tmp_path, [])
    assert inbox.read(tmp_path, []).num_rows == 0


@pytest.mark.parametrize(
    "row",
    [
        {},
        {"url": ""},
        {"url": 3},
        {"url": "a", "colour": "red"},
        {"url": "a", "meta": "[1]"},
        {"url": "a", "meta": "{"},
    ],
)
def test_a_row_that_cannot_be_kept_is_refused_by_number(tmp_path: Path, row: dict[str, object]) -> None:
    with pytest.raises(InboxError, match="inbox row 1:"):
        inbox.put(tmp_path, [{"url": "fine"}, row], kind="seed")
    assert inbox.pending(tmp_path) == []


def test_a_kind_that_is_no_word_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InboxError, match="a lower-case word"):
        inbox.put(tmp_path, [], kind="../x")


def test_a_damaged_file_is_named_with_the_remedy(tmp_path: Path) -> None:
    name = inbox.put(tmp_path, [{"url": "a"}], kind="seed")
    (tmp_path / "inbox" / name).write_bytes(b"rubbish")
    with pytest.raises(DamagedFile, match=rf"inbox file {name} cannot be read .* move it out of"):
        inbox.read(tmp_path, [name])


@pytest.mark.parametrize(
    ("url", "meta", "why"),
    [
        ("http://a.test/", None, None),
        ("http://a.test/", "{}", None),
        (None, None, "the URL is missing"),
        ("", None, "the URL is missing"),
        ("http://a.test/", "{no json}", "the metadata is no JSON object"),
        ("http://a.test/", "[1]", "the metadata is no JSON object"),
        ("http://a.test/", "", None),
    ],
)
def test_rows_that_cannot_be_taken_in_are_counted_by_reason(
    tmp_path: Path, url: str | None, meta: str | None, why: str | None
) -> None:
    name = inbox.put(tmp_path, [{"url": "b"}], kind="seed")
    rows = pa.Table.from_pylist([{"url": url, "meta": meta, "source": "seed"}] * 2, schema=inbox.SCHEMA)
    pq.write_table(rows, Layout(tmp_path).inbox / name)
    assert inbox.faults(tmp_path, name) == ([f"2 rows are left out by the next cycle: {why}"] if why else [])
    latin = pa.array([b"http://a.test/\xff"], pa.binary()).view(pa.string())
    columns = [latin, *(pa.nulls(1, field.type) for field in list(inbox.SCHEMA)[1:])]
    pq.write_table(pa.Table.from_arrays(columns, schema=inbox.SCHEMA), Layout(tmp_path).inbox / name)
    assert "cannot be read" in inbox.faults(tmp_path, name)[0]
    (Layout(tmp_path).inbox / name).write_bytes(b"rubbish")
    assert "cannot be read" in inbox.faults(tmp_path, name)[0]
