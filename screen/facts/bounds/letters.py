"""Which letters (`W0`, `b1`, of which `W0_row` is one norm) stand in an expression: what most comparisons (`order`) fail by.

The form shows a <= b only term by term and factor by factor, and ends at two norms of one letter. So every letter that a needs stands in b, where
a sum, a maximum and a product with positive powers need what each operand needs, and a minimum what all operands need.
"""

from __future__ import annotations

from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from screen.facts.bounds.expr import Expr

_BITS: dict[str, int] = {}


def letters(kind: str, name: str, args: tuple[Expr, ...], powers: tuple[float, ...]) -> tuple[int, int]:
    """(letters of an expression, those that it needs), as masks."""
    if kind == "sym":
        bit = _BITS.setdefault(name.partition("_")[0], 1 << len(_BITS))
        return bit, bit
    has = reduce(or_, (a.has for a in args), 0)
    if kind == "mul":
        return has, reduce(or_, (a.needs for a, p in zip(args, powers, strict=True) if p > 0), 0)
    return has, reduce(and_ if kind == "min" else or_, (a.needs for a in args)) if args else 0
