"""Which of two expressions is never larger, as far as their form shows.

Norms of one part of a parameter are ordered: max|w| <= largest row <= largest head <= spectral <= root of the sum over heads <= Frobenius.
"""

from __future__ import annotations

from itertools import repeat

from screen.calculi.bounds.expr.form import can_be_at_most
from screen.calculi.bounds.expr.node import ExprNode

RANKS = {"abs": 0, "row": 1, "max": 2, "": 3, "rss": 4, "fro": 5, "l2": 5}
"""Suffix of a symbol -> place in the chain of norms."""

_KNOWN: dict[tuple[int, int], bool] = {}


def at_most(a: ExprNode, b: ExprNode) -> bool:
    """Whether a <= b for all values of the symbols, as far as the form shows; False proves nothing."""
    if a is b:
        return True
    if not can_be_at_most(a.form, b.form) or (a.kind == b.kind == "mul" and (len(a.args) != len(b.args) or a.value > b.value)):
        return False
    if a.kind == "num" and b.kind == "num":
        return a.value <= b.value
    key = (a.serial, b.serial)
    found = _KNOWN.get(key)
    if found is None:
        if len(_KNOWN) > 200_000:
            _KNOWN.clear()
        _KNOWN[key] = False  # while it is being asked
        found = _KNOWN[key] = _compare(a, b)
    return found


def _compare(a: ExprNode, b: ExprNode) -> bool:
    if b.kind == "min":
        return ((a.kind == "num" and a.value <= b.value) or b.value == float("inf")) and all(map(at_most, repeat(a), b.args))
    if a.kind == "max":
        return a.value == 0.0 and all(map(at_most, a.args, repeat(b)))
    if a.kind == "min" and any(map(at_most, a.args, repeat(b))):
        return True
    if b.kind == "max" and any(map(at_most, repeat(a), b.args)):
        return True
    if a.kind == "sym" and b.kind == "sym":
        return _symbols(a.name, b.name)
    if b.kind == "add" and a.kind != "add":
        return any(map(at_most, repeat(a), b.args))
    if a.kind == "add" and b.kind == "add":
        return a.value <= b.value and len(a.args) <= len(b.args) and _covered(a.args, b.args)
    return _products(a, b)


def _symbols(a: str, b: str) -> bool:
    (base, _, mine), (other, _, theirs) = a.partition("_"), b.partition("_")
    return base == other and mine in RANKS and theirs in RANKS and RANKS[mine] <= RANKS[theirs]


def _covered(left: tuple[ExprNode, ...], right: tuple[ExprNode, ...]) -> bool:
    """Each term on the left is at most a term of its own on the right; what stands on both sides goes first."""
    shared = {x.serial for x in left} & {y.serial for y in right}
    free = [y for y in right if y.serial not in shared]
    for x in (x for x in left if x.serial not in shared):
        found = next((y for y in free if at_most(x, y)), None)
        if found is None:
            return False
        free.remove(found)
    return True


def _products(a: ExprNode, b: ExprNode) -> bool:
    """Coefficients and, power by power, factors."""
    ca, fa = _factors(a)
    cb, fb = _factors(b)
    if ca > cb or len(fa) != len(fb) or (len(fa) == 1 and fa[0][0] is a and fb[0][0] is b):
        return False
    shared = {(x.serial, p) for x, p in fa} & {(y.serial, p) for y, p in fb}
    free = [(y, p) for y, p in fb if (y.serial, p) not in shared]
    if sorted(p for _, p in free) != sorted(p for x, p in fa if (x.serial, p) not in shared):
        return False
    for base, power in ((x, p) for x, p in fa if (x.serial, p) not in shared):
        found = next((y for y in free if y[1] == power and _base_at_most(base, y[0], power)), None)
        if found is None:
            return False
        free.remove(found)
    return True


def _base_at_most(a: ExprNode, b: ExprNode, power: float) -> bool:
    return a is b or (at_most(a, b) if power > 0 else at_most(b, a))


def _factors(e: ExprNode) -> tuple[float, list[tuple[ExprNode, float]]]:
    if e.kind == "mul":
        return e.value, list(zip(e.args, e.powers, strict=True))
    return (e.value, []) if e.kind == "num" else (1.0, [(e, 1.0)])
