"""The bench web: Debian's documentation, or HTML files of your own, as thousands of virtual hosts of nginx on loopback.

Every host owns a run of neighbouring pages, so that links behave as on real sites. The server's log is the
judge of politeness.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from argparse import ArgumentParser
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote

PACKAGES = (
    "python3.11-doc", "openjdk-17-doc", "rust-doc", "postgresql-doc-15", "libboost1.74-doc",
    "cppreference-doc-en-html", "linux-doc-6.1", "debian-handbook",
)  # fmt: skip
ADDRESSES = "127.1.0.0/20"
"""As many addresses as hosts; which has which is chance, so that some hosts share one, seven at most. With 1,024
addresses the eleven hosts of one take 48 s at 250 ms a request, longer than the whole fetch."""
SERVED = "/usr/share"
PROGRAMS = {"nginx": "nginx-light", "wget": "wget"}
"""Programs of the benches, and Debian's package of each."""


@dataclass(frozen=True)
class BenchWeb:
    """Which host serves which pages, and where."""

    hosts: int
    port: int
    urls: list[str]


def add_option(parser: ArgumentParser) -> None:
    """Add the option that names the pages."""
    parser.add_argument(
        "--documents",
        type=Path,
        metavar="FOLDER",
        help="take the HTML files under FOLDER; without it Debian's documentation is installed, 1.4 GB",
    )


def program(name: str) -> str | None:
    """Return the path of a program, also where only root has its folder in PATH; None = it is not there."""
    return shutil.which(name, path=os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin")))


def install(documents: Path | None = None) -> None:
    """Install nginx, wget and, where no `documents` are given, the documentation from Debian, what is missing of them.

    Without root or apt-get it ends with the command that would install them.
    """
    missing = [package for name, package in PROGRAMS.items() if not program(name)]
    if documents is None:
        missing += [package for package in PACKAGES if not _installed(package)]
    if not missing:
        return
    if os.geteuid() or not shutil.which("apt-get"):
        sys.exit(
            f"the bench needs what Debian calls {' '.join(missing)}: sudo apt install {' '.join(missing)}"
            + ("" if documents else "; or name a folder of HTML files with --documents")
        )
    subprocess.run(["apt-get", "update", "-qq"], check=True)
    subprocess.run(
        ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing],
        check=True,
        stdout=subprocess.DEVNULL,
    )


def _installed(package: str) -> bool:
    if not shutil.which("dpkg"):
        return False
    told = subprocess.run(["dpkg", "-s", package], capture_output=True, text=True, check=False)
    return "Status: install ok installed" in told.stdout


def pages(documents: Path | None = None) -> list[str]:
    """Return the URL paths of the HTML files under `documents`, sorted; None = those of Debian's documentation."""
    if documents is not None:
        return [quote(str(path)) for path in html_files(documents)]
    listed = subprocess.run(["dpkg", "-L", *PACKAGES], capture_output=True, text=True, check=True).stdout
    files = {line for line in listed.splitlines() if line.endswith(".html") and line.startswith(SERVED)}
    return sorted(path for path in files if Path(path).is_file() and not Path(path).is_symlink())


def html_files(folder: Path) -> list[Path]:
    """Return the HTML files under a folder, absolute and sorted; ends the program if there is none."""
    found = sorted(
        path for path in folder.absolute().rglob("*.html") if path.is_file() and not path.is_symlink()
    )
    return found or sys.exit(f"no HTML files under {folder}: name another folder with --documents")


