"""The options that every command has, and the settings that they make."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipelines.failure import Misuse

if TYPE_CHECKING:
    from pipelines.config import Settings

WHERE = "Where and how"
Lake = Annotated[
    str | None,
    typer.Option(
        "--lake", metavar="FOLDER", help="The lake. \\[data/lake]", rich_help_panel=WHERE, show_default=False
    ),
]
Conf = Annotated[
    list[Path] | None,
    typer.Option(
        "--conf",
        metavar="FILE",
        help="A TOML file of settings; may be given again, later wins.",
        rich_help_panel=WHERE,
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="One setting, as delay.floor_ms=2000; may be given again.",
        rich_help_panel=WHERE,
    ),
]
Seeds = Annotated[
    list[str] | None,
    typer.Option(
        "--seeds",
        metavar="FILE|URL",
        help="Seeds to take in first; - for standard input; may be given again.",
    ),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        metavar="tcp://…",
        help="A running Dask scheduler. \\[a cluster on this machine]",
        show_default=False,
    ),
]
Window = Annotated[
    int | None, typer.Option(metavar="SECONDS", help="How long to fetch. \\[3600]", show_default=False)
]
MaxPages = Annotated[
    int | None,
    typer.Option(metavar="N", help="Plan no more URLs than this; 0 = no limit. \\[0]", show_default=False),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON object and nothing else.", rich_help_panel=WHERE)
]
Debug = Annotated[
    bool, typer.Option("--debug", help="On failure, show the traceback too.", rich_help_panel=WHERE)
]


def settings_of(
    lake: str | None,
    conf: list[Path] | None,
    pairs: list[str] | None,
    *,
    flags: Mapping[str, tuple[str, object]] | None = None,
    base: Mapping[str, Any] | None = None,
) -> Settings:
    """Return the settings that files, environment and options make.

    flags: by setting, the option's name and its value; None = not given. base: see `config.load`.
    """
    from pipelines.config import load  # here, so that `noria --help` need not wait for pydantic

    given = {"lake.path": ("--lake", lake), **(flags or {})}
    named = {name: option for name, (option, value) in given.items() if value is not None}
    texts = {name: str(given[name][1]) for name in named}
    return load(conf or [], environ=os.environ, overrides=_pairs(pairs or []) | texts, flags=named, base=base)


def _pairs(pairs: list[str]) -> dict[str, str]:
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise Misuse(
                f"--set {pair}: a setting is given as KEY=VALUE, for example --set delay.floor_ms=2000"
            )
        found[name.strip()] = value
    return found
