"""What `extract`, `report` and `export` share: naming cycles, the bar; and `extract`'s words."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

import lake
from pipelines import config
from pipelines.app import extract_cmd
from pipelines.app.cycles import cycles_of, one_cycle
from pipelines.app.progress import Bar
from pipelines.extract.graph import ExtractReport
from pipelines.failure import Misuse


@pytest.mark.parametrize(
    ("text", "found"),
    [(None, None), ("all", None), ("last", [9]), ("3", [3]), ("2-4", [2, 3, 4]), ("9-9", [9])],
)
def test_cycles_are_named(text: str | None, found: list[int] | None) -> None:
    assert cycles_of(text, last=9) == found


@pytest.mark.parametrize("text", ["0", "10", "4-2", "8-10", "-1", "two", "1,2", "1-2-3", ""])
def test_what_names_no_cycle_is_refused(text: str) -> None:
    with pytest.raises(Misuse, match="--cycle"):
        cycles_of(text, last=9)


def test_a_range_the_wrong_way_round_is_told() -> None:
    with pytest.raises(Misuse, match="the first is after the last; a range is named as 2-3"):
        cycles_of("3-2", last=9)


def test_no_cycle_can_be_named_before_the_first() -> None:
    assert cycles_of(None, last=0) is None
    with pytest.raises(Misuse, match="no cycle is committed yet"):
        cycles_of("1", last=0)


def test_one_cycle_is_the_last_unless_named() -> None:
    assert (one_cycle(None, last=7), one_cycle("3", last=7)) == (7, 3)
    with pytest.raises(Misuse, match="name one cycle"):
        one_cycle("1-3", last=7)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_bar_is_for_terminals_only() -> None:
    pipe, terminal = io.StringIO(), Terminal()
    for out in (pipe, terminal):
        with Bar("export", "rows", out=out) as bar:
            bar.show(512, 1_024)
            bar.show(1_024, None, "more")
    assert pipe.getvalue() == ""
    assert "export" in terminal.getvalue() and "1,024 rows more" in terminal.getvalue()


def test_extract_says_what_it_did() -> None:
    done = extract_cmd.words(ExtractReport(cycles=[2, 3], files=4, pages=1_200, unread=2), "data/lake")
    assert done[0] == (
        "1,200 pages of cycles 2 to 3 from 4 WARC files, 2 of the pages could not be read (column problem says why)"
    )
    assert extract_cmd.words(ExtractReport(left=3), "x") == [
        "nothing to extract: 3 cycles were extracted before"
    ]


def test_extract_of_a_lake_without_cycles(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake.create(tmp_path / "lake", buckets=8)
    settings = config.load([], environ={}, overrides={"lake.path": str(tmp_path / "lake")})
    extract_cmd.run(settings, None, as_json=False)
    assert "no cycle is committed yet" in capsys.readouterr().out
    extract_cmd.run(settings, None, as_json=True)
    assert json.loads(capsys.readouterr().out)["pages"] == 0
