"""H(P) = sup_f −⟨P, f⟩ in closed form for a branch that ends in a norm (Kan et al., appendices E, F, H; corrected).

The norm's image is γ⊙u + β with u on a sphere of radius r in a subspace with projector Π, so per token −⟨p, f⟩ = −⟨Π Γ p, u⟩ − ⟨p, β⟩
is largest at u = −r ΠΓp/‖ΠΓp‖:

    H = Σ_tokens  r ‖Π Γ p‖ − ⟨p, β⟩,      f* = β − r Γ ΠΓp/‖ΠΓp‖

1. "rms": r = √d, Π = I (Kan et al., 99).   2. "layer": r = √d, Π = I − 11ᵀ/d: x̂ has mean 0, which (99) forgets, so that its value is
too large and its maximiser is not on the norm's image.   3. "l2": r = 1, Π = I.   4. G groups of d/G features, each normed by itself:
the image is a product of spheres, H = Σ_g r_g ‖Π_g (Γp)_g‖.   A constant or learned scale λ after the norm (LayerScale, Δt) makes γ
and β into λγ and λβ.

For a branch H is an upper bound, equal when the branch can give every token any direction (distinct tokens, free F). The maximiser is
unique if and only if ΠΓp ≠ 0 for every token and group; zeros in γ do no harm. With ε > 0 the supremum is approached as the norm's
input grows, and not attained. P = 0 gives H = 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Kind = Literal["rms", "layer", "l2"]
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Hamiltonian:
    """Value and maximiser of −⟨P, f⟩ over the image of a norm."""

    value: float
    """H(P): units of P times units of γ, times √d for "rms" and "layer"."""
    maximiser: Array
    """f*, of P's shape [tokens, width]; one of many where `unique` is False."""
    unique: bool


def hamiltonian(
    costate: ArrayLike,
    gamma: ArrayLike | float = 1.0,
    beta: ArrayLike | float = 0.0,
    kind: Kind = "rms",
    groups: int = 1,
    scale: ArrayLike | float = 1.0,
) -> Hamiltonian:
    """H, f* and whether f* is unique, for P = `costate` of shape [tokens, width]; γ, β and the scale λ after them of shape [width].

    Raises ValueError when the width is not a multiple of `groups` or shapes do not fit.
    """
    p, gain, shift = _shapes(costate, gamma, beta, scale)
    tokens, width = p.shape
    if groups < 1 or width % groups:
        raise ValueError(f"`groups` must divide the width: required a divisor of {width}, found {groups}")
    if kind not in ("rms", "layer", "l2"):
        raise ValueError(f"`kind`: required rms, layer or l2, found {kind!r}")
    size = width // groups
    radius = 1.0 if kind == "l2" else math.sqrt(size)
    direction = (p * gain).reshape(tokens, groups, size)  # Γp
    if kind == "layer":
        direction = direction - direction.mean(-1, keepdims=True)  # ΠΓp
    length = np.linalg.norm(direction, axis=-1, keepdims=True)
    size_of_p = np.linalg.norm((p * gain).reshape(tokens, groups, size), axis=-1, keepdims=True)
    flat = length <= 64 * np.finfo(np.float64).eps * np.maximum(size_of_p, np.finfo(np.float64).tiny)
    unit = np.where(flat, -_some_direction(size, kind), direction / np.where(flat, 1.0, length))
    maximiser = shift - radius * gain * unit.reshape(tokens, width)
    value = radius * float(length.sum()) - float((p * shift).sum())
    return Hamiltonian(value, maximiser, not bool(flat.any()))


def kan_printed(costate: ArrayLike, gamma: ArrayLike | float = 1.0, beta: ArrayLike | float = 0.0) -> float:
    """Kan et al., (94) at (99), for a LayerNorm as for an RMSNorm: Σ √d ‖Γp‖ − ⟨p, β⟩. An upper bound; exact for RMSNorm only."""
    p, gain, shift = _shapes(costate, gamma, beta, 1.0)
    return math.sqrt(p.shape[1]) * float(np.linalg.norm(p * gain, axis=1).sum()) - float((p * shift).sum())


