"""How large the residual stream can get with depth, per token, in rms (Kan et al., theorems 3–5; Kim et al., (4)).

x' = α x + s F gives ‖x'‖ ≤ |α| ‖x‖ + |s|/(1 − p) · c with c a bound of the branch and p the probability of dropout (in training).

1. Output norm: c = max|γ| + rms β (`norm_output`), at most linear in depth if and only if Πα is bounded; α = 1.05 is exponential.
2. Input norm only: c is a bound at fixed weights (`slope.py`): linear with a slope set by the weights. Exponential growth in depth can
   then only come from weights that grow exponentially with depth.
3. A convex gate, x' = t⊙f + (1 − t)⊙x with 0 ≤ t ≤ 1: every entry stays within max(|x|, |f|) (`convex`): constant in depth.
4. A norm on the stream: constant.    5. No norm, F Lipschitz with constant L and F(0) = 0: (1 + L)^D (`geometric`).

The laws of the paper stand beside them: (11)–(13) hold (β_max may be replaced by rms β); theorem 3 lacks a factor √d as printed
(`kan_pre`): its RMSNorm is x/‖x‖ in (65)–(83), but √d x/‖x‖ in (22)–(23).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Sublayer:
    """One residual add, as growth sees it."""

    bound: float
    """c: the largest rms of the branch's output per token, before scale and dropout; infinity when it has none."""
    gain: float = 1.0
    """α, the multiplier of the stream."""
    scale: float = 1.0
    """s, the multiplier of the branch."""
    dropout: float = 0.0
    """p of dropout or of stochastic depth with rescaling, in training; 0 in evaluation."""

    def __post_init__(self) -> None:
        if not self.bound >= 0:
            raise ValueError(f"`bound` is a largest rms: required >= 0, found {self.bound}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"`dropout` is a probability: required 0 <= dropout < 1, found {self.dropout}")

    @property
    def step(self) -> float:
        """|s| c / (1 − p): what the sublayer can add."""
        return abs(self.scale) * self.bound / (1 - self.dropout) if self.scale else 0.0


def norm_output(gamma_max: float, beta_rms: float = 0.0, kind: Literal["rms", "layer", "l2"] = "rms", width: int = 1) -> float:
    """c of a norm: max|γ| + rms β for "rms" and "layer"; max|γ|/√width + rms β for "l2", whose output has 2-norm 1 (rms per token)."""
    if gamma_max < 0 or beta_rms < 0 or width < 1:
        raise ValueError(f"required gamma_max, beta_rms >= 0 and width >= 1, found {gamma_max}, {beta_rms} and {width}")
    if kind not in ("rms", "layer", "l2"):
        raise ValueError(f"`kind`: required rms, layer or l2, found {kind!r}")
    return (gamma_max / math.sqrt(width) if kind == "l2" else gamma_max) + beta_rms


def additive(start: float, sublayers: Iterable[Sublayer]) -> tuple[float, ...]:
    """Bounds of the stream's rms after each sublayer, from the rms `start` of the first state (cases 1 and 2)."""
    size, sizes = start, []
    for sublayer in sublayers:
        size = abs(sublayer.gain) * size + sublayer.step
        sizes.append(size)
    return tuple(sizes)


def repeated(start: float, sublayer: Sublayer, count: int) -> float:
    """`additive` for `count` equal sublayers in closed form: α^N r + step (α^N − 1)/(α − 1); infinity where that overflows."""
    if count < 0:
        raise ValueError(f"`count` counts sublayers: required >= 0, found {count}")
    gain = abs(sublayer.gain)
    try:
        power = gain**count
        return power * start + sublayer.step * (count if gain == 1 else (power - 1) / (gain - 1))
    except OverflowError:
        return math.inf


def convex(start_entry: float, branch_entry: float) -> float:
    """Largest entry after any number of convex gates: max of the largest entries of start and branches (case 3; also bounds the rms)."""
    return max(start_entry, branch_entry)


def geometric(start: float, lipschitz: float, depth: int) -> float:
    """(1 + L)^D r: the bound without any norm (case 5); infinity where it overflows. Evaluate with the measured L, which may be O(1/D)."""
    return repeated(start, Sublayer(0.0, gain=1 + lipschitz), depth)


def step_for(start: float, sublayer: Sublayer, count: int, target: float) -> float:
    """Largest Δt ≤ 1 on every branch that keeps the bound at or below `target`: (target − α^N r)/(N-fold step), α fixed.

    Raises ValueError where no Δt > 0 does.
    """
    kept = repeated(start, Sublayer(0.0, gain=sublayer.gain), count)
    added = repeated(0.0, sublayer, count)
    if target <= kept:
        raise ValueError(f"`target`: required more than the {kept:.6g} that the stream has without any branch, found {target}")
    return min(1.0, (target - kept) / added) if added > 0 else 1.0


def kan_mean_absolute(frobenius: float, tokens: int, width: int, blocks: int, gamma_max: float, beta_max: float = 0.0, dt: float = 1.0) -> float:
    """Kan et al., (11) (with Δt of section 5): ‖X_0‖_F/√(nd) + 2 D Δt (γ_max + β_max), a bound of the mean absolute entry."""
    return frobenius / math.sqrt(tokens * width) + 2 * blocks * dt * (gamma_max + beta_max)


def kan_variance(frobenius: float, tokens: int, width: int, blocks: int, gamma_max: float, beta_max: float = 0.0, dt: float = 1.0) -> float:
    """Kan et al., (12): (‖X_0‖_F + 2 D Δt √(nd)(γ_max + β_max))²/(nd − 1), a bound of the variance over all entries."""
    size = tokens * width
    if size < 2:
        raise ValueError(f"a variance needs two entries: required tokens * width >= 2, found {size}")
    return (frobenius + 2 * blocks * dt * math.sqrt(size) * (gamma_max + beta_max)) ** 2 / (size - 1)


def kan_data_variance(
    mean: float, mean_square: float, tokens: int, width: int, blocks: int, gamma_max: float, beta_max: float = 0.0, dt: float = 1.0
) -> float:
    """Kan et al., (13): E(‖X_0‖_F + c)², c = 2 D Δt √(nd)(γ_max + β_max), from E‖X_0‖_F and E‖X_0‖_F². Valid, and loose by a factor
    nd: it bounds one entry by the norm of all. Per entry, `additive` with the largest entry √d(max|γ| + rms β) is sharper.
    """
    if mean_square < mean**2 * (1 - 1e-12):
        raise ValueError(f"`mean_square`: required at least mean² = {mean**2}, found {mean_square}")
    constant = 2 * blocks * dt * math.sqrt(tokens * width) * (gamma_max + beta_max)
    return mean_square + 2 * constant * mean + constant**2


def kan_pre(
    frobenius: float,
    tokens: int,
    width: int,
    gammas: Sequence[float],
    smallest_tokens: Sequence[float],
    weights: Sequence[float],
    printed: bool = False,
) -> float:
    """Kan et al., (82): ‖X_0‖_F Π_i (1 + √n γ_i √d ‖W_i‖ / min_j ‖x_{i,j}‖), W_i = value times output map, a bound of ‖X_D‖_F.

    `printed=True` leaves √d out, as the paper does: that is no bound. It needs a lower bound of every token at every layer, which only
    a run gives, and it is vacuous beside the linear bound (D = 256: 4.7e27 against 8.2e3).
    """
    if not len(gammas) == len(smallest_tokens) == len(weights):
        raise ValueError(f"required one gamma, token norm and weight norm per block, found {len(gammas)}, {len(smallest_tokens)}, {len(weights)}")
    factor = math.sqrt(tokens) * (1.0 if printed else math.sqrt(width))
    log = math.fsum(math.log1p(factor * g * w / x) for g, x, w in zip(gammas, smallest_tokens, weights, strict=True))
    return frobenius * math.exp(log) if log < 700 else math.inf
