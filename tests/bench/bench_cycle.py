"""One whole cycle over some 58,000 real pages, everything on, and the server's word for it.

`python tests/bench/bench_cycle.py` (or `make bench`). Prints pages a second of the fetch step and of the cycle,
CPU ms a page by step, peak memory by process, bytes a page, and the smallest pauses that the server saw.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil

from lake import staging
from tests.bench import webserver

CONF = """
[identity]
contact = "bench@example.org"
[dns]
static = {{ "*.bench" = "{addresses}" }}
[security]
allow_addresses = ["127.0.0.0/8"]
[window]
seconds = 600
[lake]
buckets = {buckets}
"""


STEPS = ("start", "plan", "fetch", "sort", "gate", "seal", "merge")
"""The steps that stage files, in their order; what comes before the first is the start, what follows merge is with it."""


class Watcher:
    """Samples a process tree: peak memory by process, CPU seconds in all and by step, told by what is staged."""

    def __init__(self, pid: int, staging: Path) -> None:
        self._root, self._staging = psutil.Process(pid), staging
        self.by_step = dict.fromkeys(STEPS, 0.0)
        self.peak: dict[int, int] = {}
        self.cpu: dict[int, float] = {}
        self.names: dict[int, str] = {}
        self._last = STEPS[0]
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._ended.wait(0.2):
            try:
                family = [self._root, *self._root.children(recursive=True)]
            except psutil.NoSuchProcess:
                return
            for process in family:
                try:
                    times = process.cpu_times()
                    self.peak[process.pid] = max(self.peak.get(process.pid, 0), process.memory_info().rss)
                    self.cpu[process.pid] = times.user + times.system
                    self.names.setdefault(process.pid, " ".join(process.cmdline())[-60:])
                except psutil.NoSuchProcess:
                    continue
            staged = [step for step in STEPS[1:] if (self._staging / step).exists()]
            self.by_step[staged[-1] if staged else self._last] += sum(self.cpu.values()) - sum(
                self.by_step.values()
            )
            self._last = staged[-1] if staged else self._last

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()


def run(pages: int, hosts: int, buckets: int, keep: str | None, documents: Path | None) -> None:
    """Make the web, crawl it once, print the figures."""
    webserver.install(documents)
    home = Path(keep or tempfile.mkdtemp(prefix="noria-bench-"))
    home.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(home / "lake", ignore_errors=True)
    web = webserver.web(hosts, 18_080, pages, documents)
    (home / "access.log").unlink(missing_ok=True)  # a kept folder holds the last run's
    (home / "seeds.txt").write_text("\n".join(web.urls), encoding="utf-8")
    (home / "bench.toml").write_text(
        CONF.format(addresses=webserver.ADDRESSES, buckets=buckets), encoding="utf-8"
    )
    noria = [sys.executable, "-m", "pipelines.app.cli"]
    where = ["--lake", str(home / "lake"), "--conf", str(home / "bench.toml")]
    subprocess.run(
        [*noria, "seeds", "add", str(home / "seeds.txt"), *where], check=True, stdout=subprocess.DEVNULL
    )
    with webserver.served(home, web.port, documents) as log:
        began = time.monotonic()
        process = subprocess.Popen([*noria, "cycle", *where, "--json"], stdout=subprocess.PIPE, text=True)
        watcher = Watcher(process.pid, staging.folder(home / "lake", 1))
        out, _ = process.communicate()
        wall = time.monotonic() - began
        watcher.stop()
        server = psutil.Process(int((home / "nginx.pid").read_text()))
        server_cpu = sum(sum(one.cpu_times()[:2]) for one in server.children())
        time.sleep(1.1)  # nginx flushes its log once a second
        judged = webserver.judge(log)
    if process.returncode:
        sys.exit(f"the cycle failed:\n{out}")
    show(json.loads(out), judged, watcher, server_cpu, wall, home, len(web.urls))
    if not keep:
        shutil.rmtree(home)


def show(
    report: dict,
    judged: webserver.Judged,
    watcher: Watcher,
    server_cpu: float,
    wall: float,
    home: Path,
    planned: int,
) -> None:
    """Print what was measured."""
    pages, seconds = report["pages"], report["seconds"]
    cycle = sum(seconds.values())
    cpu = sum(watcher.cpu.values())
    warc = sum(path.stat().st_size for path in (home / "lake" / "warc").rglob("*.gz"))
    tables = sum(path.stat().st_size for path in (home / "lake").rglob("*.parquet"))
    rest = (seconds["plan"] + seconds["merge"]) / cycle
    print(
        f"pages             {pages:,} of {planned:,} planned, {report['duplicates']:,} duplicates, {report['new_urls']:,} new URLs"
    )
    print(f"fetch step        {pages / seconds['fetch']:,.0f} pages/s")
    print(
        f"whole cycle       {pages / cycle:,.0f} pages/s ({cycle:.1f} s; with the start of the cluster {wall:.1f} s)"
    )
    print(f"plan and merge    {100 * rest:.1f} % of the cycle")
    print("seconds by step   " + "  ".join(f"{name} {value:.1f}" for name, value in seconds.items()))
    print(f"CPU               {1_000 * cpu / max(pages, 1):.2f} ms a page, all processes; {cpu:.1f} s")
    print(
        "CPU by step       "
        + "  ".join(f"{step} {1_000 * spent / max(pages, 1):.3f}" for step, spent in watcher.by_step.items())
        + " ms a page (commit with merge)"
    )
    print(
        "CPU by process    "
        + "  ".join(f"{spent:.1f} s" for spent in sorted(watcher.cpu.values(), reverse=True)[:4])
        + f"; the server {server_cpu:.1f} s"
    )
    print(
        "peak memory       "
        + "  ".join(f"{size / 2**20:,.0f} MiB" for size in sorted(watcher.peak.values(), reverse=True)[:4])
    )
    print(f"bytes a page      WARC {warc / max(pages, 1):,.0f}, tables {tables / max(pages, 1):,.0f}")
    print(
        f"server's log      {judged.requests:,} requests in {judged.seconds:.1f} s; smallest pause of a host {judged.host_gap_ms} ms, of an address {judged.address_gap_ms} ms"
    )
    print(f"outcomes          {report['outcomes']}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pages", type=int, default=0, help="pages to crawl, 0 = all")
    parser.add_argument("--hosts", type=int, default=4_096)
    parser.add_argument("--buckets", type=int, default=64)
    parser.add_argument("--keep", help="folder for lake and logs, kept")
    webserver.add_option(parser)
    arguments = parser.parse_args()
    run(arguments.pages, arguments.hosts, arguments.buckets, arguments.keep, arguments.documents)
