"""The mean cross-entropy of random logits: where a model of words begins, against ln V of one that knows nothing.

Logits z_v of V words, Gaussian with mean zero and deviation s, independent of the label y: E loss = E log Σ_v exp(z_v) − E z_y, the second term zero.
As in the random energy model (Derrida 1981) it is ln V + s²/2 while s² < 2 ln V, and about s·√(2 ln V) beyond. Both, and what lies between, by

    E log Z = ∫ (exp(−eᵘ) − E exp(−eᵘ Z)) du,        E exp(−t Z) = φ(t)^(V−1)·φ_own(t),        φ(t) = E exp(−t·exp(s g))

over u from −∞ to ∞, g a standard Gaussian. Where the head is the embedding table itself (tied), the logit of the word at the input has a mean
of its own, c·σ²·d, c the coefficient with which its row is still in the state that the head reads: φ_own is taken at that mean. The label is
another word, as a rule.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

REACH = 9.0
"""Standard deviations of g that count."""
NODES = 721
STEPS = 961
"""Nodes over u."""


def mean_cross_entropy(vocabulary: int, spread: float, own: float | None = None) -> float:
    """E loss in nats. `spread`: s; `own`: the mean of the logit of the word at the input, None where it is as the others."""
    nodes = np.linspace(-REACH, REACH, NODES)
    weights = np.exp(-(nodes**2) / 2)
    weights /= weights.sum()
    low = -(max(spread * REACH, 0.0) + max(own or 0.0, 0.0) + math.log(vocabulary) + 12.0)
    high = spread * REACH + abs(min(own or 0.0, 0.0)) + 6.0
    u = np.linspace(low, high, STEPS)
    rest = vocabulary if own is None else vocabulary - 1
    total = rest * _log_laplace(u, spread * nodes, weights)
    if own is not None:
        total = total + _log_laplace(u, own + spread * nodes, weights)
    inside = np.exp(-np.exp(np.minimum(u, 50.0))) - np.exp(total)
    return float(((inside[1:] + inside[:-1]) / 2).sum() * (u[1] - u[0]))


def _log_laplace(u: Array, logits: Array, weights: Array) -> Array:
    """log E exp(−eᵘ·exp(z)) over the nodes of z."""
    lost = -np.expm1(-np.exp(np.minimum(u[:, None] + logits, 50.0))) @ weights
    return np.asarray(np.log1p(-np.minimum(lost, 1.0 - 1e-16)))


__all__ = ["mean_cross_entropy"]
