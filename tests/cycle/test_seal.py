"""seal: the final WARC files hold each payload once (P5), and making them twice is making them once (P4)."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipelines.cycle.seal import SealResult, SealTask, SpoolFile, seal_partition
from pipelines.net import cdxj
from pipelines.net.warc import Revisit, Spool, WarcError, faults, members, read_at, uuid_urn, warc_date
from pipelines.rules.surt import surt
from tests.net.warc_cases import DATE_MS, answer, fastwarc_accepts, info, warcio_accepts

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
CAPTURES = pa.schema(
    [
        ("record_id", pa.string()), ("record_type", pa.string()), ("url", pa.string()), ("url_surtkey", pa.string()),
        ("fetch_time", pa.timestamp("us", "UTC")), ("fetch_status", pa.int16()), ("content_digest", pa.string()),
        ("content_mime_type", pa.string()), ("content_mime_detected", pa.string()), ("fetch_redirect", pa.string()),
        ("content_truncated", pa.string()), ("subset", pa.string()), ("spool", pa.int32()),
        ("spool_offset", pa.int64()), ("spool_length", pa.int32()), ("request_length", pa.int32()),
    ]
)  # fmt: skip
VERDICTS = pa.schema(
    [("record_id", pa.string()), ("duplicate", pa.bool_()), ("refers_url", pa.string()),
     ("refers_date", pa.string()), ("refers_id", pa.string())]
)  # fmt: skip


def partition(folder: Path, kinds: list[list[str]]) -> SealTask:
    """Make spools with one capture for each letter: n(ew), d(uplicate), 3 (a 304), f(ailure: nothing stored)."""
    rows: list[dict[str, Any]] = []
    verdicts, spools = [], []
    for number, letters in enumerate(kinds):
        name = f"NORIA-20251201100000-0000{number}-p0001.warc.gz"
        path = folder / f"spool-{number}"
        spool = Spool(path, info(name))
        for letter in letters:
            row, verdict = _capture(spool, number, len(rows), letter)
            rows.append(row)
            verdicts += verdict
        spool.close()
        spools.append(SpoolFile(path, spool.size, f"cycle=000012/{name}", info(name)))
    return SealTask(
        tuple(spools), pa.Table.from_pylist(rows, CAPTURES), pa.Table.from_pylist(verdicts, VERDICTS),
        folder / "warc", folder / "cdxj",
    )  # fmt: skip


def _capture(
    spool: Spool, number: int, serial: int, letter: str
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    url, ms = f"http://h{serial % 3}.example/{'x' * (serial % 7)}{serial}", DATE_MS + serial
    row: dict[str, Any] = {
        "url": url, "url_surtkey": surt(url), "fetch_time": EPOCH + timedelta(milliseconds=ms),
        "content_mime_type": "text/html", "subset": "warc",
    }  # fmt: skip
    if letter == "f":
        return row, []
    body = b"<p>the same</p>" * 50 if letter == "d" else b"<p>%d</p>" % serial * (serial + 1)
    exchange = answer(b"" if letter == "3" else body, url=url, status=304 if letter == "3" else 200)
    revisit = Revisit(url, warc_date(0), "A" * 32) if letter == "3" else None
    record_id = uuid_urn("record", str(serial))
    stored = spool.add(exchange, record_date=warc_date(ms), record_id=record_id, revisit=revisit)
    row |= {
        "record_id": record_id, "record_type": "revisit" if revisit else "response",
        "fetch_status": exchange.status, "content_digest": stored.payload_digest, "spool": number,
        "spool_offset": stored.offset, "spool_length": stored.length,
        "request_length": stored.total - stored.length,
    }  # fmt: skip
    verdict = {"record_id": record_id, "duplicate": letter == "d"}
    if letter == "d":
        verdict |= {
            "refers_url": "http://first.example/",
            "refers_date": warc_date(0),
            "refers_id": "urn:uuid:first",
        }
    return row, [verdict]


def files(folder: Path) -> dict[str, bytes]:
    """Return every file below, by its path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def assert_right(task: SealTask, result: SealResult) -> None:
    """Hold the result to what P4 and P5 ask of it."""
    spools = [spool.path.read_bytes() for spool in task.spools]
    for before, after in zip(task.captures.to_pylist(), result.captures.to_pylist(), strict=True):
        assert after["url"] == before["url"]
        if before["spool"] is None or before["spool"] < 0:
            assert after["warc_filename"] is None and after["warc_record_offset"] is None
            continue
        spool = task.spools[before["spool"]]
        assert after["warc_filename"] == spool.filename
        record = read_at(
            task.warc_dir / spool.filename, after["warc_record_offset"], after["warc_record_length"]
        )
        assert (record.record_id, record.type) == (before["record_id"], after["record_type"])
        assert record.header("WARC-Payload-Digest") == f"sha1:{before['content_digest']}"
        at = after["warc_record_offset"] + after["warc_record_length"]
        request = (task.warc_dir / spool.filename).read_bytes()[at : at + before["request_length"]]
        start = before["spool_offset"]
        middle = start + before["spool_length"]
        assert request == spools[before["spool"]][middle : middle + before["request_length"]]
        if after["duplicate"]:
            assert record.header("WARC-Refers-To-Target-URI") == "http://first.example/"
            assert record.header("WARC-Refers-To") == "<urn:uuid:first>"
            assert after["refers_to"] == f"http://first.example/ {warc_date(0)}"
        else:
            offset = after["warc_record_offset"]
            copied = (task.warc_dir / spool.filename).read_bytes()[offset : offset + before["spool_length"]]
            assert copied == spools[before["spool"]][start:middle]


