"""`noria check robots --fetch`: one polite request, and only where somebody answers for it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import lake.snapshot
from lake.errors import LeaseHeld
from lake.lease import Lease
from pipelines.app import judge_cmd
from pipelines.config import ConfigError, load
from pipelines.explain.ask import Asking
from pipelines.rules.robots_policy import RobotsState
from pipelines.toyweb import Mix, ToyWeb, serve_in_thread
from tests.cycle.wheels import new_lake, settings_for


def test_p1_robots_is_asked_once_and_the_pause_is_waited_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    web = ToyWeb(hosts=4, seed=5, mix=Mix.plain())
    settings = settings_for(web, tmp_path, {"lake.path": str(tmp_path / "lake"), "delay.floor_ms": "150"})
    held = lake.snapshot.open(new_lake(tmp_path, settings, []))
    with serve_in_thread(web) as server:
        url = web.seeds(server.port)[0]
        began = time.monotonic()
        with Asking(settings, held) as asking:
            found = asking.robots(url)
            with pytest.raises(LeaseHeld):
                Lease.acquire(held.layout.lease, holder="a cycle")
        assert time.monotonic() - began >= 0.15
        assert found.state in (RobotsState.RULES, RobotsState.ALLOW_ALL)
        judge_cmd.robots(settings, url, file=None, as_json=False, fetch=True)
        asked = [row.target for row in server.log.rows()]
    assert set(asked) == {"/robots.txt"} and len(asked) == 2
    assert "as fetched just now, status" in capsys.readouterr().out
    Lease.acquire(held.layout.lease, holder="a cycle").release()


def test_nobody_is_asked_without_a_contact() -> None:
    settings = load(environ={}, overrides={})
    with pytest.raises(ConfigError, match=r"identity\.contact is empty"), Asking(settings, None):
        pass
