"""Sheets as SVG, by matplotlib. Shapes and lines say everything that colours say, so that a print in grey can be read; nothing in a file depends on
when or where it was made."""

from __future__ import annotations

import io
import math
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from screen.report.plots.data import Curve, Panel, Sheet
from screen.visible import clean

STYLE: Any = {
    "svg.hashsalt": "screen", "svg.fonttype": "path", "font.size": 9, "axes.titlesize": 9.5, "axes.spines.top": False, "axes.spines.right": False,
    "axes.edgecolor": "#444444", "xtick.color": "#444444", "ytick.color": "#444444", "figure.facecolor": "white", "axes.grid": True,
    "grid.color": "#dddddd", "grid.linewidth": 0.6, "axes.axisbelow": True, "legend.frameon": False, "text.parse_math": False,
}  # fmt: skip
MARKERS = "osD^vPX*"
COLOURS = ("#1b1b1b", "#3b6ea5", "#b5652b", "#6a6a6a", "#4d8b57", "#8d5a97")
"""From dark to light, so that they differ in grey as well."""
DASHES = ("-", "--", "-.", ":")
HATCHES = ("///", "\\\\\\", "xx", "..")
LABEL = 56
"""Characters of a label; a longer one loses its middle."""


def svg(sheet: Sheet) -> str:
    """One picture."""
    return drawn(sheet, "svg").decode()


def drawn(sheet: Sheet, kind: str) -> bytes:
    """One picture in a format of matplotlib's. What the user's own settings say has no say here."""
    buffer = io.BytesIO()
    with matplotlib.rc_context(matplotlib.rcParamsDefault), matplotlib.rc_context(STYLE):
        _figure(sheet).savefig(buffer, format=kind, metadata={"Date": None, "Creator": None} if kind == "svg" else None)
    return buffer.getvalue()


def _figure(sheet: Sheet) -> Figure:
    """Curves two to a line, rows below them over the whole width."""
    curves = [p for p in sheet.panels if not p.rows]
    rows = [p for p in sheet.panels if p.rows]
    columns = min(2, len(curves))
    upper = 2.7 * math.ceil(len(curves) / columns) if curves else 0.0
    heights = [max(1.25, 0.75 + 0.27 * len(p.rows)) for p in rows]
    figure = Figure(figsize=(8.2, upper + sum(heights) + 0.4), layout="constrained")
    parts = [upper] * bool(curves) + heights
    places = list(figure.subfigures(len(parts), 1, height_ratios=parts, squeeze=False).flat)
    if curves:
        axes = places.pop(0).subplots(math.ceil(len(curves) / columns), columns, squeeze=False)
        for ax in axes.flat[len(curves) :]:
            ax.set_axis_off()
        for ax, panel in zip(axes.flat, curves, strict=False):
            _panel(ax, panel)
    for place, panel in zip(places, rows, strict=True):
        _panel(place.subplots(), panel)
    figure.suptitle(clean(sheet.title), fontsize=11)
    return figure


def _panel(ax: Axes, panel: Panel) -> None:
    ax.set_title(clean(panel.title), loc="left", wrap=True)
    if panel.rows:
        _rows(ax, panel)
    else:
        _curves(ax, panel)
    more = f"  (and {panel.left_out} more, in the table)" if panel.left_out else ""
    ax.set_xlabel(clean(panel.x) + more)
    if panel.y:
        ax.set_ylabel(clean(panel.y))


def _curves(ax: Axes, panel: Panel) -> None:
    """Measured points as markers, fitted lines dashed, predictions as hollow squares, bands as hatches."""
    own = [c for c in panel.curves if c.style == "measured"]
    for place, curve in enumerate(panel.curves):
        index = own.index(curve) if curve in own else max(0, sum(c.style == "measured" for c in panel.curves[:place]) - 1)
        _curve(ax, curve, index)
    if panel.log_x:
        ax.set_xscale("log")
        counts = sorted({x for c in own for x in c.x})
        _ticks(ax.xaxis, counts if len(counts) <= 9 and all(x == int(x) for x in counts) else _round(*ax.get_xlim()))
    if panel.log_y:
        _log_y(ax, [v for c in panel.curves for v in (*c.y, *(c.band[1] if c.band else ()))])
    ax.legend(fontsize=8, loc="best", frameon=True, edgecolor="none", framealpha=0.8)


