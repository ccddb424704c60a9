"""The Jacobian of a norm, exactly (Kan et al., lemma 9; Emadi, lemma A.1; Xiong et al., lemma 3), for tokens as rows.

y = γ⊙(xΠ)/σ + β, σ² = ‖xΠ‖²/d + ε, Π = I − 11ᵀ/d for a LayerNorm, I for an RMSNorm. With z = xΠ, ∂y_i/∂x_j = J_ij:

    J = (1/σ) diag(γ) (Π − zᵀz/(dσ²)),      ‖J‖ ≤ max|γ|/σ ≤ max|γ|/√ε,      J(cx) = J(x)/c for ε = 0.

The bracket is symmetric with eigenvalues in [0, 1] (Π minus a part of one direction inside Π's range). Lemma 9 of Kan et al. leaves out
−γ1ᵀ/(dσ), the derivative of the mean; what they use of it, degree −1 in x, survives. Lemma 3 of Xiong et al. bounds ‖J‖ by √d/‖z‖ and
then writes ‖x‖ for ‖z‖: for a token with a large mean ‖z‖ ≪ ‖x‖ and √d/‖x‖ is no bound, whatever the constant.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def norm_jacobian(x: ArrayLike, gamma: ArrayLike | float = 1.0, eps: float = 0.0, centred: bool = True) -> Array:
    """J of one token x of shape [d], J_ij = ∂y_i/∂x_j. Raises ValueError where σ = 0."""
    z, sigma, gain = _parts(x, gamma, eps, centred)
    width = z.size
    projector = np.eye(width) - (1 / width if centred else 0.0)
    return np.asarray(gain[:, None] * (projector - np.outer(z, z) / (width * sigma**2)) / sigma)


def kan_lemma_9(x: ArrayLike, gamma: ArrayLike | float = 1.0) -> Array:
    """The gradient as Kan et al. print it (transposed to J_ij): diag(γ)/σ − γ⊙z zᵀ/(dσ³). Lacks −γ1ᵀ/(dσ)."""
    z, sigma, gain = _parts(x, gamma, 0.0, True)
    return np.asarray(np.diag(gain) / sigma - np.outer(gain * z, z) / (z.size * sigma**3))


def sensitivity_at(gamma_max: float, sigma: float) -> float:
    """max|γ|/σ, σ = √(‖z‖²/d + ε): the bound of ‖J‖ at a point. σ must be measured, or a lower bound of it."""
    if not sigma > 0:
        raise ValueError(f"`sigma`: required > 0, found {sigma}")
    return gamma_max / sigma


def lipschitz(gamma_max: float, eps: float) -> float:
    """max|γ|/√ε: Emadi, lemma A.1. Holds everywhere and says little (316 max|γ| at ε = 1e-5); infinite for ε = 0."""
    if eps < 0:
        raise ValueError(f"`eps`: required >= 0, found {eps}")
    return gamma_max / math.sqrt(eps) if eps else math.inf


def exponent_excess(variance: float, eps: float) -> float:
    """ε/(σ² + ε), σ² the mean square of the norm's input: how far the local exponent of a weight that cancels lies above its degree (T9)."""
    if variance < 0 or eps < 0 or variance + eps == 0:
        raise ValueError(f"required variance, eps >= 0, not both 0, found {variance} and {eps}")
    return eps / (variance + eps)


def _parts(x: ArrayLike, gamma: ArrayLike | float, eps: float, centred: bool) -> tuple[Array, float, Array]:
    token = np.asarray(x, dtype=np.float64)
    if token.ndim != 1:
        raise ValueError(f"`x`: required one token of shape [width], found {token.shape}")
    z = token - token.mean() if centred else token
    sigma = math.sqrt(float(z @ z) / z.size + eps)
    if sigma == 0:
        raise ValueError("`x`: required a token that the norm can divide by, found sigma = 0")
    return z, sigma, np.broadcast_to(np.asarray(gamma, dtype=np.float64), z.shape)
