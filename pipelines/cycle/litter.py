"""Python's garbage collector while a partition is fetched: rarely. It took a tenth of the time of a fetch.

What a fetch holds (rows, links seen) lives long, and little of what it drops lies in cycles.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

THRESHOLDS = (20_000, 20, 20)
"""New objects, young collections, middle ones (see the `gc` module); Python's own are 700, 10, 10."""

_lock = threading.Lock()
_before: list[tuple[int, int, int]] = []  # one entry for each fetch under way in this process


@contextmanager
def collected_rarely() -> Iterator[None]:
    """Let the collector walk less often, and not over what is there already; the last of a process to end undoes it."""
    with _lock:
        if not _before:
            gc.freeze()
        _before.append(_before[0] if _before else gc.get_threshold())
        gc.set_threshold(*THRESHOLDS)
    try:
        yield
    finally:
        with _lock:
            thresholds = _before.pop()
            if not _before:
                gc.set_threshold(*thresholds)
                gc.unfreeze()
