"""Sizes of values, of gradients, and of differences as numbers that JSON can carry."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from screen.probe.depth.laws import gap

OVERFLOW = 1e100
"""A size from which on it is no witness: squares and exponentials of it leave the range of floats."""

ROUNDING = 1e-5
"""Of the gradient of all parameters, below which that of one may be rounding, in float32."""


def rms(value: Any) -> float:
    return float(value.square().mean().sqrt()) if isinstance(value, Tensor) and value.numel() else math.nan


def gap_of(value: Any, axis: int) -> float:
    if not isinstance(value, Tensor) or value.dim() < 2:
        return math.nan
    rows = value.movedim(axis, -1)
    return gap(rows.reshape(rows.shape[0] if rows.dim() > 2 else 1, -1, rows.shape[-1]))


def largest(value: Any, axis: int) -> float:
    """rms of the largest token."""
    if not isinstance(value, Tensor) or not value.dim() or not value.numel():
        return math.nan
    return float(value.square().mean(axis).sqrt().amax())


def most(values: Any) -> float | None:
    kept = [v for v in values if v is not None]
    return max(kept) if kept else None


def finite(value: float | None) -> float | None:
    """Nothing for what left the range of floats: a bounded value may, by the way it is computed."""
    return value if value is not None and abs(value) < OVERFLOW else None


def plain_number(value: float | None) -> float | None:
    """A number that JSON can carry: infinity is the largest of floats, and what is no number is none."""
    if value is None or math.isnan(value):
        return None
    return value if math.isfinite(value) else math.copysign(sys.float_info.max, value)


def apart(one: Tensor, other: Tensor) -> float | None:
    """Of what the program gives and what the module gives, relative to the module's; nothing where neither is finite."""
    if one.shape != other.shape:
        return math.inf
    top = float(other.abs().amax()) if other.numel() else 0.0
    if not math.isfinite(top):
        return math.inf if bool(one.isfinite().all()) else None
    return float((one.double() - other.double()).abs().amax()) / max(top, 1e-30)


def gradients_apart(mine: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> float | None:
    """The largest relative difference of two gradients of one parameter. One that is zero but for rounding (a bias in front of a norm) is as large as
    the rounding of all."""
    tops = {name: top for name in mine.keys() & theirs.keys() if math.isfinite(top := float(theirs[name].double().norm()))}
    least = max(ROUNDING * math.hypot(*tops.values()), 1e-30)
    apart = [float((mine[n].double() - theirs[n].double()).norm()) / max(top, float(mine[n].double().norm()), least) for n, top in tops.items()]
    return max(apart, default=None)


def branch_gradients(gradients: Mapping[str, Tensor], branches: list[tuple[str, ...]]) -> tuple[float | None, ...]:
    """The gradient of each branch over its parameters; nothing of one all of whose parameters serve in both halves of the depth, such as slices of
    tensors that hold all layers: they are of no one depth."""
    middle = len(branches) // 2
    early, late = ({n for names in half for n in names} for half in (branches[:middle], branches[middle:]))
    return tuple(None if names and early & late >= set(names) else _size(gradients, names) for names in branches)


def _size(gradients: Mapping[str, Tensor], names: tuple[str, ...]) -> float | None:
    found = [float(gradients[n].double().square().sum()) for n in names if n in gradients]
    return plain_number(math.sqrt(math.fsum(found))) if found else None


__all__ = ["apart", "branch_gradients", "finite", "gap_of", "gradients_apart", "largest", "most", "plain_number", "rms"]
