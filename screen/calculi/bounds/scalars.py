"""Functions of one number as terms, and how each op of a term acts on cells (`ranges`): its value and its derivative."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from screen.calculi.bounds.expr.memo import memo
from screen.calculi.bounds.ranges import (
    Array, Cells, Extent, Law, Scalar, Span, at_power, extent_of, inverse, limited, minus, number, plain, plus, power, times, united,
)

Dual = tuple[Span, Span]
"""(φ, φ')."""
_FAST = 8.0
"""An exponential is above, or its inverse below, this power of t at the ends."""


def law_of(scalar: Scalar) -> Law:
    """The term as a function of cells."""
    return lambda cells: _value(scalar, cells)


@memo
def extent(scalar: Scalar, low: float = -math.inf, high: float = math.inf) -> Extent:
    """Everything that is proven of a term in a number between two ends."""
    return extent_of(law_of(scalar), low, high)


def _value(scalar: Scalar, cells: Cells) -> Dual:
    op, *rest = scalar
    if op == "root":
        one = np.ones_like(cells.a)
        return Span(one, cells.sign * one, cells.sign * one), number(cells, 1.0, 1.0)
    if op == "num":
        low, high = rest
        return number(cells, float(low), float(high)), number(cells, 0.0, 0.0)  # type: ignore[arg-type]
    if op == "pow":
        return _power(cells, _value(rest[0], cells), float(rest[1]))  # type: ignore[arg-type]
    if op == "clamp":
        return _clamp(cells, _value(rest[0], cells), float(rest[1]), float(rest[2]))  # type: ignore[arg-type]
    if op == "slope":
        return _value(rest[0], cells)[1], number(cells, -math.inf, math.inf)  # type: ignore[arg-type]
    operands = [_value(r, cells) for r in rest]  # type: ignore[arg-type]
    return OPS[str(op)](cells, *operands)


def _add(c: Cells, x: Dual, y: Dual) -> Dual:
    return plus(c, x[0], y[0]), plus(c, x[1], y[1])


def _sub(c: Cells, x: Dual, y: Dual) -> Dual:
    return _add(c, x, _neg(c, y))


def _neg(c: Cells, x: Dual) -> Dual:
    return minus(x[0]), minus(x[1])


def _mul(c: Cells, x: Dual, y: Dual) -> Dual:
    return times(c, x[0], y[0]), plus(c, times(c, x[1], y[0]), times(c, x[0], y[1]))


def _div(c: Cells, x: Dual, y: Dual) -> Dual:
    """x'/y − x y'/y², over one denominator."""
    above = plus(c, times(c, x[1], y[0]), minus(times(c, x[0], y[1])))
    return times(c, x[0], inverse(y[0])), times(c, above, inverse(power(c, y[0], 2.0)))


def _power(c: Cells, x: Dual, k: float) -> Dual:
    if k == 0.0:
        return number(c, 1.0, 1.0), number(c, 0.0, 0.0)
    return power(c, x[0], k), times(c, number(c, k, k), times(c, power(c, x[0], k - 1.0) if k != 1.0 else number(c, 1.0, 1.0), x[1]))


def _clamp(c: Cells, x: Dual, low: float, high: float) -> Dual:
    v = plain(c, x[0])
    nothing = number(c, 0.0, 0.0)
    moves = ((v.lo >= low) & (v.hi <= high)), ((v.hi <= low) | (v.lo >= high))
    slope = united(c, x[1], nothing)
    parts = [np.where(moves[0], a, np.where(moves[1], 0.0, b)) for a, b in ((x[1].p, slope.p), (x[1].lo, slope.lo), (x[1].hi, slope.hi))]
    return limited(c, x[0], low, high), Span(*parts)


def _abs(c: Cells, x: Dual) -> Dual:
    v = x[0]
    flat = np.where((v.lo < 0) & (v.hi > 0), 0.0, np.minimum(np.abs(v.lo), np.abs(v.hi)))
    sign = Span(np.zeros_like(v.p), np.where(v.lo >= 0, 1.0, -1.0), np.where(v.hi <= 0, -1.0, 1.0))
    return Span(v.p, flat, np.maximum(np.abs(v.lo), np.abs(v.hi))), times(c, sign, x[1])


def _larger(c: Cells, x: Dual, y: Dual) -> Dual:
    gap = plain(c, plus(c, x[0], minus(y[0])))
    both = united(c, x[0], y[0]), united(c, x[1], y[1])
    p = both[0].p
    one, two = at_power(c, x[0], p), at_power(c, y[0], p)
    either = Span(p, np.maximum(one.lo, two.lo), np.maximum(one.hi, two.hi))
    return _chosen(gap.lo >= 0, x[0], _chosen(gap.hi <= 0, y[0], either)), _chosen(gap.lo >= 0, x[1], _chosen(gap.hi <= 0, y[1], both[1]))


def _chosen(mask: np.ndarray, x: Span, y: Span) -> Span:
    return Span(np.where(mask, x.p, y.p), np.where(mask, x.lo, y.lo), np.where(mask, x.hi, y.hi))


def _smaller(c: Cells, x: Dual, y: Dual) -> Dual:
    return _neg(c, _larger(c, _neg(c, x), _neg(c, y)))


def _above(c: Cells, x: Dual, y: Dual) -> Dual:
    """1 where x > y, else 0."""
    gap = plain(c, plus(c, x[0], minus(y[0])))
    truth = Span(np.zeros_like(gap.p), np.where(gap.lo > 0, 1.0, 0.0), np.where(gap.hi <= 0, 0.0, 1.0))
    return truth, number(c, 0.0, 0.0)


def _where(c: Cells, mask: Dual, x: Dual, y: Dual) -> Dual:
    sure, never = mask[0].lo > 0.5, mask[0].hi < 0.5
    return tuple(_chosen(sure, a, _chosen(never, b, united(c, a, b))) for a, b in zip(x, y, strict=True))  # type: ignore[return-value]


def _exp(c: Cells, x: Dual) -> Dual:
    """Beyond every power at the ends."""
    v = plain(c, x[0])
    with np.errstate(over="ignore", invalid="ignore"):
        found = Span(np.zeros_like(v.p), np.exp(v.lo), np.exp(v.hi))
        last = np.isinf(c.b) & (x[0].p > 0)
        reach = np.power(c.a, x[0].p)
        falls = last & (x[0].hi < 0) & (reach * -x[0].hi * x[0].p > _FAST)
        climbs = last & (x[0].lo > 0) & (reach * x[0].lo * x[0].p > _FAST)
        room = _FAST * np.log(np.maximum(c.a, 1.0))
        down = Span(0 * v.p - _FAST, 0 * v.p, np.maximum(np.exp(np.where(falls, x[0].hi * reach + room, 0.0)), 1e-300))
        over = Span(0 * v.p + _FAST, np.exp(np.where(climbs, np.minimum(x[0].lo * reach - room, 700.0), 0.0)), np.inf + 0 * v.p)
    found = _chosen(falls, down, _chosen(climbs, over, found))
    return found, times(c, found, x[1])


def _sigmoid(c: Cells, x: Dual) -> Dual:
    one = number(c, 1.0, 1.0)
    value = inverse(plus(c, one, _exp(c, _neg(c, x))[0]))
    other = inverse(plus(c, one, _exp(c, x)[0]))
    return value, times(c, times(c, value, other), x[1])


def _softplus(c: Cells, x: Dual) -> Dual:
    v = plain(c, x[0])
    with np.errstate(over="ignore"):
        direct = Span(np.zeros_like(v.p), np.logaddexp(0.0, v.lo), np.logaddexp(0.0, v.hi))
    far = plus(c, limited(c, x[0], 0.0, np.inf), number(c, 0.0, 1e-12))
    return _chosen(np.isinf(c.b) & (v.lo > 1e3), far, direct), times(c, _sigmoid(c, x)[0], x[1])


def _log(c: Cells, x: Dual) -> Dual:
    v = plain(c, x[0])
    with np.errstate(divide="ignore", invalid="ignore"):
        found = Span(np.zeros_like(v.p), np.log(np.maximum(v.lo, 0.0)), np.log(np.maximum(v.hi, 0.0)))
    return found, times(c, inverse(x[0]), x[1])


def _log1p(c: Cells, x: Dual) -> Dual:
    """log(1 + x) for x >= 0 is between x/(1 + x) and x, and below √x."""
    v = plain(c, x[0])
    with np.errstate(divide="ignore", invalid="ignore"):
        direct = Span(np.zeros_like(v.p), np.log1p(np.maximum(v.lo, -1.0)), np.log1p(np.maximum(v.hi, -1.0)))
    least = np.where(v.hi <= 1.0, 0.5, 0.0)
    small = Span(x[0].p, np.where(v.lo >= 0, least * x[0].lo, -np.inf), x[0].hi)
    root = power(c, x[0], 0.5)
    far = Span(root.p, 0 * root.lo, root.hi)
    value = _chosen((v.lo >= 0) & (v.hi <= 1e-3), small, _chosen(np.isinf(v.hi) & (v.lo >= 0), far, direct))
    return value, times(c, inverse(plus(c, number(c, 1.0, 1.0), x[0])), x[1])


def _odd(f: Callable[[Array], Array], slope: Callable[[Array], Array]) -> Callable[[Cells, Dual], Dual]:
    """An odd rising function, concave where it is positive, of slope 1 at 0 and at most 1 everywhere, even slope that falls."""

    @np.errstate(invalid="ignore", divide="ignore", over="ignore")
    def act(c: Cells, x: Dual) -> Dual:
        v = plain(c, x[0])
        direct = Span(np.zeros_like(v.p), f(v.lo), f(v.hi))
        top = np.maximum(np.abs(v.lo), np.abs(v.hi))
        least = np.where((v.lo <= 0) & (v.hi >= 0), 0.0, np.minimum(np.abs(v.lo), np.abs(v.hi)))
        low, high = (np.where(t > 0, f(t) / np.where(t > 0, t, 1.0), 1.0) for t in (top, least))  # f(t)/t falls
        near = Span(x[0].p, np.where(x[0].lo < 0, high, low) * x[0].lo, np.where(x[0].hi > 0, high, low) * x[0].hi)
        steep = Span(np.zeros_like(v.p), slope(top), slope(least))
        return _chosen(top <= 1e-2, near, direct), times(c, steep, x[1])

    return act


def _erf(x: Array) -> Array:
    found: Array = np.vectorize(math.erf, otypes=[float])(x)
    return found


def _scaled_erf(c: Cells, x: Dual) -> Dual:
    """erf(x) = g(2x/√π) for a g of slope 1 at 0."""
    k = 2.0 / math.sqrt(math.pi)
    inner = (times(c, number(c, k, k), x[0]), times(c, number(c, k, k), x[1]))
    return _odd(lambda t: _erf(t / k), lambda t: np.exp(-((np.minimum(t, 1e100) / k) ** 2)))(c, inner)


def _wave(c: Cells, x: Dual, sine: bool) -> Dual:
    near = _odd(np.sin, np.cos)(c, x) if sine else None
    small = np.maximum(np.abs(plain(c, x[0]).lo), np.abs(plain(c, x[0]).hi)) <= 1e-2
    wide = (number(c, -1.0, 1.0), times(c, number(c, -1.0, 1.0), x[1]))
    return wide if near is None else tuple(_chosen(small, a, b) for a, b in zip(near, wide, strict=True))  # type: ignore[return-value]


def _tanh_slope(t: Array) -> Array:
    return 1.0 - np.tanh(t) ** 2


def _expm1(c: Cells, x: Dual) -> Dual:
    return _sub(c, _exp(c, x), (number(c, 1.0, 1.0), number(c, 0.0, 0.0)))


OPS: dict[str, Callable[..., Dual]] = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "div": _div,
    "neg": _neg,
    "abs": _abs,
    "maximum": _larger,
    "minimum": _smaller,
    "gt": _above,
    "where": _where,
    "exp": _exp,
    "expm1": _expm1,
    "sigmoid": _sigmoid,
    "softplus": _softplus,
    "log": _log,
    "log1p": _log1p,
    "erf": _scaled_erf,
    "tanh": _odd(np.tanh, _tanh_slope),
    "atan": _odd(np.arctan, lambda t: 1.0 / (1.0 + np.minimum(t, 1e150) ** 2)),
    "asinh": _odd(np.arcsinh, lambda t: 1.0 / np.sqrt(1.0 + np.minimum(t, 1e150) ** 2)),
    "sin": lambda c, x: _wave(c, x, True),
    "cos": lambda c, x: _wave(c, x, False),
}
"""Op of a term -> its rule; `root`, `num`, `pow` and `clamp` are in `_value`."""

R: Scalar = ("root",)


def num(value: float) -> Scalar:
    """A constant."""
    return ("num", value, value)


__all__ = ["OPS", "extent", "law_of", "num"]
