"""The number that a learned scale or another function of parameters and buffers starts at: `sigmoid(g)`, `1 + w`, `exp(clamp(t))`."""

from __future__ import annotations

import math
from collections.abc import Callable

from screen.ops.scalars import OPS, SCALARS
from screen.graph import SOURCES, Graph, Node, Ref
from screen.ops import CLASSES
from screen.structure.dataflow import number
from screen.structure.initial.laws import CARRIES, starting_value_of, starting_values_of

_OPERATORS: dict[str, Callable[[float, float], float]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "div": lambda a, b: a / b if b else math.nan,
    "pow": lambda a, b: a**b if a > 0 and abs(b * math.log(a)) < 700 else math.nan,
}  # fmt: skip
_ROOTS: dict[str, Callable[[float], float]] = {"sqrt": math.sqrt, "rsqrt": lambda a: 1 / math.sqrt(a) if a else math.nan}

_KNOWN = frozenset({*OPS, *_OPERATORS, *_ROOTS, "clamp", "clamp_min", "alias", "softmax", "sum"})
_KEEPS = frozenset({"to", "float", "type", "contiguous", "clone", "alias", "detach", "type_as"})
LITERALS = {"tensor": 0, "scalar_tensor": 0, "as_tensor": 0, "new_tensor": 1}
"""Tensors of a number -> where it stands, if not by its name."""
_ONES_AND_ZEROS = {**dict.fromkeys(("ones", "ones_like", "new_ones"), 1.0), **dict.fromkeys(("zeros", "zeros_like", "new_zeros"), 0.0)}
FILLED = {"full": 1, "full_like": 1, "new_full": 2}
"""Factories of one number -> where it stands, if not by its name."""


Start = float | tuple[float, ...] | None
"""One number for all entries, or a number for each of them in a row; None where they are not known."""


def start_of(graph: Graph, index: int) -> float | None:
    """The number that all entries start at; None where they are not one known number."""
    start = starts_of(graph, index)
    if isinstance(start, tuple):
        return start[0] if len(set(start)) == 1 else None
    return start


def starts_of(graph: Graph, index: int) -> Start:
    """The number that all entries start at, or those of a row, whatever its shape is."""
    found: dict[int, Start] = {}
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


def _start(graph: Graph, node: Node, found: dict[int, Start]) -> Start:
    """The number of a node from those of its inputs, or its numbers in a row."""
    if node.op in SOURCES:
        history = graph.histories.get(node.name, ())
        numbers = starting_values_of(history, node.shape)
        return starting_value_of(history) if numbers is None else numbers
    rows = [r for i in dict.fromkeys(node.inputs) if isinstance(r := found.get(i), tuple)]
    if rows:
        return _of_row(graph, node, rows[0], found) if len(rows) == 1 else None
    return _number(graph, node, found)


def _of_row(graph: Graph, node: Node, row: tuple[float, ...], found: dict[int, Start]) -> Start:
    """What is made of numbers in a row: one of them, or a function of each."""
    if CLASSES.get(node.op) in ("view", "part") and math.prod(node.shape or ()) == len(row):
        return row
    if node.op in ("getitem", "select"):
        place = node.args[-1] if node.op == "getitem" or node.args[1] in (0, -1) else None
        return row[place] if len(node.args) > 1 and type(place) is int and -len(row) <= place < len(row) else None
    if node.op == "unbind" or node.op in _KEEPS:
        return row
    if node.op == "softmax":
        total = math.fsum(math.exp(v - max(row)) for v in row)
        return tuple(math.exp(v - max(row)) / total for v in row)
    if node.op not in _KNOWN or len(node.shape or ()) != 1:
        return None
    values = [_number(graph, node, {i: v if isinstance(found.get(i), tuple) else found.get(i) for i in node.inputs}) for v in row]
    made = tuple(v for v in values if isinstance(v, float))
    return made if len(made) == len(row) else None


def _number(graph: Graph, node: Node, found: dict[int, Start]) -> float | None:
    """The one number of a node from those of its inputs."""
    if node.op in _ONES_AND_ZEROS:
        return _ONES_AND_ZEROS[node.op]
    if node.op in FILLED:
        place = FILLED[node.op]
        return number(node.args[place] if len(node.args) > place else node.kwarg("fill_value"))
    if node.op in LITERALS:
        place = LITERALS[node.op]
        value = node.args[place] if len(node.args) > place else node.kwarg("data")
        return float(value) if isinstance(value, int | float) else None
    if CLASSES.get(node.op) in CARRIES or node.op == "alias":
        carried = found[node.inputs[0]] if len(set(node.inputs)) == 1 else None
        return carried if isinstance(carried, float) else None
    if node.op == "softmax":
        return _share(graph, node, found)
    if node.op not in _KNOWN:
        return None
    values = [found[a.node] if isinstance(a, Ref) else a for a in node.args]
    if node.op == "mul" and len(values) == 2 and 0.0 in values:  # whatever the other is
        return 0.0
    if node.op in ("clamp", "clamp_min"):
        return _clamped(node, values[0])
    if node.op == "sum":
        return _summed(graph, node, values[0])
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


def _share(graph: Graph, node: Node, found: dict[int, Start]) -> float | None:
    """Of a softmax over equal entries: one over how many there are."""
    shape, dim = graph.nodes[node.inputs[0]].shape, node.args[1] if len(node.args) > 1 else node.kwarg("dim")
    if found[node.inputs[0]] is None or not shape or not isinstance(dim, int):
        return None
    return 1.0 / max(shape[dim], 1)


def _summed(graph: Graph, node: Node, value: object) -> float | None:
    """Of equal entries: one of them, times how many are added."""
    before, after = (graph.nodes[i].shape for i in (node.inputs[0], node.index))
    return value * math.prod(before) / max(math.prod(after), 1) if isinstance(value, float) and before is not None and after is not None else None


def _clamped(node: Node, value: object) -> float | None:
    if not isinstance(value, float):
        return None
    low, high = ((node.args[p] if len(node.args) > p else node.kwarg(n)) for p, n in ((1, "min"), (2, "max")))
    value = max(value, float(low)) if isinstance(low, int | float) else value
    return min(value, float(high)) if isinstance(high, int | float) else value


__all__ = ["FILLED", "LITERALS", "start_of", "starts_of"]
