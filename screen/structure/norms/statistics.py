"""The abstract domain in which norms written by hand are read: powers, means and statistics of a value.

    Power(x, k)             |x|^k entry by entry
    Mean(x, axes)           the mean of x
    Stat(x, axes, degree)   a statistic of x, homogeneous of that degree, that is zero only where x is
    Log(stat, factor)       factor · log(statistic)
    centred                 over which axes the x of a Stat or a numerator has had its own mean taken away
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from screen.graph import Node, Ref
from screen.structure.dataflow import Flow, axes_of, number, strip
from screen.structure.initial.values import start_of
from screen.structure.norms.calls import NORMS, norm_of, room_of


@dataclass(frozen=True)
class Power:
    """|x|^degree, entry by entry."""

    source: int
    centred: tuple[int, ...] | None
    """Axes of the mean that was taken away from x; None where there was none."""
    degree: float


@dataclass(frozen=True)
class Mean:
    """The mean of x over axes, times a factor (the number of entries for a sum)."""

    source: int
    axes: tuple[int, ...]
    factor: float = 1.0


@dataclass(frozen=True)
class Centred:
    """x minus its mean over axes."""

    source: int
    axes: tuple[int, ...]


@dataclass(frozen=True)
class Stat:
    """A statistic of x over axes: scale · ρ(x)^degree, ρ the root of the mean square (or the norm, the mean of |x|, the largest |x|)."""

    source: int
    axes: tuple[int, ...]
    degree: float
    centred: tuple[int, ...] | None
    """Axes of the mean that was taken away from x; None where there was none."""
    average: bool
    """Divided by the number of entries (rms, std) or not (L2)."""
    family: str
    """"square", "abs", "max", "power", or "matrix" (a norm of matrices that is not that of all entries)."""
    eps: float | None = None
    scale: float | None = 1.0
    """None: a constant whose value is not known."""
    room: float = 1.0
    """Of a norm of matrices: ‖x‖₂ <= room · ρ."""


@dataclass(frozen=True)
class Log:
    """factor · log(statistic)."""

    stat: Stat
    factor: float


Reading = Power | Mean | Centred | Stat | Log | None


def reading_of(readings: list[Reading], flow: Flow, node: int) -> Reading:
    """What a node is, behind casts, copies and broadcasts."""
    while True:
        found = readings[node]
        if found is not None:
            return found
        here = flow.graph.nodes[node]
        new_axis = here.op == "getitem" and here.shape is not None and None in _flat(here.args[1])
        if not here.inputs or (flow.classes[node] != "view" and not new_axis):
            return None
        node = here.inputs[0]


def _flat(value: object) -> tuple[object, ...]:
    return value if isinstance(value, tuple) and (not value or value[0] != "slice") else (value,)


def subject_of(readings: list[Reading], flow: Flow, node: int) -> tuple[int, tuple[int, ...] | None]:
    """(x, axes of the mean) of a value that may be x − mean(x)."""
    base = plain(flow, node)
    found = readings[base]
    if isinstance(found, Centred):
        return found.source, found.axes
    return base, None


def plain(flow: Flow, node: int) -> int:
    """The value behind casts and copies, and behind a factor that is one throughout: a mask of all that was observed."""
    while True:
        node = strip(flow, node)
        here = flow.graph.nodes[node]
        rest = [i for i in here.inputs if not (flow.factory_made[i] and start_of(flow.graph, i) == 1.0)] if here.op == "mul" else []
        if len(here.inputs) != 2 or len(rest) != 1 or flow.graph.nodes[rest[0]].shape != here.shape:
            return node
        node = rest[0]


def _read_power(flow: Flow, node: Node, readings: list[Reading]) -> Reading:
    first = flow.ref(node, 0, "input", "self")
    exponent = 2.0 if node.op == "square" else number(flow.operand(node, 1, "exponent"))
    if first is None or exponent is None:
        return None
    found = reading_of(readings, flow, first)
    if isinstance(found, Stat):
        return raised(found, exponent)
    if isinstance(found, Power):
        return replace(found, degree=found.degree * exponent)
    if isinstance(found, Log):
        return None
    if exponent > 0 and exponent % 2 == 0:
        return Power(*subject_of(readings, flow, first), exponent)
    return None


def raised(stat: Stat, exponent: float) -> Stat:
    """stat^exponent."""
    known = stat.scale is not None and stat.scale > 0
    return replace(stat, degree=stat.degree * exponent, scale=stat.scale**exponent if known and stat.scale is not None else None)


def _read_abs(flow: Flow, node: Node, readings: list[Reading]) -> Reading:
    return Power(*subject_of(readings, flow, node.inputs[0]), 1.0)


def _read_mean(flow: Flow, node: Node, readings: list[Reading]) -> Reading:
    first = node.inputs[0]
    shape = flow.graph.nodes[first].shape
    if shape is None:
        return None
    axes = axes_of(flow.operand(node, 1, "dim", "axis"), len(shape))
    found = reading_of(readings, flow, first)
    average = node.op == "mean"
    if average and flow.graph.nodes[first].op == "mean" and (both := _read_mean_of_mean(flow, readings[first], axes, len(shape))) is not None:
        return both
    if isinstance(found, Power) and found.degree > 0:  # a mean of 1/|x| is set by the smallest entry
        family = "square" if found.degree == 2.0 else "abs" if found.degree == 1.0 else "power"
        return Stat(found.source, axes, found.degree, found.centred, average, family)
    return Mean(plain(flow, first), axes, 1.0 if average else math.prod(shape[a] for a in axes))


def _read_mean_of_mean(flow: Flow, first: Reading, axes: tuple[int, ...], rank: int) -> Reading:
    """The mean over other axes of a mean that kept its own, `x.mean(1, keepdim=True).mean(2, keepdim=True)`, is the mean over both."""
    if not isinstance(first, Mean | Stat) or len(flow.graph.nodes[first.source].shape or ()) != rank or {*first.axes} & {*axes}:
        return None
    return replace(first, axes=tuple(sorted({*first.axes, *axes})))


def _read_max(flow: Flow, node: Node, readings: list[Reading]) -> Reading:
    found = reading_of(readings, flow, node.inputs[0])
    shape = flow.graph.nodes[node.inputs[0]].shape
    if isinstance(found, Power) and found.degree > 0 and shape is not None:
        return Stat(found.source, axes_of(flow.operand(node, 1, "dim"), len(shape)), found.degree, found.centred, True, "max")
    return None


def _read_var(flow: Flow, node: Node, readings: list[Reading]) -> Reading:
    shape = flow.graph.nodes[node.inputs[0]].shape
    if shape is None:
        return None
    given = flow.operand(node, 1, "dim")
    axes = axes_of(None if isinstance(given, bool) else given, len(shape))
    return _deviation(flow, readings, node.inputs[0], axes, 2.0 if node.op == "var" else 1.0)


def _deviation(flow: Flow, readings: list[Reading], node: int, axes: tuple[int, ...], degree: float) -> Stat:
    """var and std: of x − mean(x) where the mean was taken over the same axes before; else of the value itself."""
    source, centred = subject_of(readings, flow, node)
    return Stat(source if centred == axes else strip(flow, node), axes, degree, axes, True, "square")


def _read_norm(flow: Flow, node: Node, readings: list[Reading]) -> Reading:
    shape = flow.graph.nodes[node.inputs[0]].shape
    found = norm_of(flow, node, len(shape)) if shape is not None else None
    if found is None or shape is None:
        return None
    kind, power, axes = found
    source, centred = subject_of(readings, flow, node.inputs[0])
    if kind == "matrix":
        signed = tuple(a - len(shape) if a >= 0 else a for a in axes)
        return Stat(source, tuple(sorted(signed)), 1.0, centred, False, "matrix", room=room_of(kind, power, tuple(shape[a] for a in axes)))
    family = "square" if power == 2.0 else "max" if power == float("inf") else "abs" if power == 1.0 else "power"
    return Stat(source, axes, 1.0, centred, family == "max", family)


def _read_log(flow: Flow, node: Node, readings: list[Reading]) -> Reading:
    found = reading_of(readings, flow, node.inputs[0])
    return Log(found, 1.0) if isinstance(found, Stat) else None


def _read_exp(flow: Flow, node: Node, readings: list[Reading]) -> Reading:
    found = reading_of(readings, flow, node.inputs[0])
    return raised(found.stat, found.factor) if isinstance(found, Log) else None


def _read_square_product(flow: Flow, node: Node, readings: list[Reading]) -> Reading:
    """x·x over features, as a matrix product."""
    axes: tuple[int, ...] = (-1,)
    if node.op in ("dot", "vecdot"):
        if len(node.inputs) not in (1, 2) or strip(flow, node.inputs[0]) != strip(flow, node.inputs[-1]):
            return None
        axes = axes_of(flow.operand(node, 2, "dim") or -1, len(flow.graph.nodes[node.inputs[0]].shape or ()))
    elif not flow.is_square(node):
        return None
    source, centred = subject_of(readings, flow, flow.root(node.inputs[0]))
    return Stat(source, axes, 2.0, centred, False, "square")


def _read_root(flow: Flow, node: Node, readings: list[Reading]) -> Reading:
    found = reading_of(readings, flow, node.inputs[0])
    exponent = {"sqrt": 0.5, "rsqrt": -0.5, "reciprocal": -1.0}[node.op]
    return raised(found, exponent) if isinstance(found, Stat) else None


def _read_sum_or_product(flow: Flow, node: Node, readings: list[Reading]) -> Reading:
    left, right = node.args[0] if node.args else None, flow.operand(node, 1, "other")
    if node.op == "sub":
        return _read_difference(flow, node, readings)
    for one, other in ((left, right), (right, left)):
        if not isinstance(one, Ref):
            continue
        found = reading_of(readings, flow, one.node)
        value = _number_of(flow, other) if isinstance(found, Mean | Stat) else number(other)
        if isinstance(found, Log) and node.op == "mul" and value is not None:
            return replace(found, factor=found.factor * value)
        if isinstance(found, Mean) and value and node.op in ("mul", "div") and one is left:
            return replace(found, factor=found.factor * (value if node.op == "mul" else 1.0 / value))
        if isinstance(found, Stat) and (value is not None or _is_constant(flow, other)):
            return _with_constant(flow, node, found, value, one is left)
        if node.op == "mul" and one is left and isinstance(other, Ref) and strip(flow, one.node) == strip(flow, other.node):
            return Power(*subject_of(readings, flow, one.node), 2.0) if found is None or isinstance(found, Centred) else None
    return None


def _with_constant(flow: Flow, node: Node, found: Stat, value: float | None, first: bool) -> Reading:
    """A statistic with a constant added (never a negative one: the sum could be zero), or times or over one."""
    if node.op == "add":
        return replace(found, eps=value) if found.degree > 0 and (value is None or value >= 0) else None
    if value == 0 or node.op not in ("mul", "div"):
        return None
    if node.op == "div" and not first:
        found, factor = raised(found, -1.0), value
    else:
        factor = value if node.op == "mul" or value is None else 1.0 / value
    scaled = replace(found, scale=None if factor is None or found.scale is None else found.scale * factor)
    return _averaged(flow, scaled, factor)


def _averaged(flow: Flow, stat: Stat, factor: float | None) -> Stat:
    """A sum times 1/size is a mean; a root of a sum times 1/√size is a root of a mean."""
    if factor is None or stat.average or stat.family != "square" or factor <= 0:
        return stat
    root = size_of(flow, stat) ** (stat.degree / 2)
    if abs(factor * root - 1) >= 1e-3 or stat.scale is None:
        return stat
    return replace(stat, average=True, scale=stat.scale * root)


def size_of(flow: Flow, stat: Stat) -> int:
    shape = flow.graph.nodes[stat.source].shape or ()
    return math.prod(shape[a] for a in stat.axes if -len(shape) <= a < 0)


def _number_of(flow: Flow, value: object) -> float | None:
    """A number, or that which all entries of a tensor without data and weights are."""
    return start_of(flow.graph, value.node) if isinstance(value, Ref) and _is_constant(flow, value) else number(value)


def _is_constant(flow: Flow, value: object) -> bool:
    """A tensor that is neither data nor a function of weights: an ε or a √d kept as a tensor."""
    return isinstance(value, Ref) and not flow.data[value.node] and not flow.trained[value.node]


def _read_difference(flow: Flow, node: Node, readings: list[Reading]) -> Reading:
    left, right = flow.ref(node, 0, "input"), flow.ref(node, 1, "other")
    if left is None or right is None:
        return None
    mean = reading_of(readings, flow, right)
    if isinstance(mean, Mean) and mean.source == strip(flow, left) and abs(mean.factor - 1) < 1e-3:
        return Centred(mean.source, mean.axes)
    first = reading_of(readings, flow, left)  # E[x²] − E[x]²
    if isinstance(first, Stat) and first.degree == 2.0 and first.centred is None and first.average:
        below = flow.graph.nodes[strip(flow, right)]
        inner = reading_of(readings, flow, below.inputs[0]) if below.inputs else None
        same = isinstance(inner, Mean) and (inner.source, inner.axes) == (first.source, first.axes) and abs(inner.factor - 1) < 1e-3
        if same and is_squared(flow, below):
            return replace(first, centred=first.axes)
    return None


def is_squared(flow: Flow, node: Node) -> bool:
    """Whether a node is the square of its operand, entry by entry."""
    if node.op == "mul":
        return len(node.args) == 2 and node.args[0] == node.args[1]
    return node.op == "square" or (node.op == "pow" and number(flow.operand(node, 1, "exponent")) == 2.0)


def _read_clamp(flow: Flow, node: Node, readings: list[Reading]) -> Reading:
    found = reading_of(readings, flow, node.inputs[0])
    low = number(flow.operand(node, 1, "min"))
    if low is None and node.op == "maximum":
        low = number(flow.operand(node, 1, "other"))
    high = flow.operand(node, 2, "max") if node.op == "clamp" else None
    return replace(found, eps=max(low, 0.0)) if isinstance(found, Stat) and found.degree > 0 and low is not None and high is None else None


def _read_part(flow: Flow, node: Node, readings: list[Reading]) -> Reading:
    """`values, indices = x.abs().max(...)` and the pair of `var_mean`."""
    above = flow.graph.nodes[node.inputs[0]]
    if above.shape is not None or not above.inputs:
        return None
    shape = flow.graph.nodes[above.inputs[0]].shape
    if above.op in ("var_mean", "std_mean") and shape is not None:
        axes = axes_of(flow.operand(above, 1, "dim"), len(shape))
        if node.args[1:] == (0,):
            return _deviation(flow, readings, above.inputs[0], axes, 2.0 if above.op == "var_mean" else 1.0)
        return Mean(strip(flow, above.inputs[0]), axes)
    if above.op == "max" and node.args[1:] == (0,):
        return _read_max(flow, above, readings)
    return None


READ: dict[str, Callable[[Flow, Node, list[Reading]], Reading]] = {
    "pow": _read_power, "square": _read_power, "abs": _read_abs, "mean": _read_mean, "sum": _read_mean, "amax": _read_max, "var": _read_var,
    "std": _read_var, **dict.fromkeys(NORMS, _read_norm), "sqrt": _read_root, "rsqrt": _read_root,
    "reciprocal": _read_root, "add": _read_sum_or_product, "mul": _read_sum_or_product, "div": _read_sum_or_product,
    "sub": _read_sum_or_product, "clamp": _read_clamp, "clamp_min": _read_clamp, "maximum": _read_clamp, "getitem": _read_part,
    "max": _read_max, "log": _read_log, "exp": _read_exp, "matmul": _read_square_product, "bmm": _read_square_product,
    "dot": _read_square_product, "vecdot": _read_square_product,
}
"""Op -> how a call of it with inputs is read."""
