"""Plug-ins: found by entry points, on by the settings, and never worth a crash of ours."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

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


class Wrong(Shy):
    """Answers what `answer` says, or raises it."""

    answer: Any = None

    def judge(self, url: str, said: Refusal | None, *, depth: int, meta: str | None) -> Any:
        return self._say()

    def extract(self, answer: Answer, links: list[Link]) -> Any:
        links.clear()
        return self._say()

    def page(self, answer: Answer) -> Any:
        return self._say()

    def score(self, rows: pa.Table) -> Any:
        return self._say()

    def _say(self) -> Any:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


class Speechless(Exception):
    """Crashes where it is told."""

    def __str__(self) -> str:
        raise TypeError


class Unmakeable:
    def __init__(self, options: Mapping[str, str]) -> None:
        raise ValueError("it needs the option depth")


POINTS = [
    EntryPoint(name, f"{__name__}:{name.title()}", group)
    for name in ("shy", "clumsy", "unmakeable", "wrong")
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
        (Conf(enabled=("shi",)), "'shi'; there are: clumsy, shy, unmakeable, wrong"),
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


@pytest.fixture
def unlogged(monkeypatch: pytest.MonkeyPatch) -> None:
    """A runner of tests in many processes cannot pass on a log with lone surrogates."""
    monkeypatch.setattr(plugins.LOG, "disabled", True)


def answering(group: str, answer: Any) -> plugins.Plugins:
    """Return the plug-ins with one of a group that answers so."""
    one = Wrong({})
    one.answer = answer
    return plugins.Plugins({group: (plugins.Loaded("wrong", one),)})


RAISED = [SystemExit(3), Speechless(), ValueError("\ud800")]
LONE = "lone \ud800"
ADMITTED = Link("http://a.test/b", "a")


@pytest.mark.parametrize(
    "answer", [True, "no", ("rule", "detail"), Refusal(LONE, ""), Refusal("a", 1), *RAISED]
)  # type: ignore[arg-type]
def test_a_wrong_verdict_costs_the_filters_say(unlogged: None, answer: Any) -> None:
    found, said = answering(FILTERS, answer), Refusal("extension", ".png")
    assert found.judge(ADMITTED.url, said, depth=1, meta=None) is said
    assert found.faults == {"wrong": 1}
    (found.take_fault() or "").encode()


@pytest.mark.parametrize(
    "answer",
    [
        5, "http://a.test/c", ["http://a.test/c"], [None], [Link("/c", "a")], [Link("http://A.test/c", "a")],
        [Link("not a url", "a")], [Link(f"http://a.test/{LONE}", "a")], [Link(None, "a")], *RAISED,  # type: ignore[arg-type]
    ],
)  # fmt: skip
def test_wrong_links_cost_the_extractors_say_and_none_of_the_pages_links(unlogged: None, answer: Any) -> None:
    found, links = answering(EXTRACTORS, answer), [ADMITTED]
    assert found.links(ANSWER, links) == [ADMITTED]
    assert found.faults == {"wrong": 1}
    (found.take_fault() or "").encode()


@pytest.mark.parametrize("answer", [None, [], (), iter([ADMITTED]), [ADMITTED], {ADMITTED}])
def test_links_may_come_in_any_collection(answer: Any) -> None:
    found = answering(EXTRACTORS, answer)
    assert found.links(ANSWER, [ADMITTED]) in ([], [ADMITTED]) and not found.faults


@pytest.mark.parametrize("answer", [5, "seen", b"seen", [5], [None], ["fine", LONE], *RAISED])
def test_wrong_reports_cost_the_hooks_say(unlogged: None, answer: Any) -> None:
    found = answering(HOOKS, answer)
    assert found.notes(ANSWER) == []
    assert found.faults == {"wrong": 1}


@pytest.mark.parametrize(
    "answer", [None, 5, "ab", [1.0], [1.0, float("nan")], [1.0, -1e300], [[1.0], [2.0]], ["x", "y"], *RAISED]
)
def test_wrong_numbers_cost_the_scorers_say(unlogged: None, answer: Any) -> None:
    found = answering(SCORERS, answer)
    rows = pa.table({"url": ["http://a.test/b", "http://a.test/c"]})
    assert found.score_terms(rows)["wrong"].tolist() == [0.0, 0.0]
    assert found.faults == {"wrong": 1}


@pytest.mark.parametrize(
    ("switches", "count"), [(None, 0), ((), 0), ("images", 1), (5, 1), (["pictures"], 1)]
)
def test_wrong_switches_switch_nothing_on(switches: Any, count: int) -> None:
    found = answering(EXTRACTORS, [])
    found.by_group[EXTRACTORS][0].it.switches = switches
    assert found.page_policy(PagePolicy()) == PagePolicy()
    assert found.faults.total() == count


def test_ctrl_c_is_not_the_plugins() -> None:
    with pytest.raises(KeyboardInterrupt):
        answering(HOOKS, KeyboardInterrupt()).notes(ANSWER)


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
