"""`noria explain`, `noria hosts`, `noria get` on the command line: words, JSON, exit codes, and what start costs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import lake
from pipelines.app import errors
from pipelines.app.cli import app
from pipelines.app.explain_cmd import host_name
from pipelines.failure import Misuse


@pytest.fixture
def empty(tmp_path: Path) -> str:
    return str(lake.create(tmp_path / "lake", buckets=8).root)


def test_a_url_nobody_has_seen_is_told_in_words_and_as_json(
    empty: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert errors.run(app, ["explain", "http://a.example/", "--lake", empty]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[:2] == [
        "http://a.example/",
        "Never admitted: no seed names it, and no link to it was taken (see next).",
    ]
    assert errors.run(app, ["explain", "http://a.example/", "--lake", empty, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["shelf"] is None and found["next"]["what"] == "add"
    assert found["spelling"]["bucket"] == found["spelling"]["key"] >> 60


def test_hosts_of_an_empty_lake(empty: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert errors.run(app, ["hosts", "--lake", empty]) == 0
    assert "no host was met yet" in capsys.readouterr().out
    assert errors.run(app, ["hosts", "http://A.example/b", "--lake", empty, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["known"] is False
    assert errors.run(app, ["hosts", "--by", "age", "--lake", empty]) == 2
    assert "size, requests, delay, trouble" in capsys.readouterr().err


def test_what_cannot_be_got_ends_with_a_sentence(empty: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert errors.run(app, ["get", "http://a.example/", "--lake", empty]) == 1
    assert "no cycle has been committed yet" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("Www.A.example", "www.a.example"),
        ("https://u@a.example:8443/x", "a.example"),
        ("http://[::1]:80/", "[::1]"),
        ("bücher.example", "xn--bcher-kva.example"),
    ],
)
def test_a_host_may_be_given_as_a_name_or_a_url(text: str, host: str) -> None:
    assert host_name(text) == host


def test_what_is_no_host_is_a_sentence() -> None:
    with pytest.raises(Misuse, match="is no host name"):
        host_name("a b")


def test_explaining_starts_without_the_network_and_the_help_without_arrow() -> None:
    told = "import sys, pipelines.app.{}; print(*(name for name in {} if name in sys.modules))"
    heavy = ("aiohttp", "aiodns", "dask", "distributed", "structlog", "scipy", "bokeh")
    assert _loaded(told.format("explain_cmd", heavy)) == ""
    assert _loaded(told.format("cli", (*heavy, "pyarrow", "pydantic", "numpy"))) == ""


HEAVY = (
    "aiohttp",
    "aiodns",
    "bokeh",
    "dask",
    "distributed",
    "matplotlib",
    "pandas",
    "rich",
    "scipy",
    "structlog",
)


@pytest.mark.parametrize(
    "words",
    [
        ["status"],
        ["hosts"],
        ["hosts", "a.example"],
        ["explain", "http://a.example/"],
        ["check"],
    ],
    ids=" ".join,
)
def test_a_question_waits_for_nothing_heavy(words: list[str], empty: str) -> None:
    """Each of these takes longer to import than the whole of an answer."""
    told = _loaded(
        "import sys; from pipelines.app import errors; from pipelines.app.cli import app;"
        f"errors.run(app, {[*words, '--lake', empty]!r});"
        f"print('loaded:', *(name for name in {HEAVY!r} if name in sys.modules))"
    )
    assert told.splitlines()[-1] == "loaded:"


def test_pandas_is_there_for_whoever_asks_after_it_was_spared() -> None:
    assert _loaded(
        "import sys; from pipelines.app.arrow import spare_pandas; spare_pandas();"
        "import pyarrow as pa; table = pa.table({'a': [1, None]}); print('pandas' in sys.modules);"
        "print(type(table.to_pandas()).__name__, sys.modules['pandas'].Series([1.5]).sum())"
    ).split() == ["False", "DataFrame", "1.5"]


def _loaded(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout.strip()
