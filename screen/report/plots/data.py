"""What a picture of the probe shows, as plain data read off the experiments: nothing here draws, and nothing here knows one experiment's meaning
beyond its name and its numbers.

    at_4, at_8, …                a measured value at each depth, width or step: one panel with the fitted line, and with predicted_4, … where they are
    predicted, a number          one row with what was predicted and what was measured
    predicted `at most 1`        one row of a ratio, with the line at 1
    ratio_k, lost_k, low_k, high_k    the share of a branch that a sum loses: a curve with the band of its theorem
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from screen.report.schema import ExperimentPart, ProbePart

SERIES = re.compile(r"at_(\d+(?:\.\d+)?)")
GIVEN = re.compile(r"predicted_(\d+(?:\.\d+)?)")
AT_DEPTH = re.compile(r"(.*), (\d+) blocks")
ROWS = 28
"""Rows of one panel; what is beyond stands in the tables alone."""
PANELS = 12
AT_MOST_ONE = "at most 1"
AT_LEAST = re.compile(r"at least ([0-9.e+-]+)")
OVER_BOUND = re.compile(r"^largest (.*) over its bound(.*)$")


@dataclass(frozen=True)
class Curve:
    """Points, joined or not."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    style: Literal["measured", "fitted", "predicted"] = "measured"
    band: tuple[tuple[float, ...], tuple[float, ...]] | None = None
    """Lower and upper ends of what is predicted, at the same x."""


@dataclass(frozen=True)
class Row:
    """One prediction beside one measurement."""

    label: str
    predicted: float | None
    measured: float
    low: float
    high: float
    refuted: bool = False
    at_least: bool = False
    """The prediction is a lower end."""


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    title: str
    x: str
    y: str = ""
    curves: tuple[Curve, ...] = ()
    rows: tuple[Row, ...] = ()
    log_x: bool = False
    log_y: bool = False
    limit: float | None = None
    """A line that no row may cross."""
    left_out: int = 0


@dataclass(frozen=True)
class Sheet:
    """One picture."""

    name: str
    title: str
    panels: tuple[Panel, ...] = field(default=())


AXES = {"depth": "blocks", "width": "width", "coordinates": "width", "stress": "step"}
"""What n of `at_n` counts, by the experiment's name."""
TITLES = {
    "depth": "The block stacked", "width": "Over width", "coordinates": "Coordinate check", "stress": "A few hundred steps",
    "invariance": "Exponents of the Jacobian in each weight group", "bounds": "Best attempt against each bound",
    "precision": "The block in 16-bit types", "start": "At initialisation",
}  # fmt: skip


