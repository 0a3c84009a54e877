"""`noria check url` and `noria check robots`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import lake
from pipelines.app import judge_cmd
from pipelines.config import load
from pipelines.failure import Failure, Misuse
from pipelines.rules.filters import RULES
from pipelines.settings import Settings

Say = Callable[[], str]


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Say:
    return lambda: capsys.readouterr().out


def test_a_url_is_told_with_its_key_form_and_every_rule(said: Say) -> None:
    judge_cmd.url(Settings(), "http://A.example/a/a/a/b.jpg#x", as_json=True)
    found = json.loads(said())
    assert found["url"] == "http://a.example/a/a/a/b.jpg"
    assert [rule["rule"] for rule in found["rules"]] == [name for name, _ in RULES]
    assert {rule["rule"] for rule in found["rules"] if not rule["ok"]} == {"extension", "repeated_segments"}
    assert not found["admitted"]
    judge_cmd.url(Settings(), "http://a.example/", as_json=False)
    assert "yes, unless robots.txt forbids it" in said()


def test_the_filters_of_the_configuration_are_those_that_judge(said: Say) -> None:
    settings = load(environ={}, overrides={"filters.extensions": "[]", "filters.exclude": "*/private/*"})
    judge_cmd.url(settings, "http://a.example/private/b.jpg", as_json=True)
    assert [rule["rule"] for rule in json.loads(said())["rules"] if not rule["ok"]] == ["exclude"]


def test_robots_txt_is_judged_with_its_group_and_line(said: Say, tmp_path: Path) -> None:
    file = tmp_path / "robots.txt"
    file.write_text("User-agent: noria\nCrawl-delay: 3\nDisallow: /p\n", encoding="utf-8")
    judge_cmd.robots(Settings(), "http://a.example/p7", file=file, as_json=False)
    lines = said().splitlines()
    assert lines[0] == "refused  http://a.example/p7"
    assert lines[1].endswith("noria, line 3: Disallow: /p")
    assert "3,000 ms" in lines[3]
    judge_cmd.robots(Settings(), "http://a.example/q", file=file, as_json=True)
    assert json.loads(said())["allowed"]


def test_what_cannot_be_judged_is_a_sentence(tmp_path: Path) -> None:
    settings = load(environ={}, overrides={"lake.path": str(tmp_path / "lake")})
    with pytest.raises(Misuse, match="not an http or https URL"):
        judge_cmd.url(settings, "foo", as_json=False)
    with pytest.raises(Misuse, match="name a robots"):
        judge_cmd.robots(settings, "http://a.example/", file=tmp_path / "none", as_json=False)
    with pytest.raises(Failure, match="no lake at"):
        judge_cmd.robots(settings, "http://a.example/", file=None, as_json=False)
    lake.create(tmp_path / "lake", buckets=8)
    with pytest.raises(Failure, match=r"has no robots\.txt of http://a\.example yet"):
        judge_cmd.robots(settings, "http://a.example/", file=None, as_json=False)
