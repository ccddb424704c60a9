"""Quotients by a sum along an axis: what shares are written as, besides a softmax."""

from __future__ import annotations

from screen.graph import Node
from screen.structure.dataflow import Flow, number, strip


def sum_below(flow: Flow, quotient: Node) -> tuple[Node, bool] | None:
    """(the sum that keeps its axes and that a quotient divides by, whether ε is added to it or it is kept from falling below one): what is divided
    sums to less where it is raised. None where it divides by something else."""
    if len(quotient.inputs) != 2:
        return None
    raised, below = False, flow.graph.nodes[strip(flow, quotient.inputs[1])]
    while below.op in ("add", "clamp_min", "clamp") and _is_raised(flow, below):
        raised, below = True, flow.graph.nodes[strip(flow, below.inputs[0])]
    return (below, raised) if below.op == "sum" and flow.operand(below, 2, "keepdim") is True else None


def _is_raised(flow: Flow, node: Node) -> bool:
    """A value plus ε, or no less than ε."""
    value = number(flow.operand(node, 1, "other", "min"))
    plain = len(node.inputs) == 1 and node.kwarg("alpha") in (None, 1) and flow.operand(node, 2, "max") is None
    return plain and value is not None and value >= 0


__all__ = ["sum_below"]
