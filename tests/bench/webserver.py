"""The bench web: Debian's documentation as thousands of virtual hosts, served by nginx on loopback.

Every host owns a run of neighbouring pages, so that links behave as on real sites. The server's log is the
judge of politeness.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

PACKAGES = (
    "python3.11-doc", "openjdk-17-doc", "rust-doc", "postgresql-doc-15", "libboost1.74-doc",
    "cppreference-doc-en-html", "linux-doc-6.1", "debian-handbook",
)  # fmt: skip
ADDRESSES = "127.1.0.0/20"
"""As many addresses as hosts; which has which is chance, so that some hosts share one, seven at most. With 1,024
addresses the eleven hosts of one take 48 s at 250 ms a request, longer than the whole fetch."""
SERVED = "/usr/share"


@dataclass(frozen=True)
class BenchWeb:
    """Which host serves which pages, and where."""

    hosts: int
    port: int
    urls: list[str]


def install() -> None:
    """Install the documentation and nginx from Debian where they are missing."""
    missing = [name for name in (*PACKAGES, "nginx-light", "wget") if not _installed(name)]
    if missing:
        subprocess.run(["apt-get", "update", "-qq"], check=True)
        subprocess.run(["apt-get", "install", "-y", "-qq", *missing], check=True, stdout=subprocess.DEVNULL)


def _installed(package: str) -> bool:
    told = subprocess.run(["dpkg", "-s", package], capture_output=True, text=True, check=False)
    return "Status: install ok installed" in told.stdout or (
        package.startswith("nginx") and bool(shutil.which("nginx"))
    )


def pages() -> list[str]:
    """Return the documentation's HTML files, sorted."""
    listed = subprocess.run(["dpkg", "-L", *PACKAGES], capture_output=True, text=True, check=True).stdout
    files = {line for line in listed.splitlines() if line.endswith(".html") and line.startswith(SERVED)}
    return sorted(path for path in files if Path(path).is_file() and not Path(path).is_symlink())


def web(hosts: int, port: int, limit: int = 0) -> BenchWeb:
    """Deal the pages to the hosts in runs; `limit` takes that many pages, evenly, 0 = all."""
    files = pages()
    if limit:
        files = files[:: max(len(files) // limit, 1)][:limit]
    run = -(-len(files) // hosts)
    urls = [f"http://h{place // run:04d}.bench:{port}{path}" for place, path in enumerate(files)]
    return BenchWeb(hosts, port, urls)


def _addresses() -> list[str]:
    return [f"127.1.{third}.{fourth}" for third in range(16) for fourth in range(256)]


@contextmanager
def served(folder: Path, port: int) -> Iterator[Path]:
    """Run nginx with its log in `folder` until the block ends; yields the log's path."""
    log = folder / "access.log"
    listens = "\n".join(f"listen {address}:{port};" for address in _addresses())
    conf = folder / "nginx.conf"
    conf.write_text(
        f"""
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log;
worker_rlimit_nofile 60000;
events {{ worker_connections 30000; }}
http {{
  include /etc/nginx/mime.types; sendfile on; tcp_nopush on; keepalive_timeout 30s; keepalive_requests 10000;
  log_format bench '$msec $request_time $host $server_addr $status $bytes_sent $request_uri';
  open_file_cache max=8000 inactive=60s; access_log {log} bench buffer=64k flush=1s;
  client_body_temp_path {folder}/a; proxy_temp_path {folder}/b; fastcgi_temp_path {folder}/c;
  uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e;
  server {{ {listens}
    root /; location {SERVED}/ {{ }} location / {{ return 404; }}
    location = /robots.txt {{ return 200 "User-agent: *\\nDisallow: /private/\\n"; }} }}
}}""",
        encoding="utf-8",
    )
    process = subprocess.Popen(["nginx", "-c", str(conf)], stderr=subprocess.DEVNULL)
    try:
        _await_port(port)
        yield log
    finally:
        process.terminate()
        process.wait()


def _await_port(port: int) -> None:
    import socket
    import time

    for _ in range(200):
        try:
            socket.create_connection(("127.1.0.0", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
    sys.exit("nginx did not start")


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
