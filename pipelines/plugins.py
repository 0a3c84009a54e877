"""Plug-ins: what others may hang into a crawl, how it is found, and what its crash costs.

A plug-in is an entry point of an installed package, in one or more of the groups below, under one name:

    [project.entry-points."noria.hooks"]
    monitor = "my_package.monitor:Monitor"

It is called with its options (`[plugins] options`) to make an object with the group's method, once a fetch
partition. It runs only where `[plugins] enabled` names it. Whatever it raises, and whatever it returns that is not of
the method's type, costs its say about one page: that is counted (`plugin_faults`), logged with its name, and written
beside the page's capture.
"""

from __future__ import annotations

import logging
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from pipelines.failure import Misuse
from pipelines.rules.charset import decode
from pipelines.rules.filters import Refusal
from pipelines.rules.links import Link
from pipelines.rules.pages import PagePolicy
from pipelines.rules.whatwg import wire

if TYPE_CHECKING:
    import pyarrow as pa

    from pipelines.settings import Plugins as PluginSettings

FILTERS, EXTRACTORS, SCORERS, HOOKS = "noria.filters", "noria.extractors", "noria.scorers", "noria.hooks"
GROUPS = (FILTERS, EXTRACTORS, SCORERS, HOOKS)
METHODS = {FILTERS: "judge", EXTRACTORS: "extract", SCORERS: "score", HOOKS: "page"}
SWITCHES = ("forms", "images", "srcset", "noscript")
"""What an extractor may switch on in `PagePolicy`: links that are not read otherwise."""
LARGEST_TERM = 1e30
"""The largest term of a score, either way: a sum of some still fits the column."""

T = TypeVar("T")
LOG = logging.getLogger("noria.plugins")
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Answer:
    """A page as a plug-in sees it. body: content coding removed, perhaps cut at the limits. depth: from a seed."""

    url: str
    host: str
    depth: int
    meta: str | None
    status: int | None
    mime: str
    charset: str
    title: str | None
    body: bytes

    def text(self) -> str:
        """Return the body as text, by the character set that was told; "" where none was (no HTML)."""
        return decode(self.body, self.charset) if self.charset else ""


class Filter(Protocol):
    """Has the last word about which links are admitted."""

    def judge(self, url: str, said: Refusal | None, *, depth: int, meta: str | None) -> Refusal | None:
        """Return None to admit `url`, or why not. said: what the rules and the filters before say; pass it on."""


class Extractor(Protocol):
    """Has the last word about which links a page has."""

    switches: Sequence[str]

    def extract(self, answer: Answer, links: list[Link]) -> Iterable[Link]:
        """Return the links that count. links: those found so far, absolute and in wire form, as yours must be."""


class Scorer(Protocol):
    """Adds a term to the score of URLs."""

    def score(self, rows: pa.Table) -> Sequence[float]:
        """Return a number a row, 0 = no say. rows: of the frontier (see lake/README.md). Pure: plans repeat."""


class PageHook(Protocol):
    """Is shown every page (2xx, with a body) after it was stored."""

    def page(self, answer: Answer) -> Iterable[str]:
        """Return what is to be reported of the page, if anything, a line each."""


class Note(NamedTuple):
    """What a hook reports of a page."""

    plugin: str
    text: str


@dataclass(frozen=True)
class Loaded:
    """A plug-in at work in one group."""

    name: str
    it: Any


@dataclass
class Plugins:
    """The plug-ins of a fetch partition, by group; false if there are none. Never raises what a plug-in raises."""

    by_group: Mapping[str, tuple[Loaded, ...]] = field(default_factory=dict)
    faults: Counter[str] = field(default_factory=Counter)
    fault: str | None = None  # the last one, in words, until `take_fault`

    def __bool__(self) -> bool:
        return any(self.by_group.values())

    def __contains__(self, group: str) -> bool:
        return bool(self.by_group.get(group))

    def page_policy(self, policy: PagePolicy) -> PagePolicy:
        """Return the policy with the switches that extractors want on."""
        none: frozenset[str] = frozenset()
        wanted = none.union(
            *(
                self._ask(one, "its switches", partial(_switches, one.it), none)
                for one in self._of(EXTRACTORS)
            )
        )
        switched: dict[str, Any] = {name: True for name in SWITCHES if name in wanted}
        return replace(policy, **switched)

    def judge(self, url: str, said: Refusal | None, *, depth: int, meta: str | None) -> Refusal | None:
        """Return what the filters make of the rules' word about a link."""
        for one in self._of(FILTERS):
            ask = partial(_verdict, one.it.judge, url, said, depth=depth, meta=meta)
            said = self._ask(one, url, ask, said)
        return said

    def links(self, answer: Answer, links: list[Link]) -> list[Link]:
        """Return what the extractors make of a page's links."""
        for one in self._of(EXTRACTORS):
            links = self._ask(one, answer.url, partial(_links, one.it.extract, answer, links), links)
        return links

    def notes(self, answer: Answer) -> list[Note]:
        """Return what the hooks report of a page."""
        none: list[str] = []
        return [
            Note(one.name, text)
            for one in self._of(HOOKS)
            for text in self._ask(one, answer.url, partial(_texts, one.it.page, answer), none)
        ]

    def score_terms(self, rows: pa.Table) -> dict[str, Floats]:
        """Return each scorer's term of the score, a number a row; a crash or a wrong count is 0 for all of them."""
        zeros = np.zeros(rows.num_rows)
        return {
            one.name: self._ask(one, f"{rows.num_rows} URLs", partial(_numbers, one.it.score, rows), zeros)
            for one in self._of(SCORERS)
        }

    def take_fault(self) -> str | None:
        """Return the last fault in words, and forget it."""
        fault, self.fault = self.fault, None
        return fault

    def _of(self, group: str) -> tuple[Loaded, ...]:
        return self.by_group.get(group, ())

    def _ask(self, one: Loaded, about: str, ask: Callable[[], T], otherwise: T) -> T:
        """Return the plug-in's answer; `otherwise` if it crashes. Here alone everything is caught, sys.exit() too."""
        try:
            return ask()
        except (Exception, SystemExit) as error:  # sys.exit() of a plug-in would end the worker
            self.faults[one.name] += 1
            self.fault = f"plug-in {one.name}: {_told(error)}"
            first = self.faults[one.name] == 1
            LOG.warning("plug-in %s crashed about %s", one.name, about, exc_info=first)
            return otherwise


