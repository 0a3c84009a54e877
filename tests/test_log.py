"""Logs: JSON lines in a file, words on stderr."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from pipelines import log
from pipelines.failure import Failure
from pipelines.settings import Log


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    root = logging.getLogger()
    level = root.level
    yield
    log.stop()
    root.setLevel(level)
    structlog.reset_defaults()


def test_an_event_is_a_json_line_in_the_file_and_words_on_stderr(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log.start(Log(folder=str(tmp_path / "logs"), level="info"))
    structlog.get_logger("noria.fetch").info("host fails", host="a.example", outcome="dns_nxdomain")
    (line,) = (tmp_path / "logs" / log.FILE).read_text(encoding="utf-8").splitlines()
    row = json.loads(line)
    assert (row["event"], row["outcome"], row["level"]) == ("host fails", "dns_nxdomain", "info")
    assert row["timestamp"].endswith("Z")
    assert "host fails" in capsys.readouterr().err


def test_other_libraries_are_heard_too_but_not_their_chatter(tmp_path: Path) -> None:
    log.start(Log(folder=str(tmp_path), level="info"))
    logging.getLogger("distributed.worker").info("chatter")
    logging.getLogger("distributed.worker").warning("trouble")
    rows = [json.loads(line) for line in (tmp_path / log.FILE).read_text(encoding="utf-8").splitlines()]
    assert [row["event"] for row in rows] == ["trouble"]


def test_a_live_display_keeps_stderr_for_warnings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log.start(Log(folder=str(tmp_path), level="info"), at_work=True)
    structlog.get_logger().info("small")
    structlog.get_logger().warning("large")
    said = capsys.readouterr().err
    assert "small" not in said and "large" in said


def test_an_exception_is_one_line(tmp_path: Path) -> None:
    log.start(Log(folder=str(tmp_path), level="info"))
    try:
        raise ValueError("x")
    except ValueError:
        structlog.get_logger().exception("failed")
    (line,) = (tmp_path / log.FILE).read_text(encoding="utf-8").splitlines()
    assert "ValueError: x" in json.loads(line)["exception"]


def test_no_folder_means_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    log.start(Log(folder=""))
    structlog.get_logger().warning("large")
    assert list(tmp_path.iterdir()) == []


def test_starting_again_does_not_double_the_lines(tmp_path: Path) -> None:
    for _ in range(2):
        log.start(Log(folder=str(tmp_path)))
    structlog.get_logger().info("once")
    assert len((tmp_path / log.FILE).read_text(encoding="utf-8").splitlines()) == 1


def test_a_folder_that_cannot_be_written_to_is_told_with_the_setting(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("a file")
    with pytest.raises(Failure, match=r"logs/noria\.jsonl .*--set log\.folder="):
        log.start(Log(folder=str(tmp_path / "logs")))
    log.stop()
