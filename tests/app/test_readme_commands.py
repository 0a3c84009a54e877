"""Every command of the README is run, as it stands, on a small lake: what is replaced or left out stands in a table.

Each command runs in a shell in a folder of its own that looks like a checkout in which `make cycle` ran twice: a lake
at data/lake, `.venv/bin/noria`, the Makefile. The toy web is served by the test; settings come as variables.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from pipelines import config
from pipelines.toyweb import Mix, ToyWeb, serve_in_thread
from tests.cycle.wheels import crawl
from tests.daskcluster import dask_cluster

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROGRAMS = {"noria", ".venv/bin/noria", "make", "pytest", "python", "printf", "sudo", "pip"}

HERE = " --lake data/lake"
"""What goes without saying."""

NOT_RUN = {
    "sudo apt install python3 python3-venv make": "installs packages",
    "make cycle": "installs .venv and crawls for half a minute: tests/app/test_demo.py crawls so",
    "make test*": "runs this test",
    "make check": "judges the whole tree, with the packages of .venv",
    "make notebooks": "opens JupyterLab: tests/notebooks runs the notebooks",
    "make bench*": "measures for minutes",
    "python -m tests.net.measure_client": "measures for a minute",
    "pytest -k p4_": "chooses tests that run anyway",
    "pytest tests/cycle/test_traps_in_cycle.py": "is a test that runs anyway",
    "noria simulate --window 86400": "simulates a month of 10,000 hosts: minutes",
}
"""Commands that no test can run, and why; a star stands for any end."""

REPLACED = {
    "https://example.org/": "http://w001.test:8081/",
    "noria run --every 1h": "noria run --every 1h --cycles 1",
    "noria seeds add FILE…": "noria seeds add seeds.txt",
    "noria seeds scan CIDR": "noria seeds scan 127.0.0.1/32 --ports 1 --set security.scan_networks=127.0.0.1/32",
    "noria simulate": "noria simulate --hosts 10 --urls 100 --days 0.5 --window 43200",
    "noria toyweb": 'coproc WEB { exec noria toyweb --port 0; }; head -1 <&"${WEB[0]}"; kill $WEB_PID',
    " URL": " http://w001.test:8081/",
    " [HOST]": " w001.test",
    " HOST": " w001.test",
    " [--deep]": " --deep",
    " [--cycle N]": "",
    " [NAME]": " delay",
}
"""What a reader would put in, or what ends a command that goes on; in this order. Ports become the test's own."""

CLUSTER = "tcp://host:8786"
"""A cluster is started for the command that names this address, as the README says."""

MAY_FAIL = {"noria doctor"}
"""Commands whose exit code 1 is an answer: a machine may be unfit."""

SAFE = re.compile(r"(\.venv/bin/)?noria |printf |make$|make status|make cycle LAKE=")
"""What is run without being asked about first."""


WHOLE = {"make", "noria status"}
"""Commands that are whole, though a longer one begins so; any other such beginning is but a name."""


def shell_lines() -> list[str]:
    """Return the lines of the README's blocks of shell commands, without their comments."""
    blocks = re.findall(r"^```sh\n(.*?)^```", README, re.M | re.S)
    return [bare for block in blocks for line in block.splitlines() if (bare := line.split("  #")[0].strip())]


