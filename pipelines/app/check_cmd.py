"""`noria check`: the lake's own fsck."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from lake import fsck
from pipelines.app.lakes import place

if TYPE_CHECKING:
    from pipelines.config import Settings


def run(settings: Settings, *, deep: bool, as_json: bool) -> int:
    """Check the lake, print a line a fault, and return the exit code: 1 if there is one.

    deep: also read every WARC record and table file and compare digests, not only sizes and counts.
    """
    place(settings, make=False)
    path = settings.lake.path
    faults = fsck.check(Path(path), deep=deep)
    if as_json:
        told = [{"where": str(fault.where), "what": fault.what} for fault in faults]
        print(json.dumps({"lake": path, "deep": deep, "faults": told}))
    else:
        for fault in faults:
            print(f"{fault.where}: {fault.what}")
        if not faults:
            print(f"{path}: no fault found" + ("" if deep else " (--deep reads every record as well)"))
    return 1 if faults else 0
