"""The gradient of the last map W_2 of a branch, a = h W_2 + b_2, in front of a softmax cross-entropy loss (Kim et al., 3.1, B.1, C.1–C.3).

∂L/∂W_2 = hᵀ g J, with g = p̂ − y the gradient at the logits, ‖g‖ ≤ √2 (both are probability vectors), J what lies between a and the
logits. A rank-one matrix has Frobenius norm ‖h‖ ‖g J‖, so every bound below holds for the whole matrix:

    pre        √2 ‖h‖                       J = I                  (C.1: equal to ‖h‖‖p̂ − y‖)
    peri       √2 γ ‖h‖/σ(a)                J = J_norm(a)          σ(a)² = ‖a‖²/D + ε
    post       √2 γ ‖h‖/σ(x + a)            J = J_norm(x + a)
    pre + final norm   √2 γ_F ‖h‖/σ(x + a)  the same as post: bounded by √2 γ_F ‖h‖/σ, which saturates as h grows

The paper has 4 in place of √2, per entry: it bounds ‖p̂ − y‖ by 2 and the norm's Jacobian, a projection over σ, by two. "Bounded" (peri)
holds unless ‖h‖/‖a‖ is large: when h is near the null space of W_2ᵀ, and for W_2 → c W_2, where the bound grows like 1/c until
σ(a) ≈ √ε and then stays at γ‖h‖/√ε: a tiny or zero-initialised W_2 under an output norm raises its own gradient.
For a head with matrix E, multiply by ‖E‖.
"""

from __future__ import annotations

import math

ROOT_2 = math.sqrt(2)
"""Largest 2-norm of p̂ − y."""


def pre_bound(hidden: float, head: float = 1.0) -> float:
    """‖∂L/∂W_2‖_F ≤ √2 ‖E‖ ‖h‖ without a norm after the add; `hidden`: ‖h‖, `head`: ‖E‖."""
    return ROOT_2 * _positive("hidden", hidden) * head


def normed_bound(hidden: float, normed: float, width: int, gamma_max: float = 1.0, eps: float = 0.0, head: float = 1.0) -> float:
    """√2 ‖E‖ max|γ| ‖h‖/σ, σ² = ‖v‖²/D + ε, with v what the norm divides: a for peri, x + a for post and for a final norm.

    `normed`: ‖v‖ (after centring for a LayerNorm). Infinite for v = 0 and ε = 0.
    """
    if width < 1:
        raise ValueError(f"`width`: required >= 1, found {width}")
    sigma = math.sqrt(_positive("normed", normed) ** 2 / width + _positive("eps", eps))
    return ROOT_2 * head * gamma_max * _positive("hidden", hidden) / sigma if sigma else math.inf


def kim_printed(hidden: float, normed: float, width: int, gamma: float = 1.0) -> float:
    """Kim et al., (8) and (10): 4 γ √D ‖h‖/‖v‖, stated per entry of W_2. Sound, looser by 2√2, and silent about ε."""
    return 4 * gamma * math.sqrt(width) * hidden / normed if normed else math.inf


def growth_when_shrunk(variance: float, eps: float, factor: float) -> float:
    """By how much γ/σ grows when W_2 (and b_2) is multiplied by `factor` under an output norm: √((σ² + ε)/(c²σ² + ε))."""
    if variance < 0 or eps < 0 or variance + eps == 0 or factor**2 * variance + eps == 0:
        raise ValueError(f"required variance, eps >= 0 and a positive denominator, found {variance}, {eps}, factor {factor}")
    return math.sqrt((variance + eps) / (factor**2 * variance + eps))


def _positive(name: str, value: float) -> float:
    if not value >= 0:
        raise ValueError(f"`{name}`: required >= 0, found {value}")
    return value
