"""The metrics: Prometheus' rules for names, and that the Grafana dashboard draws each of them and no other."""

from __future__ import annotations

import json
import re
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from pipelines.dashboard.metrics import FIGURES, Collected
from pipelines.dashboard.watcher import Hub
from tests.dashboard.lakes import NOW_MS, fetching, live

GRAFANA = Path(__file__).resolve().parents[2] / "conf" / "grafana.json"


def served(lake: Path) -> dict[tuple[str, str], float]:
    hub = Hub()
    hub.watch(lake, lambda: False).look(NOW_MS)
    registry = CollectorRegistry()
    registry.register(Collected(hub))
    families = text_string_to_metric_families(generate_latest(registry).decode())
    return {
        (sample.name, "".join(value for name, value in sample.labels.items() if name != "lake")): sample.value
        for family in families
        for sample in family.samples
    }


def test_the_figures_are_served_in_base_units(tmp_path: Path) -> None:
    found = served(fetching(tmp_path, [live(0), live(1)]))
    assert {name for name, _ in found} == {figure.name for figure in FIGURES}
    assert found["noria_requests_total", "ok"] == 86
    assert found["noria_pages_total", ""] == 76
    assert found["noria_hosts", "waiting"] == 10
    assert found["noria_flush_lag_seconds", ""] == 2.0
    assert (
        found["noria_urls_planned", ""]
        == found["noria_urls_done", ""] + found["noria_urls_left", ""] + found["noria_urls_put_off", ""]
    )


def test_names_keep_to_the_conventions() -> None:
    """Lower case, one prefix, the base unit last, _total for what only grows (prometheus.io/docs/practices/naming)."""
    for figure in FIGURES:
        assert re.fullmatch(r"noria_[a-z_]+", figure.name)
        assert figure.name.endswith("_total") == (
            figure.name in ("noria_requests_total", "noria_pages_total", "noria_wire_bytes_total")
        )
        assert not re.search(r"_(ms|milliseconds|minutes|kb|mb)(_|$)", figure.name)
        assert figure.help.endswith(".")


def test_grafana_draws_every_metric_and_no_other() -> None:
    text = GRAFANA.read_text(encoding="utf-8")
    json.loads(text)
    assert set(re.findall(r"noria_[a-z_]+", text)) == {figure.name for figure in FIGURES}
