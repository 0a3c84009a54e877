"""`noria conf show` and `noria conf default`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from pipelines.app.conf_text import literal, to_toml
from pipelines.config import Setting, describe, known, nearest
from pipelines.failure import Misuse
from pipelines.settings import Settings as AllSettings

if TYPE_CHECKING:
    from pipelines.settings import Settings


def show(settings: Settings, name: str | None, *, changed: bool, as_json: bool, as_toml: bool) -> None:
    """Print each value and where it came from; of one setting or section, its meaning too."""
    if as_toml and as_json:
        raise Misuse("--toml --json: it is printed as the one or the other; leave one out")
    if as_toml:
        print(to_toml(settings), end="")
        return
    rows = [row for row in _chosen(describe(settings), name) if not changed or row.source != "default"]
    if as_json:
        print(json.dumps({row.name: asdict(row) for row in rows}))
    elif not rows:
        print("every setting has its default (conf/default.toml)")
    else:
        _print(rows, meanings=name is not None)


def default() -> None:
    """Print conf/default.toml as the code has it, whatever files and variables say."""
    print(to_toml(AllSettings()), end="")


def _chosen(rows: list[Setting], name: str | None) -> list[Setting]:
    if name is None:
        return rows
    found = [row for row in rows if name in (row.name, row.name.split(".")[0], row.name.split(".")[1])]
    if not found:
        raise Misuse(
            f"no setting or section {name}; {nearest(name, [*known(), *{row.split('.')[0] for row in known()}])}"
        )
    return found


def _print(rows: list[Setting], *, meanings: bool) -> None:
    """Columns as wide as their longest value, up to a bound on a terminal; a pipe gets the whole."""
    values = [literal(row.value) for row in rows]
    if sys.stdout.isatty():
        values = [value if len(value) <= 40 else f"{value[:37]}..." for value in values]
    names, width = max(len(row.name) for row in rows), min(max(map(len, values)), 40)
    for row, value in zip(rows, values, strict=True):
        print(f"{row.name:<{names}}  {value:<{width}}  {row.source}")
        if meanings:
            print(f"{'':<{names}}  {row.doc}; default {literal(row.default)}")
