"""Plug-ins: found by entry points, on by the settings, and never worth a crash of ours."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint
from pathlib import Path

import pyarrow as pa
import pytest

from pipelines import plugins
from pipelines.failure import Misuse
from pipelines.plugins import EXTRACTORS, FILTERS, HOOKS, SCORERS, Answer
from pipelines.rules.filters import Refusal
from pipelines.rules.links import Link
from pipelines.rules.pages import PagePolicy
from pipelines.settings import Plugins as Conf

ANSWER = Answer("http://a.test/", "a.test", 0, None, 200, "text/html", "utf-8", "A", b"<p>a</p>")


class Shy:
    """Says nothing of anything."""

    switches = ("images",)

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = options

    def judge(self, url: str, said: Refusal | None, *, depth: int, meta: str | None) -> Refusal | None:
        return said

    def extract(self, answer: Answer, links: list[Link]) -> Iterable[Link]:
        return links

    def page(self, answer: Answer) -> Iterable[str]:
        return ()

    def score(self, rows: pa.Table) -> list[float]:
        return [2.0] * rows.num_rows


class Clumsy(Shy):
    """Crashes wherever it is asked, a generator only when it is read."""

    def judge(self, url: str, said: Refusal | None, *, depth: int, meta: str | None) -> Refusal | None:
        raise KeyError("judge")

    def extract(self, answer: Answer, links: list[Link]) -> Iterable[Link]:
        yield links[0]
        raise ValueError("extract")

    def page(self, answer: Answer) -> Iterable[str]:
        yield "half"
        raise RecursionError("page")

    def score(self, rows: pa.Table) -> list[float]:
        return [1.0]


class Unmakeable:
    def __init__(self, options: Mapping[str, str]) -> None:
        raise ValueError("it needs the option depth")


POINTS = [
    EntryPoint(name, f"{__name__}:{name.title()}", group)
    for name in ("shy", "clumsy", "unmakeable")
    for group in plugins.GROUPS
]


def loaded(*names: str) -> plugins.Plugins:
    return plugins.load(Conf(enabled=names), POINTS)


def test_nothing_is_looked_up_where_nothing_is_enabled() -> None:
    class Untouchable:
        def __iter__(self) -> None:
            raise AssertionError

    found = plugins.load(Conf(), Untouchable())  # type: ignore[arg-type]
    assert not found and FILTERS not in found


def test_a_plugin_is_made_with_its_own_options() -> None:
    conf = Conf(enabled=("shy", "clumsy"), options={"shy.depth": "3", "clumsy.text": "x"})
    found = plugins.load(conf, POINTS)
    assert [one.it.options for one in found.by_group[HOOKS]] == [{"depth": "3"}, {"text": "x"}]
    assert all(group in found for group in plugins.GROUPS)


@pytest.mark.parametrize(
    ("conf", "words"),
    [
        (Conf(enabled=("shi",)), "'shi'; there are: clumsy, shy, unmakeable"),
        (
            Conf(enabled=("unmakeable",)),
            "plug-in unmakeable .* cannot be made: ValueError: it needs the option",
        ),
        (Conf(options={"shy.depth": "3"}), "'shy.depth' is no option of an enabled plug-in"),
        (Conf(enabled=("shy",), options={"depth": "3"}), "'depth' is no option"),
    ],
)
def test_what_cannot_be_loaded_is_told_in_a_sentence(conf: Conf, words: str) -> None:
    with pytest.raises(Misuse, match=words):
        plugins.load(conf, POINTS)


def test_a_plugin_without_the_method_of_its_group_is_refused() -> None:
    wrong = [EntryPoint("shy", "collections:OrderedDict", FILTERS)]
    with pytest.raises(Misuse, match="has no method judge"):
        plugins.load(Conf(enabled=("shy",)), wrong)


def test_a_shy_plugin_changes_nothing() -> None:
    found = loaded("shy")
    said = Refusal("extension", ".png")
    links = [Link("http://a.test/b", "a", "", "")]
    assert found.judge("http://a.test/b", said, depth=1, meta=None) is said
    assert found.links(ANSWER, links) == links
    assert found.notes(ANSWER) == []
    assert not found.faults


def test_an_extractor_switches_kinds_of_links_on() -> None:
    assert loaded("shy").page_policy(PagePolicy()) == PagePolicy(images=True)


def test_a_crash_costs_the_plugins_say_is_counted_and_named() -> None:
    found = loaded("clumsy", "shy")
    links = [Link("http://a.test/b", "a", "", "")]
    rows = pa.table({"url": ["http://a.test/b", "http://a.test/c"]})
    assert found.judge("http://a.test/b", None, depth=1, meta=None) is None
    assert found.fault == "plug-in clumsy: KeyError: 'judge'"
    assert found.links(ANSWER, links) == links
    assert found.notes(ANSWER) == []
    terms = found.score_terms(rows)
    assert terms["clumsy"].tolist() == [0.0, 0.0] and terms["shy"].tolist() == [2.0, 2.0]
    assert found.faults == {"clumsy": 4}
    assert "2 finite numbers are wanted" in (found.take_fault() or "")
    assert found.take_fault() is None


def test_the_plugins_of_the_tree_are_registered_and_can_be_made() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    points = [
        EntryPoint(name, value, group)
        for group, entries in project["entry-points"].items()
        for name, value in entries.items()
    ]
    found = plugins.load(Conf(enabled=("images", "monitor"), options={"monitor.text": "x"}), points)
    assert {group: [one.name for one in found.by_group[group]] for group in plugins.GROUPS} == {
        FILTERS: ["images"], EXTRACTORS: ["images"], SCORERS: [], HOOKS: ["monitor"],
    }  # fmt: skip