def web(hosts: int, port: int, limit: int = 0, documents: Path | None = None) -> BenchWeb:
    """Deal the pages to the hosts in runs; `limit` takes that many pages, evenly, 0 = all."""
    files = pages(documents)
    if limit:
        files = files[:: max(len(files) // limit, 1)][:limit]
    run = -(-len(files) // hosts)
    urls = [f"http://h{place // run:04d}.bench:{port}{path}" for place, path in enumerate(files)]
    return BenchWeb(hosts, port, urls)


def _addresses() -> list[str]:
    return [f"127.1.{third}.{fourth}" for third in range(16) for fourth in range(256)]


@contextmanager
def served(folder: Path, port: int, documents: Path | None = None) -> Iterator[Path]:
    """Run nginx with its log in `folder` until the block ends; yields the log's path.

    Documents of your own are read as you: nginx started by root would read them as nobody, who may not.
    """
    log = folder / "access.log"
    shown = SERVED if documents is None else documents.absolute()
    user = "user root;" if documents is not None and not os.geteuid() else ""
    listens = "\n".join(f"listen {address}:{port};" for address in _addresses())
    conf = folder / "nginx.conf"
    conf.write_text(
        f"""
daemon off; {user} worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log;
worker_rlimit_nofile 60000;
events {{ worker_connections 30000; }}
http {{
  include /etc/nginx/mime.types; sendfile on; tcp_nopush on; keepalive_timeout 30s; keepalive_requests 10000;
  log_format bench '$msec $request_time $host $server_addr $status $bytes_sent $request_uri';
  open_file_cache max=8000 inactive=60s; access_log {log} bench buffer=64k flush=1s;
  client_body_temp_path {folder}/a; proxy_temp_path {folder}/b; fastcgi_temp_path {folder}/c;
  uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e;
  server {{ {listens}
    root /; location "{shown}/" {{ }} location / {{ return 404; }}
    location = /robots.txt {{ return 200 "User-agent: *\\nDisallow: /private/\\n"; }} }}
}}""",
        encoding="utf-8",
    )
    (folder / "nginx.pid").unlink(missing_ok=True)  # a kept folder may hold that of a killed one
    process = subprocess.Popen([program("nginx") or "nginx", "-c", str(conf)], stderr=subprocess.DEVNULL)
    try:
        _await(process, folder, port)
        yield log
    finally:
        process.terminate()
        process.wait()


def _await(process: subprocess.Popen[bytes], folder: Path, port: int) -> None:
    """Wait until nginx has all its ports: it writes nginx.pid then; another server may hold some of them."""
    for _ in range(200):
        if process.poll() is not None:
            break
        try:
            if (folder / "nginx.pid").exists():
                socket.create_connection(("127.1.0.0", port), timeout=1).close()
                return
        except OSError:
            pass
        time.sleep(0.05)
    log = folder / "error.log"
    told = log.read_text(encoding="utf-8").splitlines()[-1:] if log.exists() else ["it left no word"]
    sys.exit(f"nginx did not start on port {port}: {' '.join(told)}")


@dataclass(frozen=True)
class Judged:
    """What the server saw: requests, seconds from first to last, least pause by host and by address, ms."""

    requests: int
    seconds: float
    host_gap_ms: int
    address_gap_ms: int
    bytes_sent: int


def judge(log: Path) -> Judged:
    """Read the server's log: a request begins at its end less its time, as nginx notes it, to the ms."""
    by_host: dict[str, list[tuple[float, float]]] = defaultdict(list)
    by_address: dict[str, list[tuple[float, float]]] = defaultdict(list)
    sent, count = 0, 0
    ends: list[float] = []
    for line in log.read_text(encoding="utf-8").splitlines():
        end, took, host, address, _, size, _ = line.split(" ", 6)
        span = (float(end) - float(took), float(end))
        by_host[host].append(span)
        by_address[address].append(span)
        ends.append(span[1])
        sent, count = sent + int(size), count + 1
    seconds = max(ends) - min(ends) if ends else 0.0
    return Judged(count, seconds, _least(by_host), _least(by_address), sent)


def _least(spans: dict[str, list[tuple[float, float]]]) -> int:
    gaps = [b[0] - a[1] for rows in spans.values() for a, b in pairwise(sorted(rows))]
    return round(min(gaps) * 1_000) if gaps else -1
