"""Choices between entries: `where`, masks."""

from __future__ import annotations

import math
from dataclasses import replace

from screen.calculi.bounds.axes import plain
from screen.calculi.bounds.expr import largest, rss
from screen.calculi.bounds.interpreter import NotUnderstood, Walk, row
from screen.calculi.bounds.mixed_norms import NONE, Bound, Fact, is_zero, query, tidy, zero
from screen.calculi.bounds.pointwise import DEEP, as_value, both, filled
from screen.calculi.bounds.rules.view import spread
from screen.calculi.bounds.value import Value, constant, unknown
from screen.graph import Node
from screen.structure.types import Unknown


@row("where")
def where(walk: Walk, node: Node) -> Value:
    """Each entry from one of two: per entry the larger, over several the root of the sum of squares; −∞ makes holes."""
    if len(node.args) < 2:
        raise NotUnderstood("the indices of what is true")
    condition = walk.operand(node, 0, "condition")
    one, two = walk.operand(node, 1, "input", "self"), walk.operand(node, 2, "other")
    return chosen(walk, node, condition.jump if isinstance(condition, Value) else None, one, two)


@row("masked_fill")
def masked_fill(walk: Walk, node: Node) -> Value:
    """A number where a mask says so."""
    condition = walk.operand(node, 1, "mask")
    return chosen(walk, node, condition.jump if isinstance(condition, Value) else None, walk.first(node), walk.operand(node, 2, "value"))


def chosen(walk: Walk, node: Node, jump: int | None, one: Value | float | None, two: Value | float | None) -> Value:
    """Entries of one or of the other."""
    shape = node.shape or ()
    values = [as_value(v, constant(shape, 0.0, 0.0)) for v in (one, two)]
    deep = [v for v in values if v.high < DEEP and is_zero(v.der)]
    rest = [v for v in values if v not in deep]
    if deep and rest:
        made = spread(rest[0], shape)
        return replace(made.bare(), low=-math.inf, holes=True, jump=made.jump if jump is None else jump)
    if deep:
        return replace(unknown(shape, "every entry is masked", node.index), der=zero(len(plain(shape))))
    a = both(walk, *values)
    x, y = filled(a)
    x, y = spread(x, shape), spread(y, shape)
    mag, der = _either(x.mag, y.mag, x.flat), _either(x.der, y.der, x.flat)
    jump = next((j for j in (jump, x.jump, y.jump) if j is not None), None)
    return replace(x.bare(), mag=mag, der=der, low=min(x.low, y.low), high=max(x.high, y.high), holes=x.holes or y.holes, jump=jump)


def _either(left: Bound, right: Bound, flat: tuple[int, ...]) -> Bound:
    if isinstance(left, Unknown) or is_zero(right):
        return left
    if isinstance(right, Unknown) or is_zero(left):
        return right
    keys = dict.fromkeys([(NONE, NONE, 2), *(f.key for f in (*left, *right))])
    made = []
    for k in keys:
        ends = query(left, flat, *k), query(right, flat, *k)
        made.append(Fact(largest(*ends) if not k[0] and not k[1] else rss(*ends) if k[2] == 2 else ends[0], *k))
    return tidy([f for f in made if f.p == 2], flat)


