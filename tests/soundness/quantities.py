"""Values of the symbols of a bound, computed from real weights; written apart from `screen.facts.bounds`, from its documented formula alone.

value = Σ_t √(Σ_h (max_s ‖part‖_{r × c})²), or max_s Σ_a |entry|, or max exp(entry).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from screen.facts.bounds.quantities import Quantity


def value(quantity: Quantity, weights: Mapping[str, Tensor]) -> float:
    """The number that a symbol stands for."""
    view = quantity.part
    w = weights[quantity.parameter].detach().contiguous().as_strided(view.sizes, view.strides, view.offset) + view.shift
    if quantity.kind == "max_exp":
        return float(w.exp().max())
    top = float(w.abs().max())
    if not 0.0 < top < math.inf:
        return top
    groups = [[i for i, r in enumerate(quantity.roles) if r == role] for role in "thsarc"]
    w = (w / top).permute(*(i for g in groups for i in g)) if w.dim() else w / top
    w = w.reshape([math.prod(view.sizes[i] for i in g) for g in groups])
    if "a" in quantity.roles:
        return top * float(w.abs().sum((3, 4, 5)).amax())
    sizes = torch.linalg.svdvals(w.squeeze(3))[..., 0]  # [t, h, s]
    return top * float(sizes.amax(2).square().sum(1).sqrt().sum())
