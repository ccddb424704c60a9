"""T6: the softmax Jacobian in mean square falls like 1/s when logits are scaled by s.

p = softmax(s u), J = diag p − ppᵀ, ‖J‖_F² = Σp² − 2Σp³ + (Σp²)². For a u with a density only near-ties of the two largest entries, within
1/s of each other, contribute: p is there (σ(sg), 1 − σ(sg)) with g the gap, ‖J‖_F² = 4σ²(1 − σ)², and ∫_0^∞ 4σ²(1 − σ)²(sg) dg = 1/(3s):

    E‖J‖_F² → f(0)/(3s),     f(0) the density at 0 of the gap between the two largest entries,
    f(0) = L(L − 1) ∫ φ(x)² Φ(x)^(L−2) dx   for L independent standard normal entries.

So in root mean square J has exponent −½ in the scale of the logits. A logit is a product, each factor W_Q, W_K raises ∂logit/∂x by one
degree, and in the mean square each factor is left with ½ (value and output maps keep 1): status `mean square`, an asymptote, no bound.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike


def jacobian_square(rows: ArrayLike) -> float:
    """Mean over rows [rows, L] of ‖diag p − ppᵀ‖_F²; each row non-negative with sum 1."""
    p = np.atleast_2d(np.asarray(rows, dtype=np.float64))
    if (p < 0).any() or not np.allclose(p.sum(1), 1, atol=1e-2):
        raise ValueError("`rows`: required non-negative rows with sum 1")
    squares = (p**2).sum(1)
    return float((squares - 2 * (p**3).sum(1) + squares**2).mean())


def gap_density(length: int, points: int = 20001) -> float:
    """f(0) = L(L − 1) ∫ φ² Φ^(L−2) of L independent standard normals, by the trapezoidal rule on [−10, 10]."""
    if length < 2:
        raise ValueError(f"`length`: required a row of at least 2 entries, found {length}")
    x = np.linspace(-10.0, 10.0, points)
    density = np.exp(-x * x) / (2 * math.pi)
    below = np.array([0.5 * math.erfc(-value / math.sqrt(2)) for value in x])
    return length * (length - 1) * float((density * below ** (length - 2)).sum() * (x[1] - x[0]))


def asymptote(length: int, scale: float) -> float:
    """E‖J‖_F² ≈ f(0)/(3s) for L independent normal logits of standard deviation s (relative error below 5 % from s ≈ 8)."""
    if not scale > 0:
        raise ValueError(f"`scale`: required > 0, found {scale}")
    return gap_density(length) / (3 * scale)


def mean_square_exponent(logit_factors: int, linear_factors: int, output_norm: bool = False) -> float:
    """Exponent of the branch Jacobian's root mean square under joint scaling, for c → ∞.

    `logit_factors`: how many of W_Q, W_K are scaled, ½ each; `linear_factors`: how many of W_V, W_O, 1 each, or 0 each under an output
    norm. Pre: Q ½, Q and K 1, all four 3; with output norm: Q ½, all four 1.
    """
    if logit_factors < 0 or linear_factors < 0:
        raise ValueError(f"required counts >= 0, found {logit_factors} and {linear_factors}")
    return 0.5 * logit_factors + (0 if output_norm else linear_factors)
