"""The figures of a running cycle: that they add up, and what they become when something is amiss."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from pipelines.dashboard.figures import Figures, Totals, Trail, fold, left_ms
from pipelines.dashboard.read import Sample, open_cycle, sample
from pipelines.dashboard.watcher import Hub
from tests.dashboard.lakes import NOW_MS, fetching, held, live


def test_no_cycle_no_figures(tmp_path: Path) -> None:
    assert open_cycle(tmp_path) == 0
    assert fold(sample(tmp_path, now_ms=NOW_MS)) == Figures(NOW_MS)


def test_the_figures_of_running_fetchers_are_summed_and_add_up(tmp_path: Path) -> None:
    fetching(tmp_path, [live(0), live(1, told_ms=NOW_MS - 3_000)])
    with held(tmp_path):
        found = fold(sample(tmp_path, now_ms=NOW_MS))
    assert (found.cycle, found.step, found.step_done, found.step_total) == (3, "fetch", 0, 2)
    assert (found.planned, found.done, found.left, found.put_off) == (200, 80, 100, 20)
    assert (found.open, found.pages, found.wire_bytes) == (14, 76, 4_000_000)
    assert found.outcomes == {"ok": 86, "http_404": 4}
    assert found.hosts == {"ready": 2, "waiting": 10, "asked": 14, "finished": 4}
    assert found.partitions == {"running": 2, "ended": 0, "not_begun": 0, "silent": 0}
    assert (found.flush_lag_ms, found.lease_age_ms) == (1_500 + 3_000, 2_500 + 3_000)
    assert [host["host"] for host in found.slow_hosts[:3]] == ["w00.test", "w10.test", "w01.test"]
    assert found.writer.startswith("noria cycle on ") and found.writer_left_ms == 40_000


def test_a_partition_that_has_ended_waits_for_nothing_and_one_not_heard_of_is_silent(tmp_path: Path) -> None:
    lives = [live(0), live(1, told_ms=NOW_MS - 60_000)]
    found = fold(sample(fetching(tmp_path, lives, ended=(0,)), now_ms=NOW_MS))
    assert found.partitions == {"running": 0, "ended": 1, "not_begun": 0, "silent": 1}
    assert (found.open, found.left, found.put_off) == (7, 50, 70)
    assert found.hosts["finished"] == 15 + 2
    assert found.lease_age_ms == 62_500


def test_when_every_partition_has_ended_the_next_step_runs(tmp_path: Path) -> None:
    found = fold(sample(fetching(tmp_path, [live(0), live(1)], ended=(0, 1)), now_ms=NOW_MS))
    assert (found.step, found.left, found.open, found.lease_age_ms) == ("sort", 0, 0, 0)


@given(st.integers(0, 300), st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100)), max_size=4))
def test_planned_is_done_and_left_and_put_off(planned: int, counts: list[tuple[int, int]]) -> None:
    from pipelines.dashboard.read import Sample

    lives = tuple(live(at, finished=done, left=left) for at, (done, left) in enumerate(counts))
    found = fold(Sample(NOW_MS, cycle=1, plan={"planned": planned, "partitions": len(lives)}, lives=lives))
    done = sum(done for done, _ in counts)
    assert found.left >= 0 and found.put_off >= 0
    assert found.left + found.put_off == max(planned - done, 0)


def test_the_inbox_is_sifted_first_and_an_empty_one_is_passed_over() -> None:
    opened = {"groups": 4, "inbox": ["one", "two", "three"]}
    for done, told in (({"sift": 1}, ("plan", 1, 3)), ({"sift": 3, "demand": 2}, ("plan", 2, 4))):
        found = fold(Sample(at_ms=1, cycle=1, opened=opened, done=done))
        assert (found.step, found.step_done, found.step_total) == told
    found = fold(Sample(at_ms=1, cycle=1, opened={"groups": 4, "inbox": []}, done={"demand": 1}))
    assert (found.step, found.step_done, found.step_total) == ("plan", 1, 4)


def test_rates_are_those_of_the_last_seconds_and_another_cycle_begins_anew() -> None:
    trail = Trail()
    for second in range(20):
        trail.add(
            Figures(
                second * 1_000,
                cycle=1,
                step="fetch",
                pages=10 * second,
                wire_bytes=1_000 * second,
                done=5 * second,
            )
        )
    assert (trail.points[-1].pages_s, trail.points[-1].bytes_s, trail.done_s) == (10, 1_000, 5)
    assert [point.at_ms for point in trail.since(17_000)] == [18_000, 19_000]
    assert trail.add(Figures(20_000, cycle=2, step="fetch")).pages_s == 0
    assert len(trail.points) == 1


def test_the_time_left_is_that_of_the_slowest_host_and_never_beyond_the_window() -> None:
    slow = ({"host": "a", "work_ms": 40_000},)
    going = Figures(0, cycle=1, step="fetch", left=100, open=1, window_left_ms=60_000, slow_hosts=slow)
    assert left_ms(going, done_s=10.0) == 40_000
    assert left_ms(going, done_s=2.0) == 50_000
    assert left_ms(going, done_s=0.1) == 60_000
    assert left_ms(Figures(0, cycle=1, step="fetch"), done_s=0.0) == 0
    assert left_ms(Figures(0, cycle=1, step="merge"), done_s=0.0) is None


def test_totals_never_shrink_over_attempts_and_cycles() -> None:
    totals = Totals()
    for cycle, pages in ((1, 5), (1, 9), (1, 7), (2, 1), (2, 4), (0, 0), (3, 2)):
        totals.add(Figures(0, cycle=cycle, pages=pages, outcomes={"ok": pages}))
    assert totals["pages"] == 9 + 4 + 2
    assert totals.outcomes() == {"ok": 15}


def test_a_hub_shows_the_lake_that_is_named_or_the_latest(tmp_path: Path) -> None:
    hub = Hub()
    assert hub.of("x") is None
    one, two = (hub.watch(tmp_path / name, lambda: False) for name in ("one", "two"))
    assert hub.of() is two and hub.of(str(tmp_path / "one")) is one
    assert hub.watch(tmp_path / "one", lambda: False) is one and hub.of() is one
