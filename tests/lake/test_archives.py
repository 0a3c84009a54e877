"""A deep check reads WARC files to their ends, their CDXJ, and the papers of a cycle."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from lake import archives, fsck
from lake.snapshot import Lake
from tests.lake.sample import new_lake, warc_member, with_warc

REQUEST = warc_member(url="http://a.test/", record_id="urn:uuid:r", payload=b"", kind="request")
INFO = warc_member(url="", record_id="urn:uuid:i", payload=b"", kind="warcinfo")
PAPER = warc_member(url="urn:x", record_id="urn:uuid:p", payload=b"{}" * 5_000, kind="resource")
PAYLOADS = [b"one", b"two" * 500, b""]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A lake after a cycle that left all that a cycle leaves."""
    held, path = with_warc(
        new_lake(tmp_path), PAYLOADS, behind=REQUEST, counts={archives.SINCE: len(PAYLOADS)}
    )
    (path.parent / "a-meta.warc.gz").write_bytes(INFO + PAPER)
    return held


def lines(lake: Lake) -> list[str]:
    """Return what a deep check finds, and make sure that a plain one reads none of it."""
    assert fsck.check(lake.root) == []
    return [str(fault).replace(f"{lake.root}/", "") for fault in fsck.check(lake.root, deep=True)]


def damaged(lake: Lake, name: str, change: Callable[[bytes], bytes]) -> list[str]:
    path = lake.root / name
    path.write_bytes(change(path.read_bytes()))
    return lines(lake)


def test_what_a_cycle_leaves_has_no_fault(lake: Lake) -> None:
    assert lines(lake) == []


STRAY = warc_member(url="http://a.test/x", record_id="urn:uuid:x", payload=b"x")
WARC, INDEX, META = "warc/c000001/a.warc.gz", "cdxj/c000001/a.cdxj", "warc/c000001/a-meta.warc.gz"


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda data: data[:-20], "is cut off at"),
        (lambda data: data + b"garbage", "7 bytes at"),
        (lambda data: data + bytes(9), "9 bytes at"),
        (lambda data: data + STRAY, "the response record at"),
        (lambda data: data[:-60] + bytes(40) + data[-20:], "cannot be decompressed"),
        (lambda data: data + gzip.compress(b"no record"), "no WARC record at offset"),
        (lambda data: data + gzip.compress(gzip.decompress(REQUEST).replace(b"200", b"300")), "the digest"),
    ],
)
def test_what_stands_behind_the_last_named_record_is_read(
    lake: Lake, change: Callable[[bytes], bytes], what: str
) -> None:
    (line,) = damaged(lake, WARC, change)
    assert line.startswith(f"{WARC}: ") and what in line


def test_a_damaged_request_between_two_records_is_named_once(lake: Lake) -> None:
    def flipped(data: bytes) -> bytes:
        at = data.index(REQUEST)
        return data[: at + 30] + b"?" * 20 + data[at + 50 :]

    (line,) = damaged(lake, WARC, flipped)
    assert f"the member at {(lake.root / WARC).read_bytes().index(REQUEST[:10], 1)} cannot" in line


def cut(data: bytes) -> bytes:
    return data[: data.index(b"\n") + 1] + data[data.index(b"\n") + 1 :][:40]


@pytest.mark.parametrize(
    ("change", "whats"),
    [
        (lambda data: b"", ["3 records of c000001/a.warc.gz have no line, the first is that at 0"]),
        (cut, ["1 lines are no CDXJ, the first is line 2", "2 records of c000001/a.warc.gz have no line"]),
        (lambda data: data[:-1], ["1 lines are cut off, the first is line 3"]),
        (
            lambda data: data.replace(b"http://a.test/1", b"http://b.test/1"),
            ["1 lines are not as the table captures says, the first is line 2"],
        ),
        (
            lambda data: b"".join(reversed(data.splitlines(keepends=True))),
            ["2 lines are not in byte order, the first is line 2"],
        ),
    ],
)
def test_a_cdxj_is_held_against_captures(
    lake: Lake, change: Callable[[bytes], bytes], whats: list[str]
) -> None:
    found = damaged(lake, INDEX, change)
    assert len(found) == len(whats)
    assert all(f"{INDEX}: {what}" in line for what, line in zip(whats, found, strict=True))


def test_a_304_needs_no_line_and_older_lakes_have_one(tmp_path: Path) -> None:
    held, _ = with_warc(new_lake(tmp_path), PAYLOADS)
    index = held.root / INDEX
    records = archives._records(held.files("captures"))["c000001/a.warc.gz"]
    offsets, _, statuses, words = records.sorted()
    statuses = statuses.copy()
    statuses[1] = archives.NOT_MODIFIED
    rest = [line for place, line in enumerate(index.read_bytes().splitlines(keepends=True)) if place != 1]
    assert list(archives.index_faults(index, "c000001/a.warc.gz", offsets, statuses, words)) == []
    index.write_bytes(b"".join(rest))
    assert list(archives.index_faults(index, "c000001/a.warc.gz", offsets, statuses, words)) == []


@pytest.mark.parametrize("name", [INDEX, META])
def test_a_file_that_is_gone_is_named(lake: Lake, name: str) -> None:
    (lake.root / name).unlink()
    (line,) = lines(lake)
    assert "is missing" in line and line.startswith(name if name == INDEX else "warc/c000001: ")


def test_damaged_papers_are_a_fault(lake: Lake) -> None:
    (line,) = damaged(lake, META, lambda data: data[:-9])
    assert line.startswith(f"{META}: the member at {len(INFO)} is cut off")


def test_a_cycle_from_before_there_were_papers_needs_none(tmp_path: Path) -> None:
    held, _ = with_warc(new_lake(tmp_path), PAYLOADS)
    assert lines(held) == []
    held, _ = with_warc(held, [b"three"], cycle=2, counts={archives.SINCE: 1})
    assert lines(held) == ["warc/c000002: the file with the papers of cycle 2 (*-meta.warc.gz) is missing"]
