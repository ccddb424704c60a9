"""Entry-wise functions: per function its slope sup|φ(t) − φ(0)|/|t|, Lipschitz constant, value at 0, and range.

Magnitude: ‖φ(v)‖ <= slope·‖v‖ + |φ(0)|·√width, and at most max|φ|·√width; derivative: Lip·‖δv‖. Constants are suprema rounded up in the
last digit shown; tests redo them on a grid.
"""

from __future__ import annotations

import math
from dataclasses import replace

from screen.calculi.bounds.expr import mul, num, root, sym
from screen.calculi.bounds.holds import holds_of
from screen.calculi.bounds.interpreter import NotUnderstood, Walk, row
from screen.calculi.bounds.mixed_norms import NONE, Bound, Fact, is_zero, plus, query, tidy, times, with_ceiling, zero
from screen.calculi.bounds.rules.reduce import softened
from screen.calculi.bounds.rules.view import spread
from screen.calculi.bounds.value import Value, constant
from screen.graph import Node
from screen.ops.scalars import OPS, SCALARS, Shape
from screen.structure.dataflow import number, strip
from screen.structure.softmaxes import softmax_at
from screen.structure.types import Unknown

INF = math.inf


SHAPES: dict[str, Shape] = {name: scalar.shape for name, scalar in SCALARS.items() if math.isfinite(scalar.shape.slope)}


def shape_of(walk: Walk, node: Node, name: str, value: Value) -> Shape:
    """The function of a call, with its arguments."""
    if name in ("elu", "leaky_relu", "celu"):
        first = number(walk.flow.operand(node, 1, "alpha", "negative_slope"))
        if name == "leaky_relu":
            steep = max(1.0, abs(0.01 if first is None else first))
            return Shape(steep, steep)
        alpha = abs(1.0 if first is None else first)
        top = max(1.0, alpha) if name == "elu" else 1.0
        return Shape(top, top, low=-alpha, rising=True)
    if name == "hardtanh":
        low, high = number(walk.flow.operand(node, 1, "min_val")), number(walk.flow.operand(node, 2, "max_val"))
        return _clamped(-1.0 if low is None else low, 1.0 if high is None else high)
    if name == "softplus":
        beta = number(walk.flow.operand(node, 1, "beta"))
        beta = 1.0 if beta is None else beta
        if beta <= 0:
            raise NotUnderstood("a beta that is not positive")
        return replace(SHAPES["softplus"], at_zero=0.693148 / beta)
    if name == "rsqrt":
        if value.low <= 0.0:
            raise NotUnderstood("the inverse root of something that may be 0")
        top = value.low**-0.5
        return Shape(0.0, 0.5 * value.low**-1.5, top, value.high**-0.5, top)
    if name == "sqrt":
        return Shape(1.0 / math.sqrt(value.low), 0.5 / math.sqrt(value.low), 0.0, math.sqrt(value.low), math.sqrt(value.high))
    found = SHAPES.get(name)
    if found is None:
        raise NotUnderstood("no bound for this function")
    return found


def _clamped(low: float, high: float) -> Shape:
    if low > high:
        raise NotUnderstood("an empty range")
    at_zero = min(max(0.0, low), high)
    return Shape(1.0, 1.0, at_zero, low, high, rising=True)


@row(" ".join([*(op for op in OPS if op in SHAPES and op != "neg"), "sqrt", "rsqrt"]))
def activation(walk: Walk, node: Node) -> Value:
    """φ entry by entry."""
    return applied(walk, node, walk.first(node), node.op)


def applied(walk: Walk, node: Node, value: Value, name: str) -> Value:
    """φ(value)."""
    if value.holes:
        raise NotUnderstood("a function of a masked value")
    if name == "sqrt" and value.low <= 0.0:
        return rooted(walk, node, value)
    return through(value, shape_of(walk, node, name, value))


def rooted(walk: Walk, node: Node, value: Value) -> Value:
    """√v for v >= 0 that may be 0: per entry the root of the bound, over several that of ℓ1. Its slope is known where v is a sum of squares
    (`holds`): of a size of u no more than that of u."""
    if value.holes or value.low < 0:
        raise NotUnderstood("a root of something that may be negative")
    mag = value.mag
    if not isinstance(mag, Unknown):
        keys = dict.fromkeys([NONE, *(f.inner for f in mag)])
        mag = tidy((Fact(root(query(mag, value.flat, k, NONE, 1)), k) for k in keys), value.flat)
    der: Bound = value.der if is_zero(value.der) else Unknown("a root at 0 has no slope", (node.index,))
    for hold in (h for h in holds_of(walk, node.index) if h.subject[1] is None):
        u = walk.one(hold.subject[0])
        slope = u.slope(*hold.axes) if hold.degree == 1.0 and math.isfinite(hold.steep) and hold.axes else None
        if slope is not None and not isinstance(slope, Unknown) and isinstance(der, Unknown):
            der = (Fact(mul(num(hold.steep), slope)),)
    return replace(value.bare(), mag=mag, der=der, low=math.sqrt(value.low), high=math.sqrt(value.high))


