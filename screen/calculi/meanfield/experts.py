"""A mixture of experts in mean square: four numbers of a random routing, and what they do to moments and gradients.

y_i = Σ_e g_ie f_e(x_i), the experts f_e with weights of their own and outputs of mean zero. At initialisation the router's logits are Gaussian,
independent between experts, of deviation s = √q_l; those of two tokens have correlation ρ_l. Routing is run as it was traced (softmax, top-k,
division by the sum, …) on a fixed sample of such logits. With g the row of gates over all experts, zero where none was chosen, and J = ∂g/∂l at
fixed choice,

    keep  G = E Σ_e g_e²      meet  M = E Σ_e g_ie g_i'e      jump  S = E‖J‖_F²      both  T = E tr(J_i J_i'ᵀ)

Forward      q_y = G·q_f                      r_y = M·r_f,  r = q − δ; so δ_y = G·δ_f + (G − M)·r_f
To experts   g_f = G·g                        ḡ_f = M·ḡ
To logits    g_l = d·g·q_f·S/E                ḡ_l = d·ḡ·r_f·T/E         (d the width of y, E the number of experts)

Which expert a token goes to changes at a tie: nothing of that is in J, and G − M falls only as √(1 − ρ_l) for similar tokens where some experts
are left out, which is why the grid is in t = √(1 − ρ_l). How many tokens an expert gets has no part in it (no capacity).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from screen.calculi.meanfield.moments import Gradient, Moments

Array = NDArray[np.float64]
Choice = dict[int, NDArray[np.int64]]
"""Which experts were chosen where: kept, so that a routing can be run again at the same choice."""
Gates = Callable[[Array, Choice], Array]
"""Logits [rows, E] -> gates over all experts [rows, E]."""

ENTRIES = 8_192
"""Of the sample: rows times experts."""
FEWEST_ROWS = 24
STEP = 1e-4
"""Step of the difference that stands for J, in units of s."""
PER_OCTAVE = 2
"""Points of the grid of s per factor of two."""
TURNS: tuple[float, ...] = (0.0, 0.03, 0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 1.0)
"""Points of the grid of t = √(1 − ρ)."""
SEED = 20_240_602

Numbers = tuple[float, float, float, float]
"""(G, G − M, S, T)."""


@dataclass(frozen=True, eq=False)
class Routing:
    """How logits become gates."""

    experts: int
    width: int
    """d, entries of the output."""
    gates: Gates
    memory: dict[tuple[int, int], Numbers] = field(default_factory=dict)

    def at(self, logits: Moments) -> Numbers:
        """(G, G − M, S, T) by interpolation over log s and t."""
        if logits.power <= 0:
            return self._point(1e-9, 0.0)
        place = math.log2(logits.power) / 2 * PER_OCTAVE
        low = math.floor(place)
        turn = math.sqrt(min(max(logits.gap / logits.power, 0.0), 1.0))
        high = min(max(int(np.searchsorted(TURNS, turn)), 1), len(TURNS) - 1)
        part = (turn - TURNS[high - 1]) / (TURNS[high] - TURNS[high - 1])
        corners = [(low + a, high - 1 + b, abs(1 - a - (place - low)) * abs(1 - b - part)) for a in (0, 1) for b in (0, 1)]
        found = [(self._grid(n, t), w) for n, t, w in corners if w > 0]
        one, two, three, four = (math.fsum(numbers[i] * w for numbers, w in found) for i in range(4))
        return one, two, three, four

    def _grid(self, octave: int, turn: int) -> Numbers:
        key = (octave, turn)
        if key not in self.memory:
            self.memory[key] = self._point(2 ** (octave / PER_OCTAVE), TURNS[turn])
        return self.memory[key]

    def _point(self, spread: float, turn: float) -> Numbers:
        draw = np.random.default_rng(SEED)
        size = max(ENTRIES // self.experts, FEWEST_ROWS), self.experts
        shared, one, two, way = (draw.standard_normal(size) for _ in range(4))
        near = math.sqrt(1 - turn**2)
        left, jump = self._pushed(spread, near * shared + turn * one, way)
        right, other = self._pushed(spread, near * shared + turn * two, way)
        keep = float((left**2 + right**2).sum(1).mean()) / 2
        apart = float(((left - right) ** 2).sum(1).mean()) / 2
        return keep, apart, float((jump**2 + other**2).sum(1).mean()) / 2, float((jump * other).sum(1).mean())

    def _pushed(self, spread: float, logits: Array, way: Array) -> tuple[Array, Array]:
        """Gates, and J·v for a random v, at the same choice."""
        choice: Choice = {}
        gates, step = self.gates(spread * logits, choice), STEP * spread
        return gates, (self.gates(spread * logits + step * way, choice) - gates) / step

    def forward(self, logits: Moments, value: Moments) -> Moments:
        """Moments of the mixture, from those of the logits and of one expert's output."""
        keep, apart, _, _ = self.at(logits)
        return Moments(keep * value.power, keep * value.gap + apart * (value.power - value.gap))

    def backward(self, logits: Moments, value: Moments, gradient: Gradient) -> tuple[Gradient, Gradient]:
        """Gradients at the logits and at the experts' outputs."""
        keep, apart, jump, both = self.at(logits)
        times = self.width / self.experts
        shared = gradient.shared * (value.power - value.gap) * both
        to_logits = Gradient(times * gradient.power * value.power * jump, times * shared)
        return to_logits, Gradient(keep * gradient.power, (keep - apart) * gradient.shared)


__all__ = ["Choice", "Gates", "Routing"]
