"""How figures look: one size, one palette, axes with units, and a word instead of an empty plot.

A Picture shows itself in notebooks without a plotting state; its PNG has a palette, so that pages stay small.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any, Final

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
from PIL import Image

BLUE, ORANGE, GREEN, RED, SKY, PURPLE, GREY = (
    "#0072b2", "#e69f00", "#009e73", "#d55e00", "#56b4e9", "#cc79a7", "#8a8f98",
)  # fmt: skip
PALETTE: Final = (BLUE, ORANGE, GREEN, PURPLE, SKY, RED, GREY)
"""Okabe and Ito's colours: told apart by colour-blind readers too."""

WIDTH, HEIGHT, DPI = 10.0, 4.2, 100
_LABEL_CHARS = 42
_STYLE: Final[Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#e3e6ea",
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
}


class Picture(Figure):
    """A figure that notebooks show by itself."""

    def _repr_png_(self) -> bytes:
        return png(self)


def picture(
    *, panels: int = 1, height: float = HEIGHT, widths: Sequence[float] | None = None
) -> tuple[Picture, list[Axes]]:
    """Return a figure of so many panels side by side, and their axes."""
    with rc_context(_STYLE):
        made = Picture(figsize=(WIDTH, height), dpi=DPI, layout="constrained")
        FigureCanvasAgg(made)
        axes = made.subplots(1, panels, width_ratios=widths, squeeze=False)
        return made, [styled(one) for one in axes[0]]


def styled(axes: Axes) -> Axes:
    """Return the axes in our style: subplots made outside the style's context lose part of it."""
    axes.set_axisbelow(True)
    axes.grid(True, color="#e3e6ea", linewidth=0.8)
    return axes


def png(figure: Figure) -> bytes:
    """Return a figure as a PNG of at most 64 colours."""
    raw = io.BytesIO()
    with rc_context(_STYLE):
        figure.savefig(raw, format="png", dpi=DPI)
    image = Image.open(raw).convert("RGB").quantize(64, dither=Image.Dither.NONE)
    out = io.BytesIO()
    image.save(out, format="PNG", optimize=True)
    return out.getvalue()


def title(axes: Axes, text: str, *, x: str = "", y: str = "") -> None:
    """Set the title and the axes' labels; a label ends with its unit in brackets."""
    axes.set_title(text, fontsize=12, fontweight="bold", loc="left")
    axes.set_xlabel(x)
    axes.set_ylabel(y)


def legend(axes: Axes, **where: Any) -> None:
    """Show what the colours mean."""
    axes.legend(frameon=False, **where)


def legend_below(axes: Axes, **which: Any) -> None:
    """Show what the colours mean below the drawing, where bars of any length leave nothing covered."""
    known = which or dict(zip(("handles", "labels"), axes.get_legend_handles_labels(), strict=True))
    axes.figure.legend(loc="outside lower center", ncols=2, frameon=False, **known)


def empty(axes: Axes, why: str) -> None:
    """Say why there is nothing to see."""
    axes.set_axis_off()
    axes.text(0.5, 0.5, why, ha="center", va="center", color="#5b6068", fontsize=11, transform=axes.transAxes)


def whole(axis: Any) -> None:
    """Number an axis with whole numbers, thousands set apart."""
    axis.set_major_locator(MaxNLocator(nbins=6, integer=True, min_n_ticks=1))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def short(label: object) -> str:
    """Return a label that fits beside a bar.

    >>> short("a" * 60)[-3:]
    'aa…'
    """
    text = "not told" if label is None or label != label else str(label)
    return text if len(text) <= _LABEL_CHARS else f"{text[: _LABEL_CHARS - 1]}…"


def count_words(value: float) -> str:
    """Return a number as it stands beside a bar.

    >>> count_words(1234), count_words(0.25)
    ('1,234', '0.25')
    """
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:,.2g}"


def bars(
    axes: Axes,
    labels: Sequence[object],
    values: Sequence[float],
    *,
    color: str | Sequence[str] = BLUE,
    words: Callable[[float], str] = count_words,
) -> None:
    """Draw horizontal bars, the first on top, each with its number; room is left for the longest number."""
    heights = [float(value) for value in values]
    places = list(range(len(heights)))
    axes.barh(places, heights, color=color, height=0.7)
    axes.set_yticks(places, [short(label) for label in labels])
    axes.invert_yaxis()
    axes.grid(False, axis="y")
    most = max(heights, default=0.0) or 1.0
    for place, value in zip(places, heights, strict=True):
        axes.text(value + most * 0.01, place, words(value), va="center", fontsize=9, color="#333840")
    axes.set_xlim(0, most * 1.14)
    whole(axes.xaxis)


def steps(axes: Axes, edges: Sequence[str], values: Sequence[float], *, color: str = BLUE) -> None:
    """Draw upright bars over named classes in their order, each with its number."""
    places = list(range(len(values)))
    axes.bar(places, values, color=color, width=0.8)
    axes.set_xticks(places, list(edges))
    axes.grid(False, axis="x")
    most = max(values, default=0) or 1
    for place, value in zip(places, values, strict=True):
        if value:
            axes.text(place, value + most * 0.01, count_words(value), ha="center", va="bottom", fontsize=9)
    axes.set_ylim(0, most * 1.12)
    whole(axes.yaxis)


def tall(rows: int) -> float:
    """Return the height in inches of a figure with so many bars."""
    return max(2.2, 1.1 + 0.28 * rows)
