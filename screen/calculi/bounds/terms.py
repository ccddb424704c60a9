"""Nodes as terms in one value (`scalars`): which ops act entry by entry, and what each of them is."""

from __future__ import annotations

import math
from collections.abc import Callable

from screen.calculi.bounds.interpreter import Walk
from screen.calculi.bounds.ranges import ROOT, Scalar
from screen.calculi.bounds.scalars import num
from screen.calculi.bounds.value import Value
from screen.graph import Node, Ref
from screen.structure.dataflow import number

DEPTH = 24
INF = math.inf
RESHAPES = frozenset({"unsqueeze", "squeeze", "view", "reshape", "expand", "expand_as", "broadcast_to", "flatten", "unflatten"})
"""Views behind which a statistic per token is the same number."""


def _same(name: str) -> Callable[..., Scalar | None]:
    return lambda *parts: (name, *parts)


def _unit(f: Callable[[Scalar], Scalar]) -> Callable[..., Scalar | None]:
    return lambda x, *rest: f(x) if not rest else None


def _gelu(x: Scalar) -> Scalar:
    return ("mul", ("mul", num(0.5), x), ("add", num(1.0), ("erf", ("mul", x, num(2.0**-0.5)))))


def _limits(x: Scalar, low: Scalar | None, high: Scalar | None) -> Scalar:
    """Between two ends, which may be numbers between ends of their own."""
    if (low is None or _fixed(low)) and (high is None or _fixed(high)):
        return ("clamp", x, -INF if low is None else low[1], INF if high is None else high[1])
    found = x if low is None else ("maximum", x, low)
    return found if high is None else ("minimum", found, high)


def _fixed(x: Scalar) -> bool:
    return x[0] == "num" and x[1] == x[2]


def _leaky(x: Scalar, slope: Scalar | None = None) -> Scalar:
    """max(x, 0) + slope · min(x, 0)."""
    return ("add", ("clamp", x, 0.0, INF), ("mul", num(0.01) if slope is None else slope, ("clamp", x, -INF, 0.0)))


def _threshold(x: Scalar, at: Scalar, value: Scalar) -> Scalar:
    return ("where", ("gt", x, at), x, value)


def _power(x: Scalar, k: Scalar) -> Scalar | None:
    return ("pow", x, k[1]) if _fixed(k) else None


FUNCTIONS: dict[str, Callable[..., Scalar | None]] = {
    **{op: _same(op) for op in ("add", "sub", "mul", "div", "neg", "abs", "exp", "expm1", "log", "log1p", "tanh", "sigmoid", "erf", "sin", "cos",
                                "atan", "asinh", "maximum", "minimum")},
    "true_divide": _same("div"), "multiply": _same("mul"),
    "square": _unit(lambda x: ("pow", x, 2.0)), "sqrt": _unit(lambda x: ("pow", x, 0.5)), "rsqrt": _unit(lambda x: ("pow", x, -0.5)),
    "reciprocal": _unit(lambda x: ("pow", x, -1.0)), "pow": _power,
    "relu": _unit(lambda x: ("clamp", x, 0.0, INF)), "relu6": _unit(lambda x: ("clamp", x, 0.0, 6.0)),
    "hardtanh": lambda x, low=None, high=None: _limits(x, low or num(-1.0), high or num(1.0)),
    "clamp": lambda x, low=None, high=None: _limits(x, low, high),
    "clamp_min": lambda x, low: _limits(x, low, None), "clamp_max": lambda x, high: _limits(x, None, high),
    "softplus": _unit(lambda x: ("softplus", x)), "logsigmoid": _unit(lambda x: ("neg", ("softplus", ("neg", x)))),
    "silu": _unit(lambda x: ("mul", x, ("sigmoid", x))), "gelu": _unit(_gelu), "softsign": _unit(lambda x: ("div", x, ("add", num(1.0), ("abs", x)))),
    "mish": _unit(lambda x: ("mul", x, ("tanh", ("softplus", x)))), "leaky_relu": _leaky, "threshold": _threshold,
    "hardsigmoid": _unit(lambda x: ("clamp", ("add", ("mul", x, num(1 / 6)), num(0.5)), 0.0, 1.0)),
    "hardswish": _unit(lambda x: ("mul", x, ("clamp", ("add", ("mul", x, num(1 / 6)), num(0.5)), 0.0, 1.0))),
    "gt": _same("gt"), "ge": _same("gt"), "lt": lambda a, b: ("gt", b, a), "le": lambda a, b: ("gt", b, a), "where": _same("where"),
}  # fmt: skip
"""Op -> the term of a call, from those of its arguments. Comparisons differ from `gt` where both sides are equal alone."""
_NAMES: dict[str, tuple[tuple[str, ...], ...]] = {
    "clamp": (("min",), ("max",)), "clamp_min": (("min",),), "clamp_max": (("max",),), "hardtanh": (("min_val",), ("max_val",)),
    "pow": (("exponent",),), "leaky_relu": (("negative_slope",),),
    "threshold": (("threshold",), ("value",)), "where": (("input", "self"), ("other",)),
}  # fmt: skip
"""Names of the arguments behind the first one; `other` where nothing stands."""


