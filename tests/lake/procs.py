"""What the tests run in processes of their own: `python -m tests.lake.procs NAME ARGUMENTS`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from lake import commit, ledger, snapshot
from lake.errors import LakeError
from lake.files import Add
from lake.lease import Lease
from tests.lake.sample import NOON, run_add, shelf_add

ROOT = Path(__file__).resolve().parents[2]


def start(name: str, *arguments: object, **environ: str) -> subprocess.Popen[str]:
    """Start one of the functions below; it prints a line when it is done, or when it waits for input."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.lake.procs", name, *map(str, arguments)],
        cwd=ROOT, env={**os.environ, **environ}, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def outcome(process: subprocess.Popen[str]) -> str:
    """Let a process go on and return what it printed last."""
    printed, _ = process.communicate("go\n", timeout=60)
    return printed.strip().splitlines()[-1] if printed.strip() else f"nothing (code {process.returncode})"


def _ready() -> None:
    print("ready", flush=True)
    sys.stdin.readline()


def take_lease(path: str, seconds: str) -> None:
    """Take a lease when told to, and hold it while the process lives."""
    _ready()
    try:
        lease = Lease.acquire(path, holder=f"process {os.getpid()}", seconds=int(seconds))
    except LakeError as error:
        print(f"refused {error}", flush=True)
        return
    print(f"won {lease.epoch}", flush=True)
    sys.stdin.readline()


def commit_cycle(root: str, cycle: str) -> None:
    """Commit a cycle's files to `seen`, from a file set that every process makes alike."""
    lake = snapshot.open(root)
    adds = [run_add(lake, int(cycle), bucket, [(bucket << 61) + int(cycle)]) for bucket in range(4)]
    _ready()
    print(commit.commit_table(root, "seen", cycle=int(cycle), adds=adds, replace=None), flush=True)


def turn_with_deaths(root: str, cycle: str) -> None:
    """Run a cycle, and say what became of it."""
    print(a_turn(Path(root), int(cycle)), flush=True)


def a_turn(root: Path, number: int) -> str:
    """Run a cycle of three tables and the ledger; die by SIGKILL at the point that NORIA_DIE names."""
    lake = snapshot.open(root)
    if ledger.last(root, cycle=number):
        return "done before"
    keys = [(1 << 61) + number * 10 + step for step in range(3)]
    steps: dict[str, Callable[[], tuple[list[Add], dict[str, list[int | str]] | None]]] = {
        "seen": lambda: ([run_add(lake, number, 1, keys)], None),
        "frontier_ready": lambda: (
            [shelf_add(lake, "ready", number, 1, sorted(_ready_keys(lake) | set(keys)))],
            {"bucket": [1]},
        ),
        "frontier_later": lambda: ([], None),
    }
    versions: dict[str, int] = dict(lake.versions)
    for name, make in steps.items():
        _die(f"before {name}")
        adds, replace = make()
        _die(f"files of {name}")
        versions[name] = commit.commit_table(root, name, cycle=number, adds=adds, replace=replace)
        _die(f"after {name}")
    commit.append_ledger(root, ledger.LedgerRow(number, ledger.COMMITTED, NOON, NOON, versions=versions))
    _die("after ledger")
    return "committed"


def _ready_keys(lake: snapshot.Lake) -> set[int]:
    return set(lake.read("frontier_ready", columns=["url_key"]).column(0).to_pylist())


def _die(point: str) -> None:
    if os.environ.get("NORIA_DIE") == point:
        os.kill(os.getpid(), 9)


NAMED: dict[str, Callable[[str, str], None]] = {
    "take_lease": take_lease,
    "commit_cycle": commit_cycle,
    "turn_with_deaths": turn_with_deaths,
}

if __name__ == "__main__":
    NAMED[sys.argv[1]](sys.argv[2], sys.argv[3])
