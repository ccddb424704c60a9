"""Coefficients of identity paths: polynomials with known numbers in atoms whose values are not numbers.

An atom is a multiplier (a gate made from the data, a learned scale) with the range of its entries, or a linear map of the stream with operator
norm one (an average over an axis, a permutation of entries, all of them beside others, a part of them), or one that repeats all entries k times and
has √k. An average that is kept without its copies has 1/√k: what averages and repeats again has norm one. Sums over paths cancel exactly: (1 − g) + g
is 1 whatever g is. Operator norms are those of the largest entry: a gate that differs from entry to entry takes values from two places (g·x +
(1 − g)·Px), where the 2-norm may gain √2 and the largest entry nothing. Where all entries share their gates the 2-norm has the same bounds.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["gate", "average", "permutation", "repeat", "beside", "part"]
MOST_MONOMIALS = 32
MOST_GATES = 8
"""Gates of one coefficient whose corners are tried: a polynomial that is linear in each takes its extremes there."""


@dataclass(frozen=True)
class Atom:
    """What a path is multiplied by, where that is no number."""

    key: tuple[object, ...]
    """Two atoms of one key are the same operator, or the same multiplier."""
    kind: Kind
    low: float = -math.inf
    high: float = math.inf
    """Of a gate: the range of its entries."""
    start: float | None = None
    """Of a gate that is learned: the number that all its entries start at."""
    node: int = -1
    uniform: bool = True
    """Of a gate: all its entries are one number (a number per token or channel is not)."""
    fixed: bool = False
    """Of a gate: its entries are constants of the program, so that both ends of its range are taken."""
    entries: float = 1.0
    """Of `repeat`: how many entries it makes of one; 1/k where it is the average of k without its copies."""


Monomial = tuple[Atom, ...]
"""A product of atoms, in the order of their keys; operators are taken to commute only where bounds are read off, which hold without that."""


@dataclass(frozen=True)
class Range:
    """Where the gain of a coefficient lies: its operator norm, over all values of its gates."""

    low: float
    high: float

    @property
    def number(self) -> float | None:
        """The gain where it is one number."""
        return self.high if math.isclose(self.low, self.high, rel_tol=1e-9, abs_tol=0.0) else None


@dataclass(frozen=True)
class Polynomial:
    """Σ coefficient · product of atoms."""

    terms: tuple[tuple[Monomial, float], ...]

    @staticmethod
    def of(table: Mapping[Monomial, float]) -> Polynomial:
        """Without terms that cancelled to rounding."""
        scale = max(map(abs, table.values()), default=0.0)
        return Polynomial(tuple((m, c) for m, c in table.items() if abs(c) > 1e-12 * scale or (c and not scale)))

    @property
    def number(self) -> float | None:
        """Its value where it holds no atom."""
        if not self.terms:
            return 0.0
        return self.terms[0][1] if len(self.terms) == 1 and not self.terms[0][0] else None

    def __add__(self, other: Polynomial) -> Polynomial:
        table = dict(self.terms)
        for monomial, c in other.terms:
            table[monomial] = table.get(monomial, 0.0) + c
        return Polynomial.of(table)

    def __mul__(self, other: Polynomial) -> Polynomial:
        if other is ONE or self is ONE:
            return self if other is ONE else other
        table: dict[Monomial, float] = {}
        for (a, x), (b, y) in itertools.product(self.terms, other.terms):
            monomial = _product(a, b)
            table[monomial] = table.get(monomial, 0.0) + x * y
        made = Polynomial.of(table)
        return made if len(made.terms) <= MOST_MONOMIALS else collapsed(made)

    def scaled(self, factor: float) -> Polynomial:
        """Times a number."""
        return Polynomial(tuple((m, c * factor) for m, c in self.terms) if factor else ())

    def at_start(self) -> Polynomial:
        """With learned gates at the numbers that they start at."""
        table: dict[Monomial, float] = {}
        for monomial, c in self.terms:
            known = [a.start for a in monomial if a.start is not None]
            rest = tuple(a for a in monomial if a.start is None)
            table[rest] = table.get(rest, 0.0) + c * math.prod(known)
        return Polynomial.of(table)

    @property
    def gain(self) -> Range:
        """Range of its operator norm. The constant vector along an axis is fixed by averages, permutations and what repeats again what was averaged:
        the polynomial at one is a lower bound; the sum of the absolute coefficients an upper one."""
        if (value := self.number) is not None:
            return Range(abs(value), abs(value))
        if len(self.terms) == 1:
            return _of_monomial(*self.terms[0])
        gates = sorted({a for m, _ in self.terms for a in m if a.kind == "gate"}, key=lambda a: repr(a.key))
        if any(not math.isfinite(a.low) or not math.isfinite(a.high) for a in gates) or len(gates) > MOST_GATES or self._is_curved():
            return Range(0.0, math.inf if gates else self._ends({})[1])
        corners = [dict(zip(gates, values, strict=True)) for values in itertools.product(*((a.low, a.high) for a in gates))]
        ends = [self._ends(corner) for corner in corners]
        values = [self._signed(corner) for corner in corners]
        crosses = min(values) <= 0.0 <= max(values) and len(corners) > 1
        top = max(high for _, high in ends)
        if any(not a.uniform for a in gates):  # where entries are chosen one by one between two operators, each counts at its largest
            groups = [self._groups(corner) for corner in corners]
            top = max(top, sum(max(abs(g.get(rest, 0.0)) for g in groups) for rest in groups[0])) if len(groups[0]) > 1 else top
        if len(gates) == 1 and gates[0].fixed:
            return Range(max(low for low, _ in ends), top)
        return Range(0.0 if crosses else min(low for low, _ in ends), top)

    def _is_curved(self) -> bool:
        """Whether a gate stands in it with a power."""
        return any(max(Counter(a for a in m if a.kind == "gate").values(), default=0) > 1 for m, _ in self.terms)

    def _ends(self, gates: Mapping[Atom, float]) -> tuple[float, float]:
        """(lower, upper) bound of the operator norm with numbers for the gates."""
        groups = self._groups(gates)
        if (of_rest := _projected(groups)) is not None:
            return of_rest, of_rest
        parts = any(_may_vanish(rest) or _size(rest) > 1 or (len(groups) > 1 and "beside" in _kinds(rest)) for rest in groups)
        upper = sum(map(abs, groups.values()))
        return (0.0 if parts else abs(sum(groups.values()))), upper

    @property
    def is_euclidean(self) -> bool:
        """Whether its gain is that of the 2-norm alone: something less an average of it, of which the largest entry may double."""
        values = [math.copysign(1.0, c) for _, c in self.terms]
        return len(set(values)) > 1 and any(a.kind == "average" for m, _ in self.terms for a in m)

    def _groups(self, gates: Mapping[Atom, float]) -> dict[Monomial, float]:
        """Operator -> its coefficient with numbers for the gates."""
        groups: dict[Monomial, float] = {}
        for monomial, c in self.terms:
            rest = tuple(a for a in monomial if a.kind != "gate")
            groups[rest] = groups.get(rest, 0.0) + c * _size(rest) * math.prod(gates[a] for a in monomial if a.kind == "gate")
        return groups

    def _signed(self, gates: Mapping[Atom, float]) -> float:
        return sum(c * math.prod(gates[a] for a in m if a.kind == "gate") for m, c in self.terms)

    @property
    def nonnegative(self) -> bool:
        """Whether no value of its gates makes it negative."""
        gates = {a for m, _ in self.terms for a in m if a.kind == "gate"}
        if len(gates) > MOST_GATES or self._is_curved() or any(not math.isfinite(a.low) or not math.isfinite(a.high) for a in gates):
            return False
        order = list(gates)
        return all(self._signed(dict(zip(order, v, strict=True))) >= -1e-12 for v in itertools.product(*((a.low, a.high) for a in order)))


def _kinds(monomial: Monomial) -> set[Kind]:
    return {atom.kind for atom in monomial}


def _may_vanish(monomial: Monomial) -> bool:
    """Whether an operator may give nothing of what comes in: a part of it, or averages over it and what stands beside it."""
    kinds = _kinds(monomial)
    return "part" in kinds or ("beside" in kinds and not kinds.isdisjoint(("average", "repeat")))


def _size(monomial: Monomial) -> float:
    """The norm of what repeats entries, beside what takes averages of them; at least one."""
    return math.sqrt(max(1.0, math.prod(a.entries for a in monomial)))


def _projected(groups: Mapping[Monomial, float]) -> float | None:
    """The 2-norm of a + b·P for one average P, an orthogonal projection: a on what averages to nothing, a + b on what the average keeps."""
    atoms = {atom for monomial in groups for atom in monomial}
    if len(atoms) != 1 or any(len(m) > 1 for m in groups) or (atom := next(iter(atoms))).kind != "average" or atom.key[0] != "average":
        return None
    a, b = groups.get((), 0.0), groups.get((atom,), 0.0)
    return max(abs(a), abs(a + b))


def _of_monomial(monomial: Monomial, c: float) -> Range:
    """Of a product of atoms: powers of one constant of the program are taken at its largest entry."""
    gates = [a for a in monomial if a.kind == "gate"]
    size = _size(monomial)
    high = abs(c) * size * math.prod(max(abs(a.low), abs(a.high)) for a in gates)
    if size > 1 or _may_vanish(monomial):
        return Range(0.0, high)
    if len(set(gates)) == 1 and gates[0].fixed:
        return Range(high, high)
    return Range(abs(c) * math.prod(0.0 if a.low <= 0.0 <= a.high else min(abs(a.low), abs(a.high)) for a in gates), high)


def _product(a: Monomial, b: Monomial) -> Monomial:
    """Atoms of both; an average taken twice is one."""
    found = sorted((*a, *b), key=lambda atom: repr(atom.key))
    return tuple(atom for i, atom in enumerate(found) if not (atom.kind == "average" and i and found[i - 1] == atom))


def collapsed(polynomial: Polynomial) -> Polynomial:
    """A polynomial with too many terms as one multiplier of which the largest size alone is known."""
    high = polynomial.gain.high
    return Polynomial((((Atom(("collapsed", len(polynomial.terms), high), "gate", -high, high, None, -1, False),), 1.0),))


ONE = Polynomial((((), 1.0),))
ZERO = Polynomial(())


def number(value: float) -> Polynomial:
    """A number as a coefficient."""
    return ONE if value == 1.0 else Polynomial((((), value),)) if value else ZERO


def of_atom(atom: Atom) -> Polynomial:
    """One atom as a coefficient."""
    return Polynomial((((atom,), 1.0),))


__all__ = ["ONE", "ZERO", "Atom", "Monomial", "Polynomial", "Range", "number", "of_atom"]
