"""Monomials over weight groups, and finite sets of them.

A monomial is a product of powers of *sites* (a site is one use of one weight group); it stands for a magnitude or for a sensitivity up to
its constant. A set of monomials stands for their sum, of which only the degrees count.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

Site = int
"""Number of a site; `STREAM` is the magnitude of the stream itself and counts in no degree."""
STREAM: Site = -1
MEMORY: Site = -2
"""The magnitude of what another stream, or an earlier branch, feeds in."""

Power = Fraction | int
Monomial = tuple[tuple[Site, Power], ...]
"""(site, exponent) by site; no exponent is zero."""
Monomials = frozenset[Monomial]

ONE: Monomial = ()
CONSTANT: Monomials = frozenset({ONE})
NOTHING: Monomials = frozenset()


def single(site: Site) -> Monomials:
    """The set of one site to the power of one."""
    return frozenset({((site, 1),)})


def times(a: Monomial, b: Monomial, sign: int = 1) -> Monomial:
    """a·b, or a/b with `sign` −1."""
    if not b:
        return a
    powers = dict(a)
    for site, power in b:
        powers[site] = powers.get(site, 0) + sign * power
    return tuple(sorted((s, p) for s, p in powers.items() if p))


def product(a: Monomials, b: Monomials) -> Monomials:
    """All products."""
    if a == CONSTANT:
        return b
    if b == CONSTANT:
        return a
    return frozenset(times(x, y) for x in a for y in b)


def raised(a: Monomials, power: Power) -> Monomials:
    """Each monomial to a power."""
    return frozenset(tuple((s, p * power) for s, p in m) if power else ONE for m in a)


def total(monomial: Monomial) -> Power:
    """The degree in all weights together; the stream's own magnitude is no weight."""
    return sum((p for s, p in monomial if s >= 0), start=0)


def common(a: Iterable[Monomial]) -> Monomial:
    """The largest monomial that divides every one: of each site the smallest power, where all have it positive."""
    shared: dict[Site, Power] | None = None
    for monomial in a:
        powers = dict(monomial)
        if shared is None:
            shared = {s: p for s, p in powers.items() if p > 0}
        else:
            shared = {s: min(p, powers[s]) for s, p in shared.items() if powers.get(s, 0) > 0}
    return tuple(sorted((shared or {}).items()))


def _order(monomial: Monomial) -> tuple[Power, Monomial]:
    return total(monomial), monomial


def quotient(a: Monomials, b: Monomials) -> tuple[Monomials, bool]:
    """Degrees of a sum over a sum, and whether they are those of every scale.

    What all monomials of b share cancels. If more than that remains, the quotient tends to max over max when the weights grow and to min
    over min when they shrink (review, item 10); both are kept, and nothing holds between."""
    shared = common(b)
    over, under = frozenset(times(m, shared, -1) for m in a), frozenset(times(m, shared, -1) for m in b)
    if under == CONSTANT or not over:
        return over, True
    ends = [times(end(over, key=_order), end(under, key=_order), -1) for end in (max, min)]
    return frozenset(ends), False


__all__ = [
    "CONSTANT", "MEMORY", "NOTHING", "ONE", "STREAM", "Monomial", "Monomials", "Power", "Site", "common", "product", "quotient", "raised", "single",
    "times", "total",
]  # fmt: skip
