"""The demo: when the toy web is crawled, and that a whole cycle on it can be seen by a user."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import lake
from lake import inbox, lease
from lake.layout import Layout
from pipelines.app.asked import Asked
from pipelines.app.cycle_cmd import go_on
from pipelines.app.demo import MARK, Toy, Wish, wanted
from pipelines.app.lakes import refuse_busy
from pipelines.config import load
from pipelines.failure import Failure, Misuse


def noria(tmp_path: Path, *words: str, ok: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pipelines.app.cli", *words]
    environ = {name: value for name, value in os.environ.items() if name != "MAKELEVEL"}
    environ["PYTHONPATH"] = str(Path(__file__).resolve().parents[2])
    done = subprocess.run(
        command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False, timeout=100
    )
    assert done.returncode == ok, done.stderr
    return done


def test_the_toy_web_is_for_new_and_empty_lakes_only_where_it_is_wanted(tmp_path: Path) -> None:
    path = tmp_path / "lake"
    assert wanted(path, wish=Wish.NO, seeds=[]) is None
    assert wanted(path, wish=Wish.YES, seeds=[]) == Toy()
    lake.create(path, buckets=8)
    assert wanted(path, wish=Wish.IF_EMPTY, seeds=[]) == Toy()
    inbox.put(path, [{"url": "http://a.example/"}], kind="seed")
    assert wanted(path, wish=Wish.IF_EMPTY, seeds=[]) is None
    with pytest.raises(Misuse, match="holds a crawl of the real web"):
        wanted(path, wish=Wish.YES, seeds=[])


def test_a_marked_lake_meets_its_own_toy_web_again_and_takes_no_real_seeds(tmp_path: Path) -> None:
    (tmp_path / MARK).write_text('{"hosts": 3, "seed": 9, "port": 4567}', encoding="utf-8")
    assert wanted(tmp_path, wish=Wish.NO, seeds=[]) == Toy(3, 9, 4567)
    with pytest.raises(Misuse, match="takes no seeds of the real one"):
        wanted(tmp_path, wish=Wish.IF_EMPTY, seeds=["seeds.txt"])
    (tmp_path / MARK).write_text("{", encoding="utf-8")
    with pytest.raises(Failure, match="cannot be read"):
        wanted(tmp_path, wish=Wish.NO, seeds=[])


def test_the_settings_of_the_demo_reach_nothing_but_this_machine_and_can_be_overruled() -> None:
    settings = load(environ={}, base=Toy().settings())
    assert settings.loopback_only
    assert settings.delay.floor_ms == 1000
    assert settings.origins["window.seconds"] == "toy web"
    assert load(environ={}, base=Toy().settings(), overrides={"window.seconds": "9"}).window.seconds == 9


def test_the_command_that_goes_on_is_told_as_it_was_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MAKELEVEL", raising=False)
    asked = Asked(lake="my lake", conf=[Path("a.toml")], seeds=["s.txt"], window=60)
    assert go_on(asked).endswith("cycle --lake 'my lake' --conf a.toml --window 60")
    monkeypatch.setenv("MAKELEVEL", "1")
    assert go_on(asked) == "make cycle LAKE=my lake CONF='a.toml'"


def test_a_lake_that_is_being_written_is_refused_with_the_writers_name(tmp_path: Path) -> None:
    refuse_busy(tmp_path / "nowhere")
    root = lake.create(tmp_path / "lake", buckets=8).root
    refuse_busy(root)
    with (
        lease.Lease.acquire(Layout(root).lease, holder="noria cycle", seconds=45),
        pytest.raises(Failure, match=rf"another cycle writes to .* process {os.getpid()}\) since .* until"),
    ):
        refuse_busy(root)


def test_a_cycle_on_the_toy_web_is_seen_stored_and_checked_and_a_second_goes_on(tmp_path: Path) -> None:
    root = lake.create(tmp_path / "toy", buckets=8).root
    (root / MARK).write_text(json.dumps({"hosts": 40, "seed": 1, "port": _own_port()}), encoding="utf-8")
    quick = ("--lake", "toy", "--window", "3", "--set", "cluster.dashboard_port=0")
    report = json.loads(noria(tmp_path, "cycle", *quick, "--json").stdout)
    assert report["cycle"] == 1
    assert report["pages"] > 10
    status = json.loads(noria(tmp_path, "status", "--lake", "toy", "--json").stdout)
    assert (status["cycles"], status["open_cycle"], status["writer"]) == (1, None, None)
    assert status["seen"] == sum(status["shelves"].values())
    assert status["last_cycle"]["outcomes"] == report["outcomes"]
    lines = noria(tmp_path, "cycle", *quick).stdout.splitlines()
    assert lines[0].startswith("Toy web: 40 hosts on this machine, port ")
    assert "cycle: 2" in lines
    assert noria(tmp_path, "check", "--lake", "toy", "--deep").stdout == "toy: no fault found\n"
    _opened(lines, tmp_path)


def _own_port() -> int:
    """A port that no other test and no outgoing connection is likely to take between two cycles."""
    return 20_000 + os.getpid() % 10_000


def _opened(lines: list[str], folder: Path) -> None:
    """Run the SQL and the pandas line as a user would paste them."""
    for label in ("SQL: ", "pandas: "):
        (line,) = [line.removeprefix(label) for line in lines if line.startswith(label)]
        environ: dict[str, Any] = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
        done = subprocess.run(
            line, shell=True, cwd=folder, env=environ, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert "outcome" in done.stdout or "columns]" in done.stdout


def test_a_port_that_is_taken_is_a_sentence(tmp_path: Path) -> None:
    path = lake.create(tmp_path / "toy", buckets=8).root
    with socket.socket() as taken:
        taken.bind(("127.20.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        addresses = set(Toy().web.addresses())
        if "127.20.0.1" not in addresses:
            taken.close()
            pytest.skip("the toy web has no host at 127.20.0.1")
        (path / MARK).write_text(json.dumps({"hosts": 40, "seed": 1, "port": port}), encoding="utf-8")
        done = noria(tmp_path, "cycle", "--lake", "toy", ok=1)
    assert f"cannot be served again at port {port}" in done.stderr
    assert done.stderr.count("\n") == 1