def through(value: Value, shape: Shape) -> Value:
    """φ(value) for a function of known shape."""
    flat = value.flat
    mag: Bound = (Fact(num(0.0), value.all),) if not shape.slope else value.mag if is_zero(value.mag) else times(value.mag, num(shape.slope))
    if shape.at_zero and not isinstance(mag, Unknown):
        mag = plus(mag, (Fact(num(abs(shape.at_zero))),), flat) if not is_zero(mag) else (Fact(num(abs(shape.at_zero))),)
    low, high = _range(value, shape)
    keys = [f.inner for f in mag if f.p == 2] if not isinstance(mag, Unknown) else []
    along = {k: None for k in keys if k}
    along[value.all - _leading(value)] = None
    mag = with_ceiling(mag, max(abs(low), abs(high)), flat, along)
    return replace(value.bare(), mag=mag, der=times(value.der, num(shape.lipschitz)), low=low, high=high, gain=value.gain)


def _leading(value: Value) -> frozenset[int]:
    """Atoms of all axes but the last."""
    return value.all - value.axis(-1) if value.shape else NONE


def _range(value: Value, shape: Shape) -> tuple[float, float]:
    low, high = shape.low, shape.high
    if shape.rising and shape.slope <= 1.0 and shape.at_zero == 0.0:  # |φ(t)| <= |t|, monotone, φ(0) = 0
        low, high = max(low, min(value.low, 0.0)), min(high, max(value.high, 0.0))
    return low, high


@row("clamp clamp_min clamp_max")
def clamp(walk: Walk, node: Node) -> Value:
    """Cut to a range: a contraction towards it, and at most its ends."""
    value = walk.first(node)
    low = walk.operand(node, 1, "min") if node.op != "clamp_max" else None
    high = walk.operand(node, 2, "max") if node.op == "clamp" else walk.operand(node, 1, "max") if node.op == "clamp_max" else None
    if value.holes:
        raise NotUnderstood("a masked value")
    if isinstance(low, Value) or isinstance(high, Value):
        return _clamped_by_tables(value, low, high)
    made = through(value, _clamped(-INF if low is None else low, INF if high is None else high))
    ends = (max(value.low, -INF if low is None else low), min(value.high, INF if high is None else high))
    return replace(made, low=min(ends), high=max(ends), gain=value.gain)


def _clamped_by_tables(value: Value, low: Value | float | None, high: Value | float | None) -> Value:
    """Ends that differ from entry to entry and do not move with the stream."""
    if any(isinstance(end, Value) and (not is_zero(end.der) or end.holes) for end in (low, high)):
        raise NotUnderstood("ends that are made of data")
    below = (-INF, -INF) if low is None else (low.low, low.high) if isinstance(low, Value) else (low, low)
    above = (INF, INF) if high is None else (high.low, high.high) if isinstance(high, Value) else (high, high)
    return through(value, Shape(1.0, 1.0, max(below[1], -above[0], 0.0), min(below[0], above[0]), max(above[1], below[1])))


@row("atan2")
def angle(walk: Walk, node: Node) -> Value:
    """The angle of a point, between −π and π: its slope has no bound near 0."""
    return between(walk, node, -math.pi, math.pi, Unknown("the angle of a point that may be 0 has no slope", (node.index,)))


@row("remainder")
def remainder(walk: Walk, node: Node) -> Value:
    """What is left of a by a number, which has its sign: as a moves, with jumps."""
    step, value = walk.operand(node, 1, "other"), walk.first(node)
    if not isinstance(step, float) or not step or not math.isfinite(step):
        raise NotUnderstood("a divisor that is no number")
    return replace(between(walk, node, min(step, 0.0), max(step, 0.0), value.der), jump=node.index)


@row("copysign")
def copysign(walk: Walk, node: Node) -> Value:
    """|a| with the sign of b: as a moves, with jumps where b changes its sign."""
    value = walk.first(node)
    if value.holes or node.shape is None:
        raise NotUnderstood("a masked value")
    made, top = spread(value, node.shape), max(abs(value.low), abs(value.high))
    return replace(made.bare(), low=-top, high=top, jump=node.index)


def between(walk: Walk, node: Node, low: float, high: float, der: Bound) -> Value:
    """Values between two numbers, whatever they are made of."""
    made = constant(node.shape or (), low, high)
    still = all(is_zero(v.der) for i in walk.flow.counting[node.index] for v in walk._each(i))
    return made if still else replace(made, der=der)


