"""What is looked up in a trained table, where it meets data in a product: a row of each place (relative positions), or a matrix of each token."""

from __future__ import annotations

from screen.graph import Node
from screen.structure.axis_order import TURNS, axis_order, regrouped
from screen.structure.dataflow import Flow

Axes = tuple[tuple[tuple[int, bool], ...], ...]
"""For each axis its factors: how long, and whether it is one of an entry of the table."""


def is_looked_up(flow: Flow, node: int) -> bool:
    """Whether a value is picked from a trained one by numbers of a tensor."""
    here = flow.graph.nodes[node]
    by_tensor = here.op in ("embedding", "index_select", "gather", "index") or (here.op == "getitem" and len(here.inputs) > 1)
    return by_tensor and flow.trained[node]


def is_map_of_each(flow: Flow, product: int, operand: int) -> bool:
    """Whether an operand of a product holds a matrix of each place that was looked up: what the product contracts, and what it gives in the place of
    it, are axes of the entries (a map of each codebook). Keys of relative places give an axis of places."""
    here = flow.graph.nodes[product]
    axes = _axes(flow, operand) if here.op in ("matmul", "bmm") and len(here.inputs) == 2 else None
    return axes is not None and len(axes) > 2 and all(is_entry for axis in axes[-2:] for _, is_entry in axis) and all(axes[-2:])


def _axes(flow: Flow, node: int) -> Axes | None:
    """The axes of a value behind a lookup and moves of its axes; None where that cannot be told."""
    here = flow.graph.nodes[node]
    if here.shape is None or not here.inputs:
        return None
    if is_looked_up(flow, node):
        return _picked(flow, here)
    before, source = _axes(flow, here.inputs[0]), flow.graph.nodes[here.inputs[0]]
    if before is None or source.shape is None or flow.root(node) == node:
        return None
    if here.op in TURNS:
        order = axis_order(here, len(before))
        return None if order is None else tuple(before[i] for i in order)
    return regrouped([factor for axis in before for factor in axis], here.shape)


def _picked(flow: Flow, lookup: Node) -> Axes | None:
    """The axes of what is looked up along one axis of a table: in the place of that axis stand those of the numbers."""
    nodes = flow.graph.nodes
    table = next((nodes[i] for i in lookup.inputs if flow.trained[i]), None)
    numbers = [nodes[i] for i in lookup.inputs if not flow.trained[i]]
    if table is None or not table.shape or len(numbers) != 1 or lookup.shape is None or lookup.op == "gather":
        return None
    along = flow.operand(lookup, 1, "dim") if lookup.op == "index_select" else 0
    places = len(lookup.shape) - len(table.shape) + 1
    if not isinstance(along, int) or places != len(numbers[0].shape or ()) or lookup.shape[along % len(table.shape) :][:places] != numbers[0].shape:
        return None
    first = along % len(table.shape)
    return tuple(((size, not first <= i < first + places),) if size != 1 else () for i, size in enumerate(lookup.shape))


__all__ = ["is_looked_up", "is_map_of_each"]
