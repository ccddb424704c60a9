"""Numbers of bounds on real weights: norms of parts of parameters, and programs of bounds evaluated in logarithms.

Written apart from `screen.facts.bounds`, from its documented formulas alone, and on torch, so that a wide block is measured where its weights are.

    value = Σ_t √( Σ_h ( max_s ‖part‖_{r × c} )² ),  with `a`:  max_s Σ_a |entry|,  or  max exp(entry)
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from screen.probe.material import Missing
from screen.probe.plan import BoundPlan, QuantityPlan

_ROLES = "thsarc"
Program = tuple[tuple[str, float, str, tuple[int, ...], tuple[float, ...]], ...]


def quantity(q: QuantityPlan, weight: Tensor) -> float:
    """The number that a symbol stands for, with 1e-9 of it added: it enters upper bounds."""
    w = weight.detach().contiguous().as_strided(q.sizes, q.strides, q.offset) + q.shift
    if q.kind == "max_exp":
        return float(w.exp().max())
    top = float(w.abs().max()) if w.numel() else 0.0
    if not 0.0 < top < math.inf:
        return top
    groups = [[i for i, r in enumerate(q.roles) if r == role] for role in _ROLES]
    grid = (w / top).permute(*(i for g in groups for i in g)) if w.dim() else w / top
    grid = grid.reshape([math.prod(q.sizes[i] for i in g) for g in groups])  # [t, h, s, a, r, c]
    if "a" in q.roles:
        return top * float(grid.abs().sum((3, 4, 5)).amax()) * (1 + 1e-9)
    return top * float(_spectral(grid.squeeze(3)).amax(2).square().sum(1).sqrt().sum()) * (1 + 1e-9)


def _spectral(matrices: Tensor) -> Tensor:
    """‖W‖₂ of every matrix, as the root of the largest eigenvalue of the smaller Gram matrix. matrices: [..., r, c]."""
    if 1 in matrices.shape[-2:]:
        plain: Tensor = matrices.square().sum((-1, -2))
        return plain.sqrt()
    gram = matrices.mT @ matrices if matrices.shape[-2] >= matrices.shape[-1] else matrices @ matrices.mT
    largest: Tensor = torch.linalg.eigvalsh(gram)[..., -1]
    return largest.clamp(min=0.0).sqrt()


def evaluate(bound: BoundPlan, values: Mapping[str, float]) -> float:
    """A bound as a number; infinite where it is larger than a float. Raises `Missing` for a symbol without a value."""
    logs = list[float]()
    for kind, value, name, operands, powers in bound.program:
        args = [logs[i] for i in operands]
        own = _log(value)
        if kind == "sym":
            if name not in values:
                raise Missing(f"the bound holds `{name}`, which is not measured")
            logs.append(_log(values[name]))
        elif kind == "mul":
            terms = [p * a for a, p in zip(args, powers, strict=True)]
            logs.append(-math.inf if -math.inf in (own, *terms) else own + sum(terms))
        elif kind == "add":
            logs.append(_sum([own, *args]))
        elif kind in ("min", "max"):
            logs.append(min(own, *args) if kind == "min" else max(own, *args))
        else:
            logs.append(own)
    return math.exp(logs[-1]) if logs[-1] < 709 else math.inf


def symbols(bound: BoundPlan) -> set[str]:
    """The symbols of a bound."""
    return {name for kind, _, name, _, _ in bound.program if kind == "sym"}


def _log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf


def _sum(parts: list[float]) -> float:
    top = max(parts)
    return top if math.isinf(top) else top + math.log(math.fsum(math.exp(x - top) for x in parts))


__all__ = ["evaluate", "quantity", "symbols"]
