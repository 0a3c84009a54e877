"""Bad input and bad machines, as a user meets them: a sentence, an exit code, and nothing lost."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import lake
from lake import inbox, staging
from pipelines.app import errors
from pipelines.app.cli import app
from tests.cycle.crash_driver import Death, Ended, run
from tests.cycle.ground import Ground
from tests.cycle.wheels import faults

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def noria(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command line in this process: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*argv: str) -> tuple[int, str, str]:
        hook = sys.excepthook
        code = errors.run(app, list(argv))
        sys.excepthook = hook
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def assert_sentence(told: tuple[int, str, str], *parts: str, code: int = 1) -> None:
    """Hold what a command told to one sentence with an exit code."""
    assert told[0] == code, told
    assert told[2].startswith("noria") and told[2].count("\n") == 1, told[2]
    assert "Traceback" not in told[2] and "inside Noria" not in told[2], told[2]
    for part in parts:
        assert part in told[2], told[2]


def assert_broken(ended: Ended, *parts: str) -> None:
    """Hold the end of a run to a sentence."""
    assert ended.word in ("broken", "refused"), ended
    assert "\n" not in ended.said
    for part in parts:
        assert part in ended.said, ended


# --- what is named on the command line ------------------------------------------------------------------


@pytest.mark.slow  # ten seconds of waiting for an answer
def test_a_scheduler_that_cannot_be_reached_is_named_and_the_seeds_are_kept(
    still: Ground, noria: Run
) -> None:
    path = still.copy(1)
    nowhere = "tcp://127.0.0.1:9"
    told = noria("cycle", *still.words(path), "--scheduler", nowhere, "--seeds", "http://w001.test/new")
    assert_sentence(told, f"no Dask scheduler answers at {nowhere}", "leave out --scheduler")
    assert lake.open(path).cycle == 1 and len(inbox.pending(path)) == 1
    assert faults(path) == []


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"format": 99}, ("99", "newer")),
        ({"format": "x"}, ("noria.json",)),
        ({"buckets": 5}, ("5",)),
        ({}, ()),
    ],
)
@pytest.mark.parametrize("command", ["cycle", "status", "check"])
def test_a_lake_of_the_future_and_one_that_cannot_be_read_is_refused(
    command: str, change: dict[str, object], parts: tuple[str, ...], still: Ground, noria: Run
) -> None:
    path = still.copy(1)
    meta = path / "noria.json"
    whole = meta.read_text()
    meta.write_text(json.dumps({**json.loads(whole), **change}) if change else "{")
    code, out, err = noria(command, *still.words(path))
    if command == "check":
        assert code == 1 and str(path) in out + err
    else:
        assert_sentence((code, out, err), str(path), *parts)
    meta.write_text(whole)
    assert faults(path) == []


def test_another_bucket_count_is_refused_with_both_numbers(still: Ground, noria: Run) -> None:
    path = still.copy(1)
    assert_sentence(noria("cycle", *still.words(path), "--set", "lake.buckets=16"), "16", "4", code=2)


def test_a_half_made_lake_is_named_and_a_cycle_makes_the_rest(still: Ground, noria: Run) -> None:
    path = still.new_lake()
    (path / "noria.json").unlink()
    (path / "noria.making").write_text('{"buckets": 4}')
    shutil.rmtree(path / "seen")
    assert_sentence(noria("status", *still.words(path)), "interrupted")
    lake.open_or_create(path, buckets=4)
    assert run(still.job(path)).word == "done"
    assert faults(path) == []


def test_a_lake_path_that_is_a_file_is_named_and_left(still: Ground, noria: Run, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("mine")
    assert_sentence(noria("cycle", *still.words(path), "--seeds", "http://w001.test/"), "is a file")
    assert path.read_text() == "mine"


def test_nothing_due_says_when_there_will_be_something(still: Ground, noria: Run) -> None:
    path = still.new_lake()
    for name in inbox.pending(path):
        (path / "inbox" / name).unlink()
    code, out, err = noria("cycle", *still.words(path))
    assert (code, err) == (0, "")
    assert "nothing" in out.lower() and "seeds" in out


# --- damaged files --------------------------------------------------------------------------------------


def data_file(path: Path, table: str) -> Path:
    """Return a data file of a table's newest version."""
    return lake.open(path).files(table)[0].path


