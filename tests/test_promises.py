"""Every promise of the README has a test that can fail, and says its number in its name."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent


def names() -> set[str]:
    """Return the names of all tests."""
    found = set()
    for path in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                found.add(node.name)
    return found


@pytest.mark.parametrize("number", range(1, 11))
def test_every_promise_has_a_test_that_names_it(number: int) -> None:
    assert [name for name in names() if re.match(rf"test_(p\d+_)*p{number}_", name)]