def spans() -> list[str]:
    """Return the commands between backticks in the README's text; the start of another is its name only."""
    text = re.sub(r"^```.*?^```", "", README, flags=re.M | re.S)
    found = [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", text)]
    return [span for span in dict.fromkeys(found) if span.split()[0] in PROGRAMS]


def commands() -> list[str]:
    """Return the different commands of the README that are to be run; a mere name, as `noria seeds add`, is none."""
    found = list(dict.fromkeys([*shell_lines(), *spans()]))
    names = {one for one in found if any(other.startswith(one + " ") for other in found)} - WHOLE
    wanted = [one for one in found if not excused(one) and one not in names]
    return list({typed(one).removeprefix(".venv/bin/").replace(HERE, ""): one for one in wanted}.values())


def excused(command: str) -> bool:
    """Return whether a command is one of NOT_RUN."""
    return any(fnmatchcase(command, pattern) for pattern in NOT_RUN)


def typed(command: str) -> str:
    """Return a command as a reader types it, the replacements made."""
    for old, new in REPLACED.items():
        command = command.replace(old, new) if old.startswith((" ", "http")) or old == command else command
    return command


def worker_environ() -> dict[str, str]:
    """Return what the README says must be in the environment of a cluster's workers."""
    found = re.findall(r"\b(MALLOC_\w+)=(\d+)", README)
    assert len(found) == 3
    return dict(found)


def ready_lines() -> list[str]:
    """Return what the end of `make cycle` in the README offers to be run in a shell."""
    return re.findall(r"^(?:SQL|pandas): (.+)$", README, re.M)


def python_blocks() -> list[str]:
    """Return the README's Python, the line for a notebook included."""
    return [
        *re.findall(r"^```python\n(.*?)^```", README, re.M | re.S),
        *re.findall(r"^notebook: (.+)$", README, re.M),
    ]


@dataclass(frozen=True)
class Checkout:
    """A folder in which the README's commands work, and the port of its toy web."""

    folder: Path
    port: int
    environ: dict[str, str]

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run a line in a shell, as a reader would, after the replacements; beside a cluster if it names one."""
        if CLUSTER in command:
            with dask_cluster(self.folder, environ={**os.environ, **worker_environ()}) as (address, _):
                return self.run(command.replace(CLUSTER, address))
        return subprocess.run(
            ["bash", "-c", typed(command).replace(":8081", f":{self.port}")],
            cwd=self.folder, env=self.environ, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            check=False, timeout=100,
        )  # fmt: skip


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    """Give a folder with a lake of two cycles, while its toy web is served."""
    folder = tmp_path_factory.mktemp("checkout")
    web = ToyWeb(hosts=6, seed=3, mix=Mix.quick())
    with serve_in_thread(web) as server:
        made = crawl(web, server, folder / "data", cycles=2, overrides={"window.seconds": "5"})
        for name in ("Makefile", "conf", "pyproject.toml"):
            (folder / name).symlink_to(ROOT / name)
        tools = folder / ".venv" / "bin"
        tools.mkdir(parents=True)
        for name, words in {"python": "", "noria": " -m pipelines.app.cli"}.items():
            (tools / name).write_text(f'#!/bin/sh\nexec "{sys.executable}"{words} "$@"\n', encoding="utf-8")
            (tools / name).chmod(0o755)
        (folder / ".venv" / ".ready").touch()
        (folder / "seeds.txt").write_text(f"http://w001.test:{server.port}/\tlabel=demo\n", encoding="utf-8")
        (folder / "my.toml").write_text('[identity]\ncontact = "you@example.org"\n', encoding="utf-8")
        yield Checkout(folder, server.port, _environ(made.settings, tools))


def _environ(settings: config.Settings, tools: Path) -> dict[str, str]:
    """Return the environment that makes a crawl quick and keeps it on the toy web, whatever the command says."""
    changed = {row.name: row.value for row in config.describe(settings) if row.source != "default"}
    changed |= {"cluster.workers": 1, "cluster.dashboard_port": 0}
    told = {f"NORIA_{name.replace('.', '__').upper()}": _text(value) for name, value in changed.items()}
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NORIA_", "MAKE"))}
    return {**kept, **told, "PATH": f"{tools}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}


def _text(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {json.dumps(one)}" for key, one in value.items()) + "}"
    return value if isinstance(value, str) else json.dumps(value)


@pytest.mark.parametrize("command", [*commands(), *ready_lines()])
def test_every_command_of_the_readme_works(command: str, checkout: Checkout) -> None:
    done = checkout.run(command)
    assert done.returncode in ((0, 1) if command in MAY_FAIL else (0,)), done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout or command.startswith("printf")


@pytest.mark.parametrize("block", python_blocks())
def test_the_python_of_the_readme_works(block: str, checkout: Checkout) -> None:
    done = subprocess.run(
        [sys.executable, "-c", block], cwd=checkout.folder, env=checkout.environ, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_a_command_that_is_not_run_is_listed_with_a_reason() -> None:
    assert [one for one in commands() if not SAFE.match(one)] == []


def test_the_tables_of_this_test_name_only_what_the_readme_has() -> None:
    there = {*shell_lines(), *spans()}
    assert [
        one for one in (*NOT_RUN, *MAY_FAIL) if not any(fnmatchcase(command, one) for command in there)
    ] == []
    assert [one for one in REPLACED if not any(one in command for command in there)] == []
