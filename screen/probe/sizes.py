"""Sizes of values as numbers that JSON can carry."""

from __future__ import annotations

import math
import sys
from typing import Any

from torch import Tensor

from screen.probe.depth.laws import gap

OVERFLOW = 1e100
"""A size from which on it is no witness: squares and exponentials of it leave the range of floats."""


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


__all__ = ["finite", "gap_of", "largest", "most", "plain_number", "rms"]
