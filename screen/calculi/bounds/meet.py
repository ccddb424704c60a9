"""What is known of one value in two ways: of each norm the smaller bound."""

from __future__ import annotations

from dataclasses import replace

from screen.calculi.bounds.expr import smallest
from screen.calculi.bounds.mixed_norms import Bound, Fact, query, tidy
from screen.calculi.bounds.quantities import Names
from screen.calculi.bounds.value import Value, recut
from screen.structure.types import Unknown


def met(one: Value, other: Value, names: Names) -> Value:
    """What is known of one value in two ways."""
    if isinstance(one.mag, Unknown):
        other = replace(other, mag=one.mag) if isinstance(other.mag, Unknown) else other  # what is not known is that, by whichever way
        return replace(other, der=one.der if isinstance(other.der, Unknown) else other.der)
    other = recut(other, one.layout, one.shape, names)
    mag, der = _both(one.mag, other.mag, one.flat), _both(one.der, other.der, one.flat)
    low, high = max(one.low, other.low), min(one.high, other.high)
    jump = one.jump if not isinstance(one.der, Unknown) else other.jump
    operator = one.operator
    if operator is not None and not isinstance(mag, Unknown):
        operator = smallest(operator, query(mag, one.flat, one.all))
    return replace(one, mag=mag, der=der, low=low, high=high, jump=jump, operator=operator)


def _both(one: Bound, other: Bound, flat: tuple[int, ...]) -> Bound:
    """For every norm that one of them speaks of the smaller bound."""
    if isinstance(one, Unknown) or isinstance(other, Unknown):
        return other if isinstance(one, Unknown) else one
    keys = dict.fromkeys(f.key for f in (*other, *one))
    return tidy((Fact(smallest(query(other, flat, *k), query(one, flat, *k)), *k) for k in keys), flat)
