"""Sums and differences."""

from __future__ import annotations

import math
from dataclasses import replace

from screen.calculi.bounds.interpreter import NotUnderstood, Walk, row
from screen.calculi.bounds.pointwise import DEEP, added, by_number, multiplied, shifted_by
from screen.calculi.bounds.rules.rotary import rotated
from screen.calculi.bounds.value import Value, scaled
from screen.graph import Node
from screen.structure.dataflow import strip
from screen.structure.softmaxes import shifted
from screen.structure.sums import terms_of


@row("add sub")
def sum_(walk: Walk, node: Node) -> Value:
    """a ± alpha·b."""
    left, right = walk.operand(node, 0, "input", "self"), walk.operand(node, 1, "other")
    alpha = walk.operand(node, 2, "alpha") if node.kwarg("alpha") is not None else 1.0
    if not isinstance(alpha, float):
        raise NotUnderstood("a factor that is not known")
    turned = rotated(walk, node)
    if turned is not None:
        return turned
    kept = terms_of(walk.flow, node.index, walk.branch.members)
    if kept is not None:
        return _collected(walk, node, kept)
    factor = -alpha if node.op == "sub" else alpha
    if isinstance(left, Value) and not isinstance(right, Value):
        return shifted_by(walk, left, (right or 0.0) * factor)
    if isinstance(right, Value) and not isinstance(left, Value):
        return shifted_by(walk, scaled(right, factor) if factor != 1.0 else right, left or 0.0)
    if not isinstance(left, Value) or not isinstance(right, Value):
        raise NotUnderstood("operands that are not known")
    if not _is_norms_own(walk, node):
        left, right = (replace(v, after="biased") if v.after else v for v in (left, right))
    made = added(walk, left, right if factor == 1.0 else scaled(right, factor))
    if node.op == "sub" and factor == -1.0 and shifted(walk.flow, node.index) != strip(walk.flow, node.index):
        return replace(made, high=min(made.high, 0.0))  # u − max(u)
    return made


@row("hypot")
def length(walk: Walk, node: Node) -> Value:
    """√(a² + b²): at most |a| + |b|, and it moves by at most |δa| + |δb|."""
    left, right = walk.operand(node, 0, "input", "self"), walk.operand(node, 1, "other")
    if not isinstance(left, Value) or not isinstance(right, Value):
        raise NotUnderstood("operands that are not known")
    if any(v.holes or v.high < DEEP for v in (left, right)):
        raise NotUnderstood("a masked value")
    return replace(added(walk, left, right).bare(), low=0.0, high=math.hypot(*(max(-v.low, v.high) for v in (left, right))))


def _is_norms_own(walk: Walk, node: Node) -> bool:
    """Whether a module's forward does no more than a norm does: a vector that it adds is the norm's bias. One that a block adds is a weight, but for
    that of a norm which it writes out, right behind its gain: x̂·γ + β."""
    return node.call not in walk.working or any(_is_gained(walk, node, i) for i in node.inputs)


def _is_gained(walk: Walk, node: Node, index: int) -> bool:
    """Whether an operand is a norm's output times a vector of weights, multiplied in the same call as `node`."""
    here = walk.graph.nodes[strip(walk.flow, index)]
    if here.op != "mul" or here.call != node.call or len(here.inputs) != 2:
        return False
    sides = [walk.one(i) for i in here.inputs]
    return any(normed.after == "norm" and bool(gain.gain) for normed, gain in (sides, sides[::-1]))


def _collected(walk: Walk, node: Node, terms: dict[int, float]) -> Value:
    """Σ c_i v_i, each v once."""
    parts = [by_number(walk.one(i), c) if c != 1.0 else walk.one(i) for i, c in terms.items()]
    found = parts[0]
    for part in parts[1:]:
        found = added(walk, found, part)
    if found.shape != node.shape:
        raise NotUnderstood("terms that do not fit")
    return found


@row("neg")
def neg(walk: Walk, node: Node) -> Value:
    """−a."""
    return by_number(walk.first(node), -1.0)


@row("lerp")
def lerp(walk: Walk, node: Node) -> Value:
    """a + w(b − a)."""
    a, b, w = walk.first(node), walk.operand(node, 1, "end"), walk.operand(node, 2, "weight")
    if not isinstance(b, Value) or w is None:
        raise NotUnderstood("operands that are not known")
    if isinstance(w, float):
        return added(walk, scaled(a, 1.0 - w), scaled(b, w))
    rest = shifted_by(walk, scaled(w.bare(), -1.0), 1.0)
    return added(walk, multiplied(walk, a, replace(rest, low=1 - w.high, high=1 - w.low)), multiplied(walk, b, w))
