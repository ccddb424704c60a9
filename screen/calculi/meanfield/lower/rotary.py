"""Rotary positions: x·cos + rot(x)·sin keeps the mean square and the inner products of what it turns (an isometry for each token), and so does the
product of complex numbers, whose parts are pairs of features, with e^{iθ}.

Between two tokens at different positions it does not keep the cosine of the turned values; it is applied to queries and keys alone, whose
logits keep their variance over the keys.
"""

from __future__ import annotations

import math
from dataclasses import replace

from screen import ops
from screen.calculi.meanfield.lower.axes import Layout, is_features, viewed
from screen.calculi.meanfield.lower.context import Read, Reading
from screen.calculi.meanfield.values import Pairs, Stop, Turn, Value
from screen.graph import SOURCES, Graph, Node, Ref
from screen.structure.dataflow import number

_PASSED = frozenset({"view", "part", "join"})
_FIXED = frozenset({"zeros", "ones", "full", "arange", "linspace", "logspace", "eye"})
TABLE = "a table that pairs x with its rotated half is taken as cosines and sines"
UNIT = "a stored table that complex numbers are multiplied by is taken as of modulus 1"


class Rotations(Reading):
    """Reads complex numbers that are made of pairs of features."""

    def paired(self, node: Node) -> Read | None:
        """What makes, moves, turns or ends complex numbers; None for any other node."""
        if node.op == "view_as_complex" and isinstance(self.table.get(node.inputs[0]), Value):
            value = self.value(node.inputs[0])
            if not is_features(value.layout[-1]):
                raise Stop("complex numbers that are no pairs of features have no row in the recursion", node.index)
            return Pairs(self.writer.settled(value))
        held = [i for i in dict.fromkeys(node.inputs) if isinstance(self.table.get(i), Pairs)]
        if not held:
            return None
        found = self.table[held[0]]
        assert isinstance(found, Pairs)
        others = [i for i in node.inputs if i != held[0]]
        if node.op == "view_as_real":
            return found.value
        if ops.CLASSES.get(node.op) in ("view", "alias") and not others:
            layout = viewed(node, found.value.layout[:-1])
            if layout is not None and node.shape is not None and _sizes(layout) == node.shape:
                return Pairs(replace(found.value, layout=(*layout, found.value.layout[-1])))
        if node.op == "mul" and others and not any(i in self.table for i in others):
            size = unit(self.graph, others[0])
            if size is not None:
                self.assumptions |= {UNIT} if size[1] else set()
                return Pairs(found.value.times(size[0]))
        raise Stop(f"`{node.op}` of complex numbers has no row in the recursion for these operands", node.index)


def unit(graph: Graph, node: int) -> tuple[float, bool] | None:
    """The modulus of a table of m·e^{iθ}, and whether its numbers are not in the graph (then 1); None for anything else."""
    factor = 1.0
    for _ in range(64):
        here = graph.nodes[node]
        if here.op in ("buffer", "constant"):
            return factor, True
        if here.op == "polar":
            size = _filled(graph, here.inputs[0])
            return None if size is None else (factor * size, False)
        if here.op == "complex" and [graph.nodes[i].op for i in here.inputs] == ["cos", "sin"]:
            cosine, sine = (graph.nodes[i].inputs[0] for i in here.inputs)
            return (factor, False) if cosine == sine else None
        times = number(next((a for a in here.args if isinstance(a, int | float)), None)) if here.op == "mul" and len(here.inputs) == 1 else None
        if not (ops.CLASSES.get(here.op) in _PASSED or times is not None) or not here.inputs:
            return None
        factor *= abs(times) if times is not None else 1.0
        node = here.inputs[0]
    return None


def _filled(graph: Graph, node: int) -> float | None:
    """The number that a tensor is filled with."""
    here = graph.nodes[node]
    if here.op in ("ones", "ones_like"):
        return 1.0
    return number(here.args[1]) if here.op in ("full", "full_like") and len(here.args) > 1 else None


def _sizes(layout: Layout) -> tuple[int, ...]:
    return tuple(math.prod(size for size, _ in axis) for axis in layout)


def turns(graph: Graph, node: int) -> Turn | None:
    """What an operand without data is: cosines or sines, times a number, or a table whose numbers are not in the graph; None for anything else."""
    factor = 1.0
    for _ in range(64):
        here = graph.nodes[node]
        if here.op in ("cos", "sin"):
            return Turn(here.op, _angle(graph, here.inputs[0]), factor)
        if here.op in ("buffer", "constant"):
            return Turn("table", node) if factor == 1.0 else None
        kind = ops.CLASSES.get(here.op)
        number = next((a for a in here.args if isinstance(a, int | float)), None) if here.op == "mul" and len(here.inputs) == 1 else None
        if not (kind in _PASSED or number is not None) or not here.inputs:
            return None
        factor *= number if number is not None else 1.0
        node = here.inputs[0]
    return None


def _angle(graph: Graph, node: int) -> int:
    """The angles behind views, and behind the same angles side by side."""
    while ops.CLASSES.get(graph.nodes[node].op) in ("view", "join") and len(set(graph.nodes[node].inputs)) == 1:
        node = graph.nodes[node].inputs[0]
    return node


def _alike(graph: Graph, one: int, other: int, deep: int = 8) -> bool:
    """Whether two values without data are computed in the same way, each by nodes of its own: one angle, `cos(i * a)` and `sin(i * a)`."""
    first, second = graph.nodes[one], graph.nodes[other]
    if one == other:
        return True
    if not deep or first.op in SOURCES or (first.op, first.shape, len(first.inputs)) != (second.op, second.shape, len(second.inputs)):
        return False
    drawn = ops.CLASSES.get(first.op) == "factory" and first.op not in _FIXED
    if drawn or _bare((first.args, first.kwargs)) != _bare((second.args, second.kwargs)):
        return False
    return all(_alike(graph, a, b, deep - 1) for a, b in zip(first.inputs, second.inputs, strict=True))


def _bare(argument: object) -> object:
    """What an op is given besides values, in its places."""
    return tuple(map(_bare, argument)) if isinstance(argument, tuple) else None if isinstance(argument, Ref) else argument


def turned(graph: Graph, node: Node, left: Value, right: Value) -> Value:
    """The sum of two turned values: a rotation when the factors are the cosine and the sine of one angle, of two parts of one value."""
    assert left.turn is not None and right.turn is not None
    kinds = {left.turn.kind, right.turn.kind}
    same = left.slot == right.slot or (left.whole is not None and left.whole == right.whole)
    angles = kinds == {"cos", "sin"} and left.turn.factor == right.turn.factor and _alike(graph, left.turn.source, right.turn.source)
    if not same or not (angles or kinds == {"table"}):
        raise Stop("a sum of two values times fixed tables is not seen to be a rotation", node.index)
    return replace(left, turn=None).times(left.turn.factor)


__all__ = ["TABLE", "Rotations", "turned", "turns"]
