"""How gradients change from block to block far behind the last one: a law of depth is not seen in the numbers at one depth, where 1.05 a block looks
like a power of 24 blocks. The blocks that a stack ends with are repeated, and what one of them does to gradients is read at a half and at three
quarters of the longer stack.

Where each block brings the state back to one size (a norm on the stream, or a part of it that is forgotten), what a block does settles: gradients are
exponential in depth unless it settles at a factor of 1. Where the state goes on growing and is never multiplied, a block does less and less, in
proportion to its share of the state: gradients are a power of its size, and of the depth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from screen.calculi.meanfield.propagate import Block, Forward, Stack, backward, forward

TIMES, LEAST = 4, 192
"""Blocks of the longer stack: so many times those of the stack, and at least so many; but no more than `DEEPEST`, beyond which a stack is its own."""
FEW = 3
"""How often blocks that repeat stand in a stack, at least."""
SETTLED = 0.05
"""Relative difference of the two places up to which what a block does has settled (a power of the depth: a third)."""
ALONG = 0.1
"""Relative difference up to which gradients change by a steady power of the size of the state."""
DEEPEST, SHOWN = 1000, 3.0
"""Blocks of the deepest stacks that are trained, and the gradient ratio from which on it is not called flat (conventions)."""
WIDE = 3
"""Features for each block from which on the limit of large width gives a ratio within a factor of 2 or so (gated nets of 32, 128 and 512 features
before a norm, 24 blocks: it is too small by 0.9, 2.3 and 0.9 times blocks over features, in logarithms)."""
NONE = 1e-9
"""Logarithm of a factor per block below which it is rounding."""
STRAIGHT, FADES = 0.5, -2.0
"""Exponent of what a block adds to the square of the state over that square, below which the state is not multiplied (linear in depth: 0, an
exponential: 1), and from which down it comes to an end (the root of the depth: -1)."""


@dataclass(frozen=True)
class Far:
    """What holds far behind the last block."""

    factor: float
    """Of the gradient from the end of a block back to its beginning, once that has settled: the mean over the blocks that are repeated."""
    law: Literal["steady", "power", "untold"]
    """Whether that factor is one for all blocks, or falls to 1 as the state grows. Where it falls more slowly than that, as one over the size of the
    state (a branch that saturates and is normed), the ratio is the exponential of a root of the depth, which is no power."""
    features: int = 0
    """The least number of features that a map in the blocks sums over; 0 where it is not known."""

    @property
    def multiplies(self) -> bool:
        """Whether blocks go on multiplying gradients, and the deepest stacks that are trained would show it."""
        return self.law == "steady" and self.reaches(SHOWN)

    @property
    def is_untold(self) -> bool:
        """Whether blocks go on multiplying gradients, by no law that is told, and the deepest stacks that are trained would show it."""
        return self.law == "untold" and self.reaches(SHOWN)

    def is_told_at(self, blocks: int) -> bool:
        """Whether blocks are wide enough for the factor to give the ratio of so many of them within a factor of 2. Sizes that norms divide by differ
        from draw to draw, and with them what a block does to gradients, by about 1/features."""
        return blocks * WIDE <= self.features

    def reaches(self, ratio: float) -> bool:
        """Whether the factor alone would give the deepest stacks that are trained such a gradient ratio, or its inverse."""
        return abs(math.log(self.factor)) * DEEPEST > math.log(ratio)


class _Place(NamedTuple):
    """One block of the longer stack: logarithms, per block, of the factor of squared gradients over weights and of that of the state's square; and
    that square."""

    fall: float
    rise: float
    power: float


def far(stack: Stack, run: Forward) -> Far | None:
    """What the last blocks of a stack, whose forward pass is `run`, come to when they are repeated; None where they do not repeat, or nothing is seen
    of it."""
    period, count = _repeats(stack), len(stack.blocks)
    if period is None:
        return None
    blocks = max(LEAST, min(TIMES * count, DEEPEST), count)
    while blocks >= count:
        longer = _lengthened(stack, period, blocks)
        if (found := _read(longer, forward(longer) if len(longer.blocks) > count else run, period)) is not None:
            return replace(found, features=_features(_own(stack)[-period:]))
        blocks //= 2
    return None


def with_more(stack: Stack, blocks: int) -> Stack | None:
    """The stack with its last blocks repeated to about so many; None where they do not repeat."""
    period = _repeats(stack)
    return None if period is None else _lengthened(stack, period, blocks)


def _own(stack: Stack) -> tuple[Block, ...]:
    """Its blocks but the last, where that is like no other."""
    return stack.blocks if period_of(stack.blocks) is not None else stack.blocks[:-1]


def _repeats(stack: Stack) -> int | None:
    """After how many blocks its last ones come again, where they do so `FEW` times."""
    period = period_of(_own(stack))
    return None if period is None or period * FEW > len(stack.blocks) else period


def _lengthened(stack: Stack, period: int, blocks: int) -> Stack:
    own = _own(stack)
    more = own[-period:] * ((blocks - len(stack.blocks)) // period)
    return replace(stack, blocks=own + more + stack.blocks[len(own) :])


def _features(blocks: Sequence[Block]) -> int:
    steps = (step for block in blocks for add in block for inlet in add.inlets for step in inlet.program.linears)
    return min((step.inputs for step in steps if step.inputs), default=0)


def period_of(blocks: Sequence[Block]) -> int | None:
    """After how many blocks those of the second half come again; equal blocks are one object."""
    ids = [id(b) for b in blocks]
    half = len(ids) // 2
    return next((p for p in range(1, half + 1) if all(a == b for a, b in zip(ids[-half:], ids[-half - p : -p], strict=True))), None)


def _read(stack: Stack, run: Forward, period: int) -> Far | None:
    if len(run.states) < len(stack.blocks):
        return None
    places = [len(stack.blocks) * k // 4 for k in (2, 3)]
    nearest = places[0] - period
    weights = backward(stack, run, len(stack.blocks), nearest).weights
    one, two = (_place(run, weights, period, nearest, block) for block in places)
    if one is None or two is None:
        return None
    factor = math.exp(two.fall / 2)
    if _follows(one, two):
        return Far(factor, "power")
    return Far(factor, "steady" if abs(one.fall - two.fall) <= max(SETTLED * abs(two.fall), NONE) else "untold")


def _place(run: Forward, weights: Sequence[float], period: int, nearest: int, block: int) -> _Place | None:
    """Of one block; `weights` begin with those of block `nearest`."""
    first, last = weights[block - period - nearest], weights[block - nearest]
    power, later = run.states[block - period].power, run.states[block].power
    if min(first, last, power, later) <= 0 or not math.isfinite(first + last):
        return None
    return _Place(math.log(first / last) / period, math.log(later / power) / period, power)


def _follows(one: _Place, two: _Place) -> bool:
    """Whether gradients go with the size of a state that goes on growing and is not multiplied."""
    if min(one.rise, two.rise) <= NONE or two.power <= one.power or one.fall == 0:
        return False
    powers = one.fall / one.rise, two.fall / two.rise
    added = math.log(two.rise * two.power / (one.rise * one.power)) / math.log(two.power / one.power)
    return abs(powers[1] - powers[0]) <= ALONG * max(map(abs, powers)) and FADES < added < STRAIGHT


__all__ = ["Far", "far", "with_more"]