def test_members_are_copied_byte_for_byte_and_duplicates_give_way_to_revisits(tmp_path: Path) -> None:
    task = partition(tmp_path, [list("nndnd3fdnn"), list("dn")])
    result = seal_partition(task)
    assert_right(task, result)
    assert [(file.captures, file.revisits) for file in result.files] == [(9, 3), (2, 1)]
    for spool, file in zip(task.spools, result.files, strict=True):
        path = task.warc_dir / spool.filename
        assert list(faults(path)) == []
        assert (
            warcio_accepts(path)
            == fastwarc_accepts(path)
            == 1 + 2 * file.captures
            == len(list(members(path)))
        )
        assert path.stat().st_size == file.size
    assert not set(result.captures.column_names) & {"spool", "spool_offset", "spool_length", "request_length"}
    assert result.bytes_written == sum(
        map(len, [*files(task.warc_dir).values(), *files(task.cdxj_dir).values()])
    )


def test_the_index_beside_a_file_names_each_record_of_it_but_a_304(tmp_path: Path) -> None:
    task = partition(tmp_path, [list("nd3fn")])
    result = seal_partition(task)
    (path,) = task.cdxj_dir.rglob("*.cdxj")
    assert path.relative_to(task.cdxj_dir).as_posix() == "cycle=000012/NORIA-20251201100000-00000-p0001.cdxj"
    lines = path.read_bytes().splitlines()
    assert lines == sorted(lines) and len(lines) == 3
    rows = result.captures.to_pylist()
    by_url = {row["url"]: row for row in rows if row["warc_filename"] and row["fetch_status"] != 304}
    for entry in cdxj.read(path):
        assert isinstance(entry, cdxj.Entry)
        row = by_url.pop(entry.fields["url"])
        assert entry.surt == surt(row["url"]) and entry.timestamp == "20251201100000"
        assert entry.fields["mime"] == ("warc/revisit" if row["record_type"] == "revisit" else "text/html")
        place = task.warc_dir / entry.fields["filename"]
        record = read_at(place, int(entry.fields["offset"]), int(entry.fields["length"]))
        assert record.url == row["url"] and entry.fields["digest"] == row["content_digest"]
    assert not by_url