def sheets(probe: ProbePart) -> list[Sheet]:
    """Pictures in the order of the experiments' names; none without something to show."""
    found: list[Sheet] = []
    experiments = _alone(probe.experiments)
    for name in dict.fromkeys(e.name for e in experiments):
        mine = [e for e in experiments if e.name == name]
        panels = list(_panels(name, mine))
        if panels:
            found.append(Sheet(re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-"), TITLES.get(name, name), tuple(panels[:PANELS])))
    return found


def _panels(name: str, mine: list[ExperimentPart]) -> Iterator[Panel]:
    for what, group in _by_what([e for e in mine if len(series(e)) > 1]):
        yield _series(name, what, group, mine)
    for what, group in _by_what([e for e in mine if "ratio_0" in e.numbers]):
        yield _shares(what, group)
    compared = [e for e in mine if isinstance(e.predicted, int | float) and not isinstance(e.measured, str | None) and "values" not in e.what]
    if compared:
        yield _rows("predicted and measured", "value", compared)
    ratios = [e for e in mine if e.predicted == AT_MOST_ONE and (_number(e.measured) or 0) > 0]
    if ratios:
        yield replace(_rows("largest over the bound", "measured / bound", ratios), log_x=True, limit=1.0)
    least = [e for e in mine if isinstance(e.predicted, str) and AT_LEAST.fullmatch(e.predicted) and (_number(e.measured) or 0) > 0]
    if least:
        yield _rows(least[0].what.rpartition(", ")[0] or least[0].what, "value", least)
    yield from _parts(mine)


def series(e: ExperimentPart) -> dict[float, float]:
    """n -> the value at n, of the numbers `at_n`."""
    return _at(e, SERIES)


def _at(e: ExperimentPart, keys: re.Pattern[str]) -> dict[float, float]:
    found = {float(m[1]): _number(v) for key, v in e.numbers.items() if (m := keys.fullmatch(key))}
    return {n: v for n, v in sorted(found.items()) if v is not None}


def _series(name: str, what: str, group: list[ExperimentPart], mine: list[ExperimentPart]) -> Panel:
    """Measured points with the fitted line, and what was predicted of them."""
    curves = []
    title = re.sub(r", exponent of \w+$", "", what)
    for e in group:
        points = series(e)
        x, y = tuple(points), tuple(points.values())
        curves.append(Curve(subject(e) or "measured", x, y))
        if (fit := _fit(e, x, y)) is not None:
            curves.append(fit)
        given = _at(e, GIVEN) | {n: v for other in mine if subject(other) == subject(e) for n, v in _predicted_at(other, title)}
        if given:
            curves.append(Curve("predicted", tuple(sorted(given)), tuple(given[n] for n in sorted(given)), "predicted"))
    positive = min(v for c in curves for v in c.y) > 0
    return Panel(title, AXES.get(name, "n"), curves=tuple(curves), log_x=name not in ("stress",), log_y=positive)


def _predicted_at(e: ExperimentPart, title: str) -> Iterator[tuple[float, float]]:
    """The prediction of `first over last gradient, 12 blocks` belongs to the panel `first over last gradient`, at 12."""
    found, value = AT_DEPTH.fullmatch(e.what), _number(e.predicted)
    if found and found[1] == title and value is not None:
        yield float(found[2]), value


def _fit(e: ExperimentPart, x: tuple[float, ...], y: tuple[float, ...]) -> Curve | None:
    """The power law (or exponential) through the points, with the exponent that was measured."""
    slope = _number(e.measured)
    if slope is None or "exponent" not in e.what or min(y) <= 0:
        return None
    logs = [math.log(v) for v in y]
    if e.numbers.get("law") == "exponential":
        rate = _slope(list(x), logs)
        top = sum(logs) / len(logs) - rate * sum(x) / len(x)
        return Curve(f"exp({rate:.3f} n)", x, tuple(math.exp(top + rate * n) for n in x), "fitted")
    at = [math.log(n) for n in x]
    top = sum(logs) / len(logs) - slope * sum(at) / len(at)
    return Curve(f"n^{slope + 0.0:.2f}", x, tuple(math.exp(top + slope * n) for n in at), "fitted")


def _slope(x: list[float], y: list[float]) -> float:
    mx, my = sum(x) / len(x), sum(y) / len(y)
    return sum((a - mx) * (b - my) for a, b in zip(x, y, strict=True)) / sum((a - mx) ** 2 for a in x)


def _shares(what: str, group: list[ExperimentPart]) -> Panel:
    """The share lost over the stream's size relative to the branch."""
    curves = []
    for e in group:
        scales = sorted({int(key[6:]) for key in e.numbers if re.fullmatch(r"ratio_\d+", key)})
        read = [tuple(_number(e.numbers.get(f"{key}_{k}")) or 0.0 for k in scales) for key in ("ratio", "lost", "low", "high")]
        order = sorted((i for i in range(len(scales)) if read[1][i] > 0), key=lambda i: read[0][i])
        x, y, low, high = (tuple(column[i] for i in order) for column in read)
        curves.append(Curve(subject(e) or "measured", x, y, band=(low, high)))
    return Panel(what, "rms of the stream / rms of the branch", "share lost", curves=tuple(c for c in curves if c.x), log_x=True, log_y=True)


def _rows(title: str, x: str, group: list[ExperimentPart]) -> Panel:
    shared = _prefix([e.group for e in group if e.group])
    rows = tuple(_row(e, shared, title) for e in group[:ROWS])
    values = [v for r in rows for v in (r.predicted, r.measured) if v is not None]
    log = min(values) > 0 and max(values) > 30 * min(values)
    return Panel(title, x, rows=rows, log_x=log, left_out=len(group) - len(rows))


PARTS = (
    ("shares at the attention's rows", {"entropy_share": "row entropy over ln n", "theta": "θ, mean of lower ends"}),
    ("relative error against float64", {"error_of_the_end": "of the block's end", "error_of_the_gradient": "of the gradient"}),
)
"""Numbers that belong beside each other: title of a panel, key -> label."""


def _parts(mine: list[ExperimentPart]) -> Iterator[Panel]:
    """Numbers that an experiment gives along with what it measures."""
    for title, keys in PARTS:
        rows = [
            Row(f"{subject(e)} {e.what.rpartition(', ')[2] if ', ' in e.what else ''} {label}".strip(), None, v, v, v)
            for e in mine for key, label in keys.items() if (v := _number(e.numbers.get(key))) is not None
        ]  # fmt: skip
        if rows:
            share = title.startswith("shares")
            values = [r.measured for r in rows]
            log = not share and min(values) > 0
            made = Panel(title, "share" if share else "value", rows=tuple(rows[:ROWS]), log_x=log, left_out=max(0, len(rows) - ROWS))
            yield replace(made, limit=1.0) if share else made
    logits = [e for e in mine if "entropy_share" in e.numbers and _number(e.measured) is not None]
    if logits:
        yield _rows(logits[0].what, "value", logits)


def _row(e: ExperimentPart, shared: str, title: str) -> Row:
    measured = _number(e.measured) or 0.0
    low, high = (_number(v) for v in e.interval) if e.interval is not None else (measured, measured)
    least = AT_LEAST.fullmatch(e.predicted) if isinstance(e.predicted, str) else None
    what = "" if e.group else OVER_BOUND.sub(r"\1\2", e.what).removeprefix(title).removeprefix(", ")
    label = " ".join(w for w in (subject(e, shared), what) if w) or e.what
    predicted = float(least[1]) if least is not None else _number(e.predicted)
    return Row(label, predicted, measured, measured if low is None else low, measured if high is None else high, e.outcome == "refuted", bool(least))


def _prefix(groups: list[str]) -> str:
    """The dotted beginning that names of weights share; two words of each name are kept."""
    parts = [g.split(".") for g in groups]
    most = max(0, min((len(p) for p in parts), default=0) - 2)
    count = next((i for i in range(most) if len({p[i] for p in parts}) > 1), most)
    return "".join(f"{word}." for word in parts[0][:count]) if parts else ""


def subject(e: ExperimentPart, shared: str = "") -> str:
    """Kind, sublayer and group, the stream where it has a name of its own."""
    stream = e.stream if e.stream not in (None, "stream") else None
    return " ".join(part for part in (stream, e.kind, e.sublayer, (e.group or "").removeprefix(shared)) if part)


def _alone(experiments: list[ExperimentPart]) -> list[ExperimentPart]:
    """A kind that is the only one has no need to be named."""
    several = len({(e.stream, e.kind) for e in experiments if e.kind}) > 1
    return experiments if several else [e.model_copy(update={"kind": None}) for e in experiments]


def _by_what(group: list[ExperimentPart]) -> list[tuple[str, list[ExperimentPart]]]:
    return [(what, [e for e in group if e.what == what]) for what in dict.fromkeys(e.what for e in group)]


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) else None


__all__ = ["Curve", "Panel", "Row", "Sheet", "series", "sheets", "subject"]
