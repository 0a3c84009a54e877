"""The README's commands that install, measure or take long are run in a fresh copy of the checkout, on a small size.

The copy gets a `.venv` of its own by `make install`, so packages are asked of pip's index. What the machine lacks (nginx,
wget, apt-get) is not installed: the test is skipped and says so.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

import pytest

from tests.app.readme import DOCUMENTS, ROOT, SLOW, own_environ
from tests.bench import webserver
from tests.bench.bench_warc import page
from tests.cycle.test_lease import await_

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_200)]

SERVES = "make notebooks"
"""Goes on until it is ended."""


@dataclass(frozen=True)
class Fresh:
    """A fresh copy of the checkout, with its own .venv first in PATH."""

    folder: Path
    environ: dict[str, str]

    def run(self, line: str) -> str:
        """Return what a line prints in a shell; it must end with 0."""
        with self.started(line) as process:
            told, _ = process.communicate()
        assert process.returncode == 0, told
        return str(told)

    @contextmanager
    def started(self, line: str) -> Iterator[subprocess.Popen[str]]:
        """Start a line in a shell; all that it started is ended with the block."""
        process = subprocess.Popen(
            ["bash", "-c", line], cwd=self.folder, env=self.environ, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
                process.communicate(timeout=60)


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fresh]:
    """Give a fresh copy in which `make install` ran, with HTML files for the benches."""
    folder = tmp_path_factory.mktemp("fresh") / "noria"
    copy_checkout(folder)
    (folder / DOCUMENTS).mkdir()
    for number in range(20):
        (folder / DOCUMENTS / f"page {number}.html").write_bytes(page(number))
    environ = {
        name: value for name, value in own_environ().items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")
    }
    environ |= {"PATH": f"{folder}/.venv/bin:{environ['PATH']}", "LC_ALL": "C.UTF-8"}
    made = Fresh(folder, environ | {"JUPYTER_RUNTIME_DIR": str(folder.parent / "jupyter")})
    assert "installed: .venv/bin/noria" in made.run("make install")
    yield made
    shutil.rmtree(folder)  # a gigabyte


def copy_checkout(folder: Path) -> None:
    """Copy what belongs to the checkout: the files that git tracks, or, without git, all but what .gitignore names."""
    tracked = _tracked()
    if not tracked:
        shutil.copytree(ROOT, folder, ignore=_ignored)
    for name in tracked:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)


def _tracked() -> list[str]:
    if not shutil.which("git"):
        return []
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    return [name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def _ignored(folder: str, names: Iterable[str]) -> set[str]:
    lines = [".git", *(ROOT / ".gitignore").read_text(encoding="utf-8").split()]
    patterns = [line.strip("/") for line in lines if not line.startswith("/") or Path(folder) == ROOT]
    return {name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)}


def lacking(command: str) -> str:
    """Return what this machine lacks for a command; "" = nothing."""
    if command.startswith("sudo apt "):
        return _lacking_apt()
    if command in ("make bench", "make bench-peers"):
        return " and ".join(name for name in webserver.PROGRAMS if not webserver.program(name))
    return ""


def _lacking_apt() -> str:
    if not shutil.which("apt-get"):
        return "apt-get"
    return "" if any(Path("/var/lib/apt/lists").glob("*_Packages*")) else "package lists: sudo apt update"


@pytest.mark.parametrize("command", [command for command in SLOW if command != SERVES])
def test_every_slow_command_of_the_readme_works_in_a_fresh_checkout(command: str, fresh: Fresh) -> None:
    if missing := lacking(command):
        pytest.skip(f"this machine has no {missing}")
    told = fresh.run(SLOW[command].line)
    assert SLOW[command].told in told
    assert "Traceback" not in told


def test_make_notebooks_serves_jupyterlab(fresh: Fresh) -> None:
    with fresh.started(SLOW[SERVES].line) as process:
        assert process.stdout is not None
        read: list[str] = []
        for line in process.stdout:
            read.append(line)
            if address := re.search(r"http://127\.0\.0\.1:(\d+)/lab\?token=\w+", line):
                break
        else:
            pytest.fail("".join(read))
        await_(lambda: _listens(int(address[1])), "JupyterLab listens; it tells its address before")
        with build_opener(ProxyHandler({})).open(address[0], timeout=30) as answer:
            assert "<title>JupyterLab</title>" in answer.read().decode()


def _listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def test_debian_has_what_the_benches_install() -> None:
    release = Path("/etc/os-release")
    if not release.exists() or "VERSION_CODENAME=bookworm" not in release.read_text(encoding="utf-8"):
        pytest.skip("the benches' documentation is that of Debian 12")
    if missing := _lacking_apt():
        pytest.skip(f"this machine has no {missing}")
    words = ["apt-get", "install", "--simulate", *webserver.PACKAGES, *webserver.PROGRAMS.values()]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_copy_without_git_leaves_out_what_gitignore_names() -> None:
    assert _ignored(str(ROOT), [".git", ".venv", "data", "lake", "x.egg-info"]) == {
        ".git",
        ".venv",
        "data",
        "x.egg-info",
    }
    assert _ignored(str(ROOT / "tests"), ["__pycache__", "data", "app"]) == {"__pycache__"}
