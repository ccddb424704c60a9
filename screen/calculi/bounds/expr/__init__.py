"""Expressions of bounds: non-negative sums, products, powers, minima and maxima of norms, shared as a graph.

Every symbol stands for a number >= 0, and every expression is monotone in the symbols with positive exponents. Equal expressions are one
object (hash-consed), so that equality is identity and evaluation visits each sub-expression once. SymPy is never imported here: `sympy()`
gives text that `sympy.sympify` reads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from weakref import WeakValueDictionary

from screen.calculi.bounds.expr.evaluation import code_of, exp_of, log_node, plain_node
from screen.calculi.bounds.expr.form import form_of
from screen.calculi.bounds.expr.memo import memo
from screen.calculi.bounds.expr.node import ExprNode
from screen.calculi.bounds.expr.order import at_most
from screen.calculi.bounds.expr.printing import text


@dataclass(frozen=True, eq=False)
class Expr(ExprNode):
    """An expression that can be evaluated, compared and printed."""

    args: tuple[Expr, ...]

    def evaluate(self, values: Mapping[str, float]) -> float:
        """The number at given values; `inf` where it is larger than a float, never `nan`."""
        found = self._plain(values)
        return exp_of(self.log(values)) if found is None else found

    def _plain(self, values: Mapping[str, float]) -> float | None:
        table: dict[int, float] = {}
        try:
            for e in self.walk():
                table[e.serial] = plain_node(e, table, values)
        except (OverflowError, ZeroDivisionError):
            return None
        found = table[self.serial]
        return found if math.isfinite(found) and found != 0.0 else None

    def log(self, values: Mapping[str, float]) -> float:
        """Natural logarithm of the number: finite wherever the number is, however large."""
        table: dict[int, float] = {}
        for e in self.walk():
            table[e.serial] = log_node(e, table, values)
        return table[self.serial]

    def substitute(self, replacements: Mapping[str, Expr]) -> Expr:
        """The same with symbols replaced."""
        table: dict[int, Expr] = {}
        for e in self.walk():
            args = [table[a.serial] for a in e.args]
            table[e.serial] = replacements.get(e.name, e) if e.kind == "sym" else _rebuild(e, args)
        return table[self.serial]

    def lambdify(self) -> Callable[[Mapping[str, float]], float]:
        """A compiled function of the values: plain floats, `inf` on overflow."""
        lines = ["def f(v):"]
        for e in self.walk():
            lines.append(f"    t{e.serial} = {code_of(e)}")
        lines.append(f"    return t{self.serial}")
        space: dict[str, Callable[[Mapping[str, float]], float]] = {}
        exec("\n".join(lines), {"inf": math.inf}, space)
        compiled = space["f"]

        def found(values: Mapping[str, float]) -> float:
            try:
                x = compiled(values)
            except (OverflowError, ZeroDivisionError):
                return exp_of(self.log(values))
            return x if math.isfinite(x) and x != 0.0 else exp_of(self.log(values))

        return found

    def sympy(self, limit: int = 400) -> str:
        """Text that SymPy reads, for people: sub-expressions used twice in a large expression get names, one line each, `u1 = …`."""
        return text(self, limit)

    def __str__(self) -> str:
        return self.sympy()


_TABLE: WeakValueDictionary[tuple[object, ...], Expr] = WeakValueDictionary()


def _make(kind: str, value: float = 0.0, name: str = "", args: tuple[Expr, ...] = (), powers: tuple[float, ...] = ()) -> Expr:
    key = (kind, value, name, args, powers)
    found = _TABLE.get(key)
    if found is None:
        text = f"{kind} {value!r} {name} {powers!r} ".encode()
        digest = blake2b(text + b"".join(a.digest for a in args), digest_size=8).digest()
        found = Expr(kind, value, name, args, powers, digest, form_of(kind, name, tuple([a.form for a in args]), powers))
        _TABLE[key] = found
    return found


@memo
def num(value: float) -> Expr:
    """A number >= 0."""
    if math.isnan(value) or value < 0:
        raise ValueError(f"a bound is a number >= 0, not {value}")
    return _make("num", float(value))


@memo
def sym(name: str) -> Expr:
    """A symbol that stands for a number >= 0."""
    return _make("sym", name=name)


ZERO, ONE = num(0.0), num(1.0)


def _split(e: Expr) -> tuple[float, Expr]:
    """e = coefficient · core."""
    if e.kind == "num":
        return e.value, ONE
    if e.kind == "mul":
        if e.value == 1.0:
            return 1.0, e
        if len(e.args) == 1 and e.powers == (1.0,):
            return e.value, e.args[0]
        return e.value, _make("mul", 1.0, args=e.args, powers=e.powers)
    return 1.0, e


@memo
def add(*terms: Expr) -> Expr:
    """Sum; like terms are collected."""
    cores: dict[int, tuple[Expr, float]] = {}
    constant = 0.0
    for term in terms:
        constant += term.value if term.kind == "add" else 0.0
        for part in term.args if term.kind == "add" else (term,):
            c, core = _split(part)
            if core is ONE:
                constant += c
            else:
                cores[core.serial] = (core, cores.get(core.serial, (core, 0.0))[1] + c)
    parts = [mul(num(c), core) for core, c in cores.values()]
    if not parts:
        return num(constant)
    if len(parts) == 1 and constant == 0.0:
        return parts[0]
    return _make("add", constant, args=tuple(sorted(parts, key=lambda e: e.digest)))


@memo
def mul(*factors: Expr) -> Expr:
    """Product; powers of equal factors are collected."""
    factors = tuple(f for f in factors if f is not ONE)
    if len(factors) == 1:
        return factors[0]
    coefficient = 1.0
    bases: dict[int, tuple[Expr, float]] = {}
    for factor in factors:
        if factor.kind in ("num", "mul"):
            coefficient *= factor.value
        for base, power in zip(factor.args, factor.powers, strict=True) if factor.kind == "mul" else ((factor, 1.0),):
            if base.kind != "num":
                bases[base.serial] = (base, bases.get(base.serial, (base, 0.0))[1] + power)
    if coefficient == 0.0:
        return ZERO
    kept = sorted(((b, p) for b, p in bases.values() if p != 0.0), key=lambda item: item[0].digest)
    if not kept:
        return num(coefficient)
    if coefficient == 1.0 and len(kept) == 1 and kept[0][1] == 1.0:
        return kept[0][0]
    return _make("mul", coefficient, args=tuple(b for b, _ in kept), powers=tuple(p for _, p in kept))


@memo
def power(base: Expr, exponent: float) -> Expr:
    """base ** exponent."""
    if base.kind == "num":
        return num(_raised(base.value, exponent)) if base.value > 0 or exponent > 0 else num(math.inf)
    if base.kind == "mul":
        return _make_power(base, exponent)
    return _make("mul", 1.0, args=(base,), powers=(exponent,)) if exponent != 1.0 else base


def _raised(value: float, exponent: float) -> float:
    """value^exponent, infinite beyond the floats."""
    try:
        return float(value**exponent)
    except OverflowError:
        return math.inf


def _make_power(base: Expr, exponent: float) -> Expr:
    kept = [(b, p * exponent) for b, p in zip(base.args, base.powers, strict=True)]
    return mul(num(_raised(base.value, exponent)), *(power(b, p) for b, p in kept))


def root(e: Expr) -> Expr:
    """√e."""
    return power(e, 0.5)


def rss(*terms: Expr) -> Expr:
    """Root of the sum of squares."""
    kept = [t for t in terms if t is not ZERO]
    return kept[0] if len(kept) == 1 else root(add(*(power(t, 2.0) for t in kept)))


@memo
def smallest(*items: Expr) -> Expr:
    """Minimum."""
    return _extreme("min", items, min, math.inf)


@memo
def largest(*items: Expr) -> Expr:
    """Maximum."""
    return _extreme("max", items, max, 0.0)


def _extreme(kind: str, items: tuple[Expr, ...], choose: Callable[[float, float], float], neutral: float) -> Expr:
    if items and all(item is items[0] for item in items):
        return items[0]
    constant = neutral
    cores: dict[int, tuple[Expr, float]] = {}
    for item in items:
        if item.kind == kind:
            constant = choose(constant, item.value)
        for part in item.args if item.kind == kind else (item,):
            c, core = _split(part)
            if core is ONE:
                constant = choose(constant, c)
            else:
                cores[core.serial] = (core, choose(cores[core.serial][1], c) if core.serial in cores else c)
    parts = _undominated(kind, [mul(num(c), core) for core, c in cores.values()])
    if not parts or (kind == "min" and constant == 0.0):
        return num(constant)
    if len(parts) == 1 and constant == neutral:
        return parts[0]
    return _make(kind, constant, args=tuple(sorted(parts, key=lambda e: e.digest)))


def _undominated(kind: str, parts: list[Expr]) -> list[Expr]:
    kept: list[Expr] = []
    for part in parts:
        if any(at_most(k, part) if kind == "min" else at_most(part, k) for k in kept):
            continue
        kept = [k for k in kept if not (at_most(part, k) if kind == "min" else at_most(k, part))]
        kept.append(part)
    return kept


def _rebuild(e: Expr, args: list[Expr]) -> Expr:
    if e.kind == "add":
        return add(num(e.value), *args)
    if e.kind == "mul":
        return mul(num(e.value), *(power(a, p) for a, p in zip(args, e.powers, strict=True)))
    if e.kind in ("min", "max"):
        ends = [num(e.value)] if math.isfinite(e.value) else []
        return (smallest if e.kind == "min" else largest)(*ends, *args)
    return e
