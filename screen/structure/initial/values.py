"""The number that a learned scale or another function of parameters and buffers starts at: `sigmoid(g)`, `1 + w`, `exp(clamp(t))`."""

from __future__ import annotations

import math
from collections.abc import Callable

from screen.ops.scalars import OPS, SCALARS
from screen.graph import SOURCES, Graph, Node, Ref
from screen.ops import CLASSES
from screen.structure.dataflow import number
from screen.structure.initial.laws import CARRIES, starting_value_of

_OPERATORS: dict[str, Callable[[float, float], float]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "div": lambda a, b: a / b if b else math.nan,
    "pow": lambda a, b: a**b if a > 0 and abs(b * math.log(a)) < 700 else math.nan,
}  # fmt: skip
_ROOTS: dict[str, Callable[[float], float]] = {"sqrt": math.sqrt, "rsqrt": lambda a: 1 / math.sqrt(a) if a else math.nan}

_KNOWN = frozenset({*OPS, *_OPERATORS, *_ROOTS, "clamp", "alias", "softmax"})
LITERALS = frozenset({"tensor", "scalar_tensor", "as_tensor"})
FILLED = {"full": 1, "full_like": 1, "new_full": 2}
"""Factories of one number -> where it stands, if not by its name."""


def start_of(graph: Graph, index: int) -> float | None:
    """The number that all entries start at; None where they are not one known number."""
    found: dict[int, float | None] = {}
    for node in sorted(_read(graph, index)):
        found[node] = _start(graph, graph.nodes[node], found)
    return found[index]


def _read(graph: Graph, index: int) -> set[int]:
    """A node and what its number depends on."""
    seen, stack = set[int](), [index]
    while stack:
        node = graph.nodes[stack.pop()]
        if node.index not in seen:
            seen.add(node.index)
            stack.extend(node.inputs if node.op in _KNOWN or CLASSES.get(node.op) in CARRIES else ())
    return seen


def _start(graph: Graph, node: Node, found: dict[int, float | None]) -> float | None:
    """The number of a node from those of its inputs."""
    if node.op in SOURCES:
        return starting_value_of(graph.histories.get(node.name, ()))
    if node.op in FILLED:
        place = FILLED[node.op]
        return number(node.args[place] if len(node.args) > place else node.kwarg("fill_value"))
    if node.op in LITERALS:
        value = node.args[0] if node.args else node.kwarg("data")
        return float(value) if isinstance(value, int | float) else None
    if CLASSES.get(node.op) in CARRIES or node.op == "alias":
        return found[node.inputs[0]] if len(set(node.inputs)) == 1 else None
    if node.op == "softmax":
        return _share(graph, node, found)
    if node.op not in _KNOWN:
        return None
    values = [found[a.node] if isinstance(a, Ref) else a for a in node.args]
    if node.op == "mul" and len(values) == 2 and 0.0 in values:  # whatever the other is
        return 0.0
    if node.op == "clamp":
        return _clamped(node, values[0])
    numbers = [float(v) for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    if node.kwargs or len(values) != len(numbers):
        return None
    if node.op in _ROOTS and len(numbers) == 1 and numbers[0] >= 0:
        made = _ROOTS[node.op](numbers[0])
        return None if math.isnan(made) else made
    if node.op in OPS and len(node.args) == 1 and abs(numbers[0]) < 700:
        return float(SCALARS[node.op].f(numbers[0]))
    if node.op in _OPERATORS and len(numbers) == 2:
        made = _OPERATORS[node.op](*numbers)
        return None if math.isnan(made) else made
    return None


def _share(graph: Graph, node: Node, found: dict[int, float | None]) -> float | None:
    """Of a softmax over equal entries: one over how many there are."""
    shape, dim = graph.nodes[node.inputs[0]].shape, node.args[1] if len(node.args) > 1 else node.kwarg("dim")
    if found[node.inputs[0]] is None or not shape or not isinstance(dim, int):
        return None
    return 1.0 / max(shape[dim], 1)


def _clamped(node: Node, value: object) -> float | None:
    if not isinstance(value, float):
        return None
    low, high = ((node.args[p] if len(node.args) > p else node.kwarg(n)) for p, n in ((1, "min"), (2, "max")))
    value = max(value, float(low)) if isinstance(low, int | float) else value
    return min(value, float(high)) if isinstance(high, int | float) else value


__all__ = ["FILLED", "LITERALS", "start_of"]
