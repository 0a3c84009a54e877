"""A lake whose cycle seems to run: the files that its fetchers would leave, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lake import lease
from lake.layout import Layout

NOW_MS = 1_790_000_000_000


def live(partition: int, **other: Any) -> dict[str, Any]:
    """Return what a fetcher tells of itself."""
    told = {
        "partition": partition, "attempt": 1, "planned": 100, "finished": 40, "requests": 45, "pages": 38, "wire_bytes": 2_000_000,
        "outcomes": {"ok": 43, "http_404": 2}, "open": 7, "left": 50, "elapsed_ms": 9_000, "window_left_ms": 51_000,
        "hosts_ready": 1, "hosts_waiting": 5, "hosts_asked": 7, "hosts_finished": 2, "told_ms": NOW_MS - 500,
        "flush_lag_ms": 1_500, "lease_age_ms": 2_500,
        "slow_hosts": [
            {
                "host": f"w{partition}{at}.test", "left": 30 - at, "pause_ms": 1_000, "reason": "floor", "response_ms": 80,
                "work_ms": (30 - at) * 1_080,
            }
            for at in range(8)
        ],
    }  # fmt: skip
    return told | other


def fetching(
    root: Path, lives: list[dict[str, Any]], *, planned: int = 200, ended: tuple[int, ...] = ()
) -> Path:
    """Make a lake's folder look as if cycle 3 fetched these partitions."""
    folder = Layout(root).staging(3)
    _write(folder / "open.json", {"cycle": 3, "opened_ms": NOW_MS - 20_000, "groups": 4})
    for step in ("demand", "resolve", "select"):
        for group in range(4):
            _write(folder / step / f"done-{group:04d}.json", {})
    _write(folder / "allot" / "done.json", {"planned": planned, "partitions": len(lives), "hosts": 30})
    for one in lives:
        _write(folder / "fetch" / f"p{one['partition']:04d}" / "a001" / "live.json", one)
    for number in ended:
        _write(folder / "fetch" / f"done-{number:04d}.json", {})
    return root


def held(root: Path) -> lease.Lease:
    """Take the writer's lease."""
    path = Layout(root).lease
    path.parent.mkdir(parents=True, exist_ok=True)
    return lease.Lease.acquire(path, holder="noria cycle", seconds=45, now=lambda: NOW_MS - 5_000)


def _write(path: Path, content: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")