@pytest.mark.parametrize(
    ("table", "how"),
    [
        ("hosts", "missing"),
        ("seen", "truncated"),
        pytest.param("hosts", "truncated", marks=pytest.mark.slow),
        pytest.param("seen", "missing", marks=pytest.mark.slow),
        pytest.param("frontier_ready", "missing", marks=pytest.mark.slow),
        pytest.param("frontier_ready", "truncated", marks=pytest.mark.slow),
    ],
)
def test_a_damaged_table_file_stops_the_cycle_with_its_name_and_a_restored_one_lets_it_go_on(
    table: str, how: str, still: Ground, noria: Run
) -> None:
    path = still.copy(1)
    file = data_file(path, table)
    whole = file.read_bytes()
    file.unlink() if how == "missing" else file.write_bytes(whole[: len(whole) // 2])
    assert_broken(run(still.job(path)), file.name)
    code, out, _ = noria("check", *still.words(path))
    assert code == 1 and file.name in out
    file.write_bytes(whole)
    assert run(still.job(path)).word == "done"
    assert still.unequal(path, 2) == []


@pytest.mark.parametrize("how", ["missing", "truncated"])
def test_a_damaged_warc_file_is_a_fault_that_is_told_and_stops_no_cycle(
    how: str, still: Ground, noria: Run
) -> None:
    path = still.fetched()
    file = max((path / "warc").rglob("*.warc.gz"), key=lambda file: file.stat().st_size)
    whole = file.read_bytes()
    file.unlink() if how == "missing" else file.write_bytes(whole[: len(whole) // 2])
    code, out, _ = noria("check", *still.words(path))
    assert code == 1 and file.name in out
    assert run(still.job(path)).word == "done"
    file.write_bytes(whole)
    assert still.unequal(path, 2) == []


def test_a_spool_that_lost_bytes_after_they_were_flushed_is_named(still: Ground) -> None:
    path = still.fetched()
    assert run(replace(still.job(path), death=Death(("before finish seal",)))).word == "killed"
    for final in (path / "warc").rglob("NORIA-*-000002-*"):
        final.unlink()
    spool = next(staging.folder(path, 2).glob("fetch/p*/a*/spool-*"))
    whole = spool.read_bytes()
    spool.write_bytes(whole[:-100])
    assert_broken(run(still.job(path)), str(spool), "were committed")
    spool.write_bytes(whole)
    assert run(still.job(path)).word == "done"
    assert still.unequal(path, 2) == []


# --- a full disk ----------------------------------------------------------------------------------------


class SmallDisk:
    """A file system in memory, of a size that can be changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def resize(self, kilobytes: int) -> None:
        """Give it another size."""
        self._mount("remount,", kilobytes)

    def mount(self, kilobytes: int) -> None:
        """Mount it, or skip the test."""
        try:
            self._mount("", kilobytes)
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"this machine does not let us mount a tmpfs: {error}")

    def _mount(self, how: str, kilobytes: int) -> None:
        options = f"{how}size={kilobytes}k"
        command = ["mount", "-t", "tmpfs", "-o", options, "noria-test", str(self.folder)]
        subprocess.run(command, check=True, capture_output=True)

    def free(self) -> int:
        """Return the kilobytes left."""
        held = os.statvfs(self.folder)
        return held.f_bavail * held.f_frsize // 1024

    def used(self) -> int:
        """Return the kilobytes in use."""
        held = os.statvfs(self.folder)
        return (held.f_blocks - held.f_bfree) * held.f_frsize // 1024


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """Give a small disk, mounted for the test."""
    made = SmallDisk(tmp_path / "disk")
    made.folder.mkdir()
    made.mount(65_536)
    yield made
    subprocess.run(["umount", "--lazy", str(made.folder)], check=True)


ROOM = [100, 400, *(pytest.param(room, marks=pytest.mark.slow) for room in range(0, 1_200, 60))]


@pytest.mark.parametrize("room", ROOM)
def test_a_full_disk_is_told_and_once_there_is_room_the_cycle_is_as_if_nothing_had_happened(
    room: int, still: Ground, disk: SmallDisk
) -> None:
    path, mark = disk.folder / "lake", still.mark()
    shutil.copytree(still.reference[1], path)
    disk.resize(disk.used() + room)
    ended = run(still.job(path))
    assert_broken(ended)
    assert "No space left" in ended.said
    assert lake.open(path).cycle == 1
    disk.resize(65_536)
    assert run(still.job(path)).word == "done"
    assert not [*path.rglob("*.tmp")]
    assert still.impolite(mark) == []
    assert still.unequal(path, 2) == []


def test_a_full_disk_is_a_sentence_of_the_command_too(still: Ground, disk: SmallDisk, noria: Run) -> None:
    path = disk.folder / "lake"
    shutil.copytree(still.reference[1], path)
    disk.resize(disk.used())
    assert_sentence(noria("cycle", *still.words(path)), "No space left", "free")
    assert_sentence(noria("seeds", "add", *still.words(path), "http://w001.test/new"), "No space left")
    disk.resize(65_536)
    assert inbox.pending(path) == []
    assert faults(path) == []
