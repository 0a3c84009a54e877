"""What `noria status` tells, from logs alone, and how it follows a cycle that runs."""

from __future__ import annotations

import datetime as dt
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from lake import lease, ledger
from lake.files import write_data
from lake.schema import BY_NAME, TABLES
from lake.snapshot import Lake
from pipelines.app import status_cmd, watch_cmd
from pipelines.dashboard.figures import Trail, fold
from pipelines.dashboard.read import sample
from tests.dashboard.lakes import NOW_MS, fetching, live
from tests.lake.sample import finish, keys_in, new_lake, rows_of, run_add, shelf_add

TODAY = NOW_MS // 86_400_000


def grown(folder: Path) -> Lake:
    """A lake of seven cycles: three URLs each, all on the shelf `later`, due on days around today."""
    lake = new_lake(folder)
    for cycle in range(1, 8):
        keys = keys_in(1, 10 * cycle, 10 * cycle + 1, 10 * cycle + 2)
        adds = {
            "seen": [run_add(lake, cycle, 1, keys)],
            "frontier_later": [shelf_add(lake, "later", cycle, 1, keys, due_day=TODAY + 10 * (cycle - 2))],
        }
        lake = finish(lake, cycle, adds)
    return lake


def test_it_tells_what_is_due_when_and_the_last_five_cycles(tmp_path: Path) -> None:
    found = status_cmd.status(grown(tmp_path), now_ms=NOW_MS)
    assert (found["cycles"], found["seen"], found["shelves"]["later"]) == (7, 21, 21)
    assert found["due"] == {"overdue": 3, "today": 3, "in 8-30 days": 9, "later": 6}
    assert [cycle["cycle"] for cycle in found["last_cycles"]] == [3, 4, 5, 6, 7]
    assert found["bytes"]["seen"] > 0 and set(found["bytes"]) == {table.name for table in TABLES}
    assert found["open_cycle"] is None
    text = "\n".join(f"{label} {words}" for label, words in status_cmd.lines(found))
    assert "3 overdue, 3 today, 9 in 8-30 days, 6 later" in text
    json.dumps(found)


def test_days_that_share_a_file_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake, keys = new_lake(tmp_path), keys_in(1, 1, 2, 3)
    due = [dt.datetime.fromtimestamp((TODAY + ahead) * 86_400, dt.UTC) for ahead in (0, 1, 30)]
    rows = rows_of("frontier_later", url_key=keys, url=[f"http://a.test/{key}" for key in keys], due_at=due)
    path = lake.layout.data_path("frontier_later", 1, 1, due_day=TODAY)
    where: dict[str, int | str] = {"due_day": TODAY, "bucket": 1}
    add = write_data(lake.layout.table("frontier_later"), path, rows, BY_NAME["frontier_later"], where)
    lake = finish(lake, 1, {"seen": [run_add(lake, 1, 1, keys)], "frontier_later": [add]})
    assert status_cmd.due_days(lake) == {TODAY: 1, TODAY + 1: 1, TODAY + 30: 1}
    for bound in ("EXACT_ROWS", "EXACT_FILES"):
        with monkeypatch.context() as patch:
            patch.setattr(status_cmd, bound, 0)
            assert status_cmd.due_days(lake) == {TODAY: 3}, "many rows or files are not read"
    (lake.layout.table("frontier_later") / path).unlink()
    assert status_cmd.due_days(lake) == {TODAY: 3}, "a file that is gone is told by its day"


@pytest.mark.parametrize(
    ("probes", "words"),
    [
        ([60_000, 30_000], "5 ready on hosts out of reach, tried again from 2"),
        ([60_000, None], "3 now (ready), 2 ready on hosts out of reach"),
        ([-60_000, None], "5 now (ready)"),
    ],
)
def test_ready_urls_of_hosts_out_of_reach_are_not_due_now(
    tmp_path: Path, probes: list[int | None], words: str
) -> None:
    lake, keys = new_lake(tmp_path), keys_in(1, 1, 2, 3, 4, 5)
    times = [
        None if one is None else dt.datetime.fromtimestamp((NOW_MS + one) / 1_000, dt.UTC) for one in probes
    ]
    rows = rows_of("hosts", host=["a.test", "b.test"], host_key=[1, 2], ready_urls=[2, 3], probe_at=times)
    path = lake.layout.data_path("hosts", 1, 0)
    hosts = write_data(lake.layout.table("hosts"), path, rows, BY_NAME["hosts"], {"bucket": 0})
    ready = shelf_add(lake, "ready", 1, 1, keys)
    found = status_cmd.status(finish(lake, 1, {"hosts": [hosts], "frontier_ready": [ready]}), now_ms=NOW_MS)
    assert dict(status_cmd.lines(found))["due"].startswith(words)


