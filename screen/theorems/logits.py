"""The largest attention logit that a norm on queries and keys allows (channel L), and what is left without one.

A normed head is q = γ_q⊙q̂ + β_q with ‖q̂‖ ≤ r, the same for k; logits are s·q·k.

1. "per_head": r = √d_h. |s q·k| ≤ |s| d_h max_i|γ_q,i γ_k,i| for β = 0 and nothing between norm and product.
2. With rotary positions between them the channels of a pair mix, so that γ_q of one channel meets γ_k of the other: the product of the
   two maxima, max|γ_q| max|γ_k|, takes the place of the largest product. (γ_q = (1, 0), γ_k = (0, 1): largest product 0, logit r².)
3. "full": one norm over all H heads, r = √(H d_h), and one head may take all of it: H times case 1.
4. "unit" (cosine attention): r = 1, so that |s| max|γ_qγ_k| remains, s learned or fixed.
5. β ≠ 0: |s| (r max|γ_q| + ‖β_q‖)(r max|γ_k| + ‖β_k‖).
6. No norm: |s| B̄² ‖W_Q W_Kᵀ‖ with B̄ the largest token, in 2-norm, that the projections see. A cap c: at most c in every case.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

Kind = Literal["per_head", "full", "unit"]


def qk_norm_bound(
    kind: Kind,
    head_width: int,
    heads: int = 1,
    gamma_q: ArrayLike | float = 1.0,
    gamma_k: ArrayLike | float = 1.0,
    beta_q: float = 0.0,
    beta_k: float = 0.0,
    rotary: bool = True,
    scale: float | None = None,
) -> float:
    """Largest |logit|; gains as numbers or per channel, biases by their 2-norm, `scale` s (default 1/√d_h).

    `rotary=False` (case 1) is for heads whose channels do not mix between norm and product; it needs both gains per channel or both
    as numbers.
    """
    if kind not in ("per_head", "full", "unit"):
        raise ValueError(f"`kind`: required per_head, full or unit, found {kind!r}")
    if head_width < 1 or heads < 1:
        raise ValueError(f"required head_width >= 1 and heads >= 1, found {head_width} and {heads}")
    q, k = (np.abs(np.asarray(g, dtype=np.float64)) for g in (gamma_q, gamma_k))
    radius = {"per_head": math.sqrt(head_width), "full": math.sqrt(head_width * heads), "unit": 1.0}[kind]
    factor = abs(scale) if scale is not None else 1 / math.sqrt(head_width)
    if rotary or beta_q or beta_k:  # cases 2 and 5
        return factor * (radius * float(q.max()) + beta_q) * (radius * float(k.max()) + beta_k)
    return factor * radius**2 * float((q * k).max())


def raw_bound(size: float, query_key: float, scale: float) -> float:
    """|s| B̄² ‖W_Q W_Kᵀ‖: the largest |logit| without a norm on q and k (case 6)."""
    if size < 0 or query_key < 0:
        raise ValueError(f"required size, query_key >= 0, found {size} and {query_key}")
    return abs(scale) * size**2 * query_key
