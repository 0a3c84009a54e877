"""The README names only what is there: commands, options, make targets, files."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
GROUPS = {"seeds", "check", "conf"}
LINES = sorted(set(re.findall(r"(?:\.venv/bin/|`)noria ([a-z][^`#\n|]*)", TEXT)))


@cache
def help_of(words: tuple[str, ...]) -> str:
    """Return the help of a command, as one that was typed."""
    told = subprocess.run(
        [sys.executable, "-m", "pipelines.app.cli", *words, "--help"],
        capture_output=True, text=True, check=False, cwd=ROOT, env={"COLUMNS": "200", "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert told.returncode == 0, f"noria {' '.join(words)}: {told.stdout}{told.stderr}"
    return told.stdout


@pytest.mark.parametrize("line", LINES)
def test_every_command_of_the_readme_is_known_with_its_options(line: str) -> None:
    words = line.split()
    plain = words[1] if len(words) > 1 and re.fullmatch("[a-z]+", words[1]) and words[0] in GROUPS else None
    shown = help_of((words[0], plain) if plain and plain in help_of((words[0],)) else (words[0],))
    for option in re.findall(r"--[a-z-]+", line):
        assert option in shown, f"noria {line}: {option} is not known"


def test_every_make_target_of_the_readme_is_there() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", TEXT, re.M))
    assert named and named <= targets


def test_every_link_and_named_test_of_the_readme_leads_somewhere() -> None:
    linked = re.findall(r"\]\(([^)#]+)\)", TEXT)
    tests = re.findall(r"`(tests/[^`]+)`", TEXT)
    assert linked and tests
    assert [path for path in (*linked, *tests) if not (ROOT / path).exists()] == []
