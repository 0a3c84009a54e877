"""Guards the pin of deltalake: 1.6.6 accepts both of two compactions made from one snapshot."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError


def test_the_second_of_two_stale_compactions_is_refused(tmp_path: Path) -> None:
    """When this passes on a newer deltalake, the pin in pyproject.toml may move up to it."""
    for start in range(0, 900, 300):
        write_deltalake(tmp_path, pa.table({"k": list(range(start, start + 300))}), mode="append")
    first, second = DeltaTable(tmp_path), DeltaTable(tmp_path)
    first.optimize.compact()
    with pytest.raises(CommitFailedError):
        second.optimize.compact()
    assert DeltaTable(tmp_path).to_pyarrow_table().num_rows == 900
