"""Logits that each block hands on to the next one, which adds its own to them (RealFormer)."""

from __future__ import annotations

import math

from screen.calculi.bounds.boundedness import INPUTS
from screen.calculi.bounds.expr import Expr
from screen.facts.claims.derive import weighing
from screen.facts.claims.states_read import borders_of, branch_of, reader_of
from screen.facts.operator.gates import LARGEST
from screen.facts.queries import where
from screen.facts.record import Facts
from screen.structure.types import Sublayer, Unknown

HANDED = frozenset({"B_memory", "B_earlier"})
"""The size of what comes in beside the stream, and of what an earlier block has made."""
HUGE = 1e8
"""A size of inputs beside weights of one."""
LEAST = 1e-4
"""Share of what is handed on that counts as a part of it: what is handed on may be divided by √(width of a head) behind it (convention)."""


def add_up(facts: Facts, sublayer: Sublayer) -> bool:
    """Whether all that grows in its logits is a value that is handed from block to block and added to them as it is, whatever the weights."""
    analysis = facts.analysis(sublayer)
    bounds = [] if isinstance(analysis, Unknown) else [s.logits for s in weighing(analysis.bounds) if s.bounded is not True]
    return bool(bounds) and all(isinstance(b, Expr) and _is_added(b) for b in bounds) and _is_of_an_earlier_block(facts, sublayer)


def _is_of_an_earlier_block(facts: Facts, sublayer: Sublayer) -> bool:
    """Whether what it reads of what came before was made of an earlier state than the rest of what it reads: of one state are the branches of one
    block (experts by the shares of one router)."""
    stream, _ = where(facts, sublayer)
    reader = reader_of(facts, stream)
    branch = None if reader is None else branch_of(reader, stream, sublayer)
    if reader is None or branch is None:
        return True
    outside = borders_of(reader, branch)
    earlier = [i for i, border in outside.items() if border == "earlier"]
    own = max((i for i, border in outside.items() if border == "raw"), default=0)
    return not earlier or any(max((s for s in stream.states if reader.flow.depends(i, s)), default=-1) < own for i in earlier)


def _is_added(bound: Expr) -> bool:
    """Whether a bound grows by multiples of what is handed on that no weight changes, and with nothing else that comes in. One without end has no
    slope."""
    names = bound.symbols()

    def at(handed: float, own: float, weight: float) -> float:
        return math.exp(min(bound.log({n: handed if n in HANDED else own if n in INPUTS else weight for n in names}), LARGEST))

    few, many = (at(2 * HUGE, 1.0, weight) - at(HUGE, 1.0, weight) for weight in (1.0, 30.0))
    return few > LEAST * HUGE and math.isclose(few, many, rel_tol=1e-3) and math.isclose(at(1.0, HUGE, 1.0), at(1.0, 1.0, 1.0), rel_tol=1e-3)


__all__ = ["HUGE", "add_up"]
