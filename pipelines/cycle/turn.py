"""One turn of the wheel as a value: what its steps must know, pinned when it is opened."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from lake import snapshot, staging
from lake.snapshot import Lake
from pipelines.config import Settings


@dataclass(frozen=True)
class Turn:
    """An open cycle. Every step is a function of this value, the lake it pins, and staged files.

    opened_ms: the cycle's logical clock, ms since 1970. seed: of the plan's random choice. slots: fetch
    tasks that may run at once. groups: bucket groups, a task each in plan and merge. versions: the table
    versions that the cycle reads. inbox: names of the inbox files that it drains.
    """

    root: str
    cycle: int
    opened_ms: int
    seed: int
    buckets: int
    slots: int
    groups: int
    versions: dict[str, int]
    settings_json: str
    inbox: tuple[str, ...] = ()
    resumed: bool = field(default=False, compare=False)

    def to_json(self) -> dict[str, Any]:
        """Return plain values; `from_json` reads them back."""
        plain = asdict(self)
        plain.pop("resumed")
        return plain

    @classmethod
    def from_json(cls, plain: dict[str, Any], *, root: str, resumed: bool) -> Turn:
        """Return the turn that `to_json` wrote; the lake may have moved to another `root`."""
        return cls(**{**plain, "inbox": tuple(plain["inbox"]), "root": root, "resumed": resumed})

    @cached_property
    def settings(self) -> Settings:
        """The settings that the cycle was opened with."""
        return Settings.from_json(self.settings_json)

    @property
    def staging(self) -> Path:
        """The folder of the cycle's staged files."""
        return staging.folder(self.root, self.cycle)

    @property
    def opened_at(self) -> datetime:
        """The logical clock as a time."""
        return datetime.fromtimestamp(self.opened_ms / 1_000, tz=UTC)

    @property
    def crawl(self) -> str:
        """The cycle's name in partitions and file names."""
        return f"cycle-{self.cycle:06d}"

    @property
    def today(self) -> int:
        """Days since 1970 of the logical clock."""
        return self.opened_ms // 86_400_000

    def lake(self) -> Lake:
        """Open the lake at the versions that the cycle reads."""
        return snapshot.pinned(self.root, cycle=self.cycle - 1, versions=self.versions)

    def bucket_range(self, group: int) -> range:
        """Return the buckets of a group."""
        return range(group * self.buckets // self.groups, (group + 1) * self.buckets // self.groups)

    def key_range(self, group: int) -> tuple[int, int]:
        """Return the lowest and the highest URL key of a group, both in it."""
        span = 2**63 // self.buckets
        buckets = self.bucket_range(group)
        return buckets.start * span, buckets.stop * span - 1

    def staged(self, *parts: str) -> Path:
        """Return the path of a staged file."""
        return self.staging.joinpath(*parts)

    def done(self, step: str, number: int | None = None) -> dict[str, Any] | None:
        """Return the manifest of a finished task, or None."""
        return staging.read_manifest(self._manifest(step, number))

    def finish(self, step: str, number: int | None, manifest: dict[str, Any]) -> dict[str, Any]:
        """Record that a task is finished; the first finisher's manifest counts and is returned."""
        path = self._manifest(step, number)
        if staging.claim_manifest(path, manifest):
            return json.loads(json.dumps(manifest))  # type: ignore[no-any-return]  # as any reader will see it
        return staging.read_manifest(path) or manifest

    def _manifest(self, step: str, number: int | None) -> Path:
        name = "done.json" if number is None else f"done-{number:04d}.json"
        return self.staged(step, name)


GROUP_SEEDS = 250_000
"""Seeds that a group of buckets takes in at most, if there are buckets enough: 1.6 kB of a worker's memory each."""


def bucket_groups(buckets: int, slots: int, seeds: int = 0) -> int:
    """Return into how many groups the buckets are dealt: enough to keep the slots busy, at most 1,024.

    seeds: rows that wait in the inbox; many make more and smaller groups.
    """
    return min(buckets, max(4, min(1_024, 4 * slots), min(1_024, -(-seeds // GROUP_SEEDS))))