def arguments(node: Node, walk: Walk) -> list[object] | None:
    """What a call reads, in the order of its term; None for a form that is not covered."""
    op = node.op
    if op not in FUNCTIONS or node.kwarg("rounding_mode") is not None or node.kwarg("out") is not None:
        return None
    if op in ("softplus", "gelu") and (len(node.args) > 1 or node.kwargs):
        return None
    if op in ("add", "sub") and (node.kwarg("alpha") not in (None, 1) or len(node.args) > 2):
        return None
    first = walk.flow.operand(node, 0, "input", "self", "condition")
    names = _NAMES.get(op, (("other",),))
    if len(node.args) > len(names) + 1:
        return None
    found = [first, *(walk.flow.operand(node, i, *n) for i, n in enumerate(names, 1))]
    while found and found[-1] is None:
        found.pop()
    if op == "where" and isinstance(first, Ref) and walk.graph.nodes[first.node].dtype != "bool":
        return None
    return found


def operands_of(walk: Walk, index: int) -> list[int] | None:
    """The values that a node is computed from entry by entry; None where it is no such function."""
    node = walk.graph.nodes[index]
    if node.shape is None or index in walk.branch.norms.by_node or walk.branch.border(index) in ("raw", "memory", "earlier"):
        return None
    given = arguments(node, walk)
    return None if given is None else [a.node for a in given if isinstance(a, Ref)]


def term_of(walk: Walk, index: int, root: int, views: bool = False, depth: int = DEPTH) -> Scalar | None:
    """A node as a term in the root. What does not depend on the root is a number between two ends; `views`: reshapes may stand between."""
    index = walk.behind(index)
    if index == root:
        return ROOT
    if not walk.flow.depends(index, root):
        found = walk.value(index)
        return ("num", found.low, found.high) if isinstance(found, Value) and not found.holes else None
    node = walk.graph.nodes[index]
    if views and node.inputs and (node.op in RESHAPES or (node.op == "getitem" and _adds_axes(node))):
        return term_of(walk, node.inputs[0], root, views, depth - 1)
    given = arguments(node, walk) if depth else None
    if given is None or index in walk.branch.norms.by_node:
        return None
    parts = [_part(walk, a, root, views, depth - 1) for a in given]
    if any(p is None and a is not None for p, a in zip(parts, given, strict=True)):
        return None
    return FUNCTIONS[node.op](*parts)


def others_move(walk: Walk, index: int, root: int, depth: int = DEPTH) -> bool:
    """Whether what a term takes for a number between two ends depends on data."""
    index = walk.behind(index)
    if index == root:
        return False
    if not depth or not walk.flow.depends(index, root):
        return walk.flow.data[index]
    return any(others_move(walk, i, root, depth - 1) for i in walk.graph.nodes[index].inputs)


def _part(walk: Walk, argument: object, root: int, views: bool, depth: int) -> Scalar | None:
    if isinstance(argument, Ref):
        return term_of(walk, argument.node, root, views, depth)
    value = number(argument)
    return None if value is None else num(value)


def _adds_axes(node: Node) -> bool:
    index = node.args[1] if len(node.args) > 1 else None
    items = index if isinstance(index, tuple) and index[:1] != ("slice",) else (index,)
    return all(i is None or i in ("...", ("slice", None, None, None)) for i in items)


def compared(term: Scalar) -> bool:
    """Whether a comparison stands in a term."""
    return term[0] == "gt" or any(compared(t) for t in term[1:] if isinstance(t, tuple))


__all__ = ["FUNCTIONS", "RESHAPES", "arguments", "compared", "operands_of", "others_move", "term_of"]
