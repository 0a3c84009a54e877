"""`noria seeds add`: files, URLs and standard input into the inbox of a lake."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.app.lakes import place
from pipelines.app.words import program
from pipelines.failure import Failure, Misuse
from pipelines.seeds.add import Added, add, check
from pipelines.seeds.read import BadLine

if TYPE_CHECKING:
    from pipelines.config import Settings


def run(settings: Settings, sources: list[str], *, as_json: bool) -> None:
    """Add the seeds, making the lake if there is none yet, and say what came of it.

    Raises Failure if not one seed was good.
    """
    if "-" in sources and sys.stdin.isatty():
        print("reading seeds from the keyboard, one a line; end with Ctrl-D", file=sys.stderr)
    added = put(settings, sources)
    if as_json:
        print(json.dumps({"added": added.added, "refused": added.refused, "files": added.files}))
    else:
        print(summary(added, settings.lake.path))


def put(settings: Settings, sources: list[str]) -> Added:
    """Add the seeds to the lake of the settings and tell of each bad line on stderr."""
    if not sources:
        raise Misuse("no seeds given; name files, URLs, or - for standard input")
    for source in sources:
        check(source)
    root = Path(settings.lake.path)
    place(settings, make=True)
    added = add(root, sources, report=_tell)
    if not added.added:
        why = f"all {added.refused:,} lines were refused" if added.refused else "there is no line in it"
        raise Failure(f"no seeds in {', '.join(_named(source) for source in sources)}: {why}")
    return added


def summary(added: Added, lake: str) -> str:
    """Say how many seeds wait in the inbox now, and what comes next."""
    refused = f", {added.refused:,} lines refused (told above)" if added.refused else ""
    return f"{added.added:,} seeds in the inbox of {lake}{refused}; the next cycle takes them in: {program()} cycle --lake {lake}"


def _tell(source: str, line: BadLine) -> None:
    print(f"{_named(source)} line {line.number}: {line.why}; skipped", file=sys.stderr)


def _named(source: str) -> str:
    return "standard input" if source == "-" else source
