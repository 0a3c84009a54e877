"""What a command line asked of a cycle, and the same as words of a command line again."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.app.demo import Wish
from pipelines.app.options import settings_of

if TYPE_CHECKING:
    from pipelines.config import Settings


@dataclass(frozen=True)
class Asked:
    """What the command line asked for; None = not given."""

    lake: str | None = None
    conf: list[Path] | None = None
    pairs: list[str] | None = None
    seeds: list[str] = field(default_factory=list)
    scheduler: str | None = None
    window: int | None = None
    max_pages: int | None = None
    wish: Wish = Wish.NO
    as_json: bool = False

    def settings(self, base: dict[str, Any] | None = None) -> Settings:
        """Return the settings that it makes; base: see `config.load`."""
        flags = {
            "window.seconds": ("--window", self.window),
            "plan.max_pages": ("--max-pages", self.max_pages),
            "cluster.scheduler": ("--scheduler", self.scheduler),
        }
        return settings_of(self.lake, self.conf, self.pairs, flags=flags, base=base)

    def words(self) -> list[str]:
        """Return its options as they are typed; seeds aside, which are in the lake after a first cycle."""
        words = ["--lake", self.lake] if self.lake else []
        for path in self.conf or []:
            words += ["--conf", str(path)]
        for pair in self.pairs or []:
            words += ["--set", pair]
        words += ["--scheduler", self.scheduler] if self.scheduler else []
        words += ["--window", str(self.window)] if self.window else []
        words += ["--max-pages", str(self.max_pages)] if self.max_pages else []
        return words