def _log_y(ax: Axes, values: list[float]) -> None:
    """A log axis over a factor of ten at least: what is nearly constant must not look like a law."""
    ax.set_yscale("log")
    low, high = min(values), max(values)
    spare = max(10 / (high / low), 1.0) ** 0.5 * 1.15
    ax.set_ylim(low / spare, high * spare)
    _ticks(ax.yaxis, _round(low / spare, high * spare))


def _ticks(axis: Axis, ticks: list[float]) -> None:
    """Plain numbers at these places."""
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    axis.set_minor_locator(NullLocator())


def _round(low: float, high: float) -> list[float]:
    """1, 2, 5 times powers of ten between two numbers; powers of ten alone, or some of them, where these are many."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    step = max(1, math.ceil((last - first) / 7))
    digits = (1, 2, 5) if last - first <= 3 else (1,)
    return [float(f"{d}e{k}") for k in range(first, last + 1, step) for d in digits if low <= float(f"{d}e{k}") <= high]


def _curve(ax: Axes, curve: Curve, index: int) -> None:
    colour, marker = COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)]
    label = _short(curve.label)
    if curve.band is not None:
        ax.fill_between(curve.x, *curve.band, facecolor="none", edgecolor=colour, alpha=0.45, hatch=HATCHES[index % 4], linewidth=0.4)
        ax.plot(curve.x, curve.y, marker, color=colour, label=f"{label}, and what the theorem allows", markersize=4.5)
    elif curve.style == "measured":
        ax.plot(curve.x, curve.y, marker, color=colour, label=label, markersize=5)
    elif curve.style == "fitted":
        ax.plot(curve.x, curve.y, DASHES[1 + index % 3], color=colour, label=f"fitted: {label}", linewidth=1)
    else:
        ax.plot(curve.x, curve.y, "s-", color=colour, label=label, markerfacecolor="white", markersize=7, linewidth=0.8, zorder=1)


def _rows(ax: Axes, panel: Panel) -> None:
    """One row for each prediction: a hollow square where it was predicted, a disc where it was measured, a cross where the two part."""
    said: set[str] = set()

    def once(label: str) -> str:
        fresh = label not in said
        said.add(label)
        return label if fresh else "_nolegend_"

    for place, row in enumerate(panel.rows):
        if row.high > row.low:
            ax.plot([row.low, row.high], [place, place], "-", color=COLOURS[0], linewidth=1.2)
        if row.predicted is not None:
            shape, said_as = (">", "predicted: at least") if row.at_least else ("s", "predicted")
            ax.plot(row.predicted, place, shape, color=COLOURS[0], markerfacecolor="none", markersize=9, label=once(said_as))
        marker, label = ("X", "refuted") if row.refuted else ("o", "measured")
        ax.plot(row.measured, place, marker, color=COLOURS[2] if row.refuted else COLOURS[1], markersize=5, label=once(label))
    if panel.limit is not None:
        ax.axvline(panel.limit, color=COLOURS[0], linewidth=1, linestyle="--", label=once(f"limit {panel.limit:g}"))
    ax.set_yticks(range(len(panel.rows)), [_short(r.label) for r in panel.rows])
    ax.set_ylim(len(panel.rows) - 0.4, -0.6)
    if panel.log_x:
        ax.set_xscale("log")
        low, high = ax.get_xlim()
        ax.set_xlim(min(low, high / 20), high)
        _ticks(ax.xaxis, _round(*ax.get_xlim()))
    else:
        _room(ax, panel)
    if len(said) > 1:
        ax.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _room(ax: Axes, panel: Panel) -> None:
    """0 is on the axis, and values that agree are not blown up to look apart."""
    values = [v for r in panel.rows for v in (r.predicted, r.low, r.high) if v is not None] + ([panel.limit] if panel.limit is not None else [])
    low, high = min(0.0, *values), max(0.0, *values)
    span = max(high - low, 1e-12)
    ax.set_xlim(low - 0.06 * span, high + 0.06 * span)


def _short(text: str) -> str:
    text = clean(text)
    return text if len(text) <= LABEL else f"{text[: LABEL // 2 - 1]}…{text[-(LABEL // 2) :]}"


__all__ = ["drawn", "svg"]
