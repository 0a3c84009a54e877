"""Where the conformance data lies: a folder `shared` beside the checkout, not part of the project."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1].parent / "shared"


def shared(path: str) -> Path:
    """Return the path of a file or folder in the shared data; skip the test where it is absent."""
    found = ROOT / path
    if not found.exists():
        pytest.skip(f"conformance data absent: no shared/{path} beside the checkout")
    return found
