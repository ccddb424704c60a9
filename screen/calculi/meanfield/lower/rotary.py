"""Rotary positions: x·cos + rot(x)·sin keeps the mean square and the inner products of what it turns (an isometry for each token).

Between two tokens at different positions it does not keep the cosine of the turned values; it is applied to queries and keys alone, whose
logits keep their variance over the keys.
"""

from __future__ import annotations

from dataclasses import replace

from screen import ops
from screen.calculi.meanfield.values import Stop, Turn, Value
from screen.graph import Graph, Node

_PASSED = frozenset({"view", "part", "join"})


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


def turned(node: Node, left: Value, right: Value) -> Value:
    """The sum of two turned values: a rotation when the factors are the cosine and the sine of one angle, of two parts of one value."""
    assert left.turn is not None and right.turn is not None
    kinds = {left.turn.kind, right.turn.kind}
    same = left.slot == right.slot or (left.whole is not None and left.whole == right.whole)
    angles = kinds == {"cos", "sin"} and (left.turn.source, left.turn.factor) == (right.turn.source, right.turn.factor)
    if not same or not (angles or kinds == {"table"}):
        raise Stop("a sum of two values times fixed tables is no rotation", node.index)
    return replace(left, turn=None).times(left.turn.factor)


__all__ = ["turned", "turns"]
