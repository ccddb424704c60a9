"""Facts: sound bounds of mixed norms of one tensor.

A tensor's axes are products of *atoms* (see `axes`). A fact (I, O, p, c) says

    √( Σ_{o in O} ( sup_{all other atoms} ‖v‖_{p over I} )² )  <=  c,      p in {1, 2}

so that I = {features} is the plain 2-norm per token, I = ∅ the largest entry, and I = {hd}, O = {heads} the root of the sum over heads of the
squared largest per-head norms. Three rules let one fact answer for another:
1. taking an atom out of I or O lowers the left side;  2. moving an atom from O to I lowers it (sup of a sum <= sum of sups);
3. adding an atom of size n costs √n (to I with p = 2, or to O), or n (to I with p = 1).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from screen.calculi.bounds.expr import ONE, ZERO, Expr, add, mul, num, smallest
from screen.calculi.bounds.expr.memo import memo
from screen.calculi.bounds.expr.order import at_most
from screen.structure.types import Unknown

Atoms = frozenset[int]
NONE: Atoms = frozenset()
LIMIT = 8
"""Facts kept per value."""
ALTERNATIVES = 2
"""Alternatives kept in one minimum."""


class Fact(NamedTuple):
    """See the module."""

    bound: Expr
    inner: Atoms = NONE
    outer: Atoms = NONE
    p: int = 2

    @property
    def key(self) -> tuple[Atoms, Atoms, int]:
        """Which norm it bounds."""
        return self.inner, self.outer, self.p if self.inner else 2


Facts = tuple[Fact, ...]
Bound = Facts | Unknown


def zero(rank: int) -> Facts:
    """All entries are 0."""
    return (Fact(ZERO, frozenset(range(rank))),)


def is_zero(bound: Bound) -> bool:
    """Whether all entries are known to be 0."""
    return not isinstance(bound, Unknown) and any(f.bound is ZERO for f in bound)


def _cost(fact: Fact, sizes: tuple[int, ...], inner: Atoms, outer: Atoms, p: int) -> float:
    """What rules 1-3 charge for reading `fact` as a bound of the norm (inner, outer, p)."""
    cost = 1.0
    for a in inner:
        if p == 1:
            cost *= 1.0 if a in fact.inner and fact.p == 1 else math.sqrt(sizes[a]) if a in fact.inner or a in fact.outer else sizes[a]
        else:
            cost *= 1.0 if a in fact.inner or a in fact.outer else math.sqrt(sizes[a])
    for a in outer:
        cost *= 1.0 if a in fact.outer else math.sqrt(sizes[a])
    return cost


def query(facts: Facts, sizes: tuple[int, ...], inner: Iterable[int] = (), outer: Iterable[int] = (), p: int = 2) -> Expr:
    """The bound that the facts give for a norm: that of the norm itself, else of the cheapest facts the smallest."""
    return _query(facts, sizes, frozenset(inner), frozenset(outer), p)


@memo
def _query(facts: Facts, sizes: tuple[int, ...], into: Atoms, out: Atoms, p: int) -> Expr:
    exact = [f.bound for f in facts if f.key == (into, out, p if into else 2)]
    if exact:
        return smallest(*exact)
    if len(facts) == 1:
        return mul(num(_cost(facts[0], sizes, into, out, p)), facts[0].bound)
    priced = [(_cost(f, sizes, into, out, p), f.bound) for f in facts]
    low = min(c for c, _ in priced)
    kept = dict.fromkeys(mul(num(c), b) for c, b in priced if c <= low * (1 + 1e-12))
    return smallest(*list(kept)[:ALTERNATIVES])


def tidy(facts: Iterable[Fact], sizes: tuple[int, ...] = ()) -> Facts:
    """Facts with one entry per norm: the smallest bound; at most `LIMIT` of them."""
    return _tidy(tuple(facts), sizes)


@memo
def _tidy(facts: Facts, sizes: tuple[int, ...]) -> Facts:
    table: dict[tuple[Atoms, Atoms, int], list[Expr]] = {}
    for f in facts:
        alternatives = table.setdefault(f.key, [])
        if not any(at_most(b, f.bound) for b in alternatives):
            alternatives[:] = [*[b for b in alternatives if not at_most(f.bound, b)][:ALTERNATIVES - 1], f.bound]
    made = [Fact(smallest(*bounds), *key) for key, bounds in table.items()]
    if any(f.bound is ZERO for f in made):
        made = [Fact(ZERO, frozenset(range(len(sizes))) if sizes else frozenset().union(*(f.inner for f in made)))]
    kept = [f for f in made if not any(g is not f and _implies(g, f) for g in made)]
    return tuple(kept[:LIMIT])


def _implies(g: Fact, f: Fact) -> bool:
    """g bounds a larger norm by the same number (or both are numbers)."""
    if f.key == g.key:
        return False
    reach = g.inner if f.p == 1 and f.inner else g.inner | (g.outer - f.outer)
    larger = f.outer <= g.outer and f.inner <= reach and (f.p == 2 or g.p == 1 or not f.inner)
    return larger and at_most(g.bound, f.bound)


@memo
def plus(left: Bound, right: Bound, sizes: tuple[int, ...]) -> Bound:
    """Bounds of a sum: the triangle inequality for every norm that one of them speaks of."""
    if isinstance(left, Unknown):
        return left
    if isinstance(right, Unknown):
        return right
    if is_zero(left) or is_zero(right):
        return right if is_zero(left) else left
    keys = dict.fromkeys(f.key for f in (*left, *right))
    return tidy((Fact(add(query(left, sizes, *k), query(right, sizes, *k)), *k) for k in keys), sizes)


def times(bound: Bound, factor: Expr) -> Bound:
    """Bounds after a multiplication by a number or by a common factor of at most that size."""
    if isinstance(bound, Unknown) or factor is ONE:
        return bound
    return tuple(Fact(mul(factor, f.bound), f.inner, f.outer, f.p) for f in bound)


def relabel(bound: Bound, names: Mapping[int, int]) -> Bound:
    """Atoms under new names; atoms without one are dropped (rule 1)."""
    if isinstance(bound, Unknown):
        return bound
    return tuple(
        Fact(f.bound, frozenset(names[a] for a in f.inner if a in names), frozenset(names[a] for a in f.outer if a in names), f.p) for f in bound
    )


def with_ceiling(bound: Bound, ceiling: float, sizes: tuple[int, ...], along: Iterable[Atoms]) -> Bound:
    """Every entry is at most `ceiling` in magnitude: each norm is then at most ceiling · √(number of entries)."""
    if not math.isfinite(ceiling):
        return bound
    keys: dict[tuple[Atoms, Atoms, int], None] = dict.fromkeys((a, NONE, 2) for a in along)
    keys[NONE, NONE, 2] = None
    known: Facts = () if isinstance(bound, Unknown) else bound
    keys.update(dict.fromkeys(f.key for f in known))
    flat = (Fact(num(ceiling)),)
    return tidy(
        [Fact(smallest(query(flat, sizes, *k), *([query(known, sizes, *k)] if known else [])), *k) for k in keys], sizes
    )
