"""Convolutions: sums over the taps of a filter."""

from __future__ import annotations

import math

from screen.calculi.bounds.axes import atoms, plain, sizes
from screen.calculi.bounds.expr import Expr, mul, num, smallest, sym
from screen.calculi.bounds.interpreter import NotUnderstood, Walk, row
from screen.calculi.bounds.mixed_norms import Bound, Fact, is_zero, query, zero
from screen.calculi.bounds.pointwise import added
from screen.calculi.bounds.value import Value, reshaped
from screen.graph import Node
from screen.structure.types import Unknown


@row("conv1d conv2d convolution conv3d")
def convolution(walk: Walk, node: Node) -> Value:
    """Σ over taps t of W_t x shifted: ‖·‖ over channels <= Σ_t ‖W_t‖ (of groups: the largest group) · ‖x‖ + ‖b‖; zeros around add nothing."""
    x, w, b = walk.first(node), walk.operand(node, 1, "weight"), walk.operand(node, 2, "bias")
    position = 8 if node.op == "convolution" else 6
    groups = walk.integer(node, position, "groups") or 1
    if not isinstance(w, Value) or len(w.shape) != len(x.shape) or w.holes or (w.part is None and not is_zero(w.der)):
        raise NotUnderstood("a filter that is no weight, nor made of weights alone")
    if node.op == "convolution" and walk.flow.operand(node, 6, "transposed") is True:
        raise NotUnderstood("a transposed convolution")
    if isinstance(walk.flow.operand(node, 4, "padding"), str) and walk.flow.operand(node, 4, "padding") not in ("same", "valid"):
        raise NotUnderstood("a padding that is not by zeros")
    shape = node.shape or ()
    taps = len(w.shape) - 2
    stored = w.part.split(0, (groups, w.shape[0] // groups)) if w.part is not None else None
    norm = _computed(w, groups) if stored is None else sym(walk.names.symbol(stored, "src" + "t" * taps))
    if isinstance(norm, Unknown):
        raise NotUnderstood(f"a filter of an unknown size: {norm.reason}")
    layout = plain(shape)
    channels = frozenset(atoms(layout, 1))
    mag, der = _filtered(x, x.mag, norm, channels, len(sizes(layout))), _filtered(x, x.der, norm, channels, len(sizes(layout)))
    made = Value(shape, layout, mag, der, jump=x.jump)
    if isinstance(b, Value):
        made = added(walk, made, reshaped(b, (b.shape[0], *(1,) * taps), walk.names))
    return made


def _computed(w: Value, groups: int) -> Expr | Unknown:
    """Σ over taps of ‖W_t‖ of the largest group, of a filter that is made of weights (of length one, standardised): <= √taps · ‖W‖_F, and a
    group of r filters has at most √r times the length of the longest."""
    if isinstance(w.mag, Unknown):
        return w.mag
    taps, rows = math.prod(w.shape[2:]), w.shape[0] // groups
    each = frozenset(a for axis in range(1, len(w.shape)) for a in atoms(w.layout, axis))
    longest = mul(num(math.sqrt(taps * rows)), query(w.mag, w.flat, each))
    return smallest(longest, mul(num(math.sqrt(taps)), query(w.mag, w.flat, each | frozenset(atoms(w.layout, 0)))))


def _filtered(x: Value, bound: Bound, norm: Expr, channels: frozenset[int], rank: int) -> Bound:
    if isinstance(bound, Unknown):
        return bound
    if is_zero(bound):
        return zero(rank)
    return (Fact(mul(norm, query(bound, x.flat, x.axis(1))), channels),)
