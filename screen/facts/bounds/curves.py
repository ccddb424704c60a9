"""Activations written out by hand: a value that is an entry-wise function of one other value is known by its curve.

A curve is the function's value at a few points. `x * sigmoid(c * x)`, `0.5 * x * (1 + erf(x / √2))`, `0.5 * x * (1 + tanh(√(2/π)(x + 0.044715 x³)))`
and `x * tanh(softplus(x))` are recognised when their curves agree to 1e-9 at all points: elementary functions of so few terms that agree there
are the same. Then their slope and Lipschitz constant are those of the function, instead of products over the written steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from screen.facts.bounds.rows_activation import SHAPES, Shape, through
from screen.facts.bounds.value import Value
from screen.facts.bounds.walk import Walk
from screen.facts.flow import number, strip
from screen.graph import Node, Ref

POINTS = (-5.3, -3.1, -2.2, -1.7, -1.1, -0.61, -0.23, -0.011, 0.017, 0.31, 0.73, 1.0, 1.37, 1.9, 2.6, 3.7, 4.9)


@dataclass(frozen=True)
class Curve:
    """f(POINTS) for a value f(root)."""

    root: int
    at: tuple[float, ...]


def _sigmoid(t: float) -> float:
    return 1.0 / (1.0 + math.exp(-t))


def _softplus(t: float) -> float:
    return math.log1p(math.exp(t))


_ONE: dict[str, Callable[[float], float]] = {
    "tanh": math.tanh, "sigmoid": _sigmoid, "erf": math.erf, "softplus": _softplus, "neg": lambda t: -t, "exp": math.exp,
    "square": lambda t: t * t, "reciprocal": lambda t: 1.0 / t,
}
_TWO: dict[str, Callable[[float, float], float]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "div": lambda a, b: a / b, "pow": lambda a, b: a**b,
}


def curve_of(walk: Walk, index: int, depth: int = 0) -> Curve:
    """A node as a function of the value that it is computed from; of itself where it is no such function."""
    index = strip(walk.flow, index)
    node = walk.graph.nodes[index]
    identity = Curve(index, POINTS)
    if depth > 24 or walk.branch.border(index) is not None or index in walk.branch.norms.by_node:
        return identity
    if node.op in _ONE and len(node.inputs) == 1 and len(node.args) == 1 and not node.kwargs:
        below = curve_of(walk, node.inputs[0], depth + 1)
        return _applied(identity, below.root, lambda i: _ONE[node.op](below.at[i]))
    if node.op in _TWO and len(node.args) == 2 and not node.kwargs:
        sides = [_side(walk, a, depth) for a in node.args]
        roots = {s.root for s in sides if isinstance(s, Curve)}
        if None not in sides and len(roots) == 1:
            a, b = ([s.at[i] if isinstance(s, Curve) else s for i in range(len(POINTS))] for s in sides if s is not None)
            return _applied(identity, roots.pop(), lambda i: _TWO[node.op](a[i] or 0.0, b[i] or 0.0))
    return identity


def _side(walk: Walk, argument: object, depth: int) -> Curve | float | None:
    return curve_of(walk, argument.node, depth + 1) if isinstance(argument, Ref) else number(argument)


def _applied(otherwise: Curve, root: int, f: Callable[[int], float]) -> Curve:
    try:
        return Curve(root, tuple(float(f(i)) for i in range(len(POINTS))))
    except (ValueError, OverflowError, ZeroDivisionError, TypeError):
        return otherwise


def _gelu_tanh(t: float) -> float:
    return 0.5 * t * (1.0 + math.tanh(math.sqrt(2.0 / math.pi) * (t + 0.044715 * t**3)))


def _gelu(t: float) -> float:
    return 0.5 * t * (1.0 + math.erf(t / math.sqrt(2.0)))


def _mish(t: float) -> float:
    return t * math.tanh(_softplus(t))


_KNOWN: tuple[tuple[Callable[[float], float], Shape], ...] = (
    (_gelu, SHAPES["gelu"]), (_gelu_tanh, SHAPES["gelu"]), (_mish, SHAPES["mish"]),
)


def recognised(walk: Walk, node: Node) -> Value | None:
    """The value of a product that is a known activation of some value; None when it is none."""
    if not walk.flow.data[node.index] or node.shape is None:
        return None
    curve = curve_of(walk, node.index)
    shape = None if curve.root == node.index else _shape(curve.at)
    if shape is None or walk.graph.nodes[curve.root].shape != node.shape:
        return None
    value = walk.one(curve.root)
    return None if value.holes else through(value, shape)


def _shape(at: tuple[float, ...]) -> Shape | None:
    for f, shape in _KNOWN:
        if all(abs(f(t) - y) <= 1e-9 for t, y in zip(POINTS, at, strict=True)):
            return shape
    share = at[POINTS.index(1.0)]  # sigmoid(c) for x * sigmoid(c x)
    if not 0.5 < share < 1.0 - 1e-9:
        return None
    c = math.log(share / (1.0 - share))
    if all(abs(t * _sigmoid(c * t) - y) <= 1e-9 for t, y in zip(POINTS, at, strict=True)):
        return Shape(1.0, SHAPES["silu"].lipschitz, low=-0.27847 / c)
    return None
