"""Put the page /crawl and our metrics into a running Dask scheduler's web server."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urljoin

from distributed.dashboard.core import BokehApplication
from tornado.ioloop import IOLoop

from pipelines.dashboard import metrics, page
from pipelines.dashboard.watcher import HUB
from pipelines.failure import Failure

ROUTE = "/crawl"
CLOSED = ("closing", "closed", "failed")


bokeh_application: Any = BokehApplication  # typed in no version of distributed


def install(lake: str, dask_scheduler: Any = None) -> str:
    """Serve the lake's figures from a scheduler; run there, by `Client.run_on_scheduler`.

    Returns the page's address relative to the dashboard's. One scheduler serves any number of lakes; a second
    call with the same lake changes nothing. Raises Failure if there is no web server, or no lake to be seen.
    """
    application = getattr(dask_scheduler, "http_application", None)
    if application is None or not getattr(dask_scheduler, "services", {}).get("dashboard"):
        raise Failure("the scheduler has no dashboard")
    if not Path(lake).is_dir():
        raise Failure(f"the scheduler sees no {lake}; let it share the lake's disk, as the workers do")
    HUB.watch(Path(lake), lambda: dask_scheduler.status.name not in CLOSED)
    metrics.register()
    if not getattr(dask_scheduler, "of_noria", False):
        dask_scheduler.of_noria = True
        prefix = next((one.prefix for one in application.applications if hasattr(one, "prefix")), "")
        served = bokeh_application({ROUTE: page.document}, dask_scheduler, prefix=prefix)
        application.add_application(served)
        served.initialize(IOLoop.current())
        served.start()
    return ROUTE.lstrip("/") + (f"?lake={quote(lake)}" if len(HUB.all()) > 1 else "")


def links(dashboard: str, put_in: Callable[..., str], lake: Path) -> Iterator[str]:
    """Put the page in and yield the sentences that tell where a cycle can be watched: only what answered is a link.

    put_in: runs `install` in the scheduler whose dashboard this is.
    """
    try:
        route = put_in(install, str(lake.absolute()))
    except Failure as failure:
        yield f"Dashboard: {dashboard} (without the page {ROUTE}: {failure})"
        return
    page = urljoin(dashboard, route)
    wrong = trouble(page)
    if wrong is None:
        yield f"Live: {page}"
        yield f"Dask: {dashboard}"
    else:
        yield f"No dashboard: {page} does not answer from here ({wrong}); the cycle runs all the same."


def trouble(url: str, *, seconds: float = 5) -> str | None:
    """Open an address; return None if it answers as it should, or what is wrong. No proxy is asked."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=seconds) as answer:
            return None if answer.status == 200 else f"status {answer.status}"
    except urllib.error.HTTPError as error:
        return f"status {error.code}"
    except (OSError, ValueError, http.client.HTTPException) as error:
        return str(getattr(error, "reason", error))
