"""P7: a cycle's work follows what it fetches; what waits is not even read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.toyweb import Mix, RunningServer, ToyWeb, serve_in_thread
from tests.cycle.wheels import faults, new_lake, settings_for, turn

WEB = ToyWeb(hosts=4, seed=5, mix=Mix.plain())


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with serve_in_thread(WEB) as running:
        yield running


def test_p7_the_surplus_of_a_big_host_waits_in_the_backlog_and_is_not_read(
    server: RunningServer, tmp_path: Path
) -> None:
    """Its files are made unreadable: whoever reads one fails."""
    settings = settings_for(
        WEB, tmp_path, {"window.seconds": "1", "delay.floor_ms": "50", "plan.ready_windows": "3"}
    )
    host = WEB.hosts[0].name
    seeds = [f"http://{host}:{server.port}/none/{number}" for number in range(300)]
    path = new_lake(tmp_path, settings, seeds)
    first = turn(path, settings)
    assert first.planned <= 20
    backlog = sorted((path / "frontier_backlog").glob("c*/*.parquet"))
    assert backlog, "three windows of twenty find room on ready, the rest is backlog"
    kept = {file: file.read_bytes() for file in backlog}
    for file in backlog:
        file.write_bytes(b"not to be read")
    second = turn(path, settings)
    assert second.planned > 0 and second.requests > 0
    for file, data in kept.items():
        file.write_bytes(data)
    assert faults(path) == []
