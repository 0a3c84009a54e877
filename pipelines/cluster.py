"""Where tasks run: a local Dask cluster, a running one, or this process (for tests). Nothing here knows a cycle."""

from __future__ import annotations

import logging
import os
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from pipelines.failure import Failure

Work = Callable[..., dict[str, Any]]

MALLOC = {
    "MALLOC_TRIM_THRESHOLD_": 64 << 20,
    "MALLOC_MMAP_THRESHOLD_": 32 << 20,
    "MALLOC_TOP_PAD_": 16 << 20,
}
"""What glibc's allocator is told in the workers, bytes. A fetch takes and drops memory for each page; with Dask's own
trim threshold of 64 KiB the system maps and clears it each time, a tenth of all CPU time."""


@dataclass(frozen=True)
class Task:
    """One task of a step: its number there, and the arguments of its function."""

    number: int
    arguments: tuple[Any, ...]


class TaskLost(Exception):
    """A task's worker died too often: the task is given up."""

    def __init__(self, number: int, why: str) -> None:
        super().__init__(why)
        self.number = number


class Runner(Protocol):
    """Runs the tasks of a step."""

    slots: int
    dashboard: str | None

    def run(
        self, step: str, cycle: int, work: Work, tasks: Sequence[Task]
    ) -> Iterator[dict[str, Any] | TaskLost]:
        """Run the tasks, at most a few more than there are slots at a time; yield results as they come.

        A task whose worker died too often yields TaskLost; an exception of a task is raised.
        """

    def serve(self, install: Callable[..., str], *arguments: Any) -> str:
        """Run `install` in the scheduler, which it is given as `dask_scheduler`; return its answer.

        Raises Failure if there is none to run it, or the scheduler cannot import it.
        """

    def close(self) -> None:
        """Let go of the processes."""