def attained_share(variance: float, eps: float) -> float:
    """√(σ²/(σ²+ε)): the share of ΠΓp's term that is reached when the norm's input has mean square σ² (tends to 1, never is 1 for ε > 0)."""
    if not (variance > 0 and eps >= 0):
        raise ValueError(f"required variance > 0 and eps >= 0, found {variance} and {eps}")
    return math.sqrt(variance / (variance + eps))


def penalised(states: ArrayLike, costate: ArrayLike, penalty: float, degree: int) -> float:
    """T8: sup_θ −⟨P, F_θ(X)⟩ − λ‖θ‖² of a branch that is homogeneous of degree k in its weights; X: [tokens, in], P: [tokens, out].

    k = 1, F = X W: ‖XᵀP‖_F²/(4λ) (complete the square).
    k = 2, F = X W₁ W₂ (value and output map, X the mixed tokens): 0 if ‖XᵀP‖₂ ≤ 2λ, else infinite, because
    −tr(Pᵀ X W₁ W₂) ≤ ‖XᵀP‖₂ (‖W₁‖_F² + ‖W₂‖_F²)/2, with equality at rank one. With a ReLU between the maps the same holds for one
    token; for more it is 0 if Σ_j ‖x_j‖‖p_j‖ ≤ 2λ and infinite if ‖XᵀP‖₂ > 4λ (z = relu(z) − relu(−z): one of two rays gets half).
    k ≥ 3 (gated FFN): infinite if some θ has −⟨P, F⟩ > 0, assumed here when XᵀP ≠ 0, since t^k outgrows λ t². Weights that are bounded
    by other means (`adamw.weight_bound`) keep H finite for every k.
    """
    x, p = np.asarray(states, dtype=np.float64), np.asarray(costate, dtype=np.float64)
    if x.ndim != 2 or p.ndim != 2 or len(x) != len(p):
        raise ValueError(f"required X [tokens, in] and P [tokens, out] over the same tokens, found shapes {x.shape} and {p.shape}")
    if not penalty > 0 or degree < 1:
        raise ValueError(f"required penalty > 0 and degree >= 1, found {penalty} and {degree}")
    product = x.T @ p
    if degree == 1:
        return float((product**2).sum()) / (4 * penalty)
    if degree == 2:
        return 0.0 if np.linalg.norm(product, 2) <= 2 * penalty else math.inf
    return math.inf if product.any() else 0.0


def penalised_ray(length: float, slope: float, penalty: float, degree: int) -> float:
    """Value of −⟨P, F⟩ − λ‖θ‖² on a ray θ = t θ₁ with ‖θ₁‖² = degree and −⟨P, F_θ₁⟩ = slope: t^k slope − k λ t².

    T8 in one line: for k = 2 its sign is that of slope/2 − λ, for k ≥ 3 it tends to infinity for every λ.
    """
    return length**degree * slope - degree * penalty * length**2


def _some_direction(size: int, kind: Kind) -> Array:
    """A unit vector of the subspace, for tokens that leave the choice open."""
    vector = np.zeros(size)
    vector[0] = 1.0
    if kind == "layer" and size > 1:
        vector[:2] = math.sqrt(0.5), -math.sqrt(0.5)
    return vector


def _shapes(costate: ArrayLike, gamma: ArrayLike | float, beta: ArrayLike | float, scale: ArrayLike | float) -> tuple[Array, Array, Array]:
    p = np.asarray(costate, dtype=np.float64)
    if p.ndim != 2:
        raise ValueError(f"`costate`: required shape [tokens, width], found {p.shape}")
    vectors = []
    for name, value in (("gamma", gamma), ("beta", beta), ("scale", scale)):
        array = np.asarray(value, dtype=np.float64)
        if array.shape not in ((), (p.shape[1],)):
            raise ValueError(f"`{name}`: required a number or shape [{p.shape[1]}], found {array.shape}")
        vectors.append(np.broadcast_to(array, (p.shape[1],)))
    return p, np.asarray(vectors[0] * vectors[2]), np.asarray(vectors[1] * vectors[2])
