"""The risk of each channel of one stream: a logistic in the logarithm of one derived quantity, or two. Monotone by construction: every slope is
positive, and depth, learning rate, shorter warm-up and larger initial weights never make a quantity smaller.

What drifts: under Adam every entry moves by about η in a step, in directions that are as good as random, so that after t steps
w² = σ² + η²·(1 − e^(−2ηλt))/(2ηλ): η/(2λ) with decay, η²t without, η² in the mean over the schedule. Times the width that is a mean-square gain, m.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from screen.rule import ChannelId
from screen.verdict.risk.features import Features
from screen.verdict.risk.setting import Setting

STEP = 1.15
"""κ/(width·blocks^0.9) of stacks with an identity path; `STEP_POST` of κ/(width·blocks) of those without (measured at width 64, 4 and 24 blocks)."""
STEP_POST = 2.6
COMPENSATED = 0.75
"""κ of a post-norm stack falls with Σ(v² + w²)/α² over its value without α to this power (DeepNorm at 4 and 24 blocks: 0.6 to 0.9)."""
BLOCKS = 24.0
"""Branches at which `R_drift` is stated."""
TINY = 1e-30


@dataclass(frozen=True)
class Quantities:
    """What a risk is made of, for the reasons of a report."""

    lr: float
    """Of one entry in one step."""
    drift: float
    """width·(w² − σ²) after all steps."""
    start: float
    """Mean-square gain of the largest map at the start."""
    gain: float
    """m: mean-square gain of a map of the branches (geometric mean) after all steps."""
    first_update: float
    """η·κ, the change of the representation in a first step of the peak rate, in rms."""


def quantities(f: Features, s: Setting) -> Quantities:
    """Those of one stream."""
    start, mean = _at_start(f.gain, f.side, s), _at_start(f.mean_gain, f.mean_side, s)
    lr = s.lr * (math.sqrt(max(start, TINY) / f.width) if s.relative else 1.0)
    decay = s.decay * (lr if s.decay_times_lr else 1.0)
    steps = s.steps if decay * s.steps < 1e-9 else -math.expm1(-2 * decay * s.steps) / (2 * decay)
    drift = f.width * lr * lr * s.squares * s.kept * steps
    return Quantities(lr, drift, start, mean + drift, lr * kappa(f, lr))


def _at_start(gain: float | None, side: float | None, s: Setting) -> float:
    """Mean-square gain at the start: of the deviation that the recipe states, else the recorded one, else 1, which keeps sizes."""
    return 1.0 if gain is None else gain if s.init_std is None or side is None else s.init_std**2 * side


def kappa(f: Features, lr: float = 0.0) -> float:
    """κ as it was derived; where it was not, as it was measured on small models of like width and depth. What is derived for infinitely small
    steps does not hold where a first step makes learned scales larger than they start, s = η: what the maps behind them move then reaches the
    stream times s. And where no identity path runs, what tokens that start alike add to κ is lost as soon as training tells them apart, and counted
    by D before that: there it is at most what stacks of that size have."""
    if f.kappa is not None and f.identity is False:
        return min(f.kappa, _usual_kappa(f))
    if f.kappa is not None and not (f.scaled and lr > f.branch_scale):
        return f.kappa
    return max(f.kappa or 0.0, _usual_kappa(f) * (min(max(lr, f.branch_scale), 1.0) if f.scaled else 1.0))


def _usual_kappa(f: Features) -> float:
    if f.identity is not False:
        return STEP * f.width * math.exp(0.9 * math.log(f.depth))
    share = 1.0 if f.update is None else min(1.0, max(f.update, TINY) / (2 * f.branches)) ** COMPENSATED
    return STEP_POST * f.width * f.depth * share


def channel_risks(f: Features, s: Setting, c: Mapping[str, float]) -> dict[ChannelId, float]:
    """Probability that each channel fails, each at least the floor."""
    q = quantities(f, s)
    scale = f.branch_scale**2 + (q.drift / f.width if f.scaled else 0.0)
    late = _log(1 + s.warmup / 10) * c["warmup"]
    found: dict[ChannelId, float] = {
        "D": _depth(f, q, scale, late, c),
        "R": _residual(f, q, scale, c),
        "L": _logits(f, s, q, c),
        "O": 0.0 if f.words is None or s.z_loss > 0 else _logistic(c["O_slope"] * (_log(q.drift) - c["O_drift"])),
        "I": _initial(f, s, q, c),
        "N": _numerics(f, s, q, scale, c),
        "S": _logistic(c["S_slope"] * (_log(q.first_update * s.burst) - _first_updates(f, s, c))),
    }
    return {name: min(max(risk, c["floor"]), 1 - 1e-9) for name, risk in found.items()}


def worst_risks(streams: Iterable[tuple[Features, Setting]], c: Mapping[str, float]) -> dict[ChannelId, float]:
    """Of each channel the risk in the stream where it is largest; `streams` is not empty."""
    each = [channel_risks(f, s, c) for f, s in streams]
    return {name: max(r[name] for r in each) for name in each[0]}


def overall(risks: Mapping[ChannelId, float]) -> float:
    """1 − Π(1 − r)."""
    return 1.0 - math.prod(1.0 - r for r in risks.values())


def _first_updates(f: Features, s: Setting, c: Mapping[str, float]) -> float:
    """ln(η·κ) that half of all runs survive: between stacks with an identity path and those without by the share of branches behind a norm on it.
    Where no norm stands on the way of the branches, nothing brings back the size of what a step has moved: they are as those without."""
    share, log = _share(f) if f.renewed else 1.0, _log(1 + s.warmup / 10)
    around = c["S_free" if f.bounded is True else "S_identity"] + c["warmup_identity"] * log
    return (1 - share) * around + share * (c["S_post"] + c["warmup"] * log)


def _depth(f: Features, q: Quantities, scale: float, late: float, c: Mapping[str, float]) -> float:
    """Tokens that grow alike, at the start or with the weights that training makes; of branches that read a raw stream the gradient's ratio."""
    folds = 0.0
    if f.identity is False and f.one_minus_cos is not None:
        folds = -_log(f.one_minus_cos)
    elif f.raw_inputs and f.normed and f.exponential and f.gradient_ratio is not None:
        folds = abs(_log(f.gradient_ratio))
    start = _logistic(c["D_start_slope"] * (folds - c["D_start"])) if folds > 0 else 0.0
    if f.identity is not False:
        return start
    trained = _log(_share(f) * f.branches / 2 * math.log1p(scale * q.gain / max(f.alpha, TINY) ** 2))
    return 1 - (1 - start) * (1 - _logistic(c["D_slope"] * (trained - late - c["D_folds"])))


