"""Rotary positions: x·cos + rot(x)·sin keeps the mean square and the inner products of what it turns (an isometry for each token).

Between two tokens at different positions it does not keep the cosine of the turned values; it is applied to queries and keys alone, whose
logits keep their variance over the keys.
"""

from __future__ import annotations

from dataclasses import replace

from screen import ops
from screen.facts.recursion.values import Stop, Turn, Value
from screen.graph import Graph, Node

_PASSED = frozenset({"view", "part", "join"})


def turns(graph: Graph, node: int) -> Turn | None:
    """What an operand without data is: cosines, sines, or a table whose numbers are not in the graph; None for anything else."""
    for _ in range(64):
        here = graph.nodes[node]
        if here.op in ("cos", "sin"):
            return Turn(here.op, _angle(graph, here.inputs[0]))
        if here.op in ("buffer", "constant"):
            return Turn("table", node)
        kind = ops.CLASSES.get(here.op)
        unit = here.op == "mul" and len(set(here.inputs)) == 1 and 1.0 in here.args
        if not (kind in _PASSED or unit) or not here.inputs:
            return None
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
    angles = kinds == {"cos", "sin"} and left.turn.source == right.turn.source
    if not same or not (angles or kinds == {"table"}):
        raise Stop("a sum of two values times fixed tables is no rotation", node.index)
    return replace(left, turn=None)


__all__ = ["turned", "turns"]