def _switches(it: Any) -> frozenset[str]:
    wanted = frozenset(_listed(getattr(it, "switches", ())))
    if unknown := wanted.difference(SWITCHES):
        raise ValueError(f"switches names {sorted(map(repr, unknown))[0]}; there are: {', '.join(SWITCHES)}")
    return wanted


def _verdict(
    judge: Callable[..., Any], url: str, said: Refusal | None, *, depth: int, meta: str | None
) -> Refusal | None:
    found: Refusal | None = judge(url, said, depth=depth, meta=meta)
    if found is not None:
        _require(found, Refusal)
        _text(found.rule), _text(found.detail)
    return found


def _links(extract: Callable[..., Any], answer: Answer, links: list[Link]) -> list[Link]:
    """Return an extractor's links; it is given a list of its own, which it may change and then crash."""
    found, known = _listed(extract(answer, list(links))), {link.url for link in links}
    for link in found:
        _require(link, Link)
        if _text(link.url) not in known and wire(link.url) != link.url:
            raise ValueError(f"an absolute URL in wire form is wanted, not {link.url[:200]!r}")
    return found


def _texts(page: Callable[..., Any], answer: Answer) -> list[str]:
    return [_text(line) for line in _listed(page(answer))]


def _listed(found: Any) -> list[Any]:
    """Return the items, None being none: a generator crashes here, not in our loop. A text is no list of letters."""
    if isinstance(found, (str, bytes)):
        raise TypeError(f"a list is wanted, not {type(found).__name__}")
    return [] if found is None else list(found)


def _text(found: Any) -> str:
    """Return a text that a file can hold; a lone surrogate raises UnicodeEncodeError."""
    _require(found, str)
    found.encode()
    return str(found)


def _require(found: Any, kind: type) -> None:
    if not isinstance(found, kind):
        raise TypeError(f"{kind.__name__} is wanted, not {type(found).__name__}")


def _told(error: BaseException) -> str:
    """Return an error in words that a file can hold: its own may be lone surrogates, or crash."""
    words = "".join(traceback.format_exception_only(error)).strip()
    return words.encode(errors="backslashreplace").decode()


def _numbers(method: Callable[[pa.Table], Sequence[float]], rows: pa.Table) -> Floats:
    found = np.asarray(method(rows), dtype=np.float64)
    if found.shape != (rows.num_rows,):
        raise ValueError(f"{rows.num_rows} finite numbers are wanted, not an array of shape {found.shape}")
    if not (np.abs(found) <= LARGEST_TERM).all():
        raise ValueError(f"finite numbers are wanted, none beyond {LARGEST_TERM:g}")
    return found


def installed() -> list[EntryPoint]:
    """Return the plug-ins of all installed packages."""
    return [point for group in GROUPS for point in entry_points(group=group)]


def load(conf: PluginSettings, points: Iterable[EntryPoint] | None = None) -> Plugins:
    """Make the plug-ins that the settings enable; nothing is looked up where they enable none.

    points: the plug-ins there are; None = the installed ones. Raises Misuse with a sentence if one is not there,
    cannot be made, or has options without being enabled.
    """
    if not conf.enabled and not conf.options:
        return Plugins()
    known = list(installed() if points is None else points)
    names = sorted({point.name for point in known})
    for name in conf.enabled:
        if name not in names:
            there = ", ".join(names) or "none"
            raise Misuse(
                f"plugins.enabled: no installed package brings a plug-in '{name}'; there are: {there}"
            )
    options = _options(conf)
    by_group = {
        group: tuple(
            Loaded(name, _made(point, options.get(name, {})))
            for name in conf.enabled
            for point in known
            if (point.group, point.name) == (group, name)
        )
        for group in GROUPS
    }
    return Plugins(by_group)


def _options(conf: PluginSettings) -> dict[str, dict[str, str]]:
    """Return the options by plug-in: "monitor.text" is the option `text` of `monitor`."""
    found: dict[str, dict[str, str]] = {}
    for key, value in conf.options.items():
        name, dot, option = key.partition(".")
        if not dot or name not in conf.enabled:
            raise Misuse(
                f"plugins.options: '{key}' is no option of an enabled plug-in; write it as NAME.OPTION, with NAME "
                f"one of plugins.enabled ({', '.join(conf.enabled) or 'which is empty'})"
            )
        found.setdefault(name, {})[option] = value
    return found


def _made(point: EntryPoint, options: Mapping[str, str]) -> Any:
    try:
        it = point.load()(dict(options))
    except (Exception, SystemExit) as error:
        raise Misuse(
            f"plug-in {point.name} ({point.value}) cannot be made: {_told(error)}; mend it, or take "
            "it out of plugins.enabled"
        ) from error
    method = METHODS[point.group]
    if not callable(getattr(it, method, None)):
        raise Misuse(
            f"plug-in {point.name} ({point.value}) has no method {method}, which {point.group} needs; see "
            "pipelines/plugins.py"
        )
    return it
