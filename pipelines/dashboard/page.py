"""The page /crawl: curves and tables of the running cycle, drawn anew every second from the watcher's figures."""

from __future__ import annotations

from typing import Any

from bokeh.layouts import column, row
from bokeh.models import (
    ColumnDataSource,
    DataRange1d,
    DatetimeTickFormatter,
    FactorRange,
    InlineStyleSheet,
    NumeralTickFormatter,
)
from bokeh.models.widgets import Div
from bokeh.plotting import figure

from pipelines.dashboard import words
from pipelines.dashboard.figures import KEPT, Figures, Point, left_ms
from pipelines.dashboard.watcher import HUB, Watcher

WIDTH, HEIGHT = 412, 218
EVERY_MS = 1_000
OUTCOMES = 8
FITS: dict[str, str | None] = {"max-width": "100%"}
WRAPS: dict[str, str | None] = {**FITS, "flex-wrap": "wrap"}
"""On a narrow screen what stands side by side goes below."""
COLOURS = {"ready": "#d9a441", "waiting": "#7a8b99", "asked": "#2a78b8"}
CURVES = ("pages_s", "megabytes_s", "open", *COLOURS)


def document(scheduler: Any, extra: dict[str, Any], doc: Any) -> None:
    """Fill a Bokeh document with the page, and keep it up to date while somebody looks at it.

    ?lake=PATH in the address chooses among the lakes that this scheduler serves; the latest otherwise.
    """
    wanted = doc.session_context.request.arguments.get("lake", [b""]) if doc.session_context else [b""]
    watcher = HUB.of(wanted[0].decode("utf-8", "replace"))
    doc.title = "Noria: crawl"
    if watcher is None:
        doc.add_root(Div(text="No lake is crawled with this scheduler."))
        return
    page = Page(watcher, scheduler)
    page.update()
    doc.add_root(page.root)
    doc.add_periodic_callback(page.update, EVERY_MS)


class Page:
    """The models of one visitor's page."""

    def __init__(self, watcher: Watcher, scheduler: Any) -> None:
        self._watcher, self._scheduler = watcher, scheduler
        self._curves = ColumnDataSource({name: [] for name in ("time", *CURVES)})
        self._outcomes = ColumnDataSource({"outcome": [], "count": [], "words": []})
        style = InlineStyleSheet(css=words.STYLE)
        self._head, self._slow, self._workers, self._leases = (
            Div(stylesheets=[style], styles=FITS, width=width, height=height)
            for width, height in (
                (3 * WIDTH - 10, 92),
                (2 * WIDTH - 20, 190),
                (WIDTH - 20, HEIGHT),
                (WIDTH - 20, 190),
            )
        )
        self._bars = _bars(self._outcomes)
        self._shown_ms = 0
        self.root = self._laid_out()

    def _laid_out(self) -> Any:
        rate = _curve("Pages stored", "pages/s", self._curves, {"": "pages_s"})
        size = _curve("Bytes received", "MB/s", self._curves, {"": "megabytes_s"})
        open_ = _curve("Open connections", "connections", self._curves, {"": "open"})
        hosts = _curve("Hosts", "hosts", self._curves, {name: name for name in COLOURS})
        return column(
            self._head,
            row(rate, size, open_, styles=WRAPS),
            row(hosts, self._bars, self._workers, styles=WRAPS),
            row(self._slow, self._leases, spacing=20, styles=WRAPS),
            spacing=4,
            margin=(8, 8, 0, 12),
            styles={"max-width": "calc(100% - 20px)"},
        )

    def update(self) -> None:
        """Draw what is new."""
        watcher, figures = self._watcher, self._watcher.latest
        points = watcher.trail.since(self._shown_ms)
        if (
            points and watcher.trail.points[0].at_ms > self._shown_ms > 0
        ):  # another cycle: its curves begin anew
            self._curves.data = {name: [] for name in ("time", *CURVES)}
        if points:
            self._curves.stream(_columns(points), rollover=KEPT)
            self._shown_ms = points[-1].at_ms
        last = watcher.trail.points[-1] if watcher.trail.points else None
        time_left = left_ms(figures, done_s=watcher.trail.done_s)
        self._head.text = words.head(figures, last, time_left, lake="/".join(watcher.lake.parts[-2:]))
        self._slow.text, self._leases.text = words.slow(figures), words.leases(figures)
        self._workers.text = words.workers(slots(self._scheduler))
        self._draw_outcomes(figures)

    def _draw_outcomes(self, figures: Figures) -> None:
        ranked = sorted(figures.outcomes.items(), key=lambda one: (-one[1], one[0]))
        if len(ranked) > OUTCOMES:
            rest = sum(count for _, count in ranked[OUTCOMES - 1 :])
            ranked = [*ranked[: OUTCOMES - 1], ("others", rest)]
        names = [name for name, _ in ranked]
        counts = [count for _, count in ranked]
        self._outcomes.data = {"outcome": names, "count": counts, "words": [f"{count:,}" for count in counts]}
        if self._bars.y_range.factors != names[::-1]:
            self._bars.y_range.factors = names[::-1]


