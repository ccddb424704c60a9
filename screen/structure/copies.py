"""Copies of a stream that are mixed by a matrix made from them, and states that are put beside each other and added up, each times a number of its
own (DenseFormer, attention over depth); as products or written out as sums of products."""

from __future__ import annotations

import math
from typing import NamedTuple

from screen.graph import Node, Ref
from screen.structure.dataflow import Flow, axes_of, number, strip

MOST = 8
"""Copies of a stream; an axis with more holds features or tokens."""


class Mixing(NamedTuple):
    """x'_i = Σ_j M_ij·x_j over the copies of each token."""

    copies: int
    """[…, copies, features]"""
    matrix: int
    read: int
    written: int
    """Axes of the matrix: j, over which is summed, and i."""


def mixing_of(flow: Flow, node: Node) -> Mixing | None:
    """What a product or a sum mixes; None where it mixes no copies, or keeps not as many."""
    if node.op == "sum":
        return _summed(flow, node)
    if node.shape is None or len(node.inputs) != 2 or (copies := flow.copies_mixed(node)) is None or flow.graph.nodes[copies].shape != node.shape:
        return None
    first = node.inputs[0] == copies
    matrix = node.inputs[1] if first else node.inputs[0]
    rank = len(flow.graph.nodes[matrix].shape or ())
    return Mixing(copies, matrix, *((rank - 2, rank - 1) if first else (rank - 1, rank - 2)))


class Weighing(NamedTuple):
    """Σ_i w_i·x_i over states of one shape."""

    states: tuple[int, ...]
    shares: int
    """The w_i: one number for each state, or one for each state and token."""


def weighing_of(flow: Flow, node: Node) -> Weighing | None:
    """`(w * torch.stack(states)).sum(0)`."""
    product = flow.graph.nodes[strip(flow, node.inputs[0])] if node.op == "sum" and node.inputs else node
    sides = [a.node for a in product.args[:2] if isinstance(a, Ref)]
    if product.op != "mul" or len(sides) != 2 or product.shape is None:
        return None
    rank = len(product.shape)
    for stack, shares in (sides, sides[::-1]):
        made = flow.graph.nodes[strip(flow, stack)]
        axis = number(flow.operand(made, 1, "dim")) or 0.0
        if made.op != "stack" or made.shape != product.shape or axes_of(flow.operand(node, 1, "dim", "axis"), rank) != axes_of(int(axis), rank):
            continue
        spread = (1,) * rank + (flow.graph.nodes[shares].shape or ())
        widths = [n for i, n in enumerate(spread[-rank:]) if i != int(axis) % rank]
        if not flow.weighted[shares] and widths[-1:] == [1] and spread[-rank:][int(axis)] == len(made.inputs):
            return Weighing(made.inputs, shares)
    return None


def _summed(flow: Flow, node: Node) -> Mixing | None:
    """`(M[…, None] * x[…, None, :, :]).sum(j)`: M is repeated along the features, x along the copies that are written."""
    product = flow.graph.nodes[strip(flow, node.inputs[0])] if node.inputs else node
    sides = [a.node for a in product.args[:2] if isinstance(a, Ref)]
    shape = product.shape or ()
    axes = axes_of(flow.operand(node, 1, "dim", "axis"), len(shape))
    if product.op != "mul" or len(sides) != 2 or len(axes) != 1 or len(shape) < 4 or not all(flow.data[i] for i in sides):
        return None
    read = axes[0] + len(shape)
    for matrix, spread in (sides, sides[::-1]):
        one, other = (flow.graph.nodes[i].shape or () for i in (matrix, spread))
        if len(one) != len(shape) or len(other) != len(shape) or one[-1] != 1 or other[-1] <= MOST or one[:-1] != shape[:-1]:
            continue
        repeated = [i for i, (a, b) in enumerate(zip(other, shape, strict=True)) if a != b]
        copies = _without_axis(flow, spread, node)
        square = len(repeated) == 1 and repeated[0] != read and shape[read] == shape[repeated[0]] <= MOST
        if square and copies is not None and flow.depends(matrix, flow.root(copies)):
            return Mixing(copies, matrix, read, repeated[0])
    return None


def _without_axis(flow: Flow, spread: int, result: Node) -> int | None:
    """The copies before the axis along which they are repeated: of the shape of the result."""
    if not is_plain_view(flow, spread):
        return None
    below = flow.graph.nodes[spread].inputs[0]
    shape, wide = flow.graph.nodes[below].shape or (), flow.graph.nodes[spread].shape or ()
    same = [n for n in wide if n != 1] == [n for n in shape if n != 1]
    return below if same and shape == result.shape else None


def is_plain_view(flow: Flow, index: int) -> bool:
    """Whether a value holds all entries of one other, in another shape or order: `unsqueeze`, `x[..., None]`, `permute`."""
    node = flow.graph.nodes[index]
    if flow.classes[index] not in ("view", "part") or len(node.inputs) != 1:
        return False
    shape = flow.graph.nodes[node.inputs[0]].shape
    return shape is not None and math.prod(shape) == math.prod(node.shape or ())


__all__ = ["Mixing", "Weighing", "is_plain_view", "mixing_of", "weighing_of"]
