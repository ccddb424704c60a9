"""At which block a stacked stream leaves a 16-bit type: the crossing of float16 that a growing design meets in training, at its initialisation.

The covariance recursion gives rms_l after block l in the mean over weights. An entry is at most √d times the rms of its token, and the largest is at
least the rms: the stream can leave the type from the first block with √d rms_l above its largest number, and has left it where rms_l itself is above.
Something inside a branch may leave the type before the stream does: then the crossing comes earlier, and the reason names it.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from screen.probe.plan.types import BlockPlan, Experiment
from screen.probe.precision.against_float64 import Precision
from screen.theorems.precision import format_of

DEEPEST = 64
"""Blocks that are stacked at most."""


def window(plan: BlockPlan, name: str, width: int) -> tuple[int, int] | None:
    """The first block that may leave the type, and the one that must; None where none of those that are stacked does."""
    limit = format_of(name).largest
    rms = plan.rms[:DEEPEST]
    first = next((n for n, r in enumerate(rms, 1) if r * math.sqrt(width) > limit), None)
    last = next((n for n, r in enumerate(rms, 1) if r > limit), None)
    return None if first is None or last is None else (first, last)


def crossing(made: Precision, empty: Experiment) -> list[Experiment]:
    """The block at which the stream is no longer finite, where the recursion says that there is one."""
    plan = made.stack.plan
    found = window(plan, made.name, made.x.shape[plan.axis])
    if found is None or not plan.repeats or made.stack.material.is_live or made.x.shape != made.true[plan.exit].shape:
        return []
    first, last = found
    what = replace(empty, what=f"first block whose stream is not finite, {made.name}", predicted=f"{first} to {last}", samples=1)
    state: Tensor = made.x.to(made.stream)
    for layer in range(1, min(DEEPEST, 2 * last) + 1):
        env = made.layer(state, layer)
        state = env[made.exit]
        if not bool(torch.isfinite(state).all()):
            inside = made.bad(env).first
            where = f"first at {made.where(inside)}" if inside is not None else ""
            if first <= layer <= last:
                return [replace(what, measured=float(layer), outcome="confirmed", reason=where)]
            return [replace(what, measured=float(layer), reason=f"{where}; the prediction is a mean over weights, and of the stream alone")]
    if 2 * last > DEEPEST:
        return [replace(what, measured=f"none of {DEEPEST}", reason="the prediction is a mean over weights")]
    return [replace(what, outcome="refuted", measured=f"none of {2 * last}", reason="the stream stays finite at twice that depth")]


def layers(plan: BlockPlan, name: str, width: int) -> int:
    """Blocks that `crossing` runs at most."""
    found = window(plan, name, width)
    return min(DEEPEST, 2 * found[1]) if found is not None and plan.repeats else 0


__all__ = ["DEEPEST", "crossing", "layers", "window"]
