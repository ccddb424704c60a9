"""Proven ranges of a function of one number: its largest and smallest value, its slope, its growth at either end.

The positive half-line is cut into cells [a, b], from (0, a] to [b, ∞), and the negative one likewise. On each a function of t is known as
t^p · [lo, hi] with |t| in the cell, so that t/(1 + t) is t¹·1 over t¹·[1, 1 + 1/a] on the last one, and at most 1. Derivatives go along (forward
mode). Cells whose upper end is above the largest value found at a point are cut again, until they agree. Rounding is not directed: ends are
widened in the last digit that is kept (`up`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Scalar = tuple[object, ...]
"""A function of one number: `("root",)`, `("num", low, high)`, or `(op, operand, …)`."""
ROOT: Scalar = ("root",)
DIGITS = 6
ROUNDS, PIECES, MOST = 9, 6, 6000
"""Rounds of cutting, pieces of a cell, and cells after which no more is cut."""
CLOSE = 2e-7
"""Relative distance of proven and found values at which nothing is cut."""


@dataclass(frozen=True)
class Cells:
    """|t| in [a, b], t of one sign."""

    a: Array
    b: Array
    sign: float


@dataclass(frozen=True)
class Span:
    """t^p · [lo, hi] on each cell."""

    p: Array
    lo: Array
    hi: Array


def _times(x: Array, y: Array) -> Array:
    """x·y with 0·∞ = 0."""
    with np.errstate(invalid="ignore", over="ignore"):
        return np.where((x == 0) | (y == 0), 0.0, x * y)


def number(cells: Cells, low: float, high: float) -> Span:
    """A constant, or a number that is only known to lie between two ends."""
    one = np.ones_like(cells.a)
    return Span(np.zeros_like(one), low * one, high * one)


def _ends(cells: Cells, d: Array) -> tuple[Array, Array]:
    """Smallest and largest t^d on each cell."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        one = np.where(d == 0, 1.0, np.power(cells.a, d))
        two = np.where(d == 0, 1.0, np.power(cells.b, d))
    return np.minimum(one, two), np.maximum(one, two)


def at_power(cells: Cells, x: Span, p: Array) -> Span:
    """The same written with t^p."""
    least, most = _ends(cells, x.p - p)
    lo = np.where(x.lo >= 0, _times(x.lo, least), _times(x.lo, most))
    hi = np.where(x.hi >= 0, _times(x.hi, most), _times(x.hi, least))
    return Span(p, lo, hi)


def plain(cells: Cells, x: Span) -> Span:
    """The values themselves."""
    return at_power(cells, x, np.zeros_like(x.p))


def plus(cells: Cells, x: Span, y: Span) -> Span:
    """x + y, with the power of the larger one."""
    p = np.where(_leads(cells, x, y), x.p, y.p)
    x, y = at_power(cells, x, p), at_power(cells, y, p)
    with np.errstate(invalid="ignore", over="ignore"):
        lo, hi = x.lo + y.lo, x.hi + y.hi
    return Span(p, np.where(np.isnan(lo), -np.inf, lo), np.where(np.isnan(hi), np.inf, hi))


