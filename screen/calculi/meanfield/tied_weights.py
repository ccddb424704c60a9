"""Blocks whose weights serve again: the forward recursion with what its layers have in common.

At large width the values that one random weight makes of several vectors are jointly Gaussian, and E (Wx)_a(Wy)_a = σ²·⟨x, y⟩ whether x and y are
two tokens of one layer or values of two layers that share W (Yang 2019, Tensor Programs I: no transposed weight takes part forwards). So in place
of (q, δ) of one layer, second moments of all pairs of layers s, t are followed, of one token and of two tokens:

    C_st = E x_s,ia x_t,ia        R_st = E x_s,ia x_t,ja (i ≠ j)

A state is a sum of the first state and of the outputs F_u of branches before it, x_t = a_0 x_0 + Σ a_u F_u, each norm on the stream scaling all a.
Two outputs have something in common where their last weight is the same, so that C(x_s, x_t) = a_0 b_0 q_0 + Σ_uv a_u b_v C(F_u, F_v) over pairs of
one weight. C(F_s, F_t) follows from C(x_s, x_t) step by step as δ does within a layer, with attention

    C_o = R_v + (C_v − R_v)·P_st        R_o = R_v + (C_v − R_v)·R'_st

where P_st = E Σ_j A_s,ij A_t,ij and R'_st = E Σ_j A_s,ij A_t,i'j are those of logits with correlation C_q(C_k − R_k) and R_q(C_k − R_k), over the
product of both deviations. With s = t this is the recursion of `propagate`. Gradients pass
transposed weights, which the law leaves out: they stay unknown.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from screen.calculi.meanfield.attention import rows
from screen.calculi.meanfield.causal import GRID, Array, gaps
from screen.calculi.meanfield.moments import Moments
from screen.calculi.meanfield.program import Program
from screen.calculi.meanfield.propagate import LARGEST, Forward, Stack
from screen.calculi.meanfield.transfer import Attend, Entrywise, Join, Linear, Normalise, Part, Product, Shift, Slots, Step, Stretch, Sum, Within

Pair = tuple[Array, Array]
"""(C, R) with each earlier time."""
Key = tuple[int, int, int]
"""(group of layers, add, branch): outputs of one key are made by one weight."""


@dataclass
class Common:
    """All outputs of branches so far."""

    start: Moments
    keys: list[Key] = field(default_factory=list)
    slots: list[Slots] = field(default_factory=list)
    states: list[tuple[float, Array]] = field(default_factory=list)
    """(a_0, a) of the state that each output was made from."""
    same: Array = field(default_factory=lambda: np.zeros((0, 0)))
    """C of every pair of outputs, zero for different keys."""
    apart: Array = field(default_factory=lambda: np.zeros((0, 0)))
    """C − R of every pair."""

    def moments(self, first: float, parts: Array) -> Moments:
        """Of the state a_0 x_0 + Σ a_u F_u."""
        n = len(parts)
        power = first**2 * self.start.power + float(parts @ self.same[:n, :n] @ parts)
        return Moments(power, first**2 * self.start.gap + float(parts @ self.apart[:n, :n] @ parts), first * self.start.mean)

    def pair(self, first: float, parts: Array, others: Sequence[int]) -> Pair:
        """(C, R) of a state with the states that earlier outputs were made from."""
        same, apart = [], []
        for other in others:
            b, rest = self.states[other]
            n, m = len(parts), len(rest)
            same.append(first * b * self.start.power + float(parts @ self.same[:n, :m] @ rest))
            apart.append(first * b * self.start.gap + float(parts @ self.apart[:n, :m] @ rest))
        return np.array(same), np.array(same) - np.array(apart)

    def add(self, key: Key, program: Program, first: float, parts: Array) -> Moments:
        """One more output, of a branch that reads the state; its moments."""
        state = self.moments(first, parts)
        slots = program.forward(state)
        others = [i for i, k in enumerate(self.keys) if k == key]
        made = crossed(program, slots, [self.slots[i] for i in others], self.pair(first, parts, others))
        end = slots[program.output]
        n = len(self.keys)
        same, apart = (np.pad(m, (0, 1)) for m in (self.same, self.apart))
        same[n, others] = same[others, n] = made[0]
        apart[n, others] = apart[others, n] = made[0] - made[1]
        same[n, n], apart[n, n] = end.power, end.gap
        self.keys.append(key)
        self.slots.append(slots)
        self.states.append((first, parts))
        self.same, self.apart = same, apart
        return end


def crossed(program: Program, now: Slots, before: list[Slots], state: Pair) -> Pair:
    """(C, R) of a branch's output now with those of earlier times, from those of the states that it read."""
    if not before:
        return np.zeros(0), np.zeros(0)
    pairs: dict[int, Pair] = {0: state}
    for slot, moments in program.given:
        pairs[slot] = np.full(len(before), moments.power), np.full(len(before), moments.power - moments.gap)
    for step in program.steps:
        pairs[step.target] = _step(step, pairs, now, before)
    return pairs[program.output]


