"""Arrays that bounds take norms of: strided views of parameters, and what is made of several (formulas: `screen.facts.bounds.fold`).

    map        W Γ Π        [out, in]     of (W, γ), Π = I − 11ᵀ/in where the norm centres
    constant   W β + b      [out]         of (W, β, b)
    rows       g_i v_i/‖v_i‖              of (v, g)
    share      γW/(uᵀWv)                  of (W, γ, u, v), infinite where uᵀWv is 0
    spectral, frobenius   γW/‖W‖          of (W, γ)

Written apart from `screen.facts.bounds`, on torch. Parameters are read by name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from screen.probe.plan import MadePlan, PartPlan

Weights = Mapping[str, Tensor]


def entries(part: PartPlan, weights: Weights) -> Tensor:
    """The entries of a part."""
    whole = weights[part.parameter].detach().contiguous() if part.made is None else _array(part.made, weights).contiguous()
    view: Tensor = whole.as_strided(part.sizes, part.strides, part.offset)
    return view + part.shift if part.shift else view


def rounding(part: PartPlan, weights: Weights) -> float:
    """What rounding can leave of `entries` where they cancel: 64·ulp of the sizes that went in."""
    made = part.made
    if made is None or made.how not in ("map", "constant"):
        return 0.0
    first, second, *more = [0.0 if p is None else _size(entries(p, weights)) for p in made.parts]
    product = first * (second if made.parts[1] is not None else 1.0)
    return 64 * torch.finfo(weights[part.parameter].dtype).eps * (product + sum(more))


def _size(t: Tensor) -> float:
    """√n times the largest entry: at least the 2-norm, without overflow of squares."""
    return float(t.abs().max()) * math.sqrt(t.numel()) if t.numel() else 0.0


def _array(made: MadePlan, weights: Weights) -> Tensor:
    first, *others = [None if p is None else entries(p, weights) for p in made.parts]
    assert first is not None
    if made.how == "map":
        return _mapped(first, others[0], made.centred)
    if made.how == "constant":
        shift, bias = others
        assert shift is not None
        return first @ shift if bias is None else first @ shift + bias
    if made.how == "rows":
        assert others[0] is not None
        length = torch.linalg.vector_norm(first.flatten(1), dim=1)
        unit: Tensor = first / length.reshape(-1, *(1,) * (first.dim() - 1))
        return unit * others[0]
    share = first / _divisor(made.how, first.flatten(1), others[1:])
    share = share if others[0] is None else share * others[0]
    return torch.where(torch.isfinite(share), share, math.inf)


def _divisor(how: str, w: Tensor, vectors: list[Tensor | None]) -> Tensor:
    """uᵀWv, or a norm of W. w: [out, in]."""
    if not vectors:
        found: Tensor = torch.linalg.matrix_norm(w, 2 if how == "spectral" else "fro")
        return found
    left, right = vectors
    assert left is not None and right is not None
    return left @ (w @ right)


def _mapped(w: Tensor, gain: Tensor | None, centred: bool) -> Tensor:
    """W Γ Π."""
    w = w if gain is None else w * gain
    return w - w.mean(1, keepdim=True) if centred else w


__all__ = ["entries", "rounding"]