class InlineRunner:
    """Runs tasks in threads of this process."""

    dashboard = None

    def __init__(self, slots: int = 2) -> None:
        self.slots = slots

    def run(
        self, step: str, cycle: int, work: Work, tasks: Sequence[Task]
    ) -> Iterator[dict[str, Any] | TaskLost]:
        """Run the tasks in `slots` threads."""
        with ThreadPoolExecutor(self.slots, thread_name_prefix=step) as pool:
            open_: set[Future[dict[str, Any]]] = {pool.submit(work, *task.arguments) for task in tasks}
            while open_:
                done, open_ = wait(open_, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()

    def serve(self, install: Callable[..., str], *arguments: Any) -> str:
        """There is no scheduler."""
        raise Failure("there is no scheduler to serve a page")

    def close(self) -> None:
        """There is nothing to let go of."""


class DaskRunner:
    """Runs tasks on a Dask cluster, through a window: what waits here is not blamed for a worker's death."""

    def __init__(self, client: Any, cluster: Any | None, slots: int) -> None:
        self._client, self._cluster, self.slots = client, cluster, slots
        self.dashboard: str | None = client.dashboard_link

    def run(
        self, step: str, cycle: int, work: Work, tasks: Sequence[Task]
    ) -> Iterator[dict[str, Any] | TaskLost]:
        """Submit up to a window of tasks and refill it as they end; futures are let go of at once."""
        from distributed import as_completed

        waiting = list(reversed(tasks))
        window = self.slots if step == "fetch" else 2 * self.slots
        numbers: dict[str, int] = {}
        running = as_completed([], loop=self._client.loop)
        for _ in range(min(window, len(waiting))):
            self._submit(step, cycle, work, waiting.pop(), running, numbers)
        for future in running:
            yield self._result(future, step, numbers[future.key])
            future.release()
            if waiting:
                self._submit(step, cycle, work, waiting.pop(), running, numbers)

    def _submit(
        self, step: str, cycle: int, work: Work, task: Task, running: Any, numbers: dict[Any, int]
    ) -> None:
        key = (f"{step}-c{cycle:06d}", task.number)
        future = self._client.submit(work, *task.arguments, key=key, pure=False)
        numbers[future.key] = task.number
        running.add(future)

    def _result(self, future: Any, step: str, number: int) -> dict[str, Any] | TaskLost:
        from distributed import KilledWorker

        try:
            result: dict[str, Any] = future.result()
        except KilledWorker as killed:
            return TaskLost(number, str(killed))
        except CancelledError as lost:
            raise Failure(
                f"the Dask cluster lost task {number} of step {step} (its scheduler ended, or was restarted); "
                "nothing that was stored is lost: run the same command again to finish the cycle"
            ) from lost
        return result

    def serve(self, install: Callable[..., str], *arguments: Any) -> str:
        """Run it in the scheduler; one on another machine needs Noria installed."""
        try:
            return str(self._client.run_on_scheduler(install, *arguments))
        except ImportError as error:
            raise Failure(
                f"the scheduler has not the same packages as this machine ({error}); install Noria there"
            ) from error

    def close(self) -> None:
        """Close the client, and the cluster if it is ours."""
        self._client.close()
        if self._cluster is not None:
            self._cluster.close()


@contextmanager
def interrupts_ignored() -> Iterator[None]:
    """Children started meanwhile ignore Ctrl-C: the driver alone decides what it means."""
    try:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    except ValueError:  # not the main thread: nothing to shield
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def ignore_interrupts() -> None:
    """Make this process ignore Ctrl-C; for workers, of which a nanny may start more at any time."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def start(
    *, scheduler: str | None, workers: int, memory_bytes: int, dashboard_port: int, tries: int
) -> DaskRunner:
    """Return a runner on a local cluster (one process a core), or on a running one at `scheduler`.

    tries: a task is given up when its worker has died so often. Raises Failure if the scheduler cannot be reached.
    """
    import dask

    dask.config.set(
        {
            "distributed.scheduler.allowed-failures": max(tries - 1, 0),
            "distributed.scheduler.worker-ttl": "120s",
            "distributed.admin.tick.limit": "30s",
            "distributed.worker.daemon": True,
            "distributed.nanny.pre-spawn-environ": {
                **dask.config.get("distributed.nanny.pre-spawn-environ", {}),
                **MALLOC,
            },
            "distributed.admin.system-monitor.interval": "2s",  # it counts open files: thousands, twice a second
            "distributed.worker.profile.interval": "100ms",  # of Dask's own profiler; every 10 ms took 5 % of a fetch
        }
    )
    return _join(scheduler) if scheduler else _local(workers, memory_bytes, dashboard_port)


def _join(scheduler: str) -> DaskRunner:
    from distributed import Client

    for name in ("distributed.client", "distributed.utils"):  # tracebacks of what is told in a sentence here
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        client = Client(scheduler, timeout="10s", set_as_default=False)
    except (OSError, ValueError) as error:
        raise Failure(
            f"no Dask scheduler answers at {scheduler} ({error}); start one with `dask scheduler`, or leave out "
            "--scheduler to use this machine"
        ) from error
    slots = sum(client.nthreads().values())
    if not slots:
        client.close()
        raise Failure(
            f"the Dask scheduler at {scheduler} has no workers; start some with `dask worker {scheduler}`"
        )
    return DaskRunner(client, None, slots)


def require_loopback(*, seconds: float = 2.0) -> None:
    """Raise Failure where this machine cannot talk to itself: its workers could not reach their scheduler."""
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            socket.create_connection(server.getsockname(), timeout=seconds).close()
    except OSError as error:
        raise Failure(
            f"this machine cannot talk to itself at 127.0.0.1 ({error.strerror or error}), as the processes of a cycle must; "
            "bring the loopback interface up: ip link set lo up"
        ) from error


def _local(workers: int, memory_bytes: int, dashboard_port: int) -> DaskRunner:
    require_loopback()
    import warnings

    from distributed import Client, LocalCluster

    count = workers or len(os.sched_getaffinity(0))
    with interrupts_ignored(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Port .* is already in use")
        cluster = LocalCluster(
            n_workers=count,
            threads_per_worker=1,
            processes=True,
            memory_limit=memory_bytes or "auto",
            dashboard_address=f"127.0.0.1:{dashboard_port}",
            host="127.0.0.1",
            silence_logs=logging.CRITICAL,  # what fails comes back to us; a heartbeat into a closing cluster is no fault
        )
        client = Client(cluster, set_as_default=False)
        client.register_worker_callbacks(
            ignore_interrupts
        )  # also of workers that take the place of dead ones
    return DaskRunner(client, cluster, count)
