"""Look at a lake once a second, in a thread of its own: the loop that serves pages never waits for a disk."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

from lake.errors import LakeError
from pipelines.dashboard.figures import Figures, Totals, Trail, fold
from pipelines.dashboard.read import sample

EVERY_SECONDS = 1.0


class Watcher:
    """Keeps the latest figures of one lake, the curves of its running cycle, and the totals."""

    def __init__(self, lake: Path) -> None:
        self.lake = lake
        self.latest = Figures(0)
        self.trail = Trail()
        self.totals = Totals()
        self._thread: threading.Thread | None = None
        self._wanted: list[Callable[[], bool]] = []

    def look(self, now_ms: int) -> Figures:
        """Read the lake, and return its figures of this moment."""
        figures = fold(sample(self.lake, now_ms=now_ms))
        self.trail.add(figures)
        self.totals.add(figures)
        self.latest = figures
        return figures

    def start(self, wanted: Callable[[], bool]) -> None:
        """Look once a second for as long as `wanted` says so; a watcher that looks already goes on with both."""
        self._wanted.append(wanted)
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="noria-watch", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while True:
            self._wanted = [wanted for wanted in self._wanted if wanted()]
            if not self._wanted:
                return
            try:
                self.look(time.time_ns() // 1_000_000)
            except (
                OSError,
                ValueError,
                KeyError,
                LakeError,
            ) as error:  # a file half gone, a disk away for a moment
                logging.getLogger(__name__).warning("the figures of %s cannot be read: %s", self.lake, error)
            time.sleep(EVERY_SECONDS)


class Hub:
    """The watchers of a process, by lake. The last one that came is the one that is shown when none is named."""

    def __init__(self) -> None:
        self._watchers: dict[Path, Watcher] = {}

    def watch(self, lake: Path, wanted: Callable[[], bool]) -> Watcher:
        """Return the lake's watcher, looking."""
        watcher = self._watchers.pop(lake, None) or Watcher(lake)
        self._watchers[lake] = watcher
        watcher.start(wanted)
        return watcher

    def all(self) -> list[Watcher]:
        """Return every watcher, the latest last."""
        return list(self._watchers.values())

    def of(self, lake: str | None = None) -> Watcher | None:
        """Return the watcher of a lake, or of the latest one where that is not known."""
        known = {str(path): watcher for path, watcher in self._watchers.items()}
        return known.get(lake or "") or next(reversed(known.values()), None)


HUB = Hub()
"""Of this process: a scheduler serves several lakes, and a driver starts a scheduler a cycle."""