def test_what_failed_is_told_with_its_meaning(tmp_path: Path) -> None:
    rows = [
        ledger.LedgerRow(1, ledger.COMMITTED, outcomes={"ok": 5, "http_404": 2, "redirect": 1}),
        ledger.LedgerRow(2, ledger.COMMITTED, outcomes={"http_404": 1, "dns_timeout": 9}),
    ]
    found = {**status_cmd.status(grown(tmp_path)), "failures": status_cmd._failures(rows)}
    assert found["failures"] == {"dns_timeout": 9, "http_404": 3}
    told = [words for _, words in status_cmd.lines(found)]
    assert any("dns_timeout" in words and "no name server answered in time" in words for words in told)


def test_times_are_iso_in_the_data_and_words_in_the_lines(tmp_path: Path) -> None:
    lake = grown(tmp_path)
    with lease.Lease.acquire(lake.layout.lease, holder="someone@here"):
        found = status_cmd.status(lake)
    assert dt.datetime.fromisoformat(found["last_cycle"]["committed_at"]).tzinfo is not None
    since, until = (dt.datetime.fromisoformat(found["writer"][name]) for name in ("since", "until"))
    assert since < until and found["writer"]["holder"] == "someone@here"
    told = dict(status_cmd.lines(found))
    assert told["writer"].startswith("the lake is held by someone@here (host ")
    assert " ago): 0 planned" in told["last cycle"]


def test_an_open_cycle_is_seen_before_its_row_is_in_the_ledger(tmp_path: Path) -> None:
    lake = new_lake(tmp_path)
    fetching(lake.root, [live(0)])
    assert status_cmd.status(lake)["open_cycle"] == 3


def test_recent_rows_of_the_ledger_are_the_newest(tmp_path: Path) -> None:
    lake = grown(tmp_path)
    assert [row.cycle for row in ledger.recent(lake.root, 2)] == [6, 7]
    assert ledger.recent(new_lake(tmp_path / "empty").root, 5) == []
    assert ledger.recent(lake.root, 1)[0].written_at.tzinfo is dt.UTC


def test_it_waits_for_nothing_heavy(tmp_path: Path) -> None:
    """pandas and Dask take longer to import than the whole of a status."""
    lake = grown(tmp_path)
    script = (
        "import sys; from pipelines.app import errors; from pipelines.app.cli import app;"
        f"code = errors.run(app, ['status', '--lake', {str(lake.root)!r}]);"
        "sys.exit(code or ', '.join({'pandas', 'distributed', 'bokeh', 'rich.live'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_watch_follows_a_cycle_until_it_has_ended(tmp_path: Path) -> None:
    lake, out = new_lake(tmp_path), io.StringIO()
    folder = fetching(lake.root, [live(0), live(1)]) / "staging"

    def sleep(seconds: float) -> None:
        folder.rename(tmp_path / "swept")

    watch_cmd.run(lake.root, as_json=False, out=out, sleep=sleep)
    first, last = out.getvalue().splitlines()
    assert first.startswith("cycle 3: fetch, 0 of 2 tasks, URLs 80 done, 100 left, 20 put off of 200 planned")
    assert last == "the cycle has ended"


def test_watch_without_a_cycle_says_so(tmp_path: Path) -> None:
    out = io.StringIO()
    watch_cmd.run(new_lake(tmp_path).root, as_json=False, out=out)
    assert out.getvalue() == "no cycle runs\n"


def test_watch_shows_the_slow_hosts(tmp_path: Path) -> None:
    figures = fold(sample(fetching(tmp_path, [live(0)]), now_ms=NOW_MS))
    told = dict(watch_cmd.lines(figures, Trail()))
    assert told["slow hosts"].startswith("w00.test: 30 URLs, 1.0 s apart (floor), needs 0:32")