@row("exp exp2")
def exponential(walk: Walk, node: Node) -> Value:
    """e^t for t <= h: at most e^h, with slope e^h; of a parameter, a quantity of its own."""
    value = walk.first(node)
    if value.part is not None and node.op == "exp":
        symbol = walk.names.symbol(value.part, "s" * len(value.shape), exponential=True)
        return replace(value.bare(), mag=(Fact(sym(symbol)),), low=0.0, high=INF, gain=(symbol,))
    softmax = softmax_at(walk.flow, node.index) if node.op == "exp" else None
    if softmax is not None and softmax.logits is not None:  # exp(u − logsumexp u)
        return shares(walk, node.index, walk.one(softmax.logits), softmax.axis)
    if node.op == "exp" and walk.graph.nodes[strip(walk.flow, node.inputs[0])].op == "log_softmax":
        return shares(walk, node.index, value, _axis_of(walk, strip(walk.flow, node.inputs[0])))
    if not math.isfinite(value.high) or value.high > 80 or value.holes:
        raise NotUnderstood("the exponential of something that is not bounded above")
    top = math.exp(value.high) if node.op == "exp" else 2.0**value.high
    steep = top if node.op == "exp" else top * math.log(2.0)
    flat = value.flat
    keys = {f.inner: None for f in value.mag if f.inner and f.p == 2} if not isinstance(value.mag, Unknown) else {}
    mag = with_ceiling((Fact(num(top)),), top, flat, keys)
    return replace(value.bare(), mag=mag, der=times(value.der, num(steep)), low=0.0, high=top, gain=value.gain)


def _axis_of(walk: Walk, index: int) -> int:
    axis = walk.integer(walk.graph.nodes[index], 1, "dim")
    return -1 if axis is None else axis


def shares(walk: Walk, index: int, u: Value, axis: int) -> Value:
    """softmax(u), written with logarithms."""
    if u.shape != walk.graph.nodes[index].shape:
        raise NotUnderstood("logits of another shape")
    return softened(walk, index, u, axis)


LOGARITHMS = {"log": (0.0, 1.0), "log1p": (1.0, 1.0), "log2": (0.0, math.log(2.0)), "log10": (0.0, math.log(10.0))}
"""What is added before it, and the logarithm of its base."""


@row(" ".join(LOGARITHMS))
def logarithm(walk: Walk, node: Node) -> Value:
    """Of what lies between two positive numbers a and b: between log a and log b, slope 1/a."""
    value = walk.first(node)
    shift, base = LOGARITHMS[node.op]
    least, most = value.low + shift, value.high + shift
    if least <= 0.0 or not math.isfinite(most) or value.holes:
        raise NotUnderstood("the logarithm of what may be near 0, or has no bound")
    low, high = math.log(least) / base, math.log(most) / base
    top = max(abs(low), abs(high))
    mag = with_ceiling((Fact(num(top)),), top, value.flat, (value.axis(-1),) if value.shape else ())
    return replace(value.bare(), mag=mag, der=times(value.der, num(1.0 / (least * base))), low=low, high=high)


@row("expm1")
def expm1(walk: Walk, node: Node) -> Value:
    """e^t − 1 for t <= 0: between −1 and 0, slope 1."""
    value = walk.first(node)
    if value.high > 0.0 or value.holes:
        raise NotUnderstood("of something that may be positive")
    return through(value, Shape(1.0, 1.0, 0.0, -1.0, 0.0))


@row("eq ne lt le gt ge logical_and logical_or logical_not logical_xor bitwise_and bitwise_or bitwise_not bitwise_xor isnan isinf isfinite isin")
def truth(walk: Walk, node: Node) -> Value:
    """0 or 1; a jump where it depends on the stream."""
    return discrete(walk, node, 0.0, 1.0)


@row("round floor ceil trunc")
def rounded(walk: Walk, node: Node) -> Value:
    """A value rounded: |φ(t)| <= |t| + 1/2 to the nearest, |t| + 1 up or down, |t| towards zero; piecewise constant."""
    value = walk.first(node)
    if value.holes:
        raise NotUnderstood("a masked value")
    decimals = number(walk.flow.operand(node, 1, "decimals")) if node.op == "round" else None
    off = {"round": 0.5 * 10.0 ** -(decimals or 0.0), "trunc": 0.0}.get(node.op, 1.0)
    near, steps = through(value, Shape(1.0, 1.0, off)), discrete(walk, node, -INF, INF)
    return replace(near, der=steps.der, jump=steps.jump, low=min(value.low - off, 0.0), high=max(value.high + off, 0.0))


@row("argsort argmax argmin one_hot sign bucketize searchsorted nonzero multinomial bool")
def choice(walk: Walk, node: Node) -> Value:
    """Integers and choices: piecewise constant."""
    if node.shape is None:
        raise NotUnderstood("several results")
    top = 1.0 if node.op in ("one_hot", "sign", "bool") else INF
    return discrete(walk, node, -1.0 if node.op == "sign" else 0.0 if node.op in ("one_hot", "bool") else -INF, top)


def discrete(walk: Walk, node: Node, low: float, high: float) -> Value:
    """Values that do not move with the stream but for jumps."""
    made = constant(node.shape or (), low, high)
    read = [walk.value(i) for i in walk.flow.counting[node.index]]
    flatten = [v for r in read for v in (r if isinstance(r, tuple) else (r,))]
    moves = any(not is_zero(v.der) for v in flatten)
    jump = node.index if moves else next((v.jump for v in flatten if v.jump is not None), None)
    return replace(made, der=zero(len(made.flat)), jump=jump)


