"""How large weights can get under AdamW, how large they tend to get, and what that does to logits (T7; Kan et al. after theorem 2).

Adam's update is m̂/(√v̂ + ε) with m̂ = Σ a_k g_k, v̂ = Σ b_k g_k², a_k ∝ (1 − β₁)β₁^(t−k), b_k ∝ (1 − β₂)β₂^(t−k). By Cauchy–Schwarz
m̂² ≤ v̂ Σ a_k²/b_k, hence after t steps, with the bias corrections and r = β₁²/β₂,

    |m̂|/√v̂ ≤ U_t = U* √((1 − r^t)(1 − β₂^t)) / (1 − β₁^t) ≤ U* = (1 − β₁) / √((1 − β₂)(1 − β₁²/β₂)),

(the last step is r^t + β₂^t ≥ 2β₁^t). Reached by gradients that grow by β₂/β₁ per step. For β₁² ≥ β₂ there is no bound that holds for
all t. The remark (1 − β₁)/√(1 − β₂) of Kingma and Ba is the value for a gradient that appears once; it is no bound.

Decoupled decay makes w ← (1 − lr λ) w − lr u, which for 0 ≤ lr λ ≤ 1 is a convex combination of w and −u/λ: |w| ≤ max(|w(0)|, U*/λ),
for any schedule of lr. All of it is per entry, and only for parameters that the optimiser decays.
"""

from __future__ import annotations

import math


def update_bound(beta1: float, beta2: float, steps: int | None = None) -> float:
    """U*, or U_t after `steps` steps: the largest |m̂|/√v̂ per entry, in units of the learning rate. Infinite if β₁² ≥ β₂ and no steps are given.

    7.27 for (0.9, 0.999), 1.165 for (0.9, 0.95), 1.698 for (0.9, 0.98); 1 after one step.
    """
    _check_betas(beta1, beta2)
    if steps is not None and steps < 1:
        raise ValueError(f"`steps` counts updates: required >= 1, found {steps}")
    ratio = beta1**2 / beta2
    if steps is None:
        return (1 - beta1) / math.sqrt((1 - beta2) * (1 - ratio)) if ratio < 1 else math.inf
    total = sum(ratio**k for k in range(steps)) if ratio >= 1 else (1 - ratio**steps) / (1 - ratio)
    return (1 - beta1) / (1 - beta1**steps) * math.sqrt((1 - beta2**steps) / (1 - beta2) * total)


def weight_bound(initial: float, weight_decay: float, beta1: float, beta2: float, lr: float) -> float:
    """max(|w(0)|, U*/λ): the largest |w| of an entry that AdamW decays, at any time. Infinite without decay.

    `lr`: the largest learning rate of the schedule; required 0 ≤ lr·λ ≤ 1.
    """
    if weight_decay < 0 or lr < 0 or lr * weight_decay > 1:
        raise ValueError(f"the bound needs 0 <= lr * weight_decay <= 1, found lr = {lr}, weight_decay = {weight_decay}")
    return max(abs(initial), update_bound(beta1, beta2) / weight_decay) if weight_decay > 0 else math.inf


def random_gradient_rms(initial: float, lr: float, weight_decay: float, steps: float) -> float:
    """T7 (heuristic): rms of a weight after `steps` updates of random sign,

    w²(t) = w₀² e^(−2 lr λ t) + (lr/2λ)(1 − e^(−2 lr λ t)); without decay w₀² + lr² t.
    """
    _check_rates(lr, weight_decay)
    if weight_decay == 0:
        return math.sqrt(initial**2 + lr**2 * steps)
    kept = math.exp(-2 * lr * weight_decay * steps)
    return math.sqrt(initial**2 * kept + lr / (2 * weight_decay) * (1 - kept))


def equilibrium_rms(lr: float, weight_decay: float) -> float:
    """√(lr/2λ): the rms of `random_gradient_rms` for t → ∞ (heuristic). Infinite without decay."""
    _check_rates(lr, weight_decay)
    return math.sqrt(lr / (2 * weight_decay)) if weight_decay else math.inf


def logit_scale(width: int, gamma: float, weight_rms: float) -> float:
    """T7 (heuristic): standard deviation of the logit q·k/√d_h of inputs with rms γ, W_Q and W_K random of rms w: d γ² w².

    q and k have entries of variance d γ² w²; their product, summed over d_h features and divided by √d_h, has deviation d γ² w².
    """
    if width < 1 or weight_rms < 0:
        raise ValueError(f"required width >= 1 and weight_rms >= 0, found {width} and {weight_rms}")
    return width * gamma**2 * weight_rms**2


def equilibrium_logit_scale(width: int, gamma: float, lr: float, weight_decay: float) -> float:
    """T7 (heuristic): d γ² lr/(2λ). 6 at d = 4096, lr 3e-4, λ 0.1; 205 at lr 1e-2."""
    rms = equilibrium_rms(lr, weight_decay)
    return logit_scale(width, gamma, rms)


def _check_betas(beta1: float, beta2: float) -> None:
    if not (0 <= beta1 < 1 and 0 < beta2 < 1):
        raise ValueError(f"required 0 <= beta1 < 1 and 0 < beta2 < 1, found {beta1} and {beta2}")


def _check_rates(lr: float, weight_decay: float) -> None:
    if lr < 0 or weight_decay < 0:
        raise ValueError(f"required lr >= 0 and weight_decay >= 0, found {lr} and {weight_decay}")