def test_sealing_twice_or_at_once_is_sealing_once(tmp_path: Path) -> None:
    task = partition(tmp_path, [list("ndndnd"), list("nnnn")])
    first = seal_partition(task)
    made = {**files(task.warc_dir), **files(task.cdxj_dir)}
    with ThreadPoolExecutor(8) as pool:
        others = list(pool.map(seal_partition, [task] * 8))
    apart = replace(task, warc_dir=tmp_path / "w2", cdxj_dir=tmp_path / "c2")
    with ThreadPoolExecutor(8) as pool:
        others += list(pool.map(seal_partition, [apart] * 8))
    assert all(other == first for other in others)
    assert {**files(task.warc_dir), **files(task.cdxj_dir)} == made
    assert {**files(apart.warc_dir), **files(apart.cdxj_dir)} == made


def test_a_file_that_is_whole_is_kept_and_one_that_is_not_is_made_anew(tmp_path: Path) -> None:
    task = partition(tmp_path, [list("ndn")])
    seal_partition(task)
    final = task.warc_dir / task.spools[0].filename
    before, data = final.stat(), final.read_bytes()
    seal_partition(task)
    assert final.stat().st_ino == before.st_ino
    os.truncate(final, len(data) - 1)
    seal_partition(task)
    assert final.read_bytes() == data


def test_what_lies_behind_the_committed_bytes_is_left_out(tmp_path: Path) -> None:
    task = partition(tmp_path, [list("nd")])
    result = seal_partition(task)
    final = task.warc_dir / task.spools[0].filename
    whole = final.read_bytes()
    final.unlink()
    with task.spools[0].path.open("ab") as spool:
        spool.write(b"\x1f\x8b a torn tail")
    assert seal_partition(task) == result
    assert final.read_bytes() == whole


def test_lost_bytes_and_impossible_places_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    task = partition(tmp_path, [list("nn")])
    (spool,) = task.spools
    long = replace(task, spools=(replace(spool, length=spool.length + 1),))
    with pytest.raises(WarcError, match=f"{spool.length + 1} bytes were committed, {spool.length} are there"):
        seal_partition(long)
    offsets = pa.array([row["spool_offset"] + 9 for row in task.captures.to_pylist()], pa.int64())
    moved = task.captures.set_column(CAPTURES.get_field_index("spool_offset"), "spool_offset", offsets)
    with pytest.raises(WarcError, match="outside or over another"):
        seal_partition(replace(task, captures=moved))
    assert not [name for name in files(tmp_path) if "spool" not in name]


def test_a_spool_without_captures_gives_no_file(tmp_path: Path) -> None:
    task = partition(tmp_path, [[], list("ff")])
    result = seal_partition(task)
    assert result.files == () and result.bytes_written == 0
    assert result.captures["warc_filename"].null_count == 2
    assert not (task.warc_dir.exists() or task.cdxj_dir.exists())


def test_the_warcinfo_of_the_task_stands_in_the_file(tmp_path: Path) -> None:
    task = partition(tmp_path, [list("ndn")])
    (spool,) = task.spools
    other = replace(task, spools=(replace(spool, info=replace(spool.info, description="told later")),))
    assert_right(other, seal_partition(other))
    final = other.warc_dir / spool.filename
    first = read_at(final, *next(members(final)))
    assert b"description: told later" in first.block
    assert list(faults(final)) == []


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kinds=st.lists(st.lists(st.sampled_from("nd3f"), max_size=8), min_size=1, max_size=3))
def test_every_mixture_of_captures_ends_at_its_right_place(
    tmp_path_factory: pytest.TempPathFactory, kinds: list[list[str]]
) -> None:
    task = partition(tmp_path_factory.mktemp("seal"), kinds)
    result = seal_partition(task)
    assert_right(task, result)
    stored = sum(letter != "f" for letters in kinds for letter in letters)
    assert sum(file.captures for file in result.files) == stored
