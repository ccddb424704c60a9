"""Whether two outputs, of which some entries are known, are one."""

from __future__ import annotations

import math

from screen.probe.plan.spot_types import Sample

SAME = 1e-3
"""Relative difference up to which two outputs are one: both are computed by the same kernels, in float32."""


def apart(one: Sample, other: Sample) -> float:
    """The largest difference of two outputs, relative to the larger of them; infinite where their shapes differ, or one of them alone is finite."""
    if one.shape != other.shape or len(one.values) != len(other.values) or one.top is None or other.top is None:
        return 0.0 if one == other else math.inf
    differences = [one.top - other.top, *(a - b for a, b in zip(one.values, other.values, strict=True))]
    found = max(map(abs, differences)) / max(one.top, other.top, 1e-30)
    return found if math.isfinite(found) else math.inf


__all__ = ["SAME", "apart"]