def _share(f: Features) -> float:
    """Share of the branches behind which every path crosses a norm; 0 with an identity path, 1 where something else breaks it."""
    return 0.0 if f.identity is not False else min(f.crossed / f.branches, 1.0) if f.crossed else 1.0


def _residual(f: Features, q: Quantities, scale: float, c: Mapping[str, float]) -> float:
    """A stream without norms grows by a factor in every branch; one whose branches only read norms grows with their weights: of
    these what drifts counts, for a large start is channel I's. Norms renew what branches read and keep them alive; tanh in their place does not."""
    if not f.normed:
        return _logistic(c["D_slope"] * (_log(f.branches / 2 * math.log1p(scale * q.gain)) - c["R_growth"]))
    if f.bounded is True:
        return 0.0
    deeper = c["R_depth"] * math.log(f.branches / BLOCKS)
    most = c["R_most"] if f.renewed else 1.0
    return most * _logistic(c["R_slope"] * (_log(scale * (1 + q.drift)) + deeper - c["R_drift"]))


def _logits(f: Features, s: Setting, q: Quantities, c: Mapping[str, float]) -> float:
    """rms of q·k/√d_h after all steps: of normed inputs g + d·Δw², of raw ones times their mean square. That of the block in the middle, in the
    geometric mean: one in which the softmax holds a single key leaves the others, and a raw stream is largest in the last block alone. Of a router's
    no runs of ours tell: they are taken for as large."""
    if f.softmax is False or f.logits_bounded is True or (s.qk_clip and not f.routed):
        return 0.0
    square = 1.0 if not f.raw_inputs or f.rms_read is None else max(f.rms_read**2, TINY)
    start = q.start if f.logit_rms is None or f.routed else f.logit_rms / square
    return _logistic(c["L_slope"] * (_log(square * (start + q.drift)) - c["L_drift"]))


def _initial(f: Features, s: Setting, q: Quantities, c: Mapping[str, float]) -> float:
    """The largest map against one that keeps sizes, and what the first branch adds against an embedding that is small beside it."""
    size = _log(q.start) + (c["I_half"] if is_half(f, s) else 0.0) - (c["I_bounded"] if f.bounded is True else 0.0)
    large = _logistic(c["I_slope"] * (size - c["I_gain"]))
    small = 0.0 if f.rms_first is None else _logistic(0.5 * _log(q.start) - _log(f.rms_first) + _log(max(s.shrink, 1e-3)) - c["I_beside"])
    return 1 - (1 - large) * (1 - c["I_small"] * small)


def _numerics(f: Features, s: Setting, q: Quantities, scale: float, c: Mapping[str, float]) -> float:
    """The largest entries of the stream, √d·rms, against the range of float16; outliers in FP8; rounding in bfloat16."""
    if s.precision == "fp8":
        return _logistic(c["N_fp8"] - (0.0 if f.gated and not s.per_channel else 3.0))
    half = is_half(f, s)
    if half or s.precision == "float16":
        power = 1.0 if f.bounded is True and f.identity is False else f.branches * scale * (1.0 if f.bounded is True else 1 + q.drift)
        size = 0.5 * _log(f.width * power) - (0.0 if half else c["N_autocast"]) + (0.0 if f.normed else c["N_unnormed"])
        return _logistic(c["N_slope"] * (size - c["N_half"]))
    return c["N_bf16"] if s.precision == "bfloat16" and s.attention != "float32" else 0.0


def is_half(f: Features, s: Setting) -> bool:
    """Whether the stream itself is in float16, and not only the products of autocast."""
    return "float16" in (f.dtype, s.params)


def _logistic(z: float) -> float:
    return 1.0 / (1.0 + math.exp(-min(max(z, -40.0), 40.0)))


def _log(x: float) -> float:
    return math.log(max(x, TINY))


__all__ = ["Quantities", "channel_risks", "kappa", "overall", "quantities", "worst_risks"]
