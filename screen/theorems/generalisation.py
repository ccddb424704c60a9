"""The generalisation bound (127)–(129) of Kan et al. as a calculator that says when it is vacuous.

As printed, with probability 1 − δ:  E_ν G ≤ E_μ̂ G + L (Ĉ(1) r + 4 D √(nd) γ_max),  r = C̄ N^(−1/(nd)) + √(ln(1/δ)/N)
(L: Lipschitz constant of the loss in the entry-wise 1-norm of the last state, N samples, n tokens, width d).

Three corrections, all used in `gap`:
1. p = 1 needs 4 D nd γ_max in place of 4 D √(nd) γ_max (see `wasserstein.py`); Ĉ(1) = 1 suffices.
2. The deviation of W_1 from its mean carries the diameter of the domain: one sample moves W_1 by at most diam/N, so by McDiarmid's
   inequality W_1 ≤ E W_1 + diam √(ln(1/δ)/(2N)).
3. Even for N → ∞ the gap keeps the floor L · 4 D nd γ_max: (129) never tends to 0.
Moreover N^(−1/(nd)) is 1 to many digits for any real nd: halving it takes 2^(nd) times the samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

HELPS_BELOW = 0.5
"""The rate N^(−1/(nd)) counts as helped by data when the samples at least halve it."""


@dataclass(frozen=True)
class Generalisation:
    """What (129) says for one model and one data set."""

    rate: float
    """N^(−1/(nd)): what the samples do for the radius."""
    log2_samples_to_halve: float
    """log₂ of the factor by which N must grow to halve the rate: nd."""
    radius_printed: float
    radius: float
    """The radius r of the Wasserstein ball, as printed and corrected (units of the 1-norm of an input)."""
    floor: float
    """L · 4 D nd γ_max: what stays for N → ∞."""
    gap_printed: float
    gap: float
    """Largest difference of expected loss to training loss, as printed and corrected."""
    vacuous: tuple[str, ...]
    """Why the bound says nothing; empty when it says something."""


def generalisation(
    *,
    samples: int,
    tokens: int,
    width: int,
    blocks: float,
    gamma_max: float,
    loss_lipschitz: float,
    delta: float = 0.05,
    rate_constant: float = 1.0,
    input_diameter: float = 1.0,
    loss_range: float = math.inf,
) -> Generalisation:
    """(129) in numbers. `rate_constant`: C̄ of Fournier and Guillin; `input_diameter`: of the inputs, in the 1-norm over all entries;
    `loss_range`: the largest difference that two values of the loss can have (infinity when it has none).
    """
    _check(samples, tokens, width, delta)
    size = tokens * width
    rate = samples ** (-1 / size)
    deviation = math.sqrt(math.log(1 / delta) / samples)
    radius_printed = rate_constant * rate + deviation
    radius = rate_constant * rate + input_diameter * deviation / math.sqrt(2)
    floor_printed = loss_lipschitz * 4 * blocks * math.sqrt(size) * gamma_max
    floor = floor_printed * math.sqrt(size)
    gap = loss_lipschitz * radius + floor
    return Generalisation(
        rate=rate,
        log2_samples_to_halve=float(size),
        radius_printed=radius_printed,
        radius=radius,
        floor=floor,
        gap_printed=loss_lipschitz * radius_printed + floor_printed,
        gap=gap,
        vacuous=_vacuous(rate, size, radius, input_diameter, floor, gap, loss_range),
    )


def _vacuous(rate: float, size: int, radius: float, diameter: float, floor: float, gap: float, loss_range: float) -> tuple[str, ...]:
    reasons = []
    if rate > HELPS_BELOW:
        reasons.append(f"the samples leave {rate:.6g} of the radius; halving it takes 2^{size} times as many")
    if radius >= diameter:
        reasons.append(f"the ball of radius {radius:.3g} holds every distribution on inputs of diameter {diameter:.3g}")
    if floor >= loss_range:
        reasons.append(f"the part that no sample lowers, {floor:.3g}, is not below the range of the loss, {loss_range:.3g}")
    elif gap >= loss_range:
        reasons.append(f"the gap {gap:.3g} is not below the range of the loss, {loss_range:.3g}")
    return tuple(reasons)


def _check(samples: int, tokens: int, width: int, delta: float) -> None:
    if samples < 1 or tokens < 1 or width < 1:
        raise ValueError(f"required samples, tokens and width >= 1, found {samples}, {tokens} and {width}")
    if not 0 < delta < 1:
        raise ValueError(f"`delta` is a probability of failure: required 0 < delta < 1, found {delta}")
