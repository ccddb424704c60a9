"""Along which axis an attention multiplies queries by keys, and whether a norm runs over it: only such a norm bounds what is compared.

‖q‖‖k‖ bounds q·k where both lengths are of the axis that the product sums over. A statistic over another axis (over places, of queries and keys that
are compared over channels) bounds each entry, and of a sum of d products d of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from screen.graph import Node
from screen.structure.axes import Features, Layout
from screen.structure.dataflow import Flow, axes_of
from screen.structure.types import Norm

FIRST_WITH_SECOND = frozenset({"matmul", "bmm", "mm", "baddbmm", "addmm", "addbmm", "chain_matmul"})
"""The last axis of the first operand, the one before the last of the second (its only one, of a vector)."""
LAST_AXES = frozenset({"scaled_dot_product_attention", "flex_attention", "linear", "inner", "vecdot", "dot", "vdot", "cdist"})


def compared_axes(flow: Flow, node: Node, second: int) -> tuple[int, int] | None:
    """The axes (negative) of both operands that a product sums over, or a sum of products entry by entry. `second`: its second operand."""
    if node.op in LAST_AXES:
        return -1, -1
    if node.op in FIRST_WITH_SECOND:
        return -1, -min(2, len(flow.graph.nodes[second].shape or (1, 1)))
    if node.op in ("sum", "mean") and node.inputs:
        axes = axes_of(flow.operand(node, 1, "dim", "axis"), len(flow.graph.nodes[node.inputs[0]].shape or ()))
        return (axes[0], axes[0]) if len(axes) == 1 else None
    return None


def multiplied(flow: Flow, product: Node) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """The two values that a product multiplies, and the axes (negative) of both that it sums over; None of other than two, or where these are not
    read."""
    data = [i for i in dict.fromkeys(product.inputs) if flow.data[i]]
    axes = compared_axes(flow, product, data[1]) if len(data) == 2 else None
    return None if axes is None else ((data[0], data[1]), axes)


@dataclass(frozen=True)
class _Followed(Features):
    """Axes that a norm runs over, in place of features, of the values made of it by views and entry by entry."""

    norm: Norm

    def _layout(self, node: Node, table: list[Layout | None]) -> Layout | None:
        if not self.flow.depends(node.index, self.norm.node) or self.flow.weighted[node.index] or self.flow.mixing[node.index]:
            return None
        return super()._layout(node, table)

    def axes_of(self, value: int) -> Layout | None:
        """Those of a value, as far as they are known."""
        nodes, start = self.flow.graph.nodes, self.norm.node
        shape = nodes[start].shape
        if shape is None or not set(self.norm.axes) <= set(range(-len(shape), 0)):
            return None
        marked = {a % len(shape) for a in self.norm.axes}
        table: list[Layout | None] = [None] * start
        table.append(Layout(tuple(((n, i in marked),) if n != 1 else () for i, n in enumerate(shape)), True))
        for node in nodes[start + 1 : value + 1]:
            found = self._layout(node, table)
            table.append(found if found is not None and (node.shape is None or found.shape == node.shape) else None)
        return table[value] if value < len(table) else None


def runs_over(flow: Flow, norm: Norm, value: int, axis: int) -> bool | None:
    """Whether statistics of a norm run over all of an axis (negative) of a value that is made of it, one of them or each over a part (groups of
    the features of a head); None where that is not known."""
    layout = _Followed(flow, norm).axes_of(value)
    if layout is None or axis < -len(layout.axes):
        return None
    return layout.holds(axis) or [a for a in range(-len(layout.axes), 0) if layout.any(a)] == [axis]


__all__ = ["compared_axes", "multiplied", "runs_over"]
