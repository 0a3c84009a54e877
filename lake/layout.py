"""Where everything lies in a lake. The only module that builds paths inside one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_RUNG = re.compile(r"-r(\d+)-p")
_CYCLE_FOLDER = re.compile(r"^c(\d{6,})$")


@dataclass(frozen=True)
class Layout:
    """The paths of a lake. Pure: looks at no disk, makes no folder."""

    root: Path

    @property
    def meta(self) -> Path:
        """The file that makes a folder a lake; written last when one is made."""
        return self.root / "noria.json"

    @property
    def making(self) -> Path:
        """The mark of a lake that is being made."""
        return self.root / "noria.making"

    @property
    def inbox(self) -> Path:
        """Folder of what came from outside: seeds, API requests."""
        return self.root / "inbox"

    @property
    def lease(self) -> Path:
        """The writer's lease (its files carry an epoch behind this name)."""
        return self.root / "leases" / "writer"

    def partition_lease(self, cycle: int, partition: int) -> Path:
        """The lease of one fetch partition."""
        return self.staging(cycle) / "leases" / f"p{partition:04d}"

    def table(self, name: str) -> Path:
        """The Delta table's folder."""
        return self.root / name

    def data_path(
        self,
        table: str,
        cycle: int,
        bucket: int | None,
        part: int | str = 0,
        *,
        due_day: int | None = None,
        rung: int = 0,
    ) -> str:
        """Return the path of a data file inside its table's folder, the same for the same arguments.

        Only for rows that are a pure function of the cycle's pinned input.

        >>> Layout(Path("lake")).data_path("seen", 12, 7)
        'c000012/b0007-p0.parquet'
        >>> Layout(Path("lake")).data_path("frontier_later", 12, 7, due_day=20500)
        'c000012/d20500-b0007-p0.parquet'
        >>> Layout(Path("lake")).data_path("frontier_backlog", 12, 7, rung=2)
        'c000012/b0007-r2-p0.parquet'
        """
        day = "" if due_day is None else f"d{due_day}-"
        slot = "" if bucket is None else f"b{bucket:04d}-"
        step = f"r{rung}-" if rung else ""
        return f"c{cycle:06d}/{day}{slot}{step}p{part}.parquet"

    def warc(self, cycle: int) -> Path:
        """Folder of a cycle's WARC files."""
        return self.root / "warc" / f"c{cycle:06d}"

    def warc_file(self, name: str) -> Path:
        """The file that `warc_filename` names in a table: relative to warc/."""
        return self.root / "warc" / name

    def cdxj(self, cycle: int) -> Path:
        """Folder of a cycle's CDXJ files."""
        return self.root / "cdxj" / f"c{cycle:06d}"

    def reports(self, cycle: int) -> Path:
        """Folder of what plug-ins report of a cycle's pages: lines of JSON."""
        return self.root / "reports" / f"c{cycle:06d}"

    def staging(self, cycle: int) -> Path:
        """Folder of what a cycle hands from step to step; swept after its commit."""
        return self.root / "staging" / f"cycle={cycle:06d}"

    def bloom(self, table: str, bucket: int) -> Path:
        """The bloom filter beside the runs of one bucket (or digest shard)."""
        return self.root / "bloom" / table / f"b{bucket:04d}.bloom"


def cycle_of(path: str | Path) -> int | None:
    """Return the cycle whose folder a data file lies in, None where the folder names none.

    >>> cycle_of("c000012/b0007-p0.parquet")
    12
    """
    match = _CYCLE_FOLDER.match(Path(path).parent.name)
    return int(match[1]) if match else None


def rung_of(path: str | Path) -> int:
    """Return the rung of the backlog that a data file holds, 0 where its name tells none.

    >>> rung_of("c000012/b0007-r2-p0.parquet"), rung_of("c000012/b0007-p0.parquet")
    (2, 0)
    """
    match = _RUNG.search(Path(path).name)
    return int(match[1]) if match else 0
