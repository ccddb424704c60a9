"""Sensitivity of multi-head attention in block-∞ (largest token of the change over largest token of the cause): Emadi, 5.1–5.3, and T10.

Rows u_i of U, ‖u_i‖ ≤ B̄. A change ΔU of block-∞ size 1 moves the logits u_i M u_jᵀ/√d_h, M = W_Q W_Kᵀ, by at most 2B̄‖M‖/√d_h, and the
row of attention by θ/τ times that in ℓ1 (theorem 4.2; θ ≤ 1). Rows of ΔA sum to 0: their positive and negative parts have mass ½‖ΔA‖₁
each, so ‖ΔA v‖ ≤ ½‖ΔA‖₁ diam(v). Per head

    S_h = ‖W_V^h‖ + (θ/τ)(2B̄/√d_h) ‖W_Q^h W_K^hᵀ‖ ½diam_j(v_j^h)                                            (T10)

and heads are concatenated before W_O: ‖W_O‖ √Σ_h S_h². Emadi has ‖W_Q‖‖W_K‖ for ‖W_Q W_Kᵀ‖, B̄‖W_V‖ for ½diam, and the sum over heads.
With θ of the rows at one point this bounds the Jacobian there; a Lipschitz constant needs θ = 1 and B̄, diam over the whole domain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class HeadNorms:
    """Norms of one head. `query_key` is ‖W_Q W_Kᵀ‖ (at most ‖W_Q‖‖W_K‖); `spread` is half the diameter of its value vectors."""

    query: float
    key: float
    value: float
    width: int
    """d_h: logits are q·k/(τ√d_h)."""
    theta: float = 1.0
    """Largest θ over the rows (1 for a Lipschitz constant)."""
    query_key: float | None = None
    spread: float | None = None


@dataclass(frozen=True)
class Sensitivity:
    """Three bounds of the same quantity, each at most the one before it."""

    emadi: float
    """Theorem 5.1: sum over heads."""
    root_of_squares: float
    """The same per head, combined as root of the sum of squares."""
    value_spread: float
    """T10 (where `query_key` or `spread` is missing its upper bound stands in for it)."""


def sensitivity(heads: Sequence[HeadNorms], output: float, size: float, temperature: float = 1.0) -> Sensitivity:
    """Bounds of attention's block-∞ sensitivity; `output`: ‖W_O‖, `size`: B̄ = max‖u_i‖ (2-norm), `temperature`: τ."""
    if not heads or output < 0 or size < 0 or not temperature > 0:
        raise ValueError(f"required a head, output, size >= 0 and temperature > 0, found {len(heads)} heads, {output}, {size}, {temperature}")
    plain = [_per_head(h, size, temperature, h.query * h.key, size * h.value) for h in heads]
    sharp = [
        _per_head(
            h,
            size,
            temperature,
            h.query * h.key if h.query_key is None else min(h.query_key, h.query * h.key),
            size * h.value if h.spread is None else min(h.spread, size * h.value),
        )
        for h in heads
    ]
    return Sensitivity(output * sum(plain), output * math.hypot(*plain), output * math.hypot(*sharp))


def half_diameter(values: ArrayLike) -> float:
    """½ max_{ij} ‖v_i − v_j‖ of value vectors [tokens, d_h]."""
    v = np.asarray(values, dtype=np.float64)
    if v.ndim != 2:
        raise ValueError(f"`values`: required shape [tokens, width], found {v.shape}")
    squares: NDArray[np.float64] = (v * v).sum(1)
    gram = v @ v.T
    return 0.5 * math.sqrt(max(0.0, float((squares[:, None] + squares[None, :] - 2 * gram).max())))


def pre_layer(attention: float, ffn: float, norm: float) -> float:
    """Emadi, 5.2: (1 + Lip(LN) L_attention)(1 + Lip(LN) L_ffn) of one pre-norm layer."""
    return (1 + norm * attention) * (1 + norm * ffn)


def post_layer(attention: float, ffn: float, norm: float) -> float:
    """Emadi, 5.3: Lip(LN)² (1 + L_attention)(1 + L_ffn) of one post-norm layer."""
    return norm**2 * (1 + attention) * (1 + ffn)


def log_sensitivity_proxy(theta: float, temperature: float, size: float, norms: Sequence[float]) -> dict[str, float]:
    """Emadi, E.5–E.6: log S = log(θ/τ) + 2 log B̄ + log G with G = ‖W_O‖‖W_Q‖‖W_K‖‖W_V‖, in its parts (natural logarithms)."""
    if len(norms) != 4 or min(theta, temperature, size, *norms) <= 0:
        raise ValueError(f"required four norms and positive numbers, found theta {theta}, temperature {temperature}, size {size}, norms {norms}")
    parts = {"theta/tau": math.log(theta / temperature), "size": 2 * math.log(size), "G": math.fsum(map(math.log, norms))}
    return {**parts, "S": math.fsum(parts.values())}


def _per_head(head: HeadNorms, size: float, temperature: float, query_key: float, spread: float) -> float:
    return head.value + head.theta / temperature * 2 * size / math.sqrt(head.width) * query_key * spread
