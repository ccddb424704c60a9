"""The number that a learned scale or another function of parameters and buffers starts at: `sigmoid(g)`, `1 + w`, `exp(clamp(t))`."""

from __future__ import annotations

import math
from collections.abc import Callable

from screen.facts.inits import CARRIES, starting_value_of
from screen.graph import SOURCES, Graph, Node, Ref
from screen.ops import CLASSES

_FUNCTIONS: dict[str, Callable[[float], float]] = {
    "sigmoid": lambda a: 1 / (1 + math.exp(-a)), "tanh": math.tanh, "exp": math.exp, "abs": abs, "neg": lambda a: -a, "square": lambda a: a * a,
    "softplus": lambda a: math.log1p(math.exp(a)), "relu": lambda a: max(a, 0.0), "silu": lambda a: a / (1 + math.exp(-a)),
    "sin": math.sin, "cos": math.cos, "erf": math.erf,
}  # fmt: skip
_OPERATORS: dict[str, Callable[[float, float], float]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "div": lambda a, b: a / b if b else math.nan,
}  # fmt: skip

LITERALS = frozenset({"tensor", "scalar_tensor", "as_tensor"})


def start_of(graph: Graph, index: int) -> float | None:
    """The number that all entries start at; None where they are not one known number."""
    node = graph.nodes[index]
    if node.op in SOURCES:
        return starting_value_of(next((h for name, h in graph.initialisers if name == node.name), ()))
    if node.op in LITERALS:
        return float(node.args[0]) if node.args and isinstance(node.args[0], int | float) else None
    if CLASSES.get(node.op) in CARRIES or node.op == "alias":
        return start_of(graph, node.inputs[0]) if len(set(node.inputs)) == 1 else None
    values = [start_of(graph, a.node) if isinstance(a, Ref) else a for a in node.args]
    if node.op == "mul" and len(values) == 2 and 0.0 in values:  # whatever the other is
        return 0.0
    if node.op == "clamp":
        return _clamped(node, values[0])
    numbers = [float(v) for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    if node.op in _FUNCTIONS and len(values) == len(numbers) == 1 and not node.kwargs and abs(numbers[0]) < 700:
        return _FUNCTIONS[node.op](numbers[0])
    if node.op in _OPERATORS and len(values) == len(numbers) == 2 and not node.kwargs:
        found = _OPERATORS[node.op](*numbers)
        return None if math.isnan(found) else found
    return None


def _clamped(node: Node, value: object) -> float | None:
    if not isinstance(value, float):
        return None
    low, high = ((node.args[p] if len(node.args) > p else node.kwarg(n)) for p, n in ((1, "min"), (2, "max")))
    value = max(value, float(low)) if isinstance(low, int | float) else value
    return min(value, float(high)) if isinstance(high, int | float) else value


__all__ = ["start_of"]