def _step(step: Step, pairs: dict[int, Pair], now: Slots, before: list[Slots]) -> Pair:
    if isinstance(step, Attend):
        return attended(step, pairs, now, before)
    if isinstance(step, Product):
        (a, b), (c, d) = pairs[step.left], pairs[step.right]
        return a * c, b * d
    if isinstance(step, Sum | Join):
        shares = step.shares if isinstance(step, Join) else [1.0] * len(step.sources)
        found = [(pairs[s][0] * w, pairs[s][1] * w) for s, w in zip(step.sources, shares, strict=True)]
        return np.sum([c for c, _ in found], axis=0), np.sum([r for _, r in found], axis=0)
    if not isinstance(step, Linear | Normalise | Entrywise | Stretch | Part | Shift | Within):
        raise NotImplementedError(type(step).__name__)
    same, other = pairs[step.source]
    if isinstance(step, Linear):
        return step.forward_gain * same + step.bias, step.forward_gain * other + step.bias
    if isinstance(step, Normalise):
        means = np.array([now[step.source].mean * b[step.source].mean for b in before]) if step.centred else 0.0
        scale = np.sqrt([step.factor(now) * step.factor(b) for b in before])
        return (same - means) * scale, (other - means) * scale
    if isinstance(step, Stretch):
        return same * step.factor**2, other * step.factor**2
    if isinstance(step, Shift):
        return same + step.square, other + step.square - step.gap
    return _functions(step, same, other, now, before) if isinstance(step, Entrywise) else (same, other)


def _functions(step: Entrywise, same: Array, other: Array, now: Slots, before: list[Slots]) -> Pair:
    """E φ(z)φ(z') at the geometric mean of the two powers: they are equal behind a norm."""
    found = []
    for place, slots in enumerate(before):
        power = math.sqrt(now[step.source].power * slots[step.source].power)
        whole, table = gaps(step.kernel, float(f"{power:.6g}"))
        found.append([whole - float(np.interp(1 - moment[place] / power, GRID, table)) for moment in (same, other)])
    return np.array([f[0] for f in found]), np.array([f[1] for f in found])


def attended(step: Attend, pairs: dict[int, Pair], now: Slots, before: list[Slots]) -> Pair:
    """(C, R) of what an attention makes."""
    (query, other), (key, shared), (value, rest) = (pairs[s] for s in (step.query, step.key, step.value))
    content = step.core.scale**2 * step.core.width
    places = sum((pairs[slot][0] * square for slot, square in step.places), np.zeros(len(before)))
    likeness = content * query * (key - shared) + places, content * other * (key - shared)
    spreads = [_spread(step, slots) for slots in before]
    here = _spread(step, now)
    table = rows(step.core.tokens, step.core.causal)
    meets: list[list[float]] = []
    for place, there in enumerate(spreads):
        size = max(here * there, 1e-30)
        spread = step.core.capped(math.sqrt(size))
        meets.append([table.own_at(spread, likeness[0][place] / size), table.at(spread, likeness[1][place] / size)[2]])
    picks = np.array(meets)
    return rest + (value - rest) * picks[:, 0], rest + (value - rest) * picks[:, 1]


def _spread(step: Attend, slots: Slots) -> float:
    """s of one layer, before a cap."""
    return step.core.uncapped(slots[step.query], slots[step.key], step.variance(slots))


def forward(stack: Stack) -> Forward:
    """States after every block; stops where they leave the range of floats."""
    common, first, parts = Common(stack.start), 1.0, np.zeros(0)
    states, sums = list[Moments](), list[Moments]()
    for group, block in zip(stack.tied, stack.blocks, strict=True):
        for place, add in enumerate(block):
            for branch, inlet in enumerate(add.inlets):
                common.add((group, place, branch), inlet.program, first, parts)
            scale = math.sqrt(add.identity)
            first, parts = first * scale, np.concatenate([parts * scale, [math.sqrt(i.square) for i in add.inlets]])
            sums.append(common.moments(first, parts))
            if add.close is not None:
                norm = math.sqrt(add.close.factor([sums[-1]]))
                first, parts = first * norm, parts * norm
        states.append(common.moments(first, parts))
        if not states[-1].power < LARGEST:
            break
    return Forward((), (), tuple(sums), tuple(states), ())


__all__ = ["attended", "forward"]
