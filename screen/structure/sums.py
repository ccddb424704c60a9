"""Sums as linear combinations: what is added and taken away again cancels (`w + (f(w) − w).detach()` is f(w))."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container

from screen.graph import Node, Ref
from screen.structure.dataflow import Flow, number, strip

MOST = 24


def terms_of(flow: Flow, index: int, inside: Container[int]) -> dict[int, float] | None:
    """Node -> coefficient, behind sums, differences, signs and numbers, where some term is met more than once; None where none is.

    Terms whose coefficients cancel are left out. `inside`: the nodes of data that may be taken apart (those of a branch)."""
    found: dict[int, float] = {}
    met: Counter[int] = Counter()
    stack, seen = [(strip(flow, index), 1.0)], 0
    shape = flow.graph.nodes[index].shape
    while stack:
        here, factor = stack.pop()
        seen += 1
        if seen > MOST:
            return None
        below = _parts(flow, flow.graph.nodes[here], factor) if here in inside or not flow.data[here] else None
        if below is None:
            met[here] += 1
            found[here] = found.get(here, 0.0) + factor
        else:
            stack.extend(below)
    if max(met.values(), default=0) < 2 or len(met) == seen:
        return None
    left = {i: c for i, c in found.items() if abs(c) > 1e-12}
    return left if any(flow.graph.nodes[i].shape == shape for i in left) else None


def _parts(flow: Flow, node: Node, factor: float) -> list[tuple[int, float]] | None:
    """What a node adds up, each with its coefficient; None for what is no sum."""
    if node.op in ("add", "sub") and len(node.args) == 2 and not node.kwargs and all(isinstance(a, Ref) for a in node.args):
        one, two = (strip(flow, a.node) for a in node.args if isinstance(a, Ref))
        return [(one, factor), (two, factor if node.op == "add" else -factor)]
    if node.op == "neg" and node.inputs:
        return [(strip(flow, node.inputs[0]), -factor)]
    if node.op in ("mul", "div") and len(node.inputs) == 1 and len(node.args) == 2 and not node.kwargs:
        value = next((v for a in node.args if (v := number(a)) is not None), None)
        if value is None or (node.op == "div" and (value == 0.0 or not isinstance(node.args[0], Ref))):
            return None
        return [(strip(flow, node.inputs[0]), factor * value if node.op == "mul" else factor / value)]
    weight = number(flow.operand(node, 2, "weight")) if node.op == "lerp" else None
    if weight is not None and len(node.inputs) == 2:
        return [(strip(flow, node.inputs[0]), factor * (1.0 - weight)), (strip(flow, node.inputs[1]), factor * weight)]
    return None


__all__ = ["terms_of"]
