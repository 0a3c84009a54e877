"""Plug-ins at work in a fetch partition: what they see of a page, and where what they report goes."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from lake.files import make_folder
from lake.layout import Layout
from pipelines import plugins
from pipelines.cycle.hoststate import Item
from pipelines.cycle.turn import Turn
from pipelines.failure import Misuse
from pipelines.net.exchange import Exchange
from pipelines.rules import urls
from pipelines.rules.filters import FilterPolicy, refusal
from pipelines.rules.pages import Page
from pipelines.settings import Plugins as PluginSettings


class Plugged:
    """The plug-ins of one attempt at a partition."""

    def __init__(self, turn: Turn, partition: int, attempt: int, policy: FilterPolicy) -> None:
        self._turn, self._policy = turn, policy
        self._path = report_path(turn, partition, attempt)
        self._lines: list[str] = []
        self._counted: Counter[str] = Counter()
        self.plugins = _load(turn)

    def judge(self, url: str, *, depth: int, meta: str | None) -> tuple[str, int | None]:
        """Return a link's host, and its key if rules and plug-ins admit it."""
        host = urls.host_of(url)
        said = refusal(url, self._policy, depth=depth, meta=meta, host=host)
        said = self.plugins.judge(url, said, depth=depth, meta=meta)
        return host, None if said else urls.url_key(url, host)

    def see(self, item: Item, exchange: Exchange, body: bytes, page: Page) -> None:
        """Show a page to the plug-ins: its links become what they make of them, their reports are noted."""
        answer = plugins.Answer(
            item.url, item.host, item.depth, item.meta, exchange.status, page.mime, page.charset, page.title, body
        )  # fmt: skip
        page.links = self.plugins.links(answer, page.links)
        for note in self.plugins.notes(answer):
            self._counted[f"plugin_notes.{note.plugin}"] += 1
            self._lines.append(
                json.dumps(
                    {
                        "plugin": note.plugin,
                        "url": item.url,
                        "fetched_ms": exchange.started_ms,
                        "cycle": self._turn.cycle,
                        "says": note.text,
                    },
                    ensure_ascii=False,
                )
            )

    def settle(self, counts: Counter[str]) -> str | None:
        """Bring the counts up to date; return what went wrong since the last call, in words."""
        faults = self.plugins.faults
        counts.update(_fault_counts(faults))
        counts.update(self._counted)
        faults.clear()
        self._counted.clear()
        return self.plugins.take_fault()

    def take(self) -> list[str]:
        """Take the lines of JSON reported since the last call: they are of the flush that begins now."""
        lines, self._lines = self._lines, []
        return lines

    def flush(self, lines: list[str]) -> None:
        """Make lines durable, in a thread. A kill may make a page be fetched, and reported, twice."""
        if not lines:
            return
        make_folder(self._path.parent)
        with open(self._path, "a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
            file.flush()
            os.fsync(file.fileno())


def report_path(turn: Turn, partition: int, attempt: int) -> Path:
    """Return where an attempt's plug-ins report to."""
    return Layout(Path(turn.root)).reports(turn.cycle) / f"p{partition:04d}-a{attempt}.jsonl"


def plugged(turn: Turn, partition: int, attempt: int, policy: FilterPolicy) -> Plugged | None:
    """Return the plug-ins at work; None if the settings enable none."""
    return Plugged(turn, partition, attempt, policy) if turn.settings.plugins.enabled else None


def without_disabled(turn: Turn, now: PluginSettings) -> tuple[Turn, list[str]]:
    """Return an interrupted cycle without the plug-ins that are no longer enabled, and their names.

    The way out of a cycle that a plug-in does not let end. Nothing else of its settings changes.
    """
    pinned = turn.settings.plugins
    gone = [name for name in pinned.enabled if name not in now.enabled]
    if not gone:
        return turn, []
    left = pinned.model_copy(
        update={
            "enabled": tuple(name for name in pinned.enabled if name not in gone),
            "options": {
                key: value for key, value in pinned.options.items() if key.partition(".")[0] not in gone
            },
        }
    )
    return replace(turn, settings_json=replace(turn.settings, plugins=left).to_json()), gone


_SCORING: ContextVar[Counter[str] | None] = ContextVar("scoring", default=None)
"""Where scorers' faults are counted: URLs are ranked deep inside a step, and at places that no step counts."""


@contextmanager
def scoring() -> Iterator[Counter[str]]:
    """Count the faults of scorers by `plugin_faults.NAME`, in this thread, while a step ranks URLs."""
    counts: Counter[str] = Counter()
    token = _SCORING.set(counts)
    try:
        yield counts
    finally:
        _SCORING.reset(token)


def score_terms(turn: Turn, rows: pa.Table) -> dict[str, plugins.Floats]:
    """Return each scorer's term of the score of frontier rows."""
    loaded = _load(turn)
    terms = loaded.score_terms(rows)
    counts = _SCORING.get()
    if counts is not None:
        counts.update(_fault_counts(loaded.faults))
    return terms


def _fault_counts(faults: Counter[str]) -> dict[str, int]:
    return {f"plugin_faults.{name}": number for name, number in faults.items()}


def _load(turn: Turn) -> plugins.Plugins:
    """Make the plug-ins; where this machine lacks one, the crawl goes on without any, and says so."""
    try:
        return plugins.load(turn.settings.plugins)
    except Misuse as error:
        return plugins.Plugins(faults=Counter({"loading": 1}), fault=str(error))
