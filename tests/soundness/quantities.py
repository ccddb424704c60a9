"""Values of the symbols of a bound, computed from real weights; written apart from `screen.facts.bounds`, from its documented formula alone.

value = Σ_t √(Σ_h (max_s ‖part‖_{r × c})²), or max_s Σ_a |entry|, or max exp(entry); of a folded part the entries are those of W Γ Π,
of W β + b, or of g_i v_i/‖v_i‖.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from screen.facts.bounds.fold import Fold, Rows
from screen.facts.bounds.quantities import Part, Quantity


def value(quantity: Quantity, weights: Mapping[str, Tensor]) -> float:
    """The number that a symbol stands for."""
    view, rounding = quantity.part, 0.0
    w = entries(view, weights)
    if isinstance(view.fold, Fold):  # where W Γ Π or W β + b cancels, what is measured is rounding
        made = [entries(p, weights) for p in (view.fold.matrix, view.fold.gain or view.fold.shift, view.fold.bias) if p is not None]
        sizes = [float(t.abs().max()) * math.sqrt(t.numel()) for t in made]
        rounding = 1e-11 * (math.prod(sizes[:2]) + sum(sizes[2:]))
    if quantity.kind == "max_exp":
        return float(w.exp().max())
    top = float(w.abs().max())
    if not 0.0 < top < math.inf:
        return top + rounding
    groups = [[i for i, r in enumerate(quantity.roles) if r == role] for role in "thsarc"]
    w = (w / top).permute(*(i for g in groups for i in g)) if w.dim() else w / top
    w = w.reshape([math.prod(view.sizes[i] for i in g) for g in groups])
    if "a" in quantity.roles:
        return top * float(w.abs().sum((3, 4, 5)).amax())
    sizes = torch.linalg.svdvals(w.squeeze(3))[..., 0]  # [t, h, s]
    return top * float(sizes.amax(2).square().sum(1).sqrt().sum()) + rounding


def entries(part: Part, weights: Mapping[str, Tensor]) -> Tensor:
    """The entries of a part, folded where it says so."""
    fold = part.fold
    if fold is None:
        whole = weights[part.parameter].detach()
    elif isinstance(fold, Rows):
        v = entries(fold.matrix, weights)
        whole = torch.nn.functional.normalize(v.flatten(1), dim=1, eps=0.0).unflatten(1, v.shape[1:]) * entries(fold.gains, weights)
    elif not isinstance(fold, Fold):
        raise NotImplementedError(type(fold).__name__)
    elif fold.shift is not None:
        whole = torch.einsum("oi,i->o", entries(fold.matrix, weights), entries(fold.shift, weights))
        whole = whole if fold.bias is None else whole + entries(fold.bias, weights)
    else:
        matrix = entries(fold.matrix, weights)
        scaled = matrix if fold.gain is None else torch.einsum("oi,i->oi", matrix, entries(fold.gain, weights))
        width = scaled.shape[1]
        whole = scaled @ (torch.eye(width, dtype=scaled.dtype) - 1.0 / width) if fold.centred else scaled
    return whole.contiguous().as_strided(part.sizes, part.strides, part.offset) + part.shift
