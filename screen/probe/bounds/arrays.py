"""Arrays that bounds take norms of: strided views of parameters, and what is made of several (formulas: `screen.calculi.bounds.arrays`).

    map        W Γ Π        [out, in]     of (W, γ), Π = I − 11ᵀ/in where the norm centres
    constant   W β + b      [out]         of (W, β, b)
    rows       g_i v_i/‖v_i‖              of (v, g)
    share      γW/(uᵀWv)                  of (W, γ, u, v), infinite where uᵀWv is 0
    spectral, frobenius   γW/‖W‖          of (W, γ)
    logit      A_hᵀC_h, by head           of (A, C), matrices [heads …, rows, columns] or vectors [heads …, rows]
    through    √(Σ‖A_h‖²) [W_1 A_1/‖A_1‖, …]   of (W [out, heads …, rows], A)

The last two up to orthonormal columns on the right (of `logit` on both sides), which no norm over them sees: with Aᵀ = Q R, R stands for A.

Written apart from `screen.calculi.bounds`, on torch. Parameters are read by name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from screen.probe.plan.types import MadePlan, PartPlan

Weights = Mapping[str, Tensor]
LOST = {torch.float64: 1e-11, torch.float32: 64 * 2.0**-23}
"""Of what cancels, the share that may be rounding: here, and where the program itself adds the same numbers up in another order."""
KEPT = 1 << 22
"""Entries up to which an array that is made of several is kept."""
SAFE = (1e-140, 1e140)
"""Frobenius norms in which no square has left the range of floats."""


class Arrays:
    """What bounds take norms of at one place, each made and measured once: many norms share a part."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self._made: dict[MadePlan, Tensor] = {}
        self._sizes: dict[PartPlan, float] = {}

    def entries(self, part: PartPlan) -> Tensor:
        """The entries of a part."""
        whole = self.weights[part.parameter].detach().contiguous() if part.made is None else self._array(part.made)
        view: Tensor = whole.as_strided(part.sizes, part.strides, part.offset)
        return view + part.shift if part.shift else view

    def size(self, part: PartPlan) -> float:
        """Its Frobenius norm."""
        if part not in self._sizes:
            self._sizes[part] = _size(self.entries(part))
        return self._sizes[part]

    def rounding(self, part: PartPlan) -> float:
        """What rounding can leave of `entries` where they cancel: a share of the Frobenius norms of what is multiplied and added, and the
        same of the parts."""
        made = part.made
        if made is None or made.how not in ("map", "constant", "logit", "through"):
            return 0.0
        there = [p for p in made.parts if p is not None]
        kind = self.weights[there[0].parameter].dtype
        ulp = LOST.get(kind, 64 * torch.finfo(kind).eps)
        if made.how == "map":  # entry by entry; only the mean cancels
            plain = replace(part, made=replace(made, centred=False))
            return ulp * (self.size(there[0]) if len(there) < 2 else self.size(plain)) if made.centred else 0.0
        sizes, lost = [self.size(p) for p in there], [self.rounding(p) for p in there]
        return ulp * (sizes[0] * sizes[1] + sum(sizes[2:])) + lost[0] * sizes[1] + lost[1] * sizes[0] + sum(lost[2:])

    def _array(self, made: MadePlan) -> Tensor:
        if made in self._made:
            return self._made[made]
        array = _array(made, [None if p is None else self.entries(p) for p in made.parts]).contiguous()
        if array.numel() <= KEPT:
            self._made[made] = array
        return array


def _size(t: Tensor) -> float:
    """The Frobenius norm, without overflow of squares."""
    found = float(torch.linalg.vector_norm(t, dtype=torch.float64))
    if SAFE[0] < found < SAFE[1] or not t.numel():
        return found
    top = float(t.abs().max())
    return top * float(torch.linalg.vector_norm(t / top, dtype=torch.float64)) if 0.0 < top < math.inf else top


def _array(made: MadePlan, parts: list[Tensor | None]) -> Tensor:
    first, *others = parts
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
    if made.how in ("logit", "through"):
        assert others[0] is not None
        return _logit(first, others[0], made.heads) if made.how == "logit" else _through(first, others[0])
    share = first / _divisor(made.how, first.flatten(1), others[1:])
    share = share if others[0] is None else share * others[0]
    return torch.where(torch.isfinite(share), share, math.inf)


def _logit(a: Tensor, c: Tensor, heads: int) -> Tensor:
    """A_hᵀC_h: [heads …], then an axis for each matrix."""
    left, right = (_small(w) if w.dim() > heads + 1 else w[..., None, :] for w in (a, c))
    made: Tensor = left @ right.mT
    made = made if c.dim() > heads + 1 else made.squeeze(-1)
    return made if a.dim() > heads + 1 else made.squeeze(-1 if c.dim() <= heads + 1 else -2)


def _through(w: Tensor, a: Tensor) -> Tensor:
    """[out, heads · n]."""
    small = _small(a.flatten(0, -3) if a.dim() > 2 else a[None])  # [heads, n, rows]
    size = torch.linalg.matrix_norm(small, 2)
    unit = small / torch.where(size > 0, size, 1.0)[:, None, None]
    made: Tensor = torch.einsum("ohr,hnr->ohn", w.reshape(len(w), len(small), -1), unit).flatten(1) * torch.linalg.vector_norm(size)
    return made


def _small(a: Tensor) -> Tensor:
    """R of Aᵀ = Q R: [heads …, n, rows], n = min(rows, columns)."""
    turned: Tensor = a.mT
    if turned.shape[-2] <= turned.shape[-1]:
        return turned
    found: Tensor = torch.linalg.qr(turned, mode="r")[1]
    return found


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


__all__ = ["Arrays"]
