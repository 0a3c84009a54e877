"""Files are whole and on disk, or not there."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake import files
from lake.errors import DamagedFile, DiskFull, LakeError
from lake.schema import BY_NAME, HOSTS, TABLES
from tests.lake.procs import ROOT
from tests.lake.sample import rows_of


def test_of_many_who_put_a_file_that_is_absent_one_does(tmp_path: Path) -> None:
    won: list[bytes] = []

    def put(data: bytes) -> None:
        if files.put_if_absent(tmp_path / "done.json", data):
            won.append(data)

    threads = [threading.Thread(target=put, args=(bytes([65 + place]) * 1_000,)) for place in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [(tmp_path / "done.json").read_bytes()] == won
    assert [path.name for path in tmp_path.iterdir()] == ["done.json"]


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    files.write_atomic(tmp_path / "a", b"old")
    with pytest.raises(TypeError):
        files.write_atomic(tmp_path / "a", None)  # type: ignore[arg-type]
    assert (tmp_path / "a").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_publish_replaces_and_keeps_the_bytes(tmp_path: Path) -> None:
    (tmp_path / "tmp").write_bytes(b"new")
    files.write_atomic(tmp_path / "a", b"old")
    files.publish(tmp_path / "tmp", tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == b"new"


@pytest.mark.parametrize("table", [table.name for table in TABLES])
def test_every_table_is_written_and_read_back_alike(tmp_path: Path, table: str) -> None:
    spec = BY_NAME[table]
    rows = pa.table({one.name: pa.array([_example(one.type)] * 3, one.type) for one in spec.file_schema})
    stats = files.write_parquet(tmp_path / "f.parquet", rows, spec)
    assert (stats.rows, stats.size) == (3, (tmp_path / "f.parquet").stat().st_size)
    assert pq.read_table(tmp_path / "f.parquet").cast(spec.file_schema).equals(rows)


def _example(kind: pa.DataType) -> object:
    if pa.types.is_list(kind):
        return [_example(kind.value_type)]
    if pa.types.is_struct(kind):
        return {one.name: _example(one.type) for one in kind}
    if pa.types.is_map(kind):
        return [("k", _example(kind.item_type))]
    if pa.types.is_string(kind):
        return "text"
    if pa.types.is_binary(kind):
        return b"\0bytes"
    if pa.types.is_boolean(kind):
        return True
    return pa.scalar(7, pa.int64()).cast(kind).as_py()


def test_rows_out_of_order_are_refused_and_nothing_is_left(tmp_path: Path) -> None:
    rows = rows_of("hosts", host_key=[1, 1], host=["b.test", "a.test"])
    with pytest.raises(DamagedFile, match="not sorted by host_key, host"):
        files.write_parquet(tmp_path / "f.parquet", rows, HOSTS)
    assert not list(tmp_path.iterdir())
    files.write_parquet(tmp_path / "f.parquet", rows, HOSTS, sorted_by=["host_key"])


def test_a_missing_and_an_unknown_column_are_named(tmp_path: Path) -> None:
    with pytest.raises(LakeError, match=r"missing \['url_key'\], not known \['key'\]"):
        files.write_parquet(tmp_path / "f.parquet", pa.table({"key": [1]}), BY_NAME["seen"])


def test_long_text_is_no_statistic_rather_than_a_cut_one(tmp_path: Path) -> None:
    rows = rows_of("captures", url_surtkey=["a", "b" * 300])
    stats = files.write_parquet(tmp_path / "f.parquet", rows, BY_NAME["captures"]).stats
    assert "url_surtkey" not in stats["minValues"] and stats["nullCount"]["url_surtkey"] == 0


def test_no_space_left_is_a_sentence_with_the_remedy(tmp_path: Path) -> None:
    with (
        pytest.raises(DiskFull, match=r"cannot write .*/a: No space left on device; free space"),
        files.temporary(tmp_path / "a"),
    ):
        raise OSError(errno.ENOSPC, "full")
    with pytest.raises(PermissionError), files.disk_guard(tmp_path):
        raise PermissionError(errno.EACCES, "not ours")


FULL_DISK = """
import random, sys, pyarrow as pa
from pathlib import Path
from lake import LakeError, files, snapshot
from lake.schema import SEEN
lake = snapshot.create(Path(sys.argv[1]) / "lake", buckets=1)
try:
    for number in range(100):
        keys = sorted(random.sample(range(2**62), 20_000))
        files.write_parquet(lake.layout.table("seen") / f"c000001/p{number}.parquet", pa.table({"url_key": keys}), SEEN)
except LakeError as error:
    print(type(error).__name__, error)
left = [path for path in lake.root.rglob("*.tmp")]
print(left, all(path.stat().st_size > 100 for path in lake.root.rglob("*.parquet")))
"""


@pytest.mark.skipif(not shutil.which("unshare"), reason="needs unshare to mount a small disk")
def test_a_full_disk_is_a_sentence_and_leaves_no_half_file(tmp_path: Path) -> None:
    mount = f"mount -t tmpfs -o size=2m tmpfs {tmp_path} && exec {sys.executable} -c '{FULL_DISK}' {tmp_path}"
    ran = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    if "mount" in ran.stderr or "unshare" in ran.stderr:
        pytest.skip("this system does not let us mount a small disk")
    lines = ran.stdout.splitlines()
    assert lines[0].startswith("DiskFull cannot write"), ran
    assert lines[1] == "[] True"
