"""The recursion over depth: the stream's moments forward through every residual add, a gradient back through all of them.

One add is x ← C(α·x + Σ_b s_b·F_b(x)), all branches F_b (one, or several in parallel) reading the same x. At initialisation the weights of
F_b are independent of x and of each other, so with (q, δ, m) the moments of x and (q_b, δ_b, m_b) those of F_b(x)

    q ← α²q + Σ s_b²q_b      δ ← α²δ + Σ s_b²δ_b      (ḡ and g alike, backwards)

up to the cross terms of the means, which are kept; C is a `Normalise`. Weights that serve at several depths are not independent: see `tied_weights`.

Backward, the gradient enters the last state as (1, 0): equal size at every token and independent between tokens (a loss per token),
through the final norm when there is one. With homogeneous branches g_l is then proportional to 1/q_l: first over last = rms_N/rms_1
(review, T3). What the recursion adds to T3 is the path through the logits and the sharing of gradients between tokens.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from screen.calculi.meanfield.moments import Gradient, Moments
from screen.calculi.meanfield.program import Program, all_gradients, weight_gradient
from screen.calculi.meanfield.transfer import Attend, Join, Linear, Mix, Normalise, Product, Slots, Step, Sum

PER_TOKEN = Gradient(1.0, 0.0)
"""A loss per token."""
LARGEST = 1e300
"""A power above this is not carried on: the next product would be infinite."""


@dataclass(frozen=True)
class Inlet:
    """One branch at an add: its program and s²."""

    name: str
    program: Program
    square: float = 1.0
    names: tuple[tuple[int, str], ...] = ()
    """Of a whole block (output, name) of each of its branches."""

    def name_at(self, node: int) -> str:
        """The branch that a node belongs to: of those that end behind it the first."""
        return min((known for known in self.names if node <= known[0]), default=(node, self.name))[1]


@dataclass(frozen=True)
class Add:
    """One residual add, or several that read the same state."""

    inlets: tuple[Inlet, ...]
    identity: float = 1.0
    """α²."""
    close: Normalise | None = None
    """The norm on the stream after it (C); its slots are not used."""


    def silenced(self) -> Add:
        """The same add with no gradient through the logits."""
        return replace(self, inlets=tuple(replace(i, program=i.program.silenced()) for i in self.inlets))


Block = tuple[Add, ...]


@dataclass(frozen=True)
class Stack:
    """A stream at initialisation."""

    start: Moments
    blocks: tuple[Block, ...]
    final: Normalise | None = None
    tied: tuple[int, ...] = ()
    """Group of each block, those of one group having the same weights; empty where all are independent (see `tied_weights`)."""
    tokens: int = 64
    copies: bool = False
    """Whether blocks of one group have weights of their own, which start alike."""


@dataclass(frozen=True)
class Forward:
    """One forward pass: for every add, in order, what it read and made."""

    adds: tuple[Add, ...]
    slots: tuple[tuple[Slots, ...], ...]
    sums: tuple[Moments, ...]
    """States before C."""
    states: tuple[Moments, ...]
    """States after each block."""
    ends: tuple[int, ...]
    """How many adds there are up to the end of each block."""


def forward(stack: Stack) -> Forward:
    """Moments of the stream after every block; stops where they leave the range of floats."""
    state, states = stack.start, list[Moments]()
    adds, kept, sums, ends = list[Add](), list[tuple[Slots, ...]](), list[Moments](), list[int]()
    for block in stack.blocks:
        for add in block:
            slots = tuple(inlet.program.forward(state) for inlet in add.inlets)
            terms = [s[i.program.output].scaled(i.square) for s, i in zip(slots, add.inlets, strict=True)]
            total = added(state.scaled(add.identity), terms)
            adds.append(add)
            kept.append(slots)
            sums.append(total)
            state = total if add.close is None else normed(add.close, total)
        states.append(state)
        ends.append(len(adds))
        if not state.power < LARGEST:
            break
    return Forward(tuple(adds), tuple(kept), tuple(sums), tuple(states), tuple(ends))


def added(identity: Moments, terms: Sequence[Moments]) -> Moments:
    """Of the sum of values with nothing but a mean in common."""
    every = (identity, *terms)
    mean = math.fsum(t.mean for t in every)
    return Moments(math.fsum(t.power - t.mean**2 for t in every) + mean**2, math.fsum(t.gap for t in every), mean)


def normed(norm: Normalise, moments: Moments) -> Moments:
    slots = [moments, moments]
    replace(norm, source=0, target=1).forward(slots)
    return slots[1]


def norm_factor(norm: Normalise, moments: Moments) -> float:
    size = norm.size(moments)
    return norm.gain / (size + norm.eps) if size + norm.eps > 0 else 0.0


@dataclass(frozen=True)
class Backward:
    """Mean square gradients per block, first to last."""

    streams: tuple[float, ...]
    """E G² of the stream before each block."""
    weights: tuple[float, ...]
    """E‖∂L/∂W‖² per token, summed over all weights and biases of each block; 0 when it has none."""
    lasts: tuple[float, ...]
    """E‖∂L/∂W‖² per entry of the weight nearest to the output of the last branch of each block; 0 when it has none."""


def backward(stack: Stack, run: Forward, depth: int, first: int = 0, from_end: Gradient = PER_TOKEN) -> Backward:
    """The gradient `from_end` at the output of the first `depth` blocks (and the final norm), back to block `first`."""
    gradient = from_end
    if stack.final is not None:
        gradient = gradient.scaled(norm_factor(stack.final, run.states[depth - 1]))
    streams, weights, lasts = list[float](), list[float](), list[float]()
    for block in reversed(range(first, depth)):
        total = found = 0.0
        start, end = (run.ends[block - 1] if block else 0), run.ends[block]
        for position in reversed(range(start, end)):
            gradient, every, last = _through(stack, run, position, gradient)
            found, total = (last if position == end - 1 else found), total + every
        streams.append(gradient.power)
        weights.append(total)
        lasts.append(found)
    return Backward(tuple(reversed(streams)), tuple(reversed(weights)), tuple(reversed(lasts)))


def _through(stack: Stack, run: Forward, position: int, gradient: Gradient) -> tuple[Gradient, float, float]:
    """The gradient before one add, and the mean squares of those of all its weights, and of the weight nearest to the output of its last branch."""
    add, every, found = run.adds[position], 0.0, 0.0
    if add.close is not None:
        gradient = gradient.scaled(norm_factor(add.close, run.sums[position]))
    back = gradient.scaled(add.identity)
    for inlet, slots in zip(add.inlets, run.slots[position], strict=True):
        backs = inlet.program.backward(slots, gradient.scaled(inlet.square))
        back = back.plus(backs[0])
        last = inlet.program.last
        found = weight_gradient(last, slots, backs, stack.tokens) if last is not None else 0.0
        every += all_gradients(inlet.program, slots, backs, stack.tokens)
    return back, every, found


def value_gains(program: Program) -> tuple[float, ...]:
    """σ²·√(in·out) of the weights on the way from the output back to the stream, by the values that attention weighs; output last."""
    makers = {s.target: s for s in program.steps}
    found: list[float] = []
    slot, share = program.output, 1.0
    while slot in makers:
        step = makers[slot]
        if isinstance(step, Linear):
            found.append(math.sqrt(step.forward_gain * step.backward_gain * min(share, 1.0)))
            share = 1.0
        share *= getattr(step, "share", 1.0)
        slot = _way(step)
    return tuple(reversed(found))


def _way(step: Step) -> int:
    """The slot that the value comes from."""
    if isinstance(step, Attend):
        return step.value
    if isinstance(step, Mix):
        return step.values[0]
    if isinstance(step, Product):
        return step.right
    return step.sources[0] if isinstance(step, Sum | Join) else step.source


__all__ = ["Add", "Backward", "Block", "Forward", "Inlet", "Stack", "added", "backward", "forward", "value_gains"]
