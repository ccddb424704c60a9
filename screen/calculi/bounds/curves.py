"""Entry-wise functions written out by hand: a value whose entries are a function of the entries of one other value is known by that function.

The ops between are read as one term (`term_of`); its ends, slope and growth are proven by `ranges`, so that y/(1 + |y|) is at most 1, which no rule
for a quotient of two values can see. Other values on the way count as numbers between their ends (softplus of a parameter is at least 0). A few
named activations (GELU in both forms, SiLU, Mish, tanh) are recognised where their curves agree to 1e-9 at all points.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from screen.calculi.bounds.expr import num
from screen.calculi.bounds.interpreter import Walk
from screen.calculi.bounds.mixed_norms import is_zero, times, with_ceiling
from screen.calculi.bounds.ranges import ROOT, Cells, Extent, Scalar, plain
from screen.calculi.bounds.rules.activation import SHAPES, through
from screen.calculi.bounds.scalars import extent, law_of
from screen.calculi.bounds.terms import FUNCTIONS, compared, operands_of, term_of
from screen.calculi.bounds.value import Value
from screen.graph import Node
from screen.ops.scalars import SCALARS, Shape
from screen.structure.types import Unknown

POINTS = (-5.3, -3.1, -2.2, -1.7, -1.1, -0.61, -0.23, -0.011, 0.017, 0.31, 0.73, 1.0, 1.37, 1.9, 2.6, 3.7, 4.9)
MOST = 40
"""Nodes on the way to the root, counted as often as they are read."""


@dataclass(frozen=True)
class Curve:
    """The value is f(root) entry by entry."""

    root: int
    term: Scalar
    uses: int
    """How often the root is read."""
    jumps: bool
    """A comparison chooses: f need not be continuous."""
    moves: bool
    """Other values on the way depend on the stream."""

    def extent(self, walk: Walk) -> Extent:
        """What is proven of f over the values that the root may have."""
        root = walk.one(self.root)
        return extent(self.term, root.low, root.high)


def curve_of(walk: Walk, index: int) -> Curve | None:
    """A node as a function of the entries of one value; None where it is no such function."""
    index = walk.behind(index)
    leaves = _leaves(walk, index)
    if leaves is None or index in leaves:
        return None
    shape = walk.graph.nodes[index].shape
    roots = [i for i in leaves if walk.graph.nodes[i].shape == shape and (walk.flow.data[i] or walk.flow.of_weights[i])]
    root = max(roots, key=lambda i: (leaves[i], -i), default=None)
    term = None if root is None else term_of(walk, index, root)
    if root is None or term is None:
        return None
    others = [walk.one(i) for i in leaves if i != root]
    return Curve(root, term, leaves[root], compared(term), any(not is_zero(v.der) for v in others))


def _leaves(walk: Walk, index: int) -> Counter[int] | None:
    """The values that a node is computed from entry by entry, with how often; None where there are too many."""
    found: Counter[int] = Counter()
    stack, read = [index], 0
    while stack:
        here = walk.behind(stack.pop())
        read += 1
        if read > MOST:
            return None
        below = operands_of(walk, here)
        if below is None or (here not in walk.branch.members and not walk.flow.of_weights[here]):
            found[here] += 1
        else:
            stack.extend(below)
    return found


def known(walk: Walk, node: Node, needed: bool) -> tuple[bool, Value | None]:
    """The value of a node that is a function of one other value which it reads more than once (or at all, where it is `needed`), and whether the
    function has a name."""
    if node.shape is None or node.op not in FUNCTIONS or (len(node.inputs) < 2 and not needed):
        return False, None
    curve = curve_of(walk, node.index)
    if curve is None or (curve.uses < 2 and not needed):
        return False, None
    value = walk.one(curve.root)
    if value.holes or value.shape != node.shape:
        return False, None
    named = _shape(curve.term)
    return named is not None, through(value, named) if named is not None else shaped(value, curve.extent(walk), curve, node.index)


def inverted(walk: Walk, index: int) -> Value | None:
    """1/b for a node b that is a function of one other value; None where it is none, or where 1/b has no bound."""
    curve = curve_of(walk, index)
    if curve is None or walk.one(curve.root).holes:
        return None
    turned = replace(curve, term=("div", ("num", 1.0, 1.0), curve.term))
    made = shaped(walk.one(curve.root), turned.extent(walk), turned, index)
    return None if isinstance(made.mag, Unknown) else made


def shaped(value: Value, found: Extent, curve: Curve, node: int) -> Value:
    """f(value), from what is proven of f."""
    zero = found.at_zero if math.isfinite(found.at_zero) else 0.0
    slope = found.ray if not zero else math.inf
    if not curve.jumps and math.isfinite(found.at_zero):
        slope = min(slope, found.steep)
    lost = Unknown("a function whose slope has no bound", (node,))
    if math.isfinite(slope):
        made = through(value, Shape(slope, 1.0, zero, found.low, found.high))
    else:
        mag = with_ceiling(lost, found.size, value.flat, (value.axis(-1),) if value.shape else ())
        made = replace(value.bare(), mag=mag, low=found.low, high=found.high)
    if is_zero(value.der) and not curve.moves:
        return replace(made, der=value.der)
    if curve.jumps or curve.moves or not math.isfinite(found.steep) or isinstance(value.der, Unknown):
        return replace(made, der=lost, jump=node if curve.jumps else value.jump)
    return replace(made, der=times(value.der, num(found.steep)))


_AT = np.array(POINTS)
_KNOWN = {name: SCALARS[name].f(_AT) for name in ("gelu", "gelu_tanh", "mish", "tanh")}
"""Functions that people write by hand, at `POINTS`."""


def at_points(term: Scalar) -> tuple[float, ...] | None:
    """The function at `POINTS`; None where it is not one number there."""
    law, found = law_of(term), dict[float, float]()
    for sign in (-1.0, 1.0):
        t = np.array([abs(p) for p in POINTS if p * sign > 0])
        cells = Cells(t, t, sign)
        value = plain(cells, law(cells)[0])
        if not np.all(np.isfinite(value.lo)) or not np.all(np.isfinite(value.hi)) or np.any(value.hi - value.lo > 1e-9 * (1 + np.abs(value.hi))):
            return None
        found.update({sign * p: float(v) for p, v in zip(t, value.hi, strict=True)})
    return tuple(found[p] for p in POINTS)


def _shape(term: Scalar) -> Shape | None:
    at = at_points(term)
    if at is None:
        return None
    for name, values in _KNOWN.items():
        if np.all(np.abs(values - at) <= 1e-9):
            return SHAPES[name]
    share = at[POINTS.index(1.0)]  # sigmoid(c) for x * sigmoid(c x)
    if not 0.5 < share < 1.0 - 1e-9:
        return None
    c = math.log(share / (1.0 - share))
    if np.all(np.abs(_AT * SCALARS["sigmoid"].f(c * _AT) - at) <= 1e-9):
        return Shape(1.0, SHAPES["silu"].lipschitz, low=-0.27847 / c)
    return None


__all__ = ["POINTS", "ROOT", "Curve", "at_points", "curve_of", "inverted", "known", "shaped"]