def _leads(cells: Cells, x: Span, y: Span) -> npt.NDArray[np.bool_]:
    """Whether x is the larger one: where the cell ends in 0 that of the smaller power, where it ends in ∞ that of the larger one. One that may be 0
    gives way to one that is positive, so that the sum is seen to be positive."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        middle = np.sqrt(np.maximum(cells.a, 1e-300)) * np.sqrt(np.minimum(cells.b, 1e300))
        sizes = [np.where(np.isfinite(v), v, 1.0) * middle**s.p for s in (x, y) for v in (np.maximum(np.abs(s.lo), np.abs(s.hi)),)]
    ahead = np.where(cells.a == 0, x.p <= y.p, np.where(np.isinf(cells.b), x.p >= y.p, sizes[0] >= sizes[1]))
    ahead = np.where((x.lo == 0) & (y.lo > 0), False, np.where((y.lo == 0) & (x.lo > 0), True, ahead))
    nothing = (x.lo == 0) & (x.hi == 0), (y.lo == 0) & (y.hi == 0)
    return np.where(nothing[0], False, np.where(nothing[1], True, ahead)).astype(bool)


def times(cells: Cells, x: Span, y: Span) -> Span:
    """x · y."""
    ends = [_times(a, b) for a in (x.lo, x.hi) for b in (y.lo, y.hi)]
    return Span(x.p + y.p, np.minimum.reduce(ends), np.maximum.reduce(ends))


def minus(x: Span) -> Span:
    """−x."""
    return Span(x.p, -x.hi, -x.lo)


def inverse(x: Span) -> Span:
    """1/x; anything where x may have both signs."""
    with np.errstate(divide="ignore"):
        one, two = 1.0 / x.hi, 1.0 / x.lo
    lo = np.where(x.lo >= 0, np.where(x.hi > 0, one, -np.inf), np.where(x.hi <= 0, np.where(x.hi == 0, -np.inf, one), -np.inf))
    hi = np.where(x.lo >= 0, np.where(x.lo == 0, np.inf, two), np.where(x.hi <= 0, two, np.inf))
    return Span(-x.p, lo, hi)


def power(cells: Cells, x: Span, k: float) -> Span:
    """x^k; of what may be negative for whole k alone."""
    if k < 0:
        return inverse(power(cells, x, -k))
    with np.errstate(over="ignore", invalid="ignore"):
        if k == int(k) and int(k) % 2 == 1:
            return Span(x.p * k, np.sign(x.lo) * np.abs(x.lo) ** k, np.sign(x.hi) * np.abs(x.hi) ** k)
        lo, hi = _size(x)
        bad = (x.lo < 0) if k != int(k) else np.zeros_like(x.lo, dtype=bool)
        return Span(x.p * k, np.where(bad, 0.0, lo**k), np.where(bad, np.inf, hi**k))


def _size(x: Span) -> tuple[Array, Array]:
    """Smallest and largest |entry|."""
    lo = np.where((x.lo <= 0) & (x.hi >= 0), 0.0, np.minimum(np.abs(x.lo), np.abs(x.hi)))
    return lo, np.maximum(np.abs(x.lo), np.abs(x.hi))


def limited(cells: Cells, x: Span, low: float, high: float) -> Span:
    """min(max(x, low), high): x itself where it lies within, an end where it lies beyond."""
    v = plain(cells, x)
    inside, below, above = (v.lo >= low) & (v.hi <= high), v.hi <= low, v.lo >= high
    cut = Span(np.zeros_like(x.p), np.clip(v.lo, low, high), np.clip(v.hi, low, high))
    return _where(inside, x, _where(below, number(cells, low, low), _where(above, number(cells, high, high), cut)))


def _where(mask: npt.NDArray[np.bool_], x: Span, y: Span) -> Span:
    return Span(np.where(mask, x.p, y.p), np.where(mask, x.lo, y.lo), np.where(mask, x.hi, y.hi))


def united(cells: Cells, x: Span, y: Span) -> Span:
    """One of the two."""
    p = np.where(cells.b <= 1.0, np.minimum(x.p, y.p), np.maximum(x.p, y.p))
    x, y = at_power(cells, x, p), at_power(cells, y, p)
    return Span(p, np.minimum(x.lo, y.lo), np.maximum(x.hi, y.hi))


@dataclass(frozen=True)
class Extent:
    """What is proven of φ on t in some range."""

    low: float
    high: float
    size: float
    """sup |φ|."""
    steep: float
    """sup |φ'|, infinite where it is not known."""
    ray: float
    """sup |φ(t)|/|t|."""
    at_zero: float
    """|φ(0)|, as the limit."""
    rises: tuple[int, int]
    """The sign with which φ grows without limit at −∞ and at +∞, at least as a power of |t|; 0 where it is not seen to."""


def up(x: float) -> float:
    """Rounded up to `DIGITS` significant digits, after what rounding may have added."""
    if not math.isfinite(x) or x <= 0:
        return x
    scale = 10.0 ** (DIGITS - 1 - math.floor(math.log10(x)))
    return math.ceil(x * (1 - 1e-12) * scale) / scale


def edges(low: float, high: float, sign: float) -> Cells:
    """The first cells of one half-line, cut off where the range ends."""
    first = np.concatenate([[0.0], 2.0 ** np.arange(-100.0, 100.25, 0.5), [np.inf]])
    top = max(high, 0.0) if sign > 0 else max(-low, 0.0)
    bottom = max(low, 0.0) if sign > 0 else max(-high, 0.0)
    kept = np.unique(np.clip(first, bottom, top))
    return Cells(kept[:-1], kept[1:], sign)


Law = Callable[[Cells], tuple[Span, Span]]
"""Cells -> (φ, φ')."""


