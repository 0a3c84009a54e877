"""A Dask cluster of processes of its own, as a user starts one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from distributed import Client

from tests.cycle.test_lease import await_


@contextmanager
def dask_cluster(
    folder: Path, *, environ: Mapping[str, str] = os.environ
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Run a scheduler and two workers as a user would, and give its address and process."""
    told = folder / "scheduler.json"
    words = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(told)]
    environ = {**environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])}
    with ExitStack() as stack:

        def start(module: str, *words: str) -> subprocess.Popen[bytes]:
            command = [sys.executable, "-m", f"distributed.cli.{module}", *words]
            process = subprocess.Popen(command, env=environ, cwd=folder, stderr=subprocess.DEVNULL)
            stack.callback(process.wait)
            stack.callback(process.kill)
            return process

        scheduler = start("dask_scheduler", *words)
        await_(lambda: told.exists() and bool(told.read_text()), "the scheduler's address")
        address = json.loads(told.read_text())["address"]
        for _ in range(2):
            start("dask_worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard")
        with Client(address) as client:
            client.wait_for_workers(2)
        yield address, scheduler
