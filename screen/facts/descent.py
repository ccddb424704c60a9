"""Branches that are a step of descent on a squared error: x − s·(x·W − y)·Wᵀ. Branch and skip together are I − s·W·Wᵀ on the stream, which is no
expansion where 0 ≤ s ≤ 2/‖W‖², as W·Wᵀ has eigenvalues between 0 and ‖W‖²."""

from __future__ import annotations

from dataclasses import dataclass

from screen.facts.record import Facts
from screen.graph import Graph, Ref
from screen.structure.axis_order import TURNS, axis_order
from screen.structure.dataflow import Flow
from screen.structure.norms.calls import NORMS, norm_of
from screen.structure.norms.statistics import is_squared
from screen.structure.types import Sublayer, Tri, Unknown

PRODUCTS = ("matmul", "mm")
LARGEST = 2.0
"""Step times ‖W‖² up to which I − s·W·Wᵀ is no expansion."""


@dataclass(frozen=True)
class _Matrix:
    """A weight that the stream is multiplied by from the right, and whether it is transposed there."""

    parameter: int
    transposed: bool


def descent(facts: Facts, sublayer: Sublayer) -> Tri:
    """Whether a branch takes a map of the stream and back off it, with a step that is shown to be small enough whatever the weights; unknown where
    only the step is not."""
    graph, add = facts.graph, facts.graph.nodes[sublayer.add]
    if not facts.readers or add.op not in ("add", "sub") or add.kwargs or len(add.args) != 2 or add.inputs[-1] == add.inputs[0]:
        return False
    state = next((i for i in add.inputs if i != sublayer.output), None)
    if state is None or (add.op == "sub" and add.inputs[0] != state):
        return False
    found = _linear(graph, facts.readers[0].flow, sublayer.output, state)
    if found is None:
        return False
    number, scalars, matrices = found
    taken = number if add.op == "sub" else -number
    size, parameter = _over_squares(facts.readers[0].flow, *scalars[0]) or (1.0, -1) if len(scalars) == 1 else (1.0, -1)
    if taken * size <= 0 or not _goes_back(matrices):
        return False
    if len(matrices) == 2 and parameter == matrices[0].parameter and taken * size <= LARGEST:
        return True
    return Unknown("whether its step is small enough for that map, at most two over the square of its norm, is not known", (sublayer.output,))


def _goes_back(matrices: list[_Matrix]) -> bool:
    """Whether the second half of some matrices is the first one transposed, from behind."""
    pairs = list(zip(matrices, reversed(matrices), strict=True))
    return bool(matrices) and all(a.parameter == b.parameter and a.transposed != b.transposed for a, b in pairs)


def _linear(graph: Graph, flow: Flow, end: int, state: int) -> tuple[float, list[tuple[int, bool]], list[_Matrix]] | None:
    """What a value has of a state, where that is one product: a number, scalars (and whether they divide), matrices from the last one on."""
    number, scalars, matrices = 1.0, list[tuple[int, bool]](), list[_Matrix]()
    while end != state:
        node = graph.nodes[end]
        behind = [place for place, i in enumerate(node.inputs) if flow.depends(i, state)]
        if len(behind) != 1 or node.kwargs:
            return None
        place, below = behind[0], node.op == "div"
        if node.op == "neg" or (node.op == "sub" and node.args[-1] == Ref(node.inputs[place])):
            number = -number
        elif node.op in ("mul", "div") and not (below and node.args[0] != Ref(node.inputs[place])):
            factor = next(a for a in node.args if a != Ref(node.inputs[place]))
            if isinstance(factor, Ref):
                if any(n != 1 for n in graph.nodes[factor.node].shape or ()):
                    return None
                scalars.append((factor.node, below))
            elif isinstance(factor, int | float) and factor:
                number = number / factor if below else number * factor
            else:
                return None
        elif node.op in PRODUCTS or node.op == "linear":
            matrix = _matrix(graph, node.inputs[1], node.op == "linear") if place == 0 else None
            if matrix is None:
                return None
            matrices.append(matrix)
        elif node.op not in ("add", "sub", "alias"):
            return None
        end = node.inputs[place]
    return number, scalars, matrices


def _matrix(graph: Graph, index: int, transposed: bool) -> _Matrix | None:
    node = graph.nodes[index]
    while node.op in TURNS and axis_order(node, 2) == (1, 0):
        transposed, node = not transposed, graph.nodes[node.inputs[0]]
    return _Matrix(node.index, transposed) if node.op == "parameter" and len(node.shape or ()) == 2 else None


def _over_squares(flow: Flow, index: int, below: bool) -> tuple[float, int] | None:
    """(c, W) of a scalar that is c/Σw², or nearer to zero; the sum is over all entries of a weight, and at least the square of its norm."""
    node = flow.graph.nodes[index]
    if below:
        parameter = _squares(flow, index)
        return None if parameter is None else (1.0, parameter)
    first = node.args[0] if node.args else None
    if node.op == "reciprocal" and isinstance(first, Ref):
        return _over_squares(flow, first.node, True)
    numbers = [a for a in node.args if isinstance(a, int | float)]
    if node.op == "neg":
        found = _over_squares(flow, node.inputs[0], False)
        return None if found is None else (-found[0], found[1])
    if node.op not in ("div", "mul") or len(numbers) != 1 or not numbers[0]:
        return None
    over = node.op == "div" and first == numbers[0]
    found = _over_squares(flow, node.inputs[0], over)
    return None if found is None else (found[0] / numbers[0] if node.op == "div" and not over else found[0] * numbers[0], found[1])


def _squares(flow: Flow, index: int) -> int | None:
    """The weight of which a scalar is the sum of squares, and no less than that."""
    node = flow.graph.nodes[index]
    if node.op == "add" and len(node.inputs) == 1 and all(a >= 0 for a in node.args if isinstance(a, int | float)):
        return _squares(flow, node.inputs[0])
    if node.op == "sum" and node.shape == ():
        squared = flow.graph.nodes[node.inputs[0]]
        return squared.inputs[0] if is_squared(flow, squared) else None
    inner = flow.graph.nodes[node.inputs[0]] if is_squared(flow, node) else None
    found = norm_of(flow, inner, 2) if inner is not None and inner.op in NORMS and inner.shape == () else None
    plain = inner is not None and found is not None and found[1] == 2.0 and flow.graph.nodes[inner.inputs[0]].op == "parameter"
    return inner.inputs[0] if inner is not None and plain else None


__all__ = ["descent"]
