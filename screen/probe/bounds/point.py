"""Numbers of one place (values of a branch's inputs and weights) that bounds speak of: divisors of norms, half diameters of values, entries; and
how much of them is rounding."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from screen.probe.plan.types import NormPlan

MASKED = -1e30
"""An entry below this was masked out."""


def divisors(norm: NormPlan, values: Mapping[int, Any]) -> Tensor | None:
    """ρ of every token of a norm: by its formula for one call, else ‖z‖/‖y‖ of y = z/ρ. None where its values are no tensors."""
    x, y = values.get(norm.source), values.get(norm.node)
    if not isinstance(x, Tensor) or not isinstance(y, Tensor):
        return None
    if norm.grouping:  # [samples, channels, …]
        groups = x.reshape(x.shape[0], -1, norm.size) if norm.grouping == "groups" else x.transpose(0, 1).reshape(1, x.shape[1], -1)
        return groups.var(-1, unbiased=False).sqrt()
    z = x - x.mean(norm.axes, keepdim=True) if norm.centred else x
    size: Tensor = torch.linalg.vector_norm(z, dim=norm.axes)
    if norm.fused:
        return (size.square() / norm.size + norm.eps).sqrt()
    if norm.clamped:
        return size.clamp(min=norm.eps)
    length = torch.linalg.vector_norm(y, dim=norm.axes)
    return torch.where(length > 0, size / length, norm.least or 1e-300)


def divisor(norm: NormPlan, values: Mapping[int, Any]) -> float:
    """The smallest of them, rounded down; at least what the norm's ε leaves."""
    rho, least = divisors(norm, values), norm.least or 1e-300
    return least if rho is None else max(float(rho.min()) * (1 - 1e-9), least)


def apart(v: Tensor) -> Tensor:
    """½ max_jk ‖v_j − v_k‖ for each sample and head. v: [samples, heads …, tokens, features]."""
    found: Tensor = torch.cdist(v, v, compute_mode="donot_use_mm_for_euclid_dist").amax((-1, -2)) / 2
    return found


def half_diameter(v: Tensor) -> float:
    """√Σ_heads (max over samples of ½ max_jk ‖v_j − v_k‖)², rounded up."""
    return float(torch.linalg.vector_norm(apart(v).amax(0))) * (1 + 16 * torch.finfo(v.dtype).eps)


def largest_entry(values: Iterable[Any]) -> float:
    """The largest |entry| of some values; what a mask took to −∞ is left out."""
    found = 0.0
    for t in values:
        if isinstance(t, Tensor) and t.is_floating_point() and t.numel():
            kept = t[t > MASKED]
            found = max(found, float(kept.abs().amax()) if kept.numel() else 0.0)
    return found


def norm_blur(norm: NormPlan, x: Tensor, *, always: bool = False) -> float:
    """Relative rounding error of z = x − mean over its own size: 16·ulp·max|x|·√n / (‖z‖ + √(n·ε)), largest over tokens. 0 where a norm does not
    centre (unless `always`)."""
    if not norm.axes or not (norm.centred or always):
        return 0.0
    z = x - x.mean(norm.axes, keepdim=True) if norm.centred else x
    top = x.abs().amax(norm.axes)
    length = torch.linalg.vector_norm(z, dim=norm.axes) + math.sqrt(norm.eps * norm.size)
    return _worst(math.sqrt(norm.size) * top / length.clamp(min=torch.finfo(x.dtype).tiny), top)


def spread_blur(v: Tensor) -> float:
    """Relative rounding error of Σ_j δp_j v_j, whose terms cancel where the v_j are nearly the same: 16·ulp·max‖v_j‖·√n over their half diameter."""
    if v.shape[-2] < 2:
        return 0.0
    top = torch.linalg.vector_norm(v, dim=-1).amax(-1)
    return _worst(top * math.sqrt(v.shape[-2]) / apart(v).clamp(min=torch.finfo(v.dtype).tiny), top)


def _worst(share: Tensor, top: Tensor) -> float:
    """16·ulp times the largest share of those whose size is not 0."""
    kept = share[top > 0]
    return 16 * torch.finfo(share.dtype).eps * float(kept.amax()) if kept.numel() else 0.0


__all__ = ["apart", "divisor", "divisors", "half_diameter", "largest_entry", "norm_blur", "spread_blur"]
