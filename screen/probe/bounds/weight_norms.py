"""Numbers of bounds on real weights: norms of parts of parameters, and programs of bounds evaluated in logarithms.

Written apart from `screen.calculi.bounds`, from its documented formulas alone, and on torch, so that a wide block is measured where its weights are.

    value = Σ_t √( Σ_h ( max_s ‖part‖_{r × c} )² ),  with `a`:  max_s Σ_a |entry|,  or  max exp(entry)

‖W‖₂ is exact (eigenvalues of the smaller Gram matrix) up to `EXACT` rows. Beyond that it is an upper bound, never an estimate from below:
k steps of Lanczos on WWᵀ from a random start that is independent of W give λ ≤ ‖W‖², and (Kuczyński and Woźniakowski 1992, theorem 4.2)

    P( λ < (1 − ε) ‖W‖² )  ≤  1.648 √m e^(−√ε (2k − 1)),      so that  ‖W‖ ≤ √( λ / (1 − ε) )

with the largest λ of `STARTS` independent starts fails with a probability of at most `CHANCE`; the smallest of it, ‖W‖_F and √(‖W‖₁ ‖W‖_∞), which
hold always, is taken.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from screen.probe.bounds.arrays import Arrays
from screen.probe.measure.leaves import Missing
from screen.probe.plan.types import Program, QuantityPlan

_ROLES = "thsarc"
EXACT = 1024
"""Rows of the smaller side up to which ‖W‖₂ is exact: 10·m³ operations, half a second."""
SHARE, CHANCE, STARTS = 0.1, 1e-12, 8
"""ε of the upper bound, which is then at most 5.5 % too large, the probability that it does not hold, and the number of starts."""
PLAIN = (1e-12, 1e12)
"""Sizes of entries whose squares are far from the ends of float32."""


def quantity(q: QuantityPlan, arrays: Arrays) -> float:
    """The number that a symbol stands for, with 1e-9 of it and what rounding can leave added: it enters upper bounds."""
    return _norm(q, arrays.entries(q.part)) + arrays.rounding(q.part)


def _norm(q: QuantityPlan, w: Tensor) -> float:
    if q.kind == "max_exp":
        return float(w.exp().max())
    top = float(torch.linalg.vector_norm(w, math.inf)) if w.numel() else 0.0
    if not 0.0 < top < math.inf:
        return top
    scale = 1.0 if PLAIN[0] < top < PLAIN[1] else top
    groups = [[i for i, r in enumerate(q.roles) if r == role] for role in _ROLES]
    w = w if scale == 1.0 else w / scale
    grid = w.permute(*(i for g in groups for i in g)) if w.dim() else w
    grid = grid.reshape([math.prod(q.sizes[i] for i in g) for g in groups])  # [t, h, s, a, r, c]
    if "a" in q.roles:
        return scale * float(grid.abs().sum((3, 4, 5), dtype=torch.float64).amax()) * (1 + 1e-9)
    return scale * float(_spectral(grid.squeeze(3)).amax(2).square().sum(1).sqrt().sum()) * (1 + 1e-9)


def is_exact(q: QuantityPlan) -> bool:
    """Whether its number is that of the norm, and not of an upper bound."""
    return min(math.prod(n for n, r in zip(q.sizes, q.roles, strict=True) if r == role) for role in "rc") <= EXACT


def steps(side: int) -> int:
    """Steps of Lanczos after which the upper bound holds but for `CHANCE`."""
    return math.ceil((math.log(1.648 * math.sqrt(side) / CHANCE ** (1 / STARTS)) / math.sqrt(SHARE) + 1) / 2)


def _spectral(matrices: Tensor) -> Tensor:
    """‖W‖₂ of every matrix, or an upper bound of it. matrices: [..., r, c]."""
    rows, columns = matrices.shape[-2:]
    if 1 in (rows, columns):
        return matrices.square().sum((-1, -2), dtype=torch.float64).sqrt()
    if min(rows, columns) > EXACT:
        found = [upper(w) for w in matrices.reshape(-1, rows, columns)]
        return torch.tensor(found, dtype=torch.float64).reshape(matrices.shape[:-2])
    w = matrices.double()
    gram = w.mT @ w if rows >= columns else w @ w.mT
    largest: Tensor = torch.linalg.eigvalsh(gram)[..., -1]
    return largest.clamp(min=0.0).sqrt()


def upper(w: Tensor) -> float:
    """An upper bound of ‖W‖₂ (module docstring), with the rounding of a sum over its longer side added. w: [r, c]."""
    w = w if w.shape[0] <= w.shape[1] else w.mT
    rounding = 1 + max(w.shape) * torch.finfo(w.dtype).eps
    known = float(torch.linalg.vector_norm(w, dtype=torch.float64)), math.sqrt(float(w.abs().sum(0).amax()) * float(w.abs().sum(1).amax()))
    return min(math.sqrt(_largest(w) / (1 - SHARE)), *known) * rounding


def _largest(w: Tensor) -> float:
    """The largest Ritz value of WWᵀ over the starts, with full reorthogonalisation in float64; the starts have a generator of their own."""
    v = torch.randn(STARTS, w.shape[0], generator=torch.Generator().manual_seed(1 << 50), dtype=torch.float64).to(w.device)
    basis, diagonal, beside = torch.empty(STARTS, 0, w.shape[0], dtype=torch.float64, device=w.device), list[Tensor](), list[Tensor]()
    for _ in range(steps(w.shape[0])):
        v = v / v.norm(dim=1, keepdim=True).clamp(min=1e-300)
        basis = torch.cat([basis, v[:, None]], 1)
        u = ((v.to(w.dtype) @ w) @ w.mT).double()  # rows, not columns: a product with few columns is ten times slower
        diagonal.append((v * u).sum(1))
        for _ in range(2):
            u = u - ((u[:, None] @ basis.mT) @ basis)[:, 0]
        beside.append(u.norm(dim=1))
        v = torch.where((beside[-1] > 1e-12 * diagonal[0])[:, None], u, 0.0)  # 0: all that the start reaches is found
    off = torch.diag_embed(torch.stack(beside[:-1], 1), 1)
    t = torch.diag_embed(torch.stack(diagonal, 1)) + off + off.mT
    return max(float(torch.linalg.eigvalsh(t).amax()), 0.0)


def slack(dtype: torch.dtype, ops: int, longest: int) -> float:
    """Relative rounding that is allowed beyond a bound: 1e-6 in float64; in float32 every op is allowed a sum over the longest axis, n·2⁻²⁴."""
    return 1e-6 if dtype == torch.float64 else max(1e-6, max(ops, 1) * longest * 2.0**-24)


def evaluate(program: Program, values: Mapping[str, float]) -> float:
    """An expression as a number; infinite where it is larger than a float. Raises `Missing` for a symbol without a value."""
    logs = list[float]()
    for kind, value, name, operands, powers in program:
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


def symbols(program: Program) -> set[str]:
    """The symbols of an expression."""
    return {name for kind, _, name, _, _ in program if kind == "sym"}


def _log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf


def _sum(parts: list[float]) -> float:
    top = max(parts)
    return top if math.isinf(top) else top + math.log(math.fsum(math.exp(x - top) for x in parts))


__all__ = ["EXACT", "evaluate", "is_exact", "quantity", "slack", "steps", "symbols", "upper"]
