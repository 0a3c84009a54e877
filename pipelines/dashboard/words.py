"""The parts of the page that are text: cards, tables, bars. Every word from outside is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape

from pipelines.dashboard.figures import Figures, Point

STYLE = """
:host > div { width: 100%; }
:host { font: 13px/1.35 'Helvetica Neue', Arial, sans-serif; color: #1c2733; }
.cards { display: grid; grid-template-columns: 1.25fr repeat(3, 1fr) 1.5fr repeat(3, 1fr); gap: 8px; }
.card { background: #f3f6f9; border-radius: 6px; padding: 6px 10px; min-width: 0; white-space: nowrap; overflow: hidden; }
.card b { display: block; font-size: 19px; font-weight: 600; overflow: hidden; text-overflow: ellipsis; }
.card i { display: block; font-style: normal; font-size: 11px; color: #5a6b7b; overflow: hidden; text-overflow: ellipsis; }
.bad b { color: #b3261e; }
.bar { height: 8px; border-radius: 4px; background: #e3e9ef; margin-top: 8px; display: flex; overflow: hidden; }
.bar u { display: block; height: 100%; background: #2a78b8; }
.bar u + u { background: #d9a441; }
h3 { font-size: 13px; margin: 0 0 4px; }
table { border-collapse: collapse; width: 100%; table-layout: fixed; font-size: 12px; }
th { text-align: left; font-weight: 600; color: #5a6b7b; border-bottom: 1px solid #d5dde5; padding: 1px 6px 1px 0; white-space: nowrap; }
td { padding: 1px 6px 1px 0; white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
.n { text-align: right; }
p { margin: 3px 0; color: #5a6b7b; font-size: 12px; }
@media (max-width: 900px) {
  :host { height: auto !important; flex-basis: auto !important; }
  .cards { grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); }
  th { white-space: normal; font-size: 10px; }
}
"""
WORKERS_SHOWN = 7
HOSTS_SHOWN = 8
LATE_FLUSH_MS, LATE_LEASE_MS = 30_000, 20_000
"""Beyond these a lag is drawn in red: flushes come every few seconds, renewals every five."""


@dataclass(frozen=True)
class Slots:
    """A worker's fetch slots: its name, how many it has, and the steps of the tasks that fill them."""

    worker: str
    slots: int
    steps: tuple[str, ...]
    memory_bytes: int


def head(figures: Figures, point: Point | None, left_ms: int | None, *, lake: str) -> str:
    """Return the cards on top, and the bar of URLs done and put off."""
    if not figures.cycle:
        return _cards(
            [
                _card(
                    escape(lake),
                    "no cycle runs",
                    figures.writer or "the page goes on when one does",
                )
            ]
        )
    rate, size = (point.pages_s, point.bytes_s / 1e6) if point and figures.step == "fetch" else (0.0, 0.0)
    step = f"{figures.step}" + (" (stopping)" if figures.stopping else "")
    tasks = f"{figures.step_done:,} of {figures.step_total:,} tasks" if figures.step_total else "begins"
    cards = [
        _card(escape(lake), f"cycle {figures.cycle}: {step}", tasks),
        _card("pages stored", f"{rate:,.1f} /s", f"{figures.pages:,} in this cycle"),
        _card("received", f"{size:,.2f} MB/s", f"{figures.wire_bytes / 1e6:,.1f} MB in this cycle"),
        _card("open connections", f"{figures.open:,}", f"{figures.hosts['asked']:,} hosts asked now"),
        _card(
            f"URLs done of {figures.planned:,} planned", f"{figures.done:,}", f"{figures.left:,} left, {figures.put_off:,} put off"
        ),
        _card("time left", clock(left_ms), f"window closes in {clock(figures.window_left_ms)}"),
        _card("flush lag", seconds(figures.flush_lag_ms), "since the last flush", bad=figures.flush_lag_ms > LATE_FLUSH_MS),
        _card("lease age", seconds(figures.lease_age_ms), "since the last renewal", bad=figures.lease_age_ms > LATE_LEASE_MS),
    ]  # fmt: skip
    return _cards(cards) + _bar(figures)


def _cards(cards: Sequence[str]) -> str:
    return f'<div class="cards">{"".join(cards)}</div>'


def _card(label: str, value: str, note: str, *, bad: bool = False) -> str:
    return f'<div class="card{" bad" if bad else ""}"><i>{label}</i><b>{value}</b><i title="{escape(note)}">{escape(note)}</i></div>'


def _bar(figures: Figures) -> str:
    whole = max(figures.planned, 1)
    parts = "".join(
        f'<u style="width:{100 * count / whole:.2f}%"></u>' for count in (figures.done, figures.put_off)
    )
    return f'<div class="bar" title="done, put off">{parts}</div>'


def slow(figures: Figures) -> str:
    """Return the table of the hosts whose queues take longest."""
    rows = [
        (
            escape(host["host"]), f"{host['left']:,}", f"{host['pause_ms'] / 1_000:,.1f} s", escape(host["reason"]),
            f"{host['response_ms']:,} ms", clock(host["work_ms"]),
        )
        for host in figures.slow_hosts[:HOSTS_SHOWN]
    ]  # fmt: skip
    titles = ("host", "URLs left", "pause", "because of", "answers in", "needs")
    table = _table(titles, rows, numbers=(1, 2, 4, 5), widths=(30, 14, 13, 18, 13, 12))
    return f"<h3>Slowest hosts</h3>{table if rows else '<p>no host has anything left to do</p>'}"


def workers(found: Iterable[Slots]) -> str:
    """Return the table of slots by worker: the busiest first."""
    ranked = sorted(found, key=lambda one: (-len(one.steps), one.worker))
    rows = [
        (escape(one.worker), f"{len(one.steps)} of {one.slots}", escape(_steps(one.steps)), f"{one.memory_bytes / 1e6:,.0f} MB")
        for one in ranked[:WORKERS_SHOWN]
    ]  # fmt: skip
    table = _table(("worker", "slots busy", "with", "memory"), rows, numbers=(1, 3), widths=(34, 20, 26, 20))
    busy, slots = sum(len(one.steps) for one in ranked), sum(one.slots for one in ranked)
    rest = f", {len(ranked) - len(rows)} more workers" if len(ranked) > len(rows) else ""
    return f"<h3>Slots by worker</h3>{table}<p>{busy:,} of {slots:,} slots busy{rest}</p>"


def leases(figures: Figures) -> str:
    """Return who writes to the lake, and how the fetch partitions stand."""
    parts = figures.partitions
    writer = (
        f"{escape(figures.writer)}, for {seconds(figures.writer_left_ms)} more unless renewed"
        if figures.writer
        else "nobody"
    )
    lines = [
        f"The lake is held by {writer}.",
        f"Fetch partitions: {parts.get('running', 0):,} running, {parts.get('ended', 0):,} ended, "
        f"{parts.get('not_begun', 0):,} not begun.",
    ]
    if parts.get("silent"):
        lines.append(
            f"{parts['silent']:,} not heard of: the worker died, or its disk hangs; the partition is begun anew when its "
            "lease has run out."
        )
    lines.append(
        "<a href='status'>Dask's own pages</a> &middot; <a href='metrics'>metrics for Prometheus</a>"
    )
    lines.append(f"Told {datetime.fromtimestamp(figures.at_ms / 1_000, tz=UTC):%H:%M:%S} UTC.")
    return "<h3>Leases</h3>" + "".join(f"<p style='white-space:normal'>{line}</p>" for line in lines)


def _steps(steps: Sequence[str]) -> str:
    names = sorted(set(steps))
    return (
        ", ".join(name if steps.count(name) == 1 else f"{steps.count(name)} {name}" for name in names)
        or "idle"
    )


def _table(
    titles: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Sequence[int], widths: Sequence[int]
) -> str:
    kinds = [' class="n"' if at in numbers else "" for at in range(len(titles))]
    columns = "".join(f'<col style="width:{width}%">' for width in widths)
    top = "".join(f"<th{kind}>{title}</th>" for kind, title in zip(kinds, titles, strict=True))
    body = "".join(
        "<tr>"
        + "".join(f'<td{kind} title="{cell}">{cell}</td>' for kind, cell in zip(kinds, row, strict=True))
        + "</tr>"
        for row in rows
    )
    return f"<table><colgroup>{columns}</colgroup><tr>{top}</tr>{body}</table>"


def seconds(ms: int) -> str:
    """Return a lag in seconds.

    >>> seconds(1_234)
    '1.2 s'
    """
    return f"{ms / 1_000:,.1f} s"


def clock(ms: int | None) -> str:
    """Return a duration as a clock shows it; a dash where it is not known.

    >>> clock(65_000), clock(3_723_000), clock(None)
    ('1:05', '1:02:03', '-')
    """
    if ms is None:
        return "-"
    hours, rest = divmod(round(ms / 1_000), 3_600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"
