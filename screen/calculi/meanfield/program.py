"""A branch as a list of steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from screen.calculi.meanfield import forms
from screen.calculi.meanfield.moments import Gradient, Moments
from screen.calculi.meanfield.transfer import Attend, Backs, Linear, Slots, Step, Stretch

ZERO = Moments(0.0, 0.0)


@dataclass(frozen=True)
class Program:
    """A branch as steps; slot 0 is the stream's state, `output` the slot that is added to it."""

    steps: tuple[Step, ...]
    size: int
    """Number of slots."""
    output: int
    given: tuple[tuple[int, Moments], ...] = ()
    """Slots that hold the last state of another stream, with its moments."""
    tokens: int = 0
    """Of a whole block, whose values may have something in common (see `forms`), the number of tokens; 0 for a branch."""

    @property
    def is_causal(self) -> bool:
        """Whether it holds an attention with a causal mask."""
        return any(isinstance(s, Attend) and s.core.causal for s in self.steps)

    def forward(self, state: Moments) -> Slots:
        """All slots, from the state that the branch reads."""
        slots = [state, *([ZERO] * (self.size - 1))]
        for slot, moments in self.given:
            slots[slot] = moments
        if self.tokens:
            forms.forward(self.steps, slots, self.tokens)
            return slots
        for step in self.steps:
            step.forward(slots)
        return slots

    def backward(self, slots: Slots, gradient: Gradient) -> Backs:
        """Gradients at all slots, from the one at the output; slot 0 holds what the branch gives back to the stream."""
        backs = [Gradient(0.0, 0.0)] * self.size
        backs[self.output] = gradient
        if self.tokens:
            forms.backward(self.steps, slots, backs, self.tokens)
            return backs
        for step in reversed(self.steps):
            step.backward(slots, backs)
        return backs

    def silenced(self) -> Program:
        """The same branch with no gradient through the logits."""
        return replace(self, steps=tuple(replace(s, core=replace(s.core, silent=True)) if isinstance(s, Attend) else s for s in self.steps))

    @cached_property
    def of_values(self) -> Program:
        """The same branch with what attention picks in place of what it makes of it."""
        return replace(self, steps=tuple(Stretch(s.value, s.target, 1.0) if isinstance(s, Attend) else s for s in self.steps))

    @cached_property
    def last(self) -> Linear | None:
        """The weight nearest to the output."""
        return next((s for s in reversed(self.steps) if isinstance(s, Linear)), None)

    @cached_property
    def linears(self) -> tuple[Linear, ...]:
        """Its weights."""
        return tuple(s for s in self.steps if isinstance(s, Linear))


def weight_gradient(step: Linear, slots: Sequence[Moments], backs: Sequence[Gradient], tokens: int) -> float:
    """E‖∂L/∂W‖² per entry and token: g·q + (n−1)·ḡ·r, with g at the output and q, r at the input of W; over E where W is of E experts."""
    x, g = slots[step.source], backs[step.target].scaled(1 / step.experts)
    return max(g.power * x.power + (tokens - 1) * g.shared * (x.power - x.gap), 0.0)


def all_gradients(program: Program, slots: Sequence[Moments], backs: Sequence[Gradient], tokens: int) -> float:
    """E‖∂L/∂W‖² per token, summed over all weights of a branch and their biases: that of a bias entry is g + (n−1)·ḡ."""
    total = 0.0
    for step in program.linears:
        g = backs[step.target]
        total += step.entries * weight_gradient(step, slots, backs, tokens) + step.outputs * max(g.power + (tokens - 1) * g.shared, 0.0)
    return total


__all__ = ["Program", "all_gradients", "weight_gradient"]
