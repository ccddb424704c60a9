"""The abstract domain in which norms written by hand are read: powers, means and statistics of a value.

    Power(x, k)             |x|^k entry by entry
    Mean(x, axes)           the mean of x
    Stat(x, axes, degree)   a statistic of x, homogeneous of that degree, that is zero only where x is
    Log(stat, factor)       factor · log(statistic)
    centred                 the x of a Stat or a numerator has had its own mean taken away
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from screen.facts.flow import Flow, axes_of, number, strip
from screen.graph import Node, Ref


@dataclass(frozen=True)
class Power:
    """|x|^degree, entry by entry."""

    source: int
    centred: bool
    degree: float


@dataclass(frozen=True)
class Mean:
    """The mean of x over axes."""

    source: int
    axes: tuple[int, ...]


@dataclass(frozen=True)
class Centred:
    """x minus its mean over axes."""

    source: int
    axes: tuple[int, ...]


@dataclass(frozen=True)
class Stat:
    """A statistic of x over axes."""

    source: int
    axes: tuple[int, ...]
    degree: float
    centred: bool
    average: bool
    """Divided by the number of entries (rms, std) or not (L2)."""
    family: str
    """"square", "abs" or "max"."""
    eps: float | None = None


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


def subject_of(readings: list[Reading], flow: Flow, node: int) -> tuple[int, bool, tuple[int, ...]]:
    """(x, centred?, axes of the mean) of a value that may be x − mean(x)."""
    base = strip(flow, node)
    found = readings[base]
    if isinstance(found, Centred):
        return found.source, True, found.axes
    return base, False, ()


def read(flow: Flow, node: Node, readings: list[Reading]) -> Reading:
    handler = _READ.get(node.op)
    return handler(flow, node, readings) if handler is not None else None


def _read_power(flow: Flow, node: Node, readings: list[Reading]) -> Reading:
    first = flow.ref(node, 0, "input", "self")
    exponent = 2.0 if node.op == "square" else number(flow.operand(node, 1, "exponent"))
    if first is None or exponent is None:
        return None
    found = reading_of(readings, flow, first)
    if isinstance(found, Stat):
        return replace(found, degree=found.degree * exponent)
    if isinstance(found, Power):
        return replace(found, degree=found.degree * exponent)
    if isinstance(found, Log):
        return None
    if exponent == 2.0:
        source, centred, _ = subject_of(readings, flow, first)
        return Power(source, centred, 2.0)
    return None


def _read_abs(flow: Flow, node: Node, readings: list[Reading]) -> Reading:
    source, centred, _ = subject_of(readings, flow, node.inputs[0])
    return Power(source, centred, 1.0)


def _read_mean(flow: Flow, node: Node, readings: list[Reading]) -> Reading:
    first = node.inputs[0]
    shape = flow.graph.nodes[first].shape
    if shape is None:
        return None
    axes = axes_of(flow.operand(node, 1, "dim", "axis"), len(shape))
    found = reading_of(readings, flow, first)
    average = node.op == "mean"
    if isinstance(found, Power):
        family = "square" if found.degree == 2.0 else "abs" if found.degree == 1.0 else "power"
        return Stat(found.source, axes, found.degree, found.centred, average, family)
    return Mean(strip(flow, first), axes) if average else None


def _read_max(flow: Flow, node: Node, readings: list[Reading]) -> Reading:
    found = reading_of(readings, flow, node.inputs[0])
    shape = flow.graph.nodes[node.inputs[0]].shape
    if isinstance(found, Power) and shape is not None:
        return Stat(found.source, axes_of(flow.operand(node, 1, "dim"), len(shape)), found.degree, found.centred, False, "max")
    return None


def _read_var(flow: Flow, node: Node, readings: list[Reading]) -> Reading:
    shape = flow.graph.nodes[node.inputs[0]].shape
    if shape is None:
        return None
    given = flow.operand(node, 1, "dim")
    axes = axes_of(None if isinstance(given, bool) else given, len(shape))
    source, _, _ = subject_of(readings, flow, node.inputs[0])
    return Stat(source, axes, 2.0 if node.op == "var" else 1.0, True, True, "square")


def _read_norm(flow: Flow, node: Node, readings: list[Reading]) -> Reading:
    shape = flow.graph.nodes[node.inputs[0]].shape
    if shape is None:
        return None
    order = flow.operand(node, 1, "p", "ord")
    power = 2.0 if order is None or order == "fro" else number(order)
    if power is None or power <= 0:
        return None
    axes = axes_of(flow.operand(node, 2, "dim"), len(shape))
    source, centred, _ = subject_of(readings, flow, node.inputs[0])
    family = "square" if power == 2.0 else "max" if power == float("inf") else "abs"
    return Stat(source, axes, 1.0, centred, False, family)


def _read_log(flow: Flow, node: Node, readings: list[Reading]) -> Reading:
    found = reading_of(readings, flow, node.inputs[0])
    return Log(found, 1.0) if isinstance(found, Stat) else None


def _read_exp(flow: Flow, node: Node, readings: list[Reading]) -> Reading:
    found = reading_of(readings, flow, node.inputs[0])
    return replace(found.stat, degree=found.stat.degree * found.factor) if isinstance(found, Log) else None


def _read_square_product(flow: Flow, node: Node, readings: list[Reading]) -> Reading:
    """x·x over features, as a matrix product."""
    if not flow.is_square(node):
        return None
    source, centred, _ = subject_of(readings, flow, flow.root(node.inputs[0]))
    return Stat(source, (-1,), 2.0, centred, False, "square")


def _read_root(flow: Flow, node: Node, readings: list[Reading]) -> Reading:
    found = reading_of(readings, flow, node.inputs[0])
    exponent = {"sqrt": 0.5, "rsqrt": -0.5, "reciprocal": -1.0}[node.op]
    return replace(found, degree=found.degree * exponent) if isinstance(found, Stat) else None


def _read_sum_or_product(flow: Flow, node: Node, readings: list[Reading]) -> Reading:
    left, right = node.args[0] if node.args else None, flow.operand(node, 1, "other")
    if node.op == "sub":
        return _read_difference(flow, node, readings)
    for one, other in ((left, right), (right, left)):
        if not isinstance(one, Ref):
            continue
        found = reading_of(readings, flow, one.node)
        value = number(other)
        if isinstance(found, Log) and node.op == "mul" and value is not None:
            return replace(found, factor=found.factor * value)
        if isinstance(found, Stat) and (value is not None or _is_constant(flow, other)):
            found = _averaged(flow, found, value if node.op == "mul" else 1.0 / value if node.op == "div" and value else None)
            if node.op == "add":
                return replace(found, eps=value) if found.degree > 0 else None
            if node.op == "mul":
                return found
            if node.op == "div":
                return found if one is left else replace(found, degree=-found.degree)
        if node.op == "mul" and isinstance(other, Ref) and strip(flow, one.node) == strip(flow, other.node):
            source, centred, _ = subject_of(readings, flow, one.node)
            return Power(source, centred, 2.0) if found is None or isinstance(found, Centred) else None
    return None


def _averaged(flow: Flow, stat: Stat, factor: float | None) -> Stat:
    """A sum times 1/size is a mean; a root of a sum times 1/√size is a root of a mean."""
    if factor is None or stat.average or stat.family != "square" or factor <= 0:
        return stat
    size = size_of(flow, stat)
    return replace(stat, average=True) if abs(factor * size ** (stat.degree / 2) - 1) < 1e-3 else stat


def size_of(flow: Flow, stat: Stat) -> int:
    shape = flow.graph.nodes[stat.source].shape or ()
    return math.prod(shape[a] for a in stat.axes if -len(shape) <= a < 0)


def _is_constant(flow: Flow, value: object) -> bool:
    """A tensor that is neither data nor a function of weights: an ε or a √d kept as a tensor."""
    return isinstance(value, Ref) and not flow.data[value.node] and not flow.trained[value.node]


def _read_difference(flow: Flow, node: Node, readings: list[Reading]) -> Reading:
    left, right = flow.ref(node, 0, "input"), flow.ref(node, 1, "other")
    if left is None or right is None:
        return None
    mean = reading_of(readings, flow, right)
    if isinstance(mean, Mean) and mean.source == strip(flow, left):
        return Centred(mean.source, mean.axes)
    first = reading_of(readings, flow, left)  # E[x²] − E[x]²
    if isinstance(first, Stat) and first.degree == 2.0 and not first.centred:
        below = flow.graph.nodes[strip(flow, right)]
        inner = reading_of(readings, flow, below.inputs[0]) if below.inputs else None
        if isinstance(inner, Mean) and inner.source == first.source and below.op in ("pow", "square", "mul"):
            return replace(first, centred=True)
    return None


def _read_clamp(flow: Flow, node: Node, readings: list[Reading]) -> Reading:
    found = reading_of(readings, flow, node.inputs[0])
    low = number(flow.operand(node, 1, "min"))
    return replace(found, eps=low) if isinstance(found, Stat) and found.degree > 0 and low is not None else None


def _read_part(flow: Flow, node: Node, readings: list[Reading]) -> Reading:
    """`values, indices = x.abs().max(...)` and the pair of `var_mean`."""
    above = flow.graph.nodes[node.inputs[0]]
    if above.shape is not None or not above.inputs:
        return None
    shape = flow.graph.nodes[above.inputs[0]].shape
    if above.op in ("var_mean", "std_mean") and shape is not None:
        axes = axes_of(flow.operand(above, 1, "dim"), len(shape))
        source, _, _ = subject_of(readings, flow, above.inputs[0])
        if node.args[1:] == (0,):
            return Stat(source, axes, 2.0 if above.op == "var_mean" else 1.0, True, True, "square")
        return Mean(strip(flow, above.inputs[0]), axes)
    if above.op == "max" and node.args[1:] == (0,):
        return _read_max(flow, above, readings)
    return None


_READ = {
    "pow": _read_power, "square": _read_power, "abs": _read_abs, "mean": _read_mean, "sum": _read_mean, "amax": _read_max, "var": _read_var,
    "std": _read_var, "norm": _read_norm, "vector_norm": _read_norm, "linalg_norm": _read_norm, "sqrt": _read_root, "rsqrt": _read_root,
    "reciprocal": _read_root, "add": _read_sum_or_product, "mul": _read_sum_or_product, "div": _read_sum_or_product,
    "sub": _read_sum_or_product, "clamp": _read_clamp, "clamp_min": _read_clamp, "maximum": _read_clamp, "getitem": _read_part,
    "max": _read_max, "log": _read_log, "exp": _read_exp, "matmul": _read_square_product, "bmm": _read_square_product,
    "dot": _read_square_product, "vecdot": _read_square_product,
}
