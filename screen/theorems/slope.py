"""T5: how much one branch with an input norm can add to the stream, at fixed weights, with trained gains and biases (rms per token).

The norm's output is y = x̂ Γ + β with ‖x̂‖ ≤ √d and x̂ = x̂ Π, Π = I − 11ᵀ/d for a LayerNorm (`centred`), else I. Fold Γ and β into
the next map: y W + b = x̂ (ΠΓW) + (βW + b), hence ‖y W + b‖ ≤ √d ‖ΠΓW‖ + ‖βW + b‖. A row of attention is a convex combination,
which keeps this bound (of every value vector), and concatenated heads add as root of the sum of squares:

    attention  (1/√d) min{ ‖W_O‖ √Σ_h (√d‖A_h‖ + ‖βW_V^h + b_V^h‖)² + ‖b_O‖,
                           Σ_h √d‖A_h W_O^h‖ + ‖Σ_h (βW_V^h + b_V^h) W_O^h + b_O‖,
                           √d √(Σ_h‖A_h‖²) ‖[A_1W_O^1/‖A_1‖; …; A_HW_O^H/‖A_H‖]‖ + ‖Σ_h (βW_V^h + b_V^h) W_O^h + b_O‖ },   A_h = ΠΓW_V^h
    FFN        (1/√d) ( ‖W_2‖ (sup|φ(t) − φ(0)|/|t| (√d‖ΠΓW_1‖ + ‖βW_1 + b_1‖) + |φ(0)|√width) + ‖b_2‖ )
    gated      ‖u⊙v‖ ≤ min(‖u‖_∞ ‖v‖, ‖u‖ ‖v‖_∞) in the place of φ(…)

The third line is Cauchy–Schwarz over heads, and never more than ‖W_O‖ √(Σ_h‖A_h‖²). The constants of the second and third need rows that
sum to 1; with rows that may sum to less (sinks, softmax1, empty rows) the norms of the
constant parts add up over heads. Trained gains have outliers: ‖ΠΓW‖ against max|γ| ‖W‖ is what the sharper form wins.
Grouped-query attention: one entry of `heads` per *query* head, with the values of its group.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class InputNorm:
    """The norm before a branch: its gain and bias, shape [width] or a number, and whether it centres."""

    width: int
    gamma: ArrayLike | float = 1.0
    beta: ArrayLike | float = 0.0
    centred: bool = True

    def fold(self, weight: ArrayLike, bias: ArrayLike | float = 0.0) -> tuple[Array, Array]:
        """(ΠΓW, βW + b) of the map after the norm; W: [width, out], b: [out]."""
        w = np.asarray(weight, dtype=np.float64)
        if w.ndim != 2 or len(w) != self.width:
            raise ValueError(f"a map after the norm: required shape [{self.width}, out], found {w.shape}")
        gain = np.broadcast_to(np.asarray(self.gamma, dtype=np.float64), (self.width,))
        shift = np.broadcast_to(np.asarray(self.beta, dtype=np.float64), (self.width,))
        scaled = gain[:, None] * w
        return (scaled - scaled.mean(0) if self.centred else scaled), shift @ w + np.asarray(bias, dtype=np.float64)


@dataclass(frozen=True)
class Head:
    """Value map [width, d_h] and its bias, and the slice [d_h, width] of the output map that reads this head."""

    value: ArrayLike
    output: ArrayLike
    value_bias: ArrayLike | float = 0.0


@dataclass(frozen=True)
class Activation:
    """sup_t |φ(t) − φ(0)|/|t| and φ(0): (1, 0) for ReLU, GELU and SiLU (whose Lipschitz constants are larger)."""

    growth: float = 1.0
    at_zero: float = 0.0


IDENTITY = Activation()


def attention_bound(norm: InputNorm, heads: Sequence[Head], output_bias: ArrayLike | float = 0.0, stochastic: bool = True) -> float:
    """Largest rms per token of softmax attention after a norm; `stochastic`: every row of the attention sums to 1."""
    if not heads:
        raise ValueError("`heads`: required at least one head, found none")
    root = math.sqrt(norm.width)
    folded = [(*norm.fold(h.value, h.value_bias), np.asarray(h.output, dtype=np.float64)) for h in heads]
    bias = np.broadcast_to(np.asarray(output_bias, dtype=np.float64), folded[0][2].shape[1:])
    whole = np.concatenate([out for _, _, out in folded])
    apart = _norm(whole) * math.sqrt(sum((root * _norm(w) + _length(c)) ** 2 for w, c, _ in folded)) + _length(bias)
    constants = [c @ out for _, c, out in folded]
    constant = _length(sum(constants, start=bias)) if stochastic else sum(map(_length, constants)) + _length(bias)
    joined = sum(root * _product_norm(w, out) for w, _, out in folded)
    sizes = [_norm(w) for w, _, _ in folded]
    small = [np.linalg.qr(w, mode="r") @ out / max(size, 1e-300) for size, (w, _, out) in zip(sizes, folded, strict=True)]
    stacked = root * math.hypot(*sizes) * _norm(np.concatenate(small))
    return min(apart, joined + constant, stacked + constant) / root


def ffn_bound(
    norm: InputNorm,
    up: ArrayLike,
    down: ArrayLike,
    up_bias: ArrayLike | float = 0.0,
    down_bias: ArrayLike | float = 0.0,
    activation: Activation = IDENTITY,
) -> float:
    """Largest rms per token of W_2 φ(W_1 y + b_1) + b_2 after a norm; `up`: [width, hidden], `down`: [hidden, width]."""
    weight, shift = norm.fold(up, up_bias)
    root = math.sqrt(norm.width)
    hidden = activation.growth * (root * _norm(weight) + _length(shift)) + abs(activation.at_zero) * math.sqrt(weight.shape[1])
    return (_norm(np.asarray(down, dtype=np.float64)) * hidden + _bias_length(down_bias, norm.width)) / root


def gated_ffn_bound(
    norm: InputNorm,
    gate: ArrayLike,
    up: ArrayLike,
    down: ArrayLike,
    gate_bias: ArrayLike | float = 0.0,
    up_bias: ArrayLike | float = 0.0,
    down_bias: ArrayLike | float = 0.0,
    activation: Activation = IDENTITY,
) -> float:
    """Largest rms per token of W_2 (φ(W_g y + b_g) ⊙ (W_1 y + b_1)) + b_2 after a norm."""
    root = math.sqrt(norm.width)
    g, u = norm.fold(gate, gate_bias), norm.fold(up, up_bias)
    g_length = activation.growth * (root * _norm(g[0]) + _length(g[1])) + abs(activation.at_zero) * math.sqrt(g[0].shape[1])
    g_entry = activation.growth * _largest_entry(g, root) + abs(activation.at_zero)
    hidden = min(g_entry * (root * _norm(u[0]) + _length(u[1])), g_length * _largest_entry(u, root))
    return (_norm(np.asarray(down, dtype=np.float64)) * hidden + _bias_length(down_bias, norm.width)) / root


def attention_bound_plain(gamma_max: float, beta_rms: float, output_norm: float, value_norms: Sequence[float]) -> float:
    """The bound without folding and without biases of maps: ‖W_O‖ √Σ_h‖W_V^h‖² (max|γ| + rms β); sound only where b_V = b_O = 0."""
    return output_norm * math.sqrt(sum(v * v for v in value_norms)) * (gamma_max + beta_rms)


def attention_bound_emadi(gamma_max: float, beta_max: float, output_norm: float, value_norms: Sequence[float]) -> float:
    """Emadi's sum over heads, ‖W_O‖ Σ_h‖W_V^h‖ (‖γ‖_∞ + ‖β‖_∞) (lemmas 3.2 and 3.3); sound only where b_V = b_O = 0."""
    return output_norm * sum(value_norms) * (gamma_max + beta_max)


def _largest_entry(folded: tuple[Array, Array], root: float) -> float:
    """max_k √d‖(ΠΓW)_k‖ + |(βW + b)_k| over the columns k."""
    weight, shift = folded
    return float((root * np.linalg.norm(weight, axis=0) + np.abs(shift)).max())


def _norm(matrix: Array) -> float:
    """‖A‖ by the largest eigenvalue of the smaller of AᵀA and AAᵀ (relative error of rounding only)."""
    gram = matrix.T @ matrix if matrix.shape[0] >= matrix.shape[1] else matrix @ matrix.T
    return math.sqrt(max(0.0, float(np.linalg.eigvalsh(gram)[-1])))


def _product_norm(left: Array, right: Array) -> float:
    """‖AB‖ of a tall A and a wide B, through A = QR: ‖AB‖ = ‖RB‖."""
    return _norm(np.linalg.qr(left, mode="r") @ right)


def _length(vector: Array | float) -> float:
    return float(np.linalg.norm(np.atleast_1d(vector)))


def _bias_length(bias: ArrayLike | float, width: int) -> float:
    return _length(np.broadcast_to(np.asarray(bias, dtype=np.float64), (width,)))
