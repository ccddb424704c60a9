"""Sums and products of two values, entry by entry, and with numbers."""

from __future__ import annotations

import math
from dataclasses import replace

from screen.calculi.bounds.broadcast import Aligned, align
from screen.calculi.bounds.expr import Expr, mul, sym
from screen.calculi.bounds.interpreter import NotUnderstood, Walk
from screen.calculi.bounds.mixed_norms import NONE, Bound, is_zero, plus
from screen.calculi.bounds.products import product
from screen.calculi.bounds.rules.view import spread
from screen.calculi.bounds.value import Normed, Value, constant, of_part, scaled, summed
from screen.structure.types import Unknown

DEEP = -1e3
"""Constants below it stand for −∞: what they are added to is masked."""


def both(walk: Walk, left: Value, right: Value) -> Aligned:
    """Operands on common atoms."""
    found = align(left, right, walk.names)
    if found is None:
        raise NotUnderstood("shapes that do not broadcast")
    return found


def filled(a: Aligned) -> tuple[Value, Value]:
    """Both operands broadcast to the result's shape, on its atoms."""
    shape = tuple(math.prod(g) for g in a.layout)
    return spread(a.left, shape, a.layout), spread(a.right, shape, a.layout)


def added(walk: Walk, left: Value, right: Value) -> Value:
    """left + right."""
    a = both(walk, left, right)
    x, y = filled(a)
    made = replace(summed(x, y), after=_after_sum(walk, left, right), normed=_with_affine(left, right, True) or _with_affine(right, left, True))
    masks = [m for m in (left, right) if m.low < DEEP and m.high <= 0.0 and m.gain == () and _is_fixed(m) and not m.holes]
    if len(masks) == 2 or (not masks and not left.holes and not right.holes):
        return made  # a mask made of two is one
    deep = masks[0] if masks else None
    other = right if deep is left else left
    kept = y if deep is left else x
    if deep is None:  # one of them already has holes, or both: what neither hides is finite
        return replace(made, holes=True)
    return replace(kept.bare(), low=-math.inf, high=other.high, holes=True, jump=made.jump)


def _is_fixed(value: Value) -> bool:
    """Whether a value is made of constants alone: a bias that is made of weights, or of another stream, is no mask however large it gets."""
    return is_zero(value.der) and (isinstance(value.mag, Unknown) or not any(f.bound.symbols() for f in value.mag))


def _after_sum(walk: Walk, left: Value, right: Value) -> str:
    """A norm's output plus its bias is still the norm's."""
    for y, bias in ((left, right), (right, left)):
        if y.after == "norm" and bias.gain and _is_vector(bias):
            walk.hold(bias.gain, "the norm's bias")
            return "biased"
    return ""


def _with_affine(normed: Value, vector: Value, bias: bool) -> Normed | None:
    """x̂ ⊙ γ + β after one more gain or bias: a vector of parameters over the last axis."""
    known, part = normed.normed, vector.part
    if known is None or part is None or known.bias is not None or (known.gain is not None and not bias) or part.sizes[-1:] != normed.shape[-1:]:
        return None
    if math.prod(part.sizes) != part.sizes[-1] or len(part.sizes) > len(normed.shape):
        return None
    flat = replace(part, sizes=part.sizes[-1:], strides=part.strides[-1:])
    return replace(known, bias=flat) if bias else replace(known, gain=flat)


def _is_vector(value: Value) -> bool:
    return sum(n != 1 for n in value.shape) <= 1


def _is_over_features(walk: Walk, node: int, gain: Value) -> bool:
    """Whether a gain has a number for each feature of `node`, in heads or not, and the same ones for all tokens."""
    varies = tuple(a for a in range(-len(gain.shape), 0) if gain.shape[a] != 1)
    return walk.branch.norms.features.holds(node, varies)


def multiplied(walk: Walk, left: Value, right: Value, node: int | None = None) -> Value:
    """left ⊙ right: δ(ab) = δa·b + a·δb. `node`: where the product stands, which says of what its axes are."""
    if left.holes or right.holes:
        raise NotUnderstood("a product with a masked value")
    a = both(walk, left, right)
    flats = (a.left.flat, a.right.flat)
    out = tuple(range(len(a.flat)))

    def times_(x: Bound, y: Bound) -> Bound:
        return product(x, y, a.labels[0], a.labels[1], flats, NONE, out, a.flat)

    mag = times_(a.left.mag, a.right.mag)
    der = plus(times_(a.left.der, a.right.mag), times_(a.left.mag, a.right.der), a.flat)
    ends = [x * y if x and y else 0.0 for x in (left.low, left.high) for y in (right.low, right.high)]
    shape = tuple(math.prod(g) for g in a.layout)
    jump = left.jump if left.jump is not None else right.jump
    operator = _operator(walk, left, right, shape) or _operator(walk, right, left, shape)
    after = ""
    for y, gain in ((left, right), (right, left)):
        if y.after and gain.gain and (_is_vector(gain) or (node is not None and _is_over_features(walk, node, gain))):
            walk.hold(gain.gain, "the gain after a norm")
            after = y.after
        elif y.after and not y.gain and is_zero(gain.der) and gain.low == gain.high and math.isfinite(gain.low):
            after = y.after
    low, high = min(ends), max(ends)
    if left is right:
        low = max(low, 0.0)
    names = tuple(dict.fromkeys(left.gain + right.gain)) if left.gain and right.gain else ()
    return Value(shape, a.layout, mag, der, low, high, jump=jump, after=after, gain=names,
                 normed=_with_affine(left, right, False) or _with_affine(right, left, False), operator=operator)


def _operator(walk: Walk, matrix: Value, scales: Value, shape: tuple[int, ...]) -> Expr | None:
    """The spectral norm of a matrix made of weights whose rows, or whose columns, are scaled."""
    size, part = scales.norm(), matrix.part
    wide = (1,) * (2 - len(scales.shape)) + scales.shape
    if len(shape) != 2 or shape != matrix.shape or len(wide) != 2 or 1 not in wide or isinstance(size, Unknown):
        return None
    if not is_zero(matrix.der) or not is_zero(scales.der):
        return None
    known = matrix.operator if part is None or part.shift else sym(walk.names.symbol(part, "rc"))
    return None if known is None else mul(known, size)


def as_value(found: Value | float | None, like: Value) -> Value:
    """A number as a tensor of no axes."""
    if isinstance(found, Value):
        return found
    if found is None:
        raise NotUnderstood("an operand that is not known")
    return constant((), found, found)


def shifted_by(walk: Walk, value: Value, number: float) -> Value:
    """value + number; `1 + w` of a parameter is a quantity of its own."""
    if value.part is not None:
        return of_part(replace(value.part, shift=value.part.shift + number), walk.names)
    made = added(walk, value, constant((), number, number))
    return replace(made, after=value.after if number == 0.0 else "", gain=value.gain)


def by_number(value: Value, factor: float) -> Value:
    """factor · value; a mask keeps its holes."""
    if value.holes and factor <= 0:
        raise NotUnderstood("a masked value times a number that is not positive")
    return scaled(value, factor)
