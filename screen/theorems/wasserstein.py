"""How far apart two inputs, or two input distributions, can end (Kan et al., theorem 6; T2).

Per token, in rms, without the number of tokens (`token_distance`): a branch with an output norm adds at most 2 s max|γ|, because two
outputs γ⊙x̂ + β and γ⊙x̂' + β differ by γ⊙(x̂ − x̂'): β cancels, and so does every bias after the norm. A norm on the stream, or a final
norm, forgets all that came before: at most 2 max|γ|.

In W_p of the entry-wise p-norm (`wasserstein`): per branch ‖γ⊙(x̂ − x̂')‖_p ≤ max|γ| · 2 n^(1/p) d^max(½, 1/p), since ‖x̂‖₂ ≤ √d and
‖v‖_p ≤ d^max(0, 1/p − ½) ‖v‖₂. The triangle inequality in ‖·‖_p, then Minkowski's inequality in L^p of the optimal plan, adds the
branches without further factors:

    W_p(μ_D, ν_D) ≤ W_p(μ_0, ν_0) + 2 Σ_sublayers s max|γ| n^(1/p) d^max(½, 1/p)          (n tokens, width d, all p ≥ 1)

The paper's (14) has 2^((p−1)/p) (Ĉ W_p(μ_0, ν_0) + 4 D √(nd) γ_max): the power of two is not needed, Ĉ = 1 suffices, and for p < 2
the second term is too small by (nd)^(1/p − ½), because its proof measures in the Frobenius norm (`kan_printed`, `kan_corrected`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class NormedBranch:
    """A branch with an output norm, as distances see it."""

    gamma_max: float
    """Largest |γ| of the norm (times LayerScale where there is one)."""
    scale: float = 1.0
    """s, the multiplier of the branch after the norm."""
    gain: float = 1.0
    """α, the multiplier of the stream at this add."""
    dropout: float = 0.0
    """Probability of dropout between norm and add, in training; 0 in evaluation."""

    def __post_init__(self) -> None:
        if self.gamma_max < 0:
            raise ValueError(f"`gamma_max` is a largest magnitude: required >= 0, found {self.gamma_max}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"`dropout` is a probability: required 0 <= dropout < 1, found {self.dropout}")

    @property
    def reach(self) -> float:
        """2 |s| max|γ| / (1 − p): the farthest two outputs of the branch can be apart per token, in rms."""
        return 2 * abs(self.scale) * self.gamma_max / (1 - self.dropout)


@dataclass(frozen=True)
class Distance:
    """A bound, and which argument gave it."""

    value: float
    reason: str


def diameter(tokens: int, width: int, p: float) -> float:
    """n^(1/p) d^max(½, 1/p): the p-norm over all entries of a state whose tokens have rms at most 1, at most.

    Sharp: at p = 1 by entries ±1, at p ≥ 2 by tokens with one entry.
    """
    _check(tokens, width, p)
    return float(tokens ** (1 / p) * width ** max(0.5, 1 / p))


def wasserstein(start: float, branches: Iterable[NormedBranch], tokens: int, width: int, p: float) -> float:
    """T2 for output norms: α-weighted start distance plus the reach of every branch, in units of the entry-wise p-norm."""
    unit = diameter(tokens, width, p)
    distance = _start(start)
    for branch in branches:
        distance = abs(branch.gain) * distance + branch.reach * unit
    return distance


def wasserstein_after_norm(gamma_max: float, tokens: int, width: int, p: float) -> float:
    """T2 after a norm on the stream, or a final norm: 2 max|γ| n^(1/p) d^max(½, 1/p), whatever came before."""
    return NormedBranch(gamma_max).reach * diameter(tokens, width, p)


def token_distance(
    start: float,
    branch_reach: Iterable[float] = (),
    stream_norm: float | None = None,
    final_norm: float | None = None,
) -> Distance:
    """Largest distance of two outputs per token, in rms: the smallest of the bounds that apply.

    `start`: ‖x_0 − x_0'‖ in rms. `branch_reach`: per sublayer the farthest two outputs of the branch can be apart (`NormedBranch.reach`;
    for a branch without output norm twice its bound from `slope.py`; α = 1). `stream_norm`, `final_norm`: max|γ| of a norm that
    ends the stream (C), and of the norm before the head. infinity as a reach means that the branch is unbounded.
    """
    reaches = tuple(branch_reach)
    if any(r < 0 for r in reaches):
        raise ValueError(f"`branch_reach` holds distances: required >= 0, found {min(reaches)}")
    bounds = []
    if stream_norm is None:
        bounds.append(Distance(_start(start) + math.fsum(reaches), "sum over the branches"))
    else:
        bounds.append(Distance(NormedBranch(stream_norm).reach, "norm on the stream"))
    if final_norm is not None:
        bounds.append(Distance(NormedBranch(final_norm).reach, "final norm"))
    return min(bounds, key=lambda bound: bound.value)


def kan_printed(start: float, blocks: float, gamma_max: float, tokens: int, width: int, p: float, c_hat: float = 1.0) -> float:
    """Kan et al., (14), as printed: 2^((p−1)/p)(Ĉ W_p(μ_0, ν_0) + 4 D √(nd) γ_max), two sublayers per block.

    Not a bound for p < 2: see the module's docstring.
    """
    _check(tokens, width, p)
    return float(2 ** ((p - 1) / p) * (c_hat * _start(start) + 4 * blocks * math.sqrt(tokens * width) * gamma_max))


def kan_corrected(start: float, blocks: float, gamma_max: float, tokens: int, width: int, p: float) -> float:
    """(14) with the factors that its proof needs: Ĉ(p) = (nd)^|½ − 1/p|, and (nd)^max(0, 1/p − ½) on the second term.

    From ‖X‖_p ≤ (nd)^max(0, 1/p − ½) ‖X‖_F and ‖X‖_F ≤ (nd)^max(0, ½ − 1/p) ‖X‖_p. Sound, and looser than `wasserstein`.
    """
    _check(tokens, width, p)
    size = tokens * width
    return kan_printed(start, blocks, gamma_max * size ** max(0.0, 1 / p - 0.5), tokens, width, p, c_hat=size ** abs(0.5 - 1 / p))


def _start(start: float) -> float:
    if not start >= 0:
        raise ValueError(f"`start` is a distance: required >= 0, found {start}")
    return start


def _check(tokens: int, width: int, p: float) -> None:
    if tokens < 1 or width < 1:
        raise ValueError(f"required tokens >= 1 and width >= 1, found tokens = {tokens}, width = {width}")
    if not p >= 1:
        raise ValueError(f"`p` is the order of the distance: required p >= 1, found {p}")
