"""Closed forms that the recursion is checked against.

1. X, lemma 2 (pre, Xavier weights, uniform attention without an output map, ReLU FFN): (1+l/2)·d ≤ E‖x_l‖² ≤ (1+3l/2)·d. The recursion has
   the factor in between: each layer adds c + (1−c)/n by attention (c the cosine of the normed tokens) and 1/2 by the FFN.
2. DeepNorm (DeepNet, section 4): 2N(v²+w²)/α² bounds the change of the model per step; its constants make it one.
3. Rank collapse (review, T4): near collapse one post block multiplies 1 − cos by 1/(1+v), v the mean-square gain of V·O, the FFN being neutral.
4. P, proposition 3.1, for one token, o = x + a, a = W₂h, p = ∂L/∂(what the head reads), σ the divisor of a norm at its input (ε included):

       pre                     ‖∂L/∂W₂‖_F = ‖p‖·‖h‖
       pre with final norm     ≤ (γ_F/σ(o))·‖p‖·‖h‖, and σ(o) → ‖W₂h‖/√d as h grows: it saturates
       peri                    ≤ (γ/σ(a))·‖p‖·‖h‖, of degree 0 in h until σ(a) ≈ √ε; inverse in W₂
       peri with final norm    ≤ (γ/σ(a))·(γ_F/σ(o))·‖p‖·‖h‖

   since ∂L/∂W₂ = (∂L/∂a)·hᵀ and the Jacobian of a norm has operator norm at most γ/σ. With softmax cross-entropy ‖p‖ ≤ √2, which is sharper
   than the 4 that P prints. P leaves the final norm out: the growth that it finds for pre stops there.
"""

from __future__ import annotations

import math

CROSS_ENTROPY = math.sqrt(2.0)
"""‖softmax − one-hot‖₂ is at most √2."""


def lemma_two(layers: int) -> tuple[float, float]:
    """X's bounds of E‖x_l‖²/d after `layers` blocks."""
    return 1 + layers / 2, 1 + 3 * layers / 2


def deepnorm_number(blocks: int, value: float, output: float, alpha: float) -> float:
    """2N(v²+w²)/α² with `value` = v², `output` = w²; about one or less keeps the update of the model bounded."""
    return 2 * blocks * (value + output) / alpha**2


def collapse_factor(gain: float, alpha: float = 1.0) -> float:
    """What one post block does to 1 − cos near collapse: α²/(α²+v), `gain` = v the product of the mean-square gains of V and O."""
    return alpha**2 / (alpha**2 + gain)


def last_map_gradient(
    upstream: float, hidden: float, *, branch: tuple[float, float] | None = None, final: tuple[float, float] | None = None
) -> float:
    """The bound of ‖∂L/∂W₂‖_F for one token: `upstream` = ‖p‖, `hidden` = ‖h‖, each norm as (max|γ|, σ); exact for pre without a final norm."""
    for gain, divisor in (n for n in (branch, final) if n is not None):
        upstream *= gain / divisor
    return upstream * hidden


__all__ = ["CROSS_ENTROPY", "collapse_factor", "deepnorm_number", "last_map_gradient", "lemma_two"]
