"""Choices, thresholds and signs: which of them do not change with the scale."""

from __future__ import annotations

from dataclasses import replace

from screen.calculi.degrees import laws
from screen.calculi.degrees.values import CONST, Value, Walk, bounded, joined, multiplied, powered
from screen.graph import Node, Ref
from screen.structure.dataflow import Flow, number

MASKED = -1e4
"""A constant fill at or below it stands for −∞ under a softmax: it is the same at every scale, as zero is."""


def _first(walk: Walk, node: Node) -> Value:
    sources = walk.flow.counting[node.index]
    return walk.value(sources[0]) if sources else CONST


def filled(walk: Walk, node: Node) -> Value:
    """`masked_fill`, `where`: zero and −∞ are the same at every scale; another constant is not. Nor need a condition be that is made of data."""
    values = [walk.value(i) for i in node.inputs if walk.flow.data[i]]
    fills = [number(a) for a in node.args[1:]]
    strange = any(f is not None and f != 0.0 and f > MASKED for f in fills)
    found = joined(values + ([CONST] if strange else []))
    for i in node.inputs:
        if not walk.flow.is_float(walk.flow.graph.nodes[i]):
            found = multiplied(found, condition(walk, i))
    return found


VALUES = {"setitem": 2, "scatter": 3, "index_fill": 3, "pad": 3, "constant_pad_nd": 2}
"""Op -> where the number stands that it writes."""


def written(walk: Walk, node: Node) -> Value:
    """Some entries replaced or added to, or zeros around: as `filled`."""
    flow = walk.flow
    values = [walk.value(i) for i in walk.flow.counting[node.index] if flow.is_float(flow.graph.nodes[i])]
    fill = number(flow.operand(node, VALUES[node.op], "value")) if node.op in VALUES else None
    found = joined(values + ([CONST] if fill is not None and fill != 0.0 and fill > MASKED else []))
    for i in node.inputs:
        if flow.graph.nodes[i].dtype == "bool" and flow.data[i]:
            found = multiplied(found, condition(walk, i))
    return found


def condition(walk: Walk, index: int, depth: int = 8) -> Value:
    """How a truth depends on scales: not where values are compared with 0, or with each other at one degree."""
    node = walk.flow.graph.nodes[index]
    if not depth or node.op in ("input", "buffer", "constant"):
        return CONST
    parts = [condition(walk, i, depth - 1) if not walk.flow.is_float(walk.flow.graph.nodes[i]) else walk.value(i) for i in node.inputs]
    found = joined(parts) if parts else CONST
    if node.op in laws.COMPARISONS and any(number(a) not in (None, 0.0) for a in node.args[:2]):
        found = joined([found, CONST])
    return Value(laws={g: None if law is None else (0, law[1]) for g, law in found.laws.items()}, unknown=found.unknown)


def threshold(walk: Walk, node: Node) -> Value:
    """x where it is above a number, else another one: a ReLU where both are 0, and like one for large x."""
    ends = [number(walk.flow.operand(node, i, name)) for i, name in ((1, "threshold"), (2, "value"))]
    return powered(_first(walk, node), 1, exact=ends == [0.0, 0.0])


def clamped(flow: Flow, node: Node, value: Value) -> Value | None:
    """`value` between limits: two bound it, one is a ReLU moved aside. None where a limit is no number."""
    low, high = flow.operand(node, 1, "min"), flow.operand(node, 2, "max")
    low, high = (None, low) if node.op == "clamp_max" else (low, None if node.op == "clamp_min" else high)
    if isinstance(low, Ref) or isinstance(high, Ref):
        return None
    if low is None or high is None:
        return powered(value, 1, exact=number(low if high is None else high) == 0.0)
    return bounded(value)


def sign(walk: Walk, node: Node) -> Value:
    found = bounded(_first(walk, node))
    before = _first(walk, node).laws
    return replace(found, laws={g: None if law is None else (0, law[1]) for g, law in before.items()})


def prelu(walk: Walk, node: Node) -> Value:
    """max(x, 0) + a · min(x, 0) with trained slopes a."""
    return _first(walk, node)


__all__ = ["clamped", "condition", "filled", "prelu", "sign", "threshold", "written"]
