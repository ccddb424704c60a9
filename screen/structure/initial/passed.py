"""Which weights a value passes as a product, so that it and the gradient behind it are as much larger as the weight is.

A weight that values are only compared with, or that is looked up by a place, multiplies none of them: a codebook's product with what it is asked for
ends in the place of the nearest row, and shares of its rows make a mean of them, as large as they are. What is not of floating point hands on no size
and no gradient.
"""

from __future__ import annotations

from collections.abc import Collection

from screen.graph import SOURCES, Graph, Node
from screen.ops import CLASSES
from screen.structure.dataflow import FLOATS
from screen.structure.initial.laws import ADDED, CARRIES, CONVOLUTIONS, MATRIX


def passed(graph: Graph, names: Collection[str], ends: Collection[int]) -> frozenset[str]:
    """Those of some parameters that a product with a value contracts, whose result reaches some of the ends as a float."""
    onward, values = _onward(graph, ends), _values(graph)
    return frozenset(name for name in names if _is_passed(graph, graph.parameters[name].index, onward, values))


def _is_passed(graph: Graph, parameter: int, onward: Collection[int], values: Collection[int]) -> bool:
    same = {parameter}
    for reader in graph.nodes[parameter + 1 :]:
        places = [p for p, i in enumerate(reader.inputs) if i in same]
        if not places:
            continue
        if CLASSES.get(reader.op) in CARRIES or reader.op == "alias":
            same.add(reader.index)
        elif reader.index in onward and any(p in places and i in values for p, i in _factors(reader)):
            return True
    return False


def _factors(node: Node) -> list[tuple[int, int]]:
    """(place of one factor of a product, the node of the other one)."""
    inputs = node.inputs
    if node.op in CONVOLUTIONS or node.op == "linear":
        return [(1, inputs[0])]
    if node.op in MATRIX:
        first, second = inputs[1:3] if node.op in ADDED else inputs[:2]
        at = 1 if node.op in ADDED else 0
        return [(at, second), (at + 1, first)]
    return []


def _onward(graph: Graph, ends: Collection[int]) -> set[int]:
    """The nodes whose floats are in those of some of the ends."""
    found = set(ends)
    for node in reversed(graph.nodes):
        if node.index in found:
            found.update(i for i in node.inputs if _is_float(graph.nodes[i]))
    return found


def _values(graph: Graph) -> set[int]:
    """The nodes that hand on the size of an argument, a weight or a stored tensor: no place of the nearest row, no comparison, no shares."""
    found = set[int]()
    for node in graph.nodes:
        chosen = CLASSES.get(node.op) == "softmax" or (not _is_float(node) and any(_is_float(graph.nodes[i]) for i in node.inputs))
        if node.op in SOURCES or (not chosen and not found.isdisjoint(node.inputs)):
            found.add(node.index)
    return found


def _is_float(node: Node) -> bool:
    """Whether a value may be of floating point; a call with several results may."""
    return node.dtype is None or node.dtype in FLOATS


__all__ = ["passed"]
