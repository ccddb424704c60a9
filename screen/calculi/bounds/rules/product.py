"""Products and powers."""

from __future__ import annotations

import math
from dataclasses import replace

from screen.calculi.bounds.cosines import cosine
from screen.calculi.bounds.interpreter import NotUnderstood, Walk, row
from screen.calculi.bounds.mixed_norms import is_zero
from screen.calculi.bounds.pointwise import by_number, multiplied
from screen.calculi.bounds.rules.activation import applied, between
from screen.calculi.bounds.rules.self_normed_weight import over_its_size
from screen.calculi.bounds.value import Value, constant
from screen.graph import Node
from screen.structure.dataflow import strip
from screen.structure.types import Unknown

LARGEST = 700.0
"""Of a logarithm of which the exponential is a float."""


@row("mul")
def mul_(walk: Walk, node: Node) -> Value:
    """a ⊙ b."""
    left, right = walk.operand(node, 0, "input", "self"), walk.operand(node, 1, "other")
    known = over_its_size(walk, node)
    if known is not None:
        return known
    if (top := cosine(walk, node)) is not None:
        return between(walk, node, -top, top, Unknown("the slope of a cosine near vectors of length 0", (node.index,)))
    if isinstance(left, Value) and isinstance(right, float):
        return by_number(left, right)
    if isinstance(right, Value) and isinstance(left, float):
        return by_number(right, left)
    if not isinstance(left, Value) or not isinstance(right, Value):
        raise NotUnderstood("operands that are not known")
    if node.inputs[0] == node.inputs[-1]:
        return multiplied(walk, left, left)
    for value, gain, place in ((left, right, 0), (right, left, -1)):
        if value is not gain and _is_gain_of_norm(walk, node.inputs[place], gain):
            walk.hold(gain.gain, "the gain after a norm")
    return multiplied(walk, left, right, node.index)


def _is_gain_of_norm(walk: Walk, normed: int, gain: Value) -> bool:
    """Whether a weight has a number for each entry that a norm of other weights runs over: keys of a trained memory behind a norm have a gain as any
    others have. A number for each vector is its length, and no gain."""
    norm = walk.branch.norms.of_weights.get(strip(walk.flow, normed))
    if norm is None or norm.type not in ("layernorm", "rmsnorm", "l2") or not gain.gain:
        return False
    varies = {a - len(gain.shape) for a, n in enumerate(gain.shape) if n != 1}
    return bool(varies) and varies <= set(norm.axes)


@row("square pow")
def power_(walk: Walk, node: Node) -> Value:
    """a^k for a whole k >= 1, as repeated products."""
    exponent = 2.0 if node.op == "square" else walk.operand(node, 1, "exponent")
    if isinstance(walk.operand(node, 0, "input", "self"), float) or isinstance(exponent, Value):
        return _small_power(walk, node, exponent)
    value = walk.first(node)
    if exponent == 0.5:
        return applied(walk, node, value, "sqrt")
    if not isinstance(exponent, float) or exponent != int(exponent) or not 1 <= exponent <= 8:
        raise NotUnderstood("an exponent that is no small whole number")
    found = value
    for _ in range(int(exponent) - 1):
        found = multiplied(walk, found, value) if found is not value else multiplied(walk, value, value)
    return replace(found, low=0.0) if exponent % 2 == 0 else found


def _small_power(walk: Walk, node: Node, exponent: Value | float | None) -> Value:
    """b^e for constants b > 0 and e, or 0 <= b <= 1 and e >= 0: between what it is at the ends (slopes of a linear position bias)."""
    base = walk.operand(node, 0, "input", "self")
    low = base.low if isinstance(base, Value) else base
    high = base.high if isinstance(base, Value) else base
    least = exponent.low if isinstance(exponent, Value) else exponent
    still = all(is_zero(v.der) for v in (base, exponent) if isinstance(v, Value))
    most = exponent.high if isinstance(exponent, Value) else exponent
    if low is None or high is None or least is None or most is None or not still or low < 0:
        raise NotUnderstood("an exponent that is no small whole number")
    if high <= 1 and least >= 0:
        return constant(node.shape or (), 0.0, 1.0)
    logs = [e * math.log(b) if b and math.isfinite(b) and math.isfinite(e) else math.inf for b in (low, high) for e in (least, most)]
    if max(map(abs, logs)) > LARGEST:
        raise NotUnderstood("an exponent that is no small whole number")
    return constant(node.shape or (), math.exp(min(logs)) * (1 - 1e-12), math.exp(max(logs)) * (1 + 1e-12))
