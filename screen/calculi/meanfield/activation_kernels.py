"""The kernel of an entry-wise function: what φ does to the moments of a Gaussian value (arc-cosine kernel and its kin).

For (z, z') Gaussian with variance q and correlation ρ = 1 − δ/q, with orthonormal Hermite polynomials h_k,

    φ(√q·t) = Σ a_k h_k(t)     E φ(z)φ(z') = Σ a_k² ρ^k          (Mehler)
    φ'(√q·t) = Σ b_k h_k(t)    E φ'(z)φ'(z') = Σ b_k² ρ^k

The sums stop at ORDER; what is missing of E φ² stands at ρ^ORDER, so that both ends ρ = 0 and ρ = 1 are exact. Near ρ = 1 the gap is
δ·E φ'φ' at the middle correlation (d/dρ E φφ' = q·E φ'φ', Plackett), which keeps its digits where 1 − ρ is small.

ReLU in closed form (Cho and Saul 2009), cos θ = ρ:  E φφ' = q/(2π)·(sin θ + (π−θ)cos θ),  E φ'φ' = (π−θ)/(2π).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from screen.calculi.meanfield.moments import Gradient, Moments
from screen.ops.scalars import SCALARS

Array = NDArray[np.float64]
Function = Callable[[Array], Array]

REACH = 8.0
"""The mean over t is a sum over equal steps in ±REACH: exact for smooth φ, and good to the square of a step at a kink."""
NODES = 321
ORDER = 48
STEP = 1e-4
"""Step of the central difference for φ', in units of √q."""
NEAR = 0.02
"""Below this 1 − ρ the gap is taken by its slope."""
SERIES = 0.02
"""Below this angle sin θ − θ cos θ is taken as θ³/3."""


def _basis() -> tuple[Array, Array]:
    """Nodes t, and h_k(t)·weight as [ORDER, NODES]."""
    nodes = np.linspace(-REACH, REACH, NODES)
    weights = np.exp(-(nodes**2) / 2)
    table = np.zeros((ORDER, NODES))
    table[0], table[1] = 1.0, nodes
    for k in range(2, ORDER):
        table[k] = (nodes * table[k - 1] - math.sqrt(k - 1) * table[k - 2]) / math.sqrt(k)
    return nodes, table * (weights / weights.sum())


_NODES, _TABLE = _basis()
_POWERS = np.arange(ORDER + 1, dtype=np.float64)


@dataclass(frozen=True)
class Expansion:
    """φ at one power q: the squares a_k² and b_k², each with its tail at the end, and the mean a_0."""

    values: Array
    slopes: Array
    mean: float

    def gap(self, moments: Moments) -> float:
        """δ of φ(z)."""
        lost = moments.gap / moments.power
        if lost < NEAR:
            return moments.gap * self.slope(1.0 - lost / 2)
        return float(self.values @ -np.expm1(_POWERS * math.log1p(-min(lost, 1.0 - 1e-12))))

    def slope(self, cosine: float) -> float:
        """E φ'(z)φ'(z')."""
        return float(self.slopes @ np.power(max(cosine, 0.0), _POWERS))


def expand(function: Function, power: float) -> Expansion:
    """The two Hermite series of φ at power q."""
    scale = math.sqrt(power)
    values = function(scale * _NODES)
    slopes = (function(scale * (_NODES + STEP)) - function(scale * (_NODES - STEP))) / (2 * STEP * scale)
    first = _TABLE @ values
    return Expansion(_with_tail(first, values), _with_tail(_TABLE @ slopes, slopes), float(first[0]))


def _with_tail(coefficients: Array, values: Array) -> Array:
    squares = coefficients**2
    return np.append(squares, max(float(_TABLE[0] @ values**2) - float(squares.sum()), 0.0))


@dataclass(frozen=True, eq=False)
class Kernel:
    """One entry-wise function."""

    name: str
    function: Function
    memory: dict[float, Expansion]
    """Expansions by power: a normed stream comes back to the same one in every layer."""

    def forward(self, moments: Moments) -> Moments:
        """Moments of φ(X)."""
        if moments.power <= 0:
            start = float(self.function(np.zeros(1))[0])
            return Moments(start**2, 0.0, start)
        if self.name == "relu":
            return Moments(moments.power / 2, _relu_gap(moments), math.sqrt(moments.power / (2 * math.pi)))
        series = self._at(moments.power)
        return Moments(float(series.values.sum()), series.gap(moments), series.mean)

    def backward(self, moments: Moments, gradient: Gradient) -> Gradient:
        """Gradient at X from the gradient at φ(X)."""
        if moments.power <= 0:
            slope = float((self.function(np.full(1, STEP)) - self.function(np.full(1, -STEP)))[0] / (2 * STEP))
            return gradient.scaled(slope**2)
        if self.name == "relu":
            return Gradient(gradient.power / 2, gradient.shared * (1 - _angle(moments) / math.pi) / 2)
        series = self._at(moments.power)
        return Gradient(gradient.power * float(series.slopes.sum()), gradient.shared * series.slope(moments.cosine))

    def _at(self, power: float) -> Expansion:
        key = float(f"{power:.12g}")
        if key not in self.memory:
            self.memory[key] = expand(self.function, key)
        return self.memory[key]


def _angle(moments: Moments) -> float:
    """θ = arccos ρ, from 1 − ρ without loss of digits."""
    return 2 * math.asin(math.sqrt(min(max(moments.gap / moments.power, 0.0) / 2, 1.0)))


def _relu_gap(moments: Moments) -> float:
    """q/(2π)·(π(1−cos θ) − (sin θ − θ cos θ))."""
    angle = _angle(moments)
    bend = angle**3 / 3 if angle < SERIES else math.sin(angle) - angle * math.cos(angle)
    return moments.gap / 2 - moments.power / (2 * math.pi) * bend


FUNCTIONS: dict[str, Function] = {name: scalar.f for name, scalar in SCALARS.items()}
"""Canonical op -> φ, with the default arguments of torch."""


@cache
def kernel(name: str) -> Kernel:
    """The kernel of a named function, made once."""
    return Kernel(name, FUNCTIONS[name], {})


__all__ = ["FUNCTIONS", "Expansion", "Function", "Kernel", "expand", "kernel"]
