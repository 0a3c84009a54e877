"""`noria toyweb`: serve the toy web by itself."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
from pathlib import Path

from pipelines.failure import Failure, Misuse
from pipelines.toyweb.conf import crawler_conf
from pipelines.toyweb.server import run as serve
from pipelines.toyweb.truth import ToyWeb


def run(*, hosts: int, port: int, seed: int, log: Path | None, conf: Path | None, tied: bool) -> None:
    """Serve until Ctrl-C. conf: a file to write, with which a crawler reaches the web.

    tied: say nothing but the port, and end when standard input ends (its parent died).
    """
    if not 1 <= hosts <= 100_000:
        raise Misuse(f"--hosts {hosts}: a toy web has 1 to 100,000 hosts")
    if not 0 <= port <= 65_535:
        raise Misuse(f"--port {port}: a port is a number from 0 to 65,535; 0 = any free one")
    web = ToyWeb(hosts=hosts, seed=seed)
    if conf is not None:
        conf.write_text(crawler_conf(web), encoding="utf-8")
    if tied:
        threading.Thread(target=_watch_parent, daemon=True).start()
    try:
        serve(
            web,
            port,
            log,
            on_ready=(lambda bound: print(bound, flush=True))
            if tied
            else (lambda bound: _ready(web, bound, conf)),
        )
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES) or error.filename is not None:
            raise
        raise Failure(f"{error.strerror or error}; choose another --port, or 0 for any free one") from error


def _ready(web: ToyWeb, port: int, conf: Path | None) -> None:
    print(f"toy web: {len(web.hosts)} hosts on port {port}, for example {web.seeds(port)[0]}; Ctrl-C ends it")
    if conf is not None:
        print(f"crawl it with: noria cycle --lake data/toy --conf {conf} --seeds {web.seeds(port)[0]}")
    else:
        print("its names resolve by configuration only: --write-conf FILE writes one for noria cycle --conf")
    sys.stdout.flush()


def _watch_parent() -> None:
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)
