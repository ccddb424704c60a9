"""Softmax attention in mean square: three numbers of a random row-stochastic matrix, and what they do to moments and gradients.

At initialisation the logits u_ij of n tokens are Gaussian: over the keys j of one query they have variance s², and the rows of two
queries have correlation ρ (the cosine between two queries), since E u_ij u_i'j = τ²·d_h·⟨q_i,q_i'⟩·δ_k. With A = softmax(u),

    pick   P = E Σ_j A_ij²        meet  R = E Σ_j A_ij A_i'j (i ≠ i')        jump  S = E‖diag a − a aᵀ‖_F²,  a = A_i.

Uniform attention has P = R = 1/n; one key per row has P = 1, S = 0. They are averages over a fixed sample of Gaussian rows, kept
over a grid of s and ρ: smooth in both, the same on every run.

Forward, o = A v, exchangeable tokens:     q_o = q_v − δ_v·(1 − P)          δ_o = δ_v·(P − R)
Backward to v (rows of A sum to 1, so that the sum over all pairs of tokens is kept):
    g_v = P·g + (n−1)·R·ḡ                  ḡ_v = (g + (n−1)ḡ − g_v)/(n−1)
Backward to the logits: ∂L/∂u_i = (diag a − a aᵀ)·v·g_i, hence Σ_j E(∂L/∂u_ij)² = d_h·g·δ_v·S. Both the mean key and the mean value drop
out, because each row of ∂L/∂u sums to zero. With the logits' scale τ:
    g_q = τ²·d_h·g·δ_v·S·δ_k               g_k = τ²·d_h·δ_v·S·(g·q_q + (n−1)·ḡ·(R/P)·r_q)       ḡ_k = −g_k/(n−1)
where r_q = q_q − δ_q. S·R/P stands for the overlap of two rows' Jacobians: exact for equal rows, and to first order in s². Where s exceeds the
number of rows no near-tie is expected among them and S counts as 0.

Logits of relative positions, τ·q_i·p_{i−j} with rows p of a table that no token has part in, add their variance t² = τ²·d_h·q_q·δ_p to s², and
nothing to what two queries' rows share: of the same key they see different rows. So ρ ← ρ·s²/(s² + t²), and g_q gets τ²·d_h·g·δ_v·S·δ_p.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from screen.calculi.meanfield.activation_kernels import Kernel, kernel
from screen.calculi.meanfield.moments import Gradient, Moments

Array = NDArray[np.float64]

SPREADS: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 11.0, 16.0, 24.0)
"""Standard deviations s of the logits; beyond the last, S and 1 − P fall as 1/s (only near-ties within 1/s are left: review, T6)."""
COSINES: tuple[float, ...] = (0.0, 0.3, 0.6, 0.8, 0.95, 1.0)
ROWS = 128
SEED = 20_240_601


Table = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Rows:
    """P, S over the grid of s, and R over the grid of (s, ρ)."""

    pick: tuple[float, ...]
    jump: tuple[float, ...]
    meet: Table
    own: Table
    """As R, of two rows over the same keys."""

    def own_at(self, spread: float, cosine: float) -> float:
        """E Σ_j A_ij A'_ij of one token in two layers."""
        return _across(self.own, *_place(spread), cosine)

    def at(self, spread: float, cosine: float) -> tuple[float, float, float]:
        """(P, S, R) by linear interpolation."""
        fade = SPREADS[-1] / spread if spread > SPREADS[-1] else 1.0
        high, part = _place(spread)
        pick = _between(self.pick, high, part)
        return 1 - fade * (1 - pick), fade * _between(self.jump, high, part), _across(self.meet, high, part, cosine)


def _place(spread: float) -> tuple[int, float]:
    """The grid's first s above, and how far of the way to it."""
    place = min(max(spread, 0.0), SPREADS[-1])
    high = min(max(bisect_left(SPREADS, place), 1), len(SPREADS) - 1)
    return high, (place - SPREADS[high - 1]) / (SPREADS[high] - SPREADS[high - 1])


def _between(line: Sequence[float], high: int, part: float) -> float:
    return (1 - part) * line[high - 1] + part * line[high]


def _across(table: Table, high: int, part: float, cosine: float) -> float:
    """One entry of a table of (s, ρ)."""
    place = min(max(cosine, 0.0), 1.0)
    right = min(max(bisect_left(COSINES, place), 1), len(COSINES) - 1)
    near, far = (_between((table[high - 1][c], table[high][c]), 1, part) for c in (right - 1, right))
    return near + (far - near) * ((place - COSINES[right - 1]) / (COSINES[right] - COSINES[right - 1]))


@lru_cache(maxsize=16)
def rows(tokens: int, causal: bool) -> Rows:
    """The three numbers for rows of `tokens` keys; with a causal mask row i has i keys and the numbers are means over i."""
    draw = np.random.default_rng(SEED)
    shared, one, two = (draw.standard_normal((ROWS, tokens)) for _ in range(3))
    lengths = np.ceil((np.arange(ROWS) + 0.5) / ROWS * tokens) if causal else np.full(ROWS, tokens)
    other = draw.permutation(lengths)
    keys = np.arange(tokens)
    pick, jump, meet, own = [], [], [], []
    for spread in SPREADS:
        plain = _softmax(spread * shared, keys < lengths[:, None])
        squares = (plain**2).sum(1)
        pick.append(squares.mean())
        jump.append((squares - 2 * (plain**3).sum(1) + squares**2).mean())
        line, near_line = [], []
        for cosine in COSINES[:-1]:
            near, far = math.sqrt(cosine), math.sqrt(1 - cosine)
            left = _softmax(spread * (near * shared + far * one), keys < lengths[:, None])
            right = spread * (near * shared + far * two)
            line.append((left * _softmax(right, keys < other[:, None])).sum(1).mean())
            near_line.append((left * _softmax(right, keys < lengths[:, None])).sum(1).mean() if causal else line[-1])
        same = _softmax(spread * shared, keys < other[:, None])
        meet.append([*line, (plain * same).sum(1).mean()])
        own.append([*near_line, squares.mean()])
    return Rows(tuple(map(float, pick)), tuple(map(float, jump)), _table(meet), _table(own))


