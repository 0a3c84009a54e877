"""The demo: a lake that belongs to a toy web on this machine, served while its cycle runs.

`toyweb.json` in the lake's folder marks such a lake and says which toy web, so that a second cycle meets the same.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lake
from lake import inbox
from lake.files import write_atomic
from lake.layout import Layout
from pipelines.app.lakes import place
from pipelines.app.words import program
from pipelines.failure import Failure, Misuse
from pipelines.toyweb.conf import crawler_conf
from pipelines.toyweb.truth import ToyWeb

if TYPE_CHECKING:
    from pipelines.app.screen import Reporter
    from pipelines.config import Settings


class Wish(Enum):
    """Whether the toy web is wanted: no; yes; only where the lake is new or empty."""

    NO = 0
    YES = 1
    IF_EMPTY = 2


MARK = "toyweb.json"
HOSTS, SEED, PORT = 40, 1, 8081
PAGES_EACH = 15
"""Start pages of a host: enough for a first cycle that shows something."""
PACE = {
    "window": {"seconds": 20},
    "fetch": {"connect_ms": 2_000, "first_byte_ms": 4_000, "idle_ms": 3_000, "total_ms": 10_000},
    "dns": {"timeout_ms": 500, "tries": 1},
}
"""What a demo changes beside the toy web's own configuration: nobody wants to wait for its hosts that hang."""


@dataclass(frozen=True)
class Toy:
    """Which toy web a lake belongs to."""

    hosts: int = HOSTS
    seed: int = SEED
    port: int = PORT

    @property
    def web(self) -> ToyWeb:
        """The web itself."""
        return ToyWeb(hosts=self.hosts, seed=self.seed)

    def settings(self) -> dict[str, Any]:
        """Return the settings that a crawl of it needs, by section, as TOML gives them."""
        return PACE | tomllib.loads(crawler_conf(self.web))


def wanted(path: Path, *, wish: Wish, seeds: list[str]) -> Toy | None:
    """Return the toy web that a cycle on this lake crawls; None = the real web.

    A lake with the mark always gets its toy web; a new or empty one gets one if that is the wish. Raises Misuse where
    the two would mix.
    """
    mark = path / MARK
    if mark.exists():
        if seeds:
            raise Misuse(
                f"{path} holds a crawl of the toy web and takes no seeds of the real one; name another lake with --lake"
            )
        return _read(mark)
    if wish is Wish.NO:
        return None
    if seeds:
        raise Misuse("--demo brings its own seeds; leave out --demo to crawl those given with --seeds")
    if Layout(path.absolute()).meta.exists() and not _empty(path):
        if wish is Wish.IF_EMPTY:
            return None
        raise Misuse(
            f"{path} holds a crawl of the real web; give the toy web a lake of its own: {program()} cycle --demo --lake data/toy"
        )
    return Toy()


@contextmanager
def running(toy: Toy, path: Path, settings: Settings, reporter: Reporter) -> Iterator[None]:
    """Serve the toy web in a process of its own, with the lake marked and seeded, until the block ends."""
    process, toy = _serve(toy, path)
    try:
        _seed(toy, path, settings)
        reporter.message(
            f"Toy web: {toy.hosts} hosts on this machine, port {toy.port}; nothing leaves it. "
            f"To crawl the real web: {program()} cycle --lake data/web --seeds FILE --set identity.contact=you@example.org"
        )
        yield
    finally:
        process.terminate()
        process.communicate()


def _serve(toy: Toy, path: Path) -> tuple[subprocess.Popen[str], Toy]:
    """Start the server; a new lake takes any free port if the usual one is taken, a marked one must have its own."""
    new = not (path / MARK).exists()
    for port in (toy.port, 0) if new else (toy.port,):
        words = ["--hosts", str(toy.hosts), "--seed", str(toy.seed), "--port", str(port), "--tied"]
        process = subprocess.Popen(
            [sys.executable, "-m", "pipelines.app.cli", "toyweb", *words],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        assert process.stdout is not None
        ready = process.stdout.readline().strip()
        if ready:
            return process, Toy(toy.hosts, toy.seed, int(ready))
        _, trouble = process.communicate()
    raise Failure(
        f"the toy web of {path} cannot be served again at port {toy.port} ({trouble.strip().removeprefix('noria: ')}); "
        f"end what uses that port, or begin another lake with --lake"
    )


def _seed(toy: Toy, path: Path, settings: Settings) -> None:
    """Mark the lake and, before its first cycle, put the toy web's start pages into its inbox."""
    found = place(settings, make=True)
    if not (path / MARK).exists():
        write_atomic(path / MARK, json.dumps(asdict(toy)).encode())
    if found.cycle == 0 and not inbox.pending(path):
        urls = toy.web.seeds(toy.port, pages_each=PAGES_EACH, all_hosts=True)
        inbox.put(path, [{"url": url, "source": "seed"} for url in urls], kind="seed")


def _read(mark: Path) -> Toy:
    try:
        return Toy(**json.loads(mark.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise Failure(
            f"{mark} cannot be read; delete it to crawl the real web, or begin another lake with --lake"
        ) from error


def _empty(path: Path) -> bool:
    return lake.open(path).cycle == 0 and not inbox.pending(path)