def _columns(points: list[Point]) -> dict[str, Any]:
    columns: dict[str, Any] = {
        "time": [point.at_ms for point in points],
        "pages_s": [point.pages_s for point in points],
        "megabytes_s": [point.bytes_s / 1e6 for point in points],
    }
    return columns | {
        name: [getattr(point, name) for point in points] for name in ("open", "ready", "waiting", "asked")
    }


def _curve(title: str, unit: str, source: ColumnDataSource, lines: dict[str, str]) -> Any:
    """Return a plot over time of one or more columns, by legend."""
    plot: Any = figure(
        title=title, width=WIDTH, height=HEIGHT, x_axis_type="datetime", x_axis_label="time (UTC)", y_axis_label=unit, y_range=DataRange1d(start=0, range_padding=0.2),
        tools="", toolbar_location=None, styles=FITS,
    )  # fmt: skip
    for legend, name in lines.items():
        colour = COLOURS.get(name, "#2a78b8")
        named: dict[str, Any] = {"legend_label": legend} if legend else {}
        plot.line("time", name, source=source, line_width=2, color=colour, **named)
    _quiet(plot)
    if plot.legend:
        plot.legend.orientation, plot.legend.location = "horizontal", "top_right"
        plot.legend.padding, plot.legend.margin, plot.legend.spacing = 2, 0, 8
        plot.legend.label_text_font_size = "11px"
        plot.legend.border_line_color, plot.legend.background_fill_alpha = None, 0.7
        plot.y_range.range_padding = 0.4  # room for the legend above the curves
    plot.yaxis.formatter = NumeralTickFormatter(format="0,0.[0000]")
    plot.xaxis.ticker.desired_num_ticks = 4
    plot.xaxis.formatter = _times()
    return plot


def _times() -> DatetimeTickFormatter:
    """Return a formatter that shows the time of day on every scale."""
    told = "%H:%M:%S"
    return DatetimeTickFormatter(
        milliseconds=told, seconds=told, minsec=told, minutes=told, hourmin=told, hours=told, days=told
    )


def _bars(source: ColumnDataSource) -> Any:
    plot: Any = figure(
        title="Outcomes", width=WIDTH, height=HEIGHT, y_range=FactorRange(), x_range=DataRange1d(start=0, range_padding=0.3), x_axis_label="requests and refusals", y_axis_label="outcome",
        tools="", toolbar_location=None, styles=FITS,
    )  # fmt: skip
    plot.hbar(y="outcome", right="count", height=0.7, source=source, color="#2a78b8")
    plot.text(
        x="count", y="outcome", text="words", source=source, x_offset=4, text_baseline="middle", text_font_size="11px"
    )  # fmt: skip
    _quiet(plot)
    plot.xaxis.formatter = NumeralTickFormatter(format="0,0")
    plot.xaxis.ticker.desired_num_ticks = 4
    plot.ygrid.visible = False
    return plot


def _quiet(plot: Any) -> None:
    plot.outline_line_color = None
    plot.grid.grid_line_color = "#e3e9ef"
    plot.axis.axis_label_text_font_style = "normal"
    plot.axis.axis_label_text_font_size = "11px"
    plot.axis.major_label_text_font_size = "11px"
    plot.axis.minor_tick_line_color = None
    plot.min_border_left, plot.min_border_right = 62, 12


def slots(scheduler: Any) -> list[words.Slots]:
    """Return each worker's slots and what fills them, as the scheduler has it now."""
    return [
        words.Slots(
            f"worker {state.name}" if isinstance(state.name, int) else str(state.name or state.address),
            state.nthreads,
            tuple(task.prefix.name.partition("-c")[0] for task in state.processing)[: state.nthreads],
            int(state.metrics.get("memory", 0)),
        )
        for state in scheduler.workers.values()
    ]