def _halves(cells: Cells, chosen: npt.NDArray[np.bool_]) -> Cells:
    """Chosen cells in pieces, on a scale of logarithms."""
    a, b = cells.a[chosen], cells.b[chosen]
    steps = np.linspace(0.0, 1.0, PIECES + 1)
    grid = np.exp(np.log(a)[:, None] * (1 - steps) + np.log(b)[:, None] * steps)
    grid[:, 0], grid[:, -1] = a, b
    return Cells(grid[:, :-1].ravel(), grid[:, 1:].ravel(), cells.sign)


def _tops(cells: Cells, law: Law) -> Array:
    """Upper ends of φ, −φ, |φ'| and |φ|/|t| on each cell."""
    value, slope = law(cells)
    v, s = plain(cells, value), plain(cells, slope)
    ray = at_power(cells, value, np.ones_like(value.p))
    per = plain(cells, Span(ray.p - 1.0, ray.lo, ray.hi))
    return np.stack([v.hi, -v.lo, np.maximum(s.hi, -s.lo), np.maximum(per.hi, -per.lo)])


def _side(law: Law, cells: Cells) -> Array:
    """The four suprema on one half-line."""
    done = np.full(4, -np.inf)
    for _ in range(ROUNDS):
        if not len(cells.a):
            return done
        found = _tops(cells, law)
        with np.errstate(divide="ignore", over="ignore"):
            middle = np.sqrt(np.maximum(cells.a, 1e-300)) * np.sqrt(np.minimum(cells.b, 1e300))
        at = _tops(Cells(middle, middle, cells.sign), law)
        best = np.maximum(at.max(1), done)
        slack = CLOSE * np.maximum(np.abs(best), 1e-30)
        wild = (found > (best + slack)[:, None]) & np.isfinite(best)[:, None]
        chosen = wild.any(0) & (cells.a > 0) & np.isfinite(cells.b)
        done = np.maximum(done, np.where(chosen, -np.inf, found).max(1))
        if not chosen.any() or chosen.sum() * PIECES > MOST:
            return _larger(done, np.where(chosen, found, -np.inf).max(1))
        cells = _halves(cells, chosen)
    return _larger(done, _tops(cells, law).max(1))


def _larger(x: Array, y: Array) -> Array:
    found: Array = np.maximum(x, y)
    return found


def extent_of(law: Law, low: float, high: float) -> Extent:
    """Everything that is proven of a function of a number between two ends."""
    sides = [(sign, edges(low, high, sign)) for sign in (-1.0, 1.0)]
    sides = [(sign, cells) for sign, cells in sides if len(cells.a)]
    if not sides:
        return Extent(-math.inf, math.inf, math.inf, math.inf, math.inf, math.inf, (0, 0))
    tops = np.maximum.reduce([_side(law, cells) for _, cells in sides])
    near = [abs(_last(law, sign, 0.0, 2.0**-100)) for sign, cells in sides if cells.a[0] == 0.0]
    zero = max(near, default=math.inf)
    zero = 0.0 if zero < 1e-24 else up(zero)
    ends = [_end(law, sign) if any(s == sign and np.isinf(c.b[-1]) for s, c in sides) else 0 for sign in (-1.0, 1.0)]
    top, bottom = _nearest(float(tops[0])), -_nearest(float(tops[1]))
    return Extent(bottom, top, max(abs(bottom), abs(top)), up(float(tops[2])), up(float(tops[3])), zero, (ends[0], ends[1]))


def _nearest(x: float) -> float:
    """Rounded up, negative numbers too."""
    return up(x) if x > 0 else 0.0 if x > -1e-24 else -math.floor(-x * 10**9) / 10**9 if math.isfinite(x) else x


def _last(law: Law, sign: float, a: float, b: float) -> float:
    v, _ = law(cells := Cells(np.array([a]), np.array([b]), sign))
    v = plain(cells, v)
    return float(max(abs(v.lo[0]), abs(v.hi[0])))


def _end(law: Law, sign: float) -> int:
    """The sign with which φ goes to infinity at the end of one half-line; 0 where it is not seen to."""
    value, _ = law(Cells(np.array([2.0**100]), np.array([np.inf]), sign))
    if value.p[0] <= 0:
        return 0
    return 1 if value.lo[0] > 0 else -1 if value.hi[0] < 0 else 0


__all__ = [
    "ROOT",
    "Cells",
    "Extent",
    "Scalar",
    "Span",
    "at_power",
    "extent_of",
    "inverse",
    "limited",
    "minus",
    "number",
    "plain",
    "plus",
    "power",
    "times",
    "united",
    "up",
]
