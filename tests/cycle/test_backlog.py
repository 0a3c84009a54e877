"""The backlog on its rungs: little of it is read, none of it is lost, the host table counts it right."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lake import fsck, snapshot
from lake.files import write_data
from lake.layout import rung_of
from lake.schema import BY_NAME, FRONTIER_READY, HOSTS
from lake.snapshot import Lake
from pipelines import config
from pipelines.app.simulate_cmd import BASE
from pipelines.cluster import Task, Work
from pipelines.cycle import allot, backlog, bucketfiles, open
from pipelines.cycle.frontier import STATE
from pipelines.cycle.shelving import Shelved
from pipelines.cycle.turn import Turn
from pipelines.simulate import run as simulation
from pipelines.simulate.world import World
from tests.cycle.plans import NOW_MS, lake_with, settings, state, urls_of
from tests.lake.sample import finish

CYCLES = 30
WORLD = World(hosts=2, urls=2_400, seed=5, flood=0.0)


class Here(simulation.ProcessRunner):
    """Runs tasks in this process, where the test has made thresholds small."""

    def __init__(self, slots: int) -> None:
        self.slots, self.cpu_seconds = slots, 0.0

    def run(self, step: str, cycle: int, work: Work, tasks: Sequence[Task]) -> Iterator[dict[str, Any]]:
        for task in tasks:
            yield work(*task.arguments)

    def close(self) -> None:
        """Nothing to end."""


def on_rungs(lake: Lake) -> Counter[int]:
    found: Counter[int] = Counter()
    for file in lake.files("frontier_backlog"):
        found[rung_of(file.path)] += file.rows
    return found


def counted(lake: Lake) -> tuple[Counter[str], Counter[str]]:
    """Return the backlog by host, as it lies there and as the host table tells."""
    books = lake.read("hosts", columns=["host", "backlog_urls"]).to_pylist()
    told = Counter({row["host"]: row["backlog_urls"] for row in books if row["backlog_urls"]})
    return Counter(lake.read("frontier_backlog", columns=["host"])["host"].to_pylist()), told


def turned(folder: Path, monkeypatch: pytest.MonkeyPatch, *, few: int) -> list[dict[str, Any]]:
    """Turn some cycles in which hosts know far more than they may be asked; return what each left."""
    monkeypatch.setattr(backlog, "FEW_ROWS", few)
    monkeypatch.setattr(allot, "READY_LEAST", 0)
    monkeypatch.setattr(
        bucketfiles, "joined", lambda places: places
    )  # every rung is worth a file, however few its rows
    monkeypatch.setattr(simulation, "ProcessRunner", Here)
    left = []

    def tell(figures: dict[str, Any]) -> None:
        lake = snapshot.open(folder / "lake")
        lying, told = counted(lake)
        assert lying == told
        left.append({**figures, "rungs": on_rungs(lake)})

    given = {
        "plan.max_pages": "60", "lake.buckets": "2", "recrawl.first_days": "80", "recrawl.min_hours": "1900",
    }  # fmt: skip
    conf = config.load([], environ={}, overrides=given, base=BASE)
    simulation.simulate(folder, conf, WORLD, cycles=CYCLES, slots=2, tell=tell)
    return left


@pytest.mark.slow
def test_p7_p2_what_is_far_ahead_is_not_read_and_comes_down_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ladder = turned(tmp_path / "ladder", monkeypatch, few=0)
    assert [str(fault) for fault in fsck.check(tmp_path / "ladder" / "lake")] == []  # P2, keys, order, files
    whole = turned(tmp_path / "whole", monkeypatch, few=10**9)
    assert max(ladder[-1]["rungs"]) >= 1 and set(whole[-1]["rungs"]) == {0}
    written = [sum(cycle["written"]["backlog"] for cycle in run) for run in (ladder, whole)]
    assert written[0] < 0.8 * written[1], written
    pages = [sum(cycle["planned"] for cycle in run) for run in (ladder, whole)]
    assert pages[0] >= 0.98 * pages[1], "no host runs dry for it"
    upper = [sum(count for rung, count in cycle["rungs"].items() if rung) for cycle in ladder]
    assert any(after < before for before, after in itertools.pairwise(upper)), upper


# --- on a lake made for it ------------------------------------------------------------------------------


def with_backlog(folder: Path, rows: dict[int, list[str]]) -> Lake:
    """Return a lake of one bucket after two cycles: a URL ready, and URLs in the backlog by rung."""
    lake = lake_with(folder, ["http://a.sim/"], [{"host": "a.sim"}], buckets=1)
    adds = []
    for rung, texts in rows.items():
        states = sorted((state({"url": text}, 1) for text in texts), key=lambda row: row["url_key"])
        path = lake.layout.data_path("frontier_backlog", 2, 0, rung=rung)
        data = pa.Table.from_pylist(states, schema=FRONTIER_READY.arrow)
        adds.append(
            write_data(
                lake.layout.table("frontier_backlog"), path, data, BY_NAME["frontier_backlog"], {"bucket": 0}
            )
        )
    return finish(lake, 2, {"frontier_backlog": adds})


def turn_of(lake: Lake, cycle: int) -> Turn:
    opened = open.next_turn(lake, settings(lake__buckets=1), slots=2, now_ms=NOW_MS)
    return Turn.from_json({**opened.to_json(), "cycle": cycle, "groups": 1}, root=opened.root, resumed=False)


LADDER = {rung: urls_of("a.sim", 9)[3 * rung : 3 * rung + 3] for rung in range(3)}


@pytest.mark.parametrize(
    ("cycle", "few", "short", "whole", "rungs"),
    [
        (10, 0, {0}, set(), [0]),  # a host runs short: what comes up
        (12, 0, {0}, set(), [0, 1]),  # and rung 1, whose turn it is
        (16, 0, {0}, set(), [0, 1, 2]),
        (16, 0, set(), set(), []),  # nobody runs short
        (9, 0, set(), {0}, [0, 1, 2]),  # a seed calls something back
        (9, 100, {0}, set(), [0, 1, 2]),  # it holds little
    ],
)
def test_p7_only_rungs_that_are_needed_are_opened(
    cycle: int, few: int, short: set[int], whole: set[int], rungs: list[int], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(backlog, "FEW_ROWS", few)
    lake = with_backlog(tmp_path, LADDER)
    files = backlog.files_to_open(turn_of(lake, cycle), lake, 0, short=short, whole=whole)
    assert sorted(rung_of(file.path) for file in files) == rungs


def test_what_is_not_opened_stays_as_it_is(tmp_path: Path) -> None:
    lake = with_backlog(tmp_path, LADDER)
    files = {rung_of(file.path): file for file in lake.files("frontier_backlog")}
    shelved = Shelved(*[STATE.empty_table()] * 4)
    shelved.open_backlog(lake, [files[0]])
    assert (shelved.backlog.num_rows, shelved.opened.num_rows, shelved.refilled) == (3, 3, {0})
    assert {file.path for file in shelved.stays} == {files[1].path, files[2].path}
    shelved.open_backlog(lake, [files[2]])
    assert (shelved.backlog.num_rows, [file.path for file in shelved.stays]) == (6, [files[1].path])


def test_a_row_lies_where_it_comes_up_and_a_better_band_lower(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host's clock allows 300 a window, 600 to the next look: 4,000 rows reach to rung 2, new ones behind 20,000 to rung 5."""
    monkeypatch.setattr(backlog, "FEW_ROWS", 0)
    lake = lake_with(tmp_path, ["http://a.sim/"], [{"host": "a.sim", "backlog_urls": 4_000}], buckets=1)
    conf = settings(lake__buckets=1, window__seconds=300, plan__ready_windows=3)
    turn = open.next_turn(lake, conf, slots=2, now_ms=NOW_MS)
    books = lake.read("hosts").select(HOSTS.arrow.names)
    states = [state({"url": text}, 1) for text in urls_of("a.sim", 4_000)]
    rows = pa.Table.from_pylist(states, schema=FRONTIER_READY.arrow)
    rungs = Counter(backlog.rungs_of(turn, rows, books, behind=False).tolist())
    assert rungs == {0: 1_200, 1: 1_200, 2: 1_600}
    many = books.set_column(
        books.schema.get_field_index("backlog_urls"), HOSTS.arrow.field("backlog_urls"), pa.array([20_000])
    )
    seed = state({"url": "http://a.sim/seed", "source": "seed", "depth": 0}, 1)
    new = pa.Table.from_pylist([states[0] | {"depth": 9}, seed], schema=FRONTIER_READY.arrow)
    assert backlog.rungs_of(turn, new, many, behind=True).tolist() == [5, 1]
