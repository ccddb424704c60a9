"""Why most comparisons of expressions (`order`) fail at once: by letters and by degree.

The form shows a <= b only term by term and factor by factor, down to two norms of one letter (`W0_row` and `W0` are norms of the letter `W0`). So

1. every letter that a needs stands in b: sums, maxima and products need what each operand needs, a minimum what all of them need;
2. the degree of a is at most that of b, counted as 1 for a norm, as the largest over sums and maxima and the smallest over minima;
3. nor is it below that of b, counted as the smallest over sums and maxima and the largest over minima.

Factors with a negative power, which are compared the other way round, are left out of all three.
"""

from __future__ import annotations

from functools import reduce
from operator import and_, or_
from typing import NamedTuple

TOLERANCE = 1e-6
"""Of sums of powers."""
_BITS: dict[str, int] = {}


class Form(NamedTuple):
    """What is compared before anything else is."""

    has: int = 0
    """Letters, as a mask."""
    needs: int = 0
    top: float = 0.0
    bottom: float = 0.0


def can_be_at_most(one: Form, other: Form) -> bool:
    """Whether their forms may show that one expression is at most another; False is a proof that they do not."""
    return not one.needs & ~other.has and one.top <= other.top + TOLERANCE and other.bottom <= one.bottom + TOLERANCE


def form_of(kind: str, name: str, args: tuple[Form, ...], powers: tuple[float, ...]) -> Form:
    """The form of an expression, from those of its operands."""
    if kind == "sym":
        bit = _BITS.setdefault(name.partition("_")[0], 1 << len(_BITS))
        return Form(bit, bit, 1.0, 1.0)
    if not args:
        return Form()
    has = reduce(or_, [f.has for f in args])
    if kind == "mul":
        up = [(f, p) for f, p in zip(args, powers, strict=True) if p > 0]
        return Form(has, reduce(or_, [f.needs for f, _ in up], 0), sum(f.top * p for f, p in up), sum(f.bottom * p for f, p in up))
    tops, bottoms, needs = [f.top for f in args], [f.bottom for f in args], [f.needs for f in args]
    if kind == "min":
        return Form(has, reduce(and_, needs), min(tops), max(bottoms))
    return Form(has, reduce(or_, needs), max(tops), min(bottoms))
