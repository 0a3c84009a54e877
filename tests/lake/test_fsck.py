"""`noria check`: silent on a sound lake, one line for each fault of a damaged one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from lake import bloom, commit, fsck, inbox, members, runs
from lake.ledger import LedgerRow
from lake.schema import BY_NAME
from lake.snapshot import Lake
from tests.lake.sample import (
    NOON,
    finish,
    keys_in,
    new_lake,
    rows_of,
    run_add,
    shelf_add,
    turn,
    warc_member,
    with_warc,
)


def _lines(lake: Lake, *, deep: bool = False) -> list[str]:
    return [str(fault).replace(f"{lake.root}/", "") for fault in fsck.check(lake.root, deep=deep)]


def _two_cycles(tmp_path: Path) -> Lake:
    lake = turn(new_lake(tmp_path), 1, {0: keys_in(0, 1, 2), 1: keys_in(1, 4)})
    return turn(lake, 2, {0: keys_in(0, 3), 3: keys_in(3, 1)})


def test_a_sound_lake_has_no_fault(tmp_path: Path) -> None:
    lake = _two_cycles(tmp_path)
    bloom.ensure(lake, "seen", 0)
    assert _lines(lake) == _lines(lake, deep=True) == []


def test_a_sound_warc_has_no_fault(tmp_path: Path) -> None:
    lake, _ = with_warc(new_lake(tmp_path), [b"one", b"two" * 500, b""])
    assert _lines(lake) == _lines(lake, deep=True) == []


def test_p2_a_url_missing_from_the_shelves_is_named_by_bucket(tmp_path: Path) -> None:
    lake = new_lake(tmp_path)
    adds = {
        "seen": [run_add(lake, 1, 2, keys_in(2, 1, 2))],
        "frontier_ready": [shelf_add(lake, "ready", 1, 2, keys_in(2, 1))],
    }
    lake = finish(lake, 1, adds)
    assert _lines(lake) == [
        "bucket 2: seen has 2 URLs, the shelves 1 (ready 1 + backlog 0 + later 0 + retired 0)"
    ]
    assert f"bucket 2: 1 URLs are in seen but on no shelf, the first key is {keys_in(2, 2)[0]}" in _lines(
        lake, deep=True
    )


def test_p2_deep_finds_what_the_counts_hide(tmp_path: Path) -> None:
    lake = new_lake(tmp_path)
    adds = {
        "seen": [run_add(lake, 1, 0, keys_in(0, 1, 2, 3))],
        "frontier_ready": [shelf_add(lake, "ready", 1, 0, keys_in(0, 1, 2))],
        "frontier_retired": [shelf_add(lake, "retired", 1, 0, keys_in(0, 2))],
    }
    lake = finish(lake, 1, adds)
    assert _lines(lake) == []
    assert _lines(lake, deep=True) == [
        "bucket 0: 1 URLs lie on two shelves, the first key is 2",
        "bucket 0: 1 URLs are in seen but on no shelf, the first key is 3",
    ]


def test_a_key_in_two_runs_of_seen_is_a_fault(tmp_path: Path) -> None:
    lake = turn(turn(new_lake(tmp_path), 1, {1: keys_in(1, 5)}), 2, {1: keys_in(1, 5)})
    assert _lines(lake) == [f"seen, bucket 1: 1 keys stand in it twice, the first is {keys_in(1, 5)[0]}"]


def test_p5_a_digest_stored_twice_is_a_fault_and_a_shared_key_is_not(tmp_path: Path) -> None:
    lake = new_lake(tmp_path)
    for cycle, digests in ((1, ["A", "B"]), (2, ["C", "B"])):
        rows = rows_of("contents", digest_key=[4, 9], digest=digests)
        lake = finish(
            lake,
            cycle,
            {"contents": [runs.write_run(lake.root, "contents", cycle=cycle, partition=0, rows=rows)]},
        )
    assert _lines(lake) == ["contents, shard 0: 1 digests are stored twice, the first is B"]


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])


def _torn(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-40:] = bytes(40)
    path.write_bytes(bytes(data))


@pytest.mark.parametrize(
    ("damage", "what"),
    [(Path.unlink, "it is not there"), (_cut, "bytes,"), (_torn, "its footer cannot be read")],
)
def test_a_damaged_data_file_is_named_once(tmp_path: Path, damage: Callable[[Path], None], what: str) -> None:
    lake = _two_cycles(tmp_path)
    path = lake.files("seen", partitions={"bucket": [3]})[0].path
    damage(path)
    (line,) = _lines(lake)
    assert line.startswith("seen/c000002/b0003-p0.parquet: ") and what in line


def test_deep_finds_rows_out_of_order(tmp_path: Path) -> None:
    lake = _two_cycles(tmp_path)
    file = lake.files("frontier_backlog", partitions={"bucket": [0]})[0]
    rows = pq.read_table(file.path, partitioning=None)
    pq.write_table(rows.take(list(range(rows.num_rows))[::-1]), file.path)
    assert any("bytes" in line for line in _lines(lake))
    fault = fsck._row_fault(lake.files("seen")[0], BY_NAME["seen"])
    assert fault is None
    assert (
        fsck._row_fault(file, BY_NAME["frontier_backlog"]) == "its rows are not sorted by url_key"
        or rows.num_rows < 2
    )


def test_a_table_that_is_gone_or_misses_its_version_is_a_fault(tmp_path: Path) -> None:
    lake = _two_cycles(tmp_path)
    lake.layout.table("robots").rename(tmp_path / "gone")
    assert any("table robots is not there" in line for line in _lines(lake))


def test_the_ledger_is_held_against_the_tables(tmp_path: Path) -> None:
    lake = new_lake(tmp_path)
    adds = {
        "seen": [run_add(lake, 1, 0, keys_in(0, 1))],
        "frontier_later": [shelf_add(lake, "later", 1, 0, keys_in(0, 1), due_day=3)],
    }
    lake = finish(lake, 1, adds, counts={"seen": 1, "later": 2, "ready": 0})
    commit.append_ledger(lake.root, LedgerRow(3, "committed", NOON, NOON, versions=lake.versions))
    assert _lines(lake) == ["ledger: committed cycles are [1, 3], not 1 to 2"]
    assert "ledger: cycle 1 counts 2 rows in frontier_later, the table has 1" in [
        str(f) for f in fsck._ledger_counts(lake)
    ]


def test_a_ledger_that_names_an_unfinished_cycle_is_a_fault(tmp_path: Path) -> None:
    lake = turn(new_lake(tmp_path), 1, {0: keys_in(0, 1)})
    commit.commit_table(lake.root, "hosts", cycle=2, adds=[], replace=None)
    ahead = lake.at({"hosts": 2})
    assert [str(fault) for fault in fsck._ledger(fsck._Check(ahead, False, None))] == [
        "table hosts: version 2 holds cycle 2, the ledger ends at 1"
    ]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda data: data[:-5], "a record at"),
        (lambda data: b"xx" + data, "no gzip member begins at offset 0"),
        (lambda data: data + b"trailing", "does not end after"),
    ],
)
def test_records_that_do_not_lie_where_the_tables_say(
    tmp_path: Path, change: Callable[[bytes], bytes], what: str
) -> None:
    lake, path = with_warc(new_lake(tmp_path), [b"one", b"two"])
    path.write_bytes(change(path.read_bytes()))
    lines = _lines(lake)
    assert lines and all(line.startswith("warc/c000001/a.warc.gz: ") for line in lines)
    assert any(what in line for line in lines)


def test_a_missing_warc_file_is_named_once(tmp_path: Path) -> None:
    lake, path = with_warc(new_lake(tmp_path), [b"one", b"two"])
    path.unlink()
    assert _lines(lake) == [
        "warc/c000001/a.warc.gz: the file is missing; table captures names 2 records in it"
    ]


def test_deep_reads_the_records_themselves(tmp_path: Path) -> None:
    lake, path = with_warc(new_lake(tmp_path), [b"one", b"two"])
    data = bytearray(path.read_bytes())
    data[30] ^= 0xFF
    path.write_bytes(bytes(data))
    assert _lines(lake) == []
    assert [line.split(": ")[0] for line in _lines(lake, deep=True)] == ["warc/c000001/a.warc.gz"] * 2
    judged = fsck.check(
        lake.root, deep=True, verify_warc=lambda path, offset, length: f"bad at {offset}" if offset else None
    )
    assert len(judged) == 2 and all("bad at" in fault.what for fault in judged)


def test_a_record_is_held_against_what_the_table_says() -> None:
    member = warc_member(url="http://a.test/", record_id="urn:uuid:1", payload=b"hello")
    place = members.Place(
        "f", 0, len(member), "urn:uuid:1", "http://a.test/", members.sha1(b"hello"), "response"
    )
    assert members.record_fault(member, place) is None
    for name, value, what in (
        ("record_id", "urn:uuid:2", "warc-record-id"),
        ("url", "http://b.test/", "warc-target-uri"),
        ("record_type", "revisit", "warc-type"),
        ("digest", "X" * 32, "its payload has the digest"),
    ):
        assert what in (members.record_fault(member, members.Place(**{**place.__dict__, name: value})) or "")
    assert "not exactly" in (members.record_fault(member + member, place) or "")
    assert "cannot be decompressed" in (members.record_fault(b"\x1f\x8b\x08rubbish-rubbish", place) or "")


def test_unreadable_manifests_and_inbox_files_are_faults(tmp_path: Path) -> None:
    lake = _two_cycles(tmp_path)
    manifest = lake.layout.staging(3) / "done" / "p0001.json"
    manifest.parent.mkdir(parents=True)
    manifest.write_text("{")
    name = inbox.put(lake.root, [{"url": "a"}], kind="seed")
    (lake.layout.inbox / name).write_bytes(b"rubbish")
    lines = _lines(lake)
    assert lines[0].startswith("staging/cycle=000003/done/p0001.json: unreadable manifest")
    assert lines[1].startswith(f"inbox/{name}: ") and len(lines) == 2


def test_p3_a_filter_that_vouches_but_forgot_a_key_is_a_fault(tmp_path: Path) -> None:
    lake = _two_cycles(tmp_path)
    path = bloom.ensure(lake, "seen", 0).path
    path.write_bytes(bytes(path.stat().st_size))
    assert _lines(lake, deep=True) == [
        "bloom/seen/b0000.bloom: 3 keys of seen are not in the bloom filter; delete it, it is made anew"
    ]


@pytest.mark.parametrize("name", ["none", "file", "empty"])
def test_what_is_no_lake_is_one_fault(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    assert len(fsck.check(tmp_path / name)) == 1


def test_keys_of_another_bucket_are_a_fault(tmp_path: Path) -> None:
    lake = _two_cycles(tmp_path)
    (lake.layout.meta).write_text(lake.layout.meta.read_text().replace('"buckets": 4', '"buckets": 8'))
    assert all("it claims" in line for line in _lines(lake))
    assert np.all(runs.read_keys(lake.files("seen")[0]) >= 0)
