"""What the closed forms say of one stream in numbers, as (name, sentence): lines of the report, for designs that meet their assumptions.

All are per unit of the gains: a norm's output is max|γ| + rms β per token in rms, and γ = 1, β = 0 stand for the start of training. `total` is
Σ s over the branches of the stream that end in a norm, s the constant factor after the norm; the stream itself has gain 1. Bounds are rounded
upwards, and the factor that keeps one downwards.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext

from screen.theorems.generalisation import generalisation
from screen.theorems.growth import Sublayer, kan_mean_absolute, kan_variance, repeated, step_for
from screen.theorems.wasserstein import NormedBranch, diameter, kan_printed, wasserstein_after_norm

TARGET = 10.0
"""The growth over the start that the factor Δt is given for (a convention)."""
SAMPLES = 10**12
"""Samples with which the rate of the generalisation bound is shown: more than any data set has."""

Lines = tuple[tuple[str, str], ...]


def upwards(value: float, digits: int = 4) -> str:
    """The smallest number of so many digits that is not below a value, but for its last bits."""
    with localcontext(prec=digits, rounding=ROUND_CEILING):
        return f"{float(+Decimal(f'{value:.12g}')):.{digits}g}"


def downwards(value: float, digits: int = 2) -> str:
    """The largest one that is not above it."""
    with localcontext(prec=digits, rounding=ROUND_FLOOR):
        return f"{float(+Decimal(f'{value:.12g}')):.{digits}g}"


def growth(total: float) -> Lines:
    """Of a stream whose branches all end in a norm, from a start of rms 1 at γ = 1 (step 2)."""
    whole = Sublayer(1.0, scale=total)
    bound = repeated(1.0, whole, 1)
    found = [("forward bound", f"rms at most {upwards(bound)} per token from a start of 1, at gains 1 and biases 0.")]
    if bound > TARGET:
        step = step_for(1.0, whole, 1, TARGET)
        found.append(("branch scale", f"Δt = {downwards(step)} after each output norm keeps that at {TARGET:g} (Kan et al., section 5)."))
    return tuple(found)


def growth_of_kan(total: float, width: int) -> Lines:
    """K's theorem 4 beside `growth`, from a state with all entries ±1: Δt = total/2 in one block of two sublayers; at one token (12) is largest."""
    start = math.sqrt(width)
    mean, variance = kan_mean_absolute(start, 1, width, 1, total / 2), kan_variance(start, 1, width, 1, total / 2)
    said = f"mean |entry| at most {upwards(mean)} (11), variance at most {upwards(variance)} (12), of all tokens together."
    return (("Kan et al., theorem 4", said),)


def growth_of_kan_pre() -> Lines:
    """K's theorem 3 beside a bound that is linear in depth."""
    return (("Kan et al., theorem 3", "allows growth exponential in depth: its factor 1/‖x‖ is not let fall while the stream grows."),)


def distance(total: float, width: int, final_norm: bool) -> Lines:
    """T2 at p = 2, per √tokens, beside (14) of K (step 4)."""
    unit = diameter(1, width, 2.0)
    reach = NormedBranch(1.0, scale=total).reach * unit
    ours = f"W_2 grows by at most {upwards(reach)}·√n over the stream, n tokens, at gains 1"
    if final_norm:
        ours += f"; after the final norm it is at most {upwards(wasserstein_after_norm(1.0, 1, width, 2.0))}·√n in all"
    theirs = kan_printed(0.0, total / 2, 1.0, 1, width, 2.0)
    return (("Wasserstein", f"{ours} (T2). Kan et al., (14), has {theirs:.4g}·√n and √2·W_2 of the start."),)


def generalising(total: float, width: int) -> Lines:
    """(129) of K at one token, where it says most: the rate and what no sample lowers."""
    found = generalisation(samples=SAMPLES, tokens=1, width=width, blocks=total / 2, gamma_max=1.0, loss_lipschitz=1.0)
    said = f"the rate N^(−1/(nd)) is {found.rate:.3g} for one token and nearer to 1 for more, and L·{found.floor:.4g} stays for any N"
    word = "vacuous" if found.vacuous else "not vacuous"
    return (("generalisation", f"Kan et al., (129), is {word}: with {SAMPLES:.0e} samples {said}."),)


def last_gradient(branch: str, scaled: bool, norms: tuple[str, ...]) -> Lines:
    """Kim et al., 3.1, C.1–C.3 and B.1, as `screen.theorems.output_gradient` has them: one factor max|γ|/σ for each norm behind a = h W.

    `norms`: of `output`, `sum`, `final`, as they stand behind the last branch."""
    factors = "".join(f"·max|γ_{n[0].upper()}|/σ_{n[0].upper()}" for n in norms)
    where = [f"σ_{n[0].upper()} the divisor of the {NORMS[n]}" for n in norms]
    start = f"at the output map W of the last `{branch}`, ‖∂L/∂W‖ ≤ √2·‖E‖{'·|s|' if scaled else ''}·‖h‖{factors} per token"
    means = ", ".join(["h what W reads, E a linear head with softmax cross-entropy", *(["s the branch's factor"] if scaled else []), *where])
    return (("Kim et al., proposition 3.1", f"{start} ({means}): {_as_h_grows(norms)}."),)


NORMS = {"output": "output norm", "sum": "norm on the sum", "final": "final norm"}


def _as_h_grows(norms: tuple[str, ...]) -> str:
    """What becomes of ‖h‖/σ when h grows."""
    if "output" in norms:
        return "the size of h cancels, and a small W raises it, up to σ_O = √ε"
    if norms:
        last = norms[-1]
        return f"it levels off as h grows, which the {NORMS[last]} does; without that norm it would grow with h"
    return "it grows with h, which a final norm would end"


__all__ = ["TARGET", "distance", "downwards", "generalising", "growth", "growth_of_kan", "growth_of_kan_pre", "last_gradient", "upwards"]
