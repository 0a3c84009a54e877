"""P3: the filter only says "surely new" or "perhaps seen"; "perhaps" is settled by the exact set."""

from __future__ import annotations

from pathlib import Path

import lake
from pipelines.toyweb import Mix, ToyWeb, serve_in_thread
from tests.cycle.wheels import faults, new_lake, settings_for, turn


def test_p3_a_filter_that_says_perhaps_to_everything_costs_no_url(tmp_path: Path) -> None:
    web = ToyWeb(hosts=6, seed=7, mix=Mix.plain())
    seen = []
    with serve_in_thread(web, clock=lambda: 1_800_000_000_000) as server:
        for name in ("sound", "drowned"):
            settings = settings_for(web, tmp_path / name)
            path = new_lake(tmp_path / name, settings, web.seeds(server.port, all_hosts=True))
            turn(path, settings)
            turn(path, settings)
            if name == "drowned":
                filters = list((path / "bloom" / "seen").glob("*.bloom"))
                assert filters
                for file in filters:
                    file.write_bytes(b"\xff" * file.stat().st_size)
            turn(path, settings)
            seen.append(lake.open(path).read("seen")["url_key"].to_pylist())
            assert faults(path) == []
    assert len(seen[0]) > 50 and sorted(seen[0]) == sorted(seen[1])
