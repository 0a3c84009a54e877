"""What the crash tests share: one web, and one lake of two cycles that nothing disturbed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cycle.ground import Ground, ground


@pytest.fixture(scope="session")
def still(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """Give the web and the reference of two undisturbed cycles."""
    with ground(tmp_path_factory.mktemp("still")) as made:
        yield made
