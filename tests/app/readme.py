"""The README's commands: which there are, and how those are run that install, measure, or take long."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROGRAMS = {"noria", ".venv/bin/noria", "make", "pytest", "python", "printf", "sudo", "pip"}

HERE = " --lake data/lake"
"""What goes without saying."""


class Small(NamedTuple):
    """A command in the small size in which it is run, and a word that must be in what it prints."""

    line: str
    told: str


DOCUMENTS = "documents"
"""The folder of HTML files that the benches take; Debian's documentation is 1.4 GB."""

SLOW = {
    "sudo apt install python3 python3-venv make": Small(
        "apt-get install --simulate python3 python3-venv make", "newly installed"
    ),
    "make cycle": Small("make cycle && make cycle", "cycle: 2\n"),
    "make test": Small("make test ARGS=tests/rules/test_delay.py", " passed in "),
    "make test-all": Small("make test-all ARGS=--collect-only", "tests/app/test_readme_slow.py::"),
    "make test-replay": Small("make test-replay", " passed in "),
    "make check": Small("make check", " 0 broken."),
    "make notebooks": Small('make notebooks ARGS="--no-browser --port=0 --allow-root"', "/lab?token="),
    "make bench": Small(f"make bench PAGES=20 DOCUMENTS={DOCUMENTS}", "(20 handled)"),
    "make bench-peers": Small(f'make bench-peers ARGS="--pages 20 --documents {DOCUMENTS}"', "(20 handled)"),
    "make bench-parse": Small(f'make bench-parse ARGS="--documents {DOCUMENTS}"', "read_page"),
    "make bench-extract": Small(f'make bench-extract ARGS="--documents {DOCUMENTS}"', "pages/s a core"),
    "make bench-warc": Small("make bench-warc ARGS=20", "µs a page"),
    "make bench-explain": Small('make bench-explain ARGS="--urls 2000 --asks 4"', "noria explain: median"),
    "make bench-freshness": Small('make bench-freshness ARGS="--hosts 4 --days 40 --warm 10"', "uniform"),
    "make bench-politeness": Small(
        'make bench-politeness ARGS="--hosts 20 --urls 200 --window 8"', "violations            0\n"
    ),
    "python -m tests.net.measure_client": Small("python -m tests.net.measure_client 400", "µs a page"),
    "pytest -k p4_": Small("pytest -k p4_ tests/cycle/test_calling.py", " passed, "),
    "pytest tests/cycle/test_traps_in_cycle.py": Small(
        "pytest tests/cycle/test_traps_in_cycle.py", " passed in "
    ),
    "noria simulate --window 86400": Small(
        "noria simulate --window 86400 --hosts 20 --urls 500 --days 3", "politeness violations  0 "
    ),
    "noria simulate --window 86400 --days 90": Small(
        "noria simulate --window 86400 --days 90 --hosts 20 --urls 500 --days 6", "politeness violations  0 "
    ),
}
"""Commands that need a checkout and packages of their own, or minutes: tests/app/test_readme_slow.py runs them so."""

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

WHOLE = {"make", "noria status"}
"""Commands that are whole, though a longer one begins so; any other such beginning is but a name."""


def shell_lines() -> list[str]:
    """Return the lines of the README's blocks of shell commands, without their comments."""
    blocks = re.findall(r"^```sh\n(.*?)^```", README, re.M | re.S)
    return [bare for block in blocks for line in block.splitlines() if (bare := line.split("  #")[0].strip())]


def spans() -> list[str]:
    """Return the commands between backticks in the README's text."""
    text = re.sub(r"^```.*?^```", "", README, flags=re.M | re.S)
    found = [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", text)]
    return [span for span in dict.fromkeys(found) if span.split()[0] in PROGRAMS]


def quick_commands() -> list[str]:
    """Return the README's different commands beside those of SLOW; a mere name, as `noria seeds add`, is none."""
    found = [one for one in dict.fromkeys([*shell_lines(), *spans()]) if one not in SLOW]
    names = {one for one in found if any(other.startswith(one + " ") for other in found)} - WHOLE
    wanted = [one for one in found if one not in names]
    return list({typed(one).removeprefix(".venv/bin/").replace(HERE, ""): one for one in wanted}.values())


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


def own_environ() -> dict[str, str]:
    """Return this environment without settings of Noria, and without what a `make` or pytest around this one left."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    asked = set(re.findall(r"^([A-Z]+) \?=", makefile, re.M)) - {"PYTHON"}
    left = ("NORIA_", "MAKE", "MFLAGS", "PYTEST_")
    return {
        name: value for name, value in os.environ.items() if not name.startswith(left) and name not in asked
    }


def same_words(command: str, line: str) -> bool:
    """Return whether a line is a command with nothing but more words behind it, as SLOW's are."""
    words = shlex.split(command)
    return shlex.split(line)[: len(words)] == words
