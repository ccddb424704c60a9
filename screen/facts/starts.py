"""The number that a learned scale starts at, through the functions that it passes: `sigmoid(g)`, `1 + w`, `tanh(g)`."""

from __future__ import annotations

import math
from collections.abc import Callable

from screen.facts.inits import starting_value_of
from screen.graph import SOURCES, Graph, Ref
from screen.ops import CLASSES

_FUNCTIONS: dict[str, Callable[[float], float]] = {
    "sigmoid": lambda a: 1 / (1 + math.exp(-a)), "tanh": math.tanh, "exp": math.exp, "abs": abs, "neg": lambda a: -a, "square": lambda a: a * a,
    "softplus": lambda a: math.log1p(math.exp(a)), "relu": lambda a: max(a, 0.0),
}  # fmt: skip
_OPERATORS: dict[str, Callable[[float, float], float]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "div": lambda a, b: a / b if b else math.nan,
}  # fmt: skip

LITERALS = frozenset({"tensor", "scalar_tensor", "as_tensor"})


def start_of(graph: Graph, index: int) -> float | None:
    """The number that a function of parameters and buffers starts at, `sigmoid(g)`, `1 + w`; None where entries are not all one known number."""
    node = graph.nodes[index]
    if node.op in SOURCES:
        return starting_value_of(next((h for name, h in graph.initialisers if name == node.name), ()))
    if node.op in LITERALS:
        return float(node.args[0]) if node.args and isinstance(node.args[0], int | float) else None
    values = [start_of(graph, a.node) if isinstance(a, Ref) else a for a in node.args]
    numbers = [float(v) for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    if node.op in _FUNCTIONS and len(values) == len(numbers) == 1 and not node.kwargs and abs(numbers[0]) < 700:
        return _FUNCTIONS[node.op](numbers[0])
    if node.op in _OPERATORS and len(values) == len(numbers) == 2 and not node.kwargs:
        found = _OPERATORS[node.op](*numbers)
        return None if math.isnan(found) else found
    if CLASSES.get(node.op) in ("view", "part") and isinstance(values[0] if values else None, float):
        return numbers[0]
    return None


__all__ = ["start_of"]