def _table(lines: list[list[float]]) -> Table:
    return tuple(tuple(map(float, line)) for line in lines)


def _softmax(logits: Array, allowed: NDArray[np.bool_]) -> Array:
    shifted = np.where(allowed, logits, -np.inf)
    weights = np.exp(shifted - shifted.max(1, keepdims=True))
    return np.asarray(weights / weights.sum(1, keepdims=True))


def _tanh() -> Kernel:
    return kernel("tanh")


@dataclass(frozen=True)
class Softmax:
    """softmax(τ·q·k)·v with heads of `width` entries."""

    width: int
    scale: float
    """τ, 1/√d_h as a rule."""
    causal: bool
    tokens: int
    heads: int = 1
    silent: bool = False
    """Whether gradients are kept from the logits, for comparison."""
    cap: float = 0.0
    """c of c·tanh(u/c) with 1/c already in τ: the logits' spread is that of the capped value, their gradient has E φ'²; 0 without a cap."""
    within: float = math.inf
    """Where the logits are cut off, which none must reach."""

    def _square(self, query: Moments, key: Moments) -> float:
        """s² of the logits of keys."""
        return max(self.scale**2 * self.width * query.power * key.gap, 0.0)

    def spread(self, query: Moments, key: Moments, places: float = 0.0) -> float:
        """s, the standard deviation of the logits over the keys; `places` is the variance that relative positions add."""
        return self.capped(self.uncapped(query, key, places))

    def uncapped(self, query: Moments, key: Moments, places: float = 0.0) -> float:
        """The same without the cap, where there is one."""
        return math.sqrt(self._square(query, key) + places)

    def capped(self, spread: float) -> float:
        """Standard deviation behind the cap."""
        return self.cap * math.sqrt(_tanh().forward(Moments(spread**2, spread**2)).power) if self.cap else spread

    def alike(self, query: Moments, key: Moments, places: float = 0.0) -> float:
        """ρ, the correlation of two queries' rows."""
        square = self._square(query, key)
        return query.cosine * (square / (square + places) if places else 1.0)

    def slope(self, query: Moments, key: Moments, places: float = 0.0) -> float:
        """E φ'² of the cap; 0 where no near-tie is expected in any row."""
        square = self._square(query, key) + places
        if not self._has_ties(self.capped(math.sqrt(square))):
            return 0.0
        return self.cap**2 * _tanh().backward(Moments(square, square), Gradient(1.0, 0.0)).power if self.cap else 1.0

    def _has_ties(self, spread: float) -> bool:
        """Whether some row of this many can be expected to hold a near-tie (probability about 1/s each): else S is zero in every typical
        draw, and its mean is made by draws that are not seen."""
        return not self.silent and spread < self.tokens * self.heads

    def forward(self, query: Moments, key: Moments, value: Moments, places: float = 0.0) -> Moments:
        """Moments of A v."""
        pick, _, meet = rows(self.tokens, self.causal).at(self.spread(query, key, places), self.alike(query, key, places))
        return Moments(value.power - value.gap * (1 - pick), max(value.gap * (pick - meet), 0.0), value.mean)

    def steepness(self, query: Moments, key: Moments, value: Moments, places: float = 0.0) -> float:
        """Σ_j E(∂L/∂u_ij)² per d_h·g: δ_v·S·φ'²."""
        spread = self.spread(query, key, places)
        _, jump, _ = rows(self.tokens, self.causal).at(spread, self.alike(query, key, places))
        return value.gap * jump * self.slope(query, key, places)

    def backward(self, query: Moments, key: Moments, value: Moments, gradient: Gradient, places: float = 0.0) -> tuple[Gradient, Gradient, Gradient]:
        """Gradients at q, k and v."""
        if self.tokens == 1:  # the softmax of one logit is 1
            return Gradient(0.0, 0.0), Gradient(0.0, 0.0), gradient
        spread = self.spread(query, key, places)
        pick, jump, meet = rows(self.tokens, self.causal).at(spread, self.alike(query, key, places))
        rest = self.tokens - 1
        power = pick * gradient.power + rest * meet * gradient.shared
        to_value = Gradient(power, (gradient.power + rest * gradient.shared - power) / rest)
        steep, alike = self.scale**2 * self.width * value.gap * jump * self.slope(query, key, places), meet / pick
        to_query = Gradient(steep * key.gap * gradient.power, steep * key.gap * gradient.shared * alike)
        both = gradient.power * query.power + rest * gradient.shared * alike * (query.power - query.gap)
        to_key = Gradient(steep * both, -steep * both / rest)
        return to_query, to_key, to_value


__all__ = ["Rows", "Softmax", "rows"]
