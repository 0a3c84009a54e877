"""Plug-ins in whole cycles: what they do wrong is counted, and a cycle that one holds up can be got out of."""

from __future__ import annotations

import time
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lake import snapshot
from pipelines import plugins
from pipelines.config import Settings
from pipelines.cycle import open as opening
from pipelines.cycle.plugged import without_disabled
from pipelines.plugins import EXTRACTORS, FILTERS, HOOKS, SCORERS, Answer
from pipelines.rules.filters import Refusal
from pipelines.rules.links import Link
from pipelines.toyweb import Mix, ToyWeb, serve_in_thread
from tests.cycle.wheels import faults, new_lake, settings_for, turn

WEB = ToyWeb(hosts=2, seed=5, mix=Mix(pages=4, sharing=0))


class Deaf:
    """A scorer alone, that gives no numbers."""

    def __init__(self, options: dict[str, str]) -> None:
        pass

    def score(self, rows: pa.Table) -> Any:
        return None


class Blunt:
    """Answers everything wrongly."""

    switches = None

    def __init__(self, options: dict[str, str]) -> None:
        pass

    def judge(self, url: str, said: Refusal | None, *, depth: int, meta: str | None) -> Any:
        return "no"

    def extract(self, answer: Answer, links: list[Link]) -> Any:
        links.clear()
        return ["http://w001.test/x"]

    def page(self, answer: Answer) -> Any:
        raise SystemExit(3)

    def score(self, rows: pa.Table) -> Any:
        return [float("nan")] * rows.num_rows


@pytest.fixture
def blunt(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        EntryPoint("blunt", f"{__name__}:Blunt", group) for group in (FILTERS, EXTRACTORS, SCORERS, HOOKS)
    ]
    monkeypatch.setattr(plugins, "installed", lambda: points)


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[tuple[Path, Settings, Settings]]:
    """A new lake on a toy web, and the settings with the plug-in and without it."""
    with serve_in_thread(WEB) as server:
        plain = settings_for(WEB, tmp_path, {"window.seconds": "3", "lake.buckets": "1"})
        plugged = settings_for(
            WEB, tmp_path, {"window.seconds": "3", "lake.buckets": "1", "plugins.enabled": "blunt",
                            "plugins.options": "blunt.much=1"},
        )  # fmt: skip
        yield new_lake(tmp_path, plain, WEB.seeds(server.port, all_hosts=True)), plugged, plain


def test_what_a_plugin_answers_wrongly_is_counted_and_costs_no_link(
    blunt: None, ground: tuple[Path, Settings, Settings]
) -> None:
    path, plugged, _ = ground
    report = turn(path, plugged)
    [row] = [row for row in snapshot.open(path).ledger() if row.state == "committed"]
    assert report.pages and report.new_urls > 2
    assert row.counts["plugin_faults.blunt"] >= 2 * report.pages
    assert faults(path) == []


def test_a_scorers_faults_are_counted_in_the_plan_and_in_the_merge(
    monkeypatch: pytest.MonkeyPatch, ground: tuple[Path, Settings, Settings]
) -> None:
    path, plugged, _ = ground
    monkeypatch.setattr(plugins, "installed", lambda: [EntryPoint("blunt", f"{__name__}:Deaf", SCORERS)])
    turn(path, plugged)
    [row] = [row for row in snapshot.open(path).ledger() if row.state == "committed"]
    assert row.counts["plugin_faults.blunt"] >= 2


def test_a_cycle_that_was_opened_with_a_plugin_ends_without_it_once_it_is_disabled(
    ground: tuple[Path, Settings, Settings],
) -> None:
    path, plugged, plain = ground
    opening.begin(snapshot.open(path), plugged, slots=1, now_ms=time.time_ns() // 1_000_000)
    report = turn(path, plain, slots=1)  # the plug-in is installed nowhere
    assert report.resumed and report.pages
    [row] = [row for row in snapshot.open(path).ledger() if row.state == "committed"]
    assert not [name for name in row.counts if name.startswith("plugin_")]


def test_all_but_the_disabled_plugins_stays_pinned(ground: tuple[Path, Settings, Settings]) -> None:
    path, plugged, plain = ground
    opened = opening.next_turn(snapshot.open(path), plugged, slots=1, now_ms=0)
    left, gone = without_disabled(opened, plain.plugins)
    assert gone == ["blunt"] and left.settings == plain
    assert without_disabled(opened, plugged.plugins) == (opened, [])
