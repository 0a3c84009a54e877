"""`noria seeds add` and `noria seeds scan`: files, URLs, sitemaps, feeds and scans into the inbox of a lake."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.app.lakes import place
from pipelines.app.words import again
from pipelines.failure import Failure, Misuse
from pipelines.rules.filters import unusable
from pipelines.seeds.add import Added, Wish, add_all, check_all, named
from pipelines.seeds.read import KEY, BadLine, is_text

if TYPE_CHECKING:
    from pipelines.config import Settings


def run(settings: Settings, sources: list[str], *, as_json: bool) -> None:
    """Add plain sources; see `run_wish`."""
    run_wish(settings, Wish(tuple(sources)), as_json=as_json)


def run_wish(settings: Settings, wish: Wish, *, as_json: bool) -> None:
    """Add the seeds, making the lake if there is none yet, and say what came of it.

    Raises Failure if not one seed was good.
    """
    if "-" in wish.sources and sys.stdin.isatty():
        print("reading seeds from the keyboard, one a line; end with Ctrl-D", file=sys.stderr)
    added = put_wish(settings, wish)
    if as_json:
        print(json.dumps({"added": added.added, "refused": added.refused, "files": added.files}))
    else:
        print(summary(added, settings.lake.path))


def put(settings: Settings, sources: list[str]) -> Added:
    """Add plain sources to the lake of the settings; see `put_wish`."""
    return put_wish(settings, Wish(tuple(sources)))


def put_wish(settings: Settings, wish: Wish) -> Added:
    """Add the seeds to the lake of the settings and tell of each bad line on stderr."""
    sources = [*wish.sources, *wish.parquet, *wish.sitemaps, *wish.feeds]
    if not sources:
        raise Misuse("no seeds given; name files, URLs, or - for standard input")
    check_all(wish)
    place(settings, make=True)
    added = add_all(Path(settings.lake.path), wish, report=_tell)
    if not added.added:
        why = f"all {added.refused:,} lines were refused" if added.refused else "there is no line in it"
        raise Failure(f"no seeds in {', '.join(named(source) for source in sources)}: {why}")
    return added


def metadata_of(
    pairs: Iterable[str], *, label: str | None, country: str | None, topic: str | None
) -> dict[str, str]:
    """Return the metadata that the options of a command make; raises Misuse for a pair that is none."""
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not KEY.fullmatch(name.strip()):
            raise Misuse(f"--meta {pair}: metadata is given as KEY=VALUE, for example --meta stay=host")
        found[name.strip()] = value.strip()
    if why := unusable(found):
        raise Misuse(f"--meta {why}")
    given = {"label": label, "country": country, "topic": topic}
    found |= {name: value for name, value in given.items() if value is not None}
    for name, value in found.items():
        if not is_text(value):
            raise Misuse(f"{name} {value!r} holds bytes that are no UTF-8 text")
    return found


def summary(added: Added, lake: str) -> str:
    """Say how many seeds wait in the inbox now, and what comes next."""
    refused = f", {added.refused:,} lines refused (told above)" if added.refused else ""
    return f"{added.added:,} seed{'s' * (added.added != 1)} in the inbox of {lake}{refused}; the next cycle takes them in: {again('cycle')}"


def scan(settings: Settings, networks: list[str], ports: str, *, as_json: bool) -> None:
    """Look for web servers at the addresses of networks; what is found goes into the inbox with its provenance.

    Raises Misuse where [security] scan_networks does not hold all of a network, before anything is connected to.
    """
    from pipelines.seeds import scan as scanning  # here: sockets and TLS are for this command alone

    policy = scanning.policy_of(settings, ports)
    asked = scanning.allowed(networks, policy)
    place(settings, make=True)
    found = scanning.scan(Path(settings.lake.path), asked, policy, tell=_tell_scan)
    if as_json:
        print(json.dumps(found.figures()))
        return
    print(
        f"{found.connections:,} connections to {found.addresses:,} addresses: {found.servers:,} web servers, "
        f"{found.hosts:,} candidate hosts in the inbox of {settings.lake.path}"
    )


def _tell_scan(text: str) -> None:
    print(text, file=sys.stderr)


def _tell(source: str, line: BadLine) -> None:
    print(f"{named(source)} line {line.number}: {line.why}; skipped", file=sys.stderr)
