"""The figures for Prometheus: names after its conventions, base units (seconds, bytes), counters end in _total.

They are served by the scheduler's own /metrics. conf/grafana.json draws them; a test holds the names equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from prometheus_client import REGISTRY
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from pipelines.dashboard.watcher import HUB, Hub, Watcher

Values = dict[str, float]


@dataclass(frozen=True)
class Figure:
    """One metric: its name, meaning, second label ("" = none) and the values by that label."""

    name: str
    help: str
    label: str
    values: Callable[[Watcher], Values]

    @property
    def counts(self) -> bool:
        """Whether it only grows."""
        return self.name.endswith("_total")


def _one(value: Callable[[Watcher], float]) -> Callable[[Watcher], Values]:
    return lambda watcher: {"": value(watcher)}


FIGURES = (
    Figure(
        "noria_requests_total", "Requests, for robots.txt and sitemaps too, by outcome (robots_denied and url_refused cost none).",
        "outcome", lambda seen: {name: float(count) for name, count in seen.totals.outcomes().items()},
    ),
    Figure("noria_pages_total", "Pages stored with a 2xx answer.", "", _one(lambda seen: seen.totals["pages"])),
    Figure("noria_wire_bytes_total", "Bytes received, headers included.", "", _one(lambda seen: seen.totals["wire_bytes"])),
    Figure("noria_open_connections", "Requests that are open now.", "", _one(lambda seen: seen.latest.open)),
    Figure(
        "noria_hosts", "Hosts of the running cycle: ready, waiting for their delay, asked now, finished.",
        "state", lambda seen: dict(seen.latest.hosts),
    ),
    Figure("noria_urls_planned", "URLs that the running cycle planned.", "", _one(lambda seen: seen.latest.planned)),
    Figure("noria_urls_done", "Planned URLs that are settled.", "", _one(lambda seen: seen.latest.done)),
    Figure("noria_urls_left", "Planned URLs that wait in a queue.", "", _one(lambda seen: seen.latest.left)),
    Figure("noria_urls_put_off", "Planned URLs that went back to their shelf.", "", _one(lambda seen: seen.latest.put_off)),
    Figure(
        "noria_fetch_partitions", "Fetch partitions: running, silent (not heard of), ended, not begun.",
        "state", lambda seen: dict(seen.latest.partitions),
    ),
    Figure(
        "noria_flush_lag_seconds", "Time since the last flush of the fetcher that is furthest behind.",
        "", _one(lambda seen: seen.latest.flush_lag_ms / 1_000),
    ),
    Figure(
        "noria_lease_age_seconds", "Time since the last renewal of the fetch lease that is oldest.",
        "", _one(lambda seen: seen.latest.lease_age_ms / 1_000),
    ),
    Figure(
        "noria_writer_lease_remaining_seconds", "Time until the lease of the lake's writer runs out, 0 = nobody writes.",
        "", _one(lambda seen: seen.latest.writer_left_ms / 1_000),
    ),
    Figure(
        "noria_window_remaining_seconds", "Time that the running cycle may still fetch.",
        "", _one(lambda seen: seen.latest.window_left_ms / 1_000),
    ),
    Figure("noria_cycle", "Number of the cycle that is open, 0 = none.", "", _one(lambda seen: seen.latest.cycle)),
    Figure(
        "noria_step_tasks", "Tasks of the step that runs: done, and in all.",
        "state", lambda seen: {"done": seen.latest.step_done, "total": seen.latest.step_total},
    ),
)  # fmt: skip
"""Every metric, in the order of serving. All carry the label `lake`."""


class Collected(Collector):
    """Makes Prometheus' metrics of the watchers' latest figures, when it asks."""

    def __init__(self, hub: Hub = HUB) -> None:
        self._hub = hub

    def collect(self) -> Iterator[Metric]:
        """Yield a family a metric."""
        watchers = self._hub.all()
        return (_family(figure, watchers) for figure in FIGURES)


def _family(figure: Figure, watchers: Iterable[Watcher]) -> Metric:
    kind = CounterMetricFamily if figure.counts else GaugeMetricFamily
    labels = ["lake", figure.label] if figure.label else ["lake"]
    family = kind(figure.name, figure.help, labels=labels)
    for watcher in watchers:
        for label, value in figure.values(watcher).items():
            family.add_metric([str(watcher.lake), label][: len(labels)], value)
    return family


_registered: list[Collected] = []


def register() -> None:
    """Add our metrics to those of this process, which the scheduler's /metrics serves; twice is once."""
    if not _registered:
        _registered.append(Collected())
        REGISTRY.register(_registered[0])
