"""Gated linear units in one call."""

from __future__ import annotations

from screen.calculi.bounds.interpreter import Walk, row
from screen.calculi.bounds.pointwise import multiplied
from screen.calculi.bounds.rules.activation import SHAPES, through
from screen.calculi.bounds.rules.slice import cut
from screen.calculi.bounds.value import Value
from screen.graph import Node


@row("glu")
def glu(walk: Walk, node: Node) -> Value:
    """a ⊙ σ(b) for the halves a, b of an axis."""
    value = walk.first(node)
    given = walk.integer(node, 1, "dim")
    axis = -1 if given is None else given
    half = value.shape[axis] // 2
    a, b = cut(walk, value, node.inputs[0], axis, 0, half), cut(walk, value, node.inputs[0], axis, half, 2 * half)
    return multiplied(walk, a, through(b, SHAPES["sigmoid"]))
