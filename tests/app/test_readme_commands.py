"""Every command of the README is run, as it stands, on a small lake; those of the table SLOW in test_readme_slow.py.

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
from pathlib import Path

import pytest

from pipelines import config
from pipelines.toyweb import Mix, ToyWeb, serve_in_thread
from tests.app.readme import (
    REPLACED,
    ROOT,
    SLOW,
    own_environ,
    python_blocks,
    quick_commands,
    ready_lines,
    same_words,
    shell_lines,
    spans,
    typed,
    worker_environ,
)
from tests.cycle.wheels import crawl
from tests.daskcluster import dask_cluster

CLUSTER = "tcp://host:8786"
"""A cluster is started for the command that names this address, as the README says."""

MAY_FAIL = {"noria doctor"}
"""Commands whose exit code 1 is an answer: a machine may be unfit."""

SAFE = re.compile(r"(\.venv/bin/)?noria |printf |make$|make status|make cycle LAKE=")
"""What is run without being asked about first."""


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
    return {**own_environ(), **told, "PATH": f"{tools}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}


def _text(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {json.dumps(one)}" for key, one in value.items()) + "}"
    return value if isinstance(value, str) else json.dumps(value)


@pytest.mark.parametrize("command", [*quick_commands(), *ready_lines()])
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


def test_a_command_that_is_not_known_to_be_safe_is_run_small_by_the_slow_test() -> None:
    assert [one for one in quick_commands() if not SAFE.match(one)] == []


def test_the_slow_test_runs_the_commands_themselves_with_words_behind_them() -> None:
    other = [command for command, small in SLOW.items() if not same_words(command, small.line)]
    assert other == ["sudo apt install python3 python3-venv make"], "only that one is simulated"


def test_the_tables_name_only_what_the_readme_has() -> None:
    there = {*shell_lines(), *spans()}
    assert {*SLOW, *MAY_FAIL} - there == set()
    assert [one for one in REPLACED if not any(one in command for command in there)] == []
