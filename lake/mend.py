"""The mending of what a power cut left in a Delta log.

Only files that were never acknowledged are touched: `lake.commit` returns after its own fsync, and the
ledger names a version after that. Every log entry is kept, so a checkpoint can be done without.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lake import ledger
from lake.errors import LakeDamaged
from lake.files import sync_folder
from lake.layout import Layout
from lake.schema import LEDGER, TABLES, Table
from lake.torn import ENTRY, Torn, torn


def mend(root: Path | str, tables: Sequence[Table] = TABLES) -> list[Torn]:
    """Take torn files out of the lake's logs (they stay beside them as `….torn`) and return them.

    For the writer of these tables, before it reads. Raises LakeDamaged where a torn entry is one that the ledger names.
    """
    layout = Layout(Path(root))
    # the ledger first: the others are held against it
    mended = _set_aside(layout.table(LEDGER.name), -1) if LEDGER in tables else []
    row = ledger.last(root)
    for table in tables:
        if table is not LEDGER:
            mended += _set_aside(layout.table(table.name), row.versions.get(table.name, 0) if row else 0)
    return mended


def _set_aside(folder: Path, named: int) -> list[Torn]:
    found = list(torn(folder))
    for one in found:
        if one.what == ENTRY and one.version <= named:
            raise LakeDamaged(f"{one.path} is torn, and the ledger names its version; restore it from a copy")
        one.path.replace(one.path.with_name(one.path.name + ".torn"))
    if found:
        sync_folder(folder / "_delta_log")
    return found
