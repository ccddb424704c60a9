"""Experiment `jacobian`: 2-norm and Frobenius norm of ∂F/∂x of a branch at a point, each with an interval.

Spectral: Lanczos on A = JᵀJ from a random start b, uniform on the sphere, every new vector made orthogonal to all before. The largest eigenvalue t
of its k × k matrix is at most λ₁(A), so that √t is a lower end for certain. After k steps (Kuczyński & Woźniakowski, SIAM J. Matrix Anal. Appl. 13
(1992) 1094, the probabilistic bound of the Lanczos algorithm), for every A of n columns,

    P( t < (1 − ε) λ₁ )  ≤  1.648 √n · exp(−√ε (2k − 1)),

over the start. With the right side set to δ, √(t / (1 − ε)) is an upper end with probability 1 − δ at least.

Frobenius: E‖Jᵀg‖² = ‖J‖_F² for random signs g (Hutchinson); the mean of m draws with Student's 95 % interval, which takes the mean for normal.

Jᵀu is one backward pass; J v is the derivative of Jᵀu in u, which is linear, applied to v: a second one through the first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from screen.probe.measure.branch import BranchRun
from screen.probe.plan.types import Experiment, rounded

PRODUCTS = 20
"""Lanczos steps: each one product with J and one with Jᵀ."""
DOUBT = 0.01
"""δ."""
SIGNS = 12
"""Draws of Hutchinson's estimate, and Student's 97.5 % point of so many less one."""
STUDENT = 2.201

Linear = Callable[[Tensor], Tensor]


def norms(run: BranchRun) -> list[Experiment]:
    """Both norms at the branch's point."""
    plan = run.plan
    empty = Experiment("jacobian", "", "observed", plan.stream, plan.kind, plan.name)
    columns, back, forth = maps(run)
    steps = min(PRODUCTS, columns)
    low, high = spectral(lambda v: back(forth(v)), _start(run, columns), steps)
    size = replace(empty, what="‖J‖ in 2-norms", measured=rounded(low), interval=(rounded(low), rounded(high)), samples=steps)
    said = "all directions were tried" if steps == columns else f"the upper end holds with probability {1 - DOUBT:g} over the random start"
    middle, ends = frobenius_interval([float(back(g).square().sum()) for g in _signs(run)])
    spread = replace(empty, what="Frobenius norm of J", measured=rounded(middle), interval=(rounded(ends[0]), rounded(ends[1])), samples=SIGNS)
    return [replace(size, reason=said), replace(spread, reason="95 % over random signs")]


def maps(run: BranchRun) -> tuple[int, Linear, Linear]:
    """(columns of J, u ↦ Jᵀu, v ↦ J v), all flat. The branch is run once."""
    sources = [run.point[i].detach().clone().requires_grad_(True) for i in run.own]
    columns = sum(s.numel() for s in sources)
    with torch.enable_grad():
        out = run.output(dict(zip(run.own, sources, strict=True)))
        u = torch.zeros_like(out).requires_grad_(True)
        grads = torch.autograd.grad(out, sources, u, create_graph=True, allow_unused=True) if out.requires_grad else [None] * len(sources)
        pulled = torch.cat([(torch.zeros_like(s) if g is None else g).reshape(-1) for g, s in zip(grads, sources, strict=True)])

    def back(g: Tensor) -> Tensor:
        if not pulled.requires_grad:
            return torch.zeros(columns, dtype=g.dtype, device=g.device)
        found = torch.autograd.grad(out, sources, g.reshape(out.shape), retain_graph=True, allow_unused=True)
        return torch.cat([(torch.zeros_like(s) if t is None else t).reshape(-1) for t, s in zip(found, sources, strict=True)])

    def forth(v: Tensor) -> Tensor:
        if not pulled.requires_grad:
            return torch.zeros(out.numel(), dtype=v.dtype, device=v.device)
        (found,) = torch.autograd.grad(pulled, u, v, retain_graph=True)
        return found.reshape(-1)

    return columns, back, forth


def spectral(square: Linear, start: Tensor, steps: int) -> tuple[float, float]:
    """(lower end, upper end) of √λ₁ of a symmetric positive map, from a random start."""
    basis = [start / start.norm()]
    diagonal, beside = list[float](), list[float]()
    for _ in range(steps):
        w = square(basis[-1])
        diagonal.append(float(w @ basis[-1]))
        for _ in range(2):
            for q in basis:
                w = w - (w @ q) * q
        length = float(w.norm())
        if length <= start.numel() * torch.finfo(start.dtype).eps * max(diagonal):  # the basis spans all that is not in the kernel, almost surely
            break
        beside.append(length)
        basis.append(w / length)
    k = len(diagonal)
    t = torch.diag(torch.tensor(diagonal, dtype=torch.float64))
    for i, b in enumerate(beside[: k - 1]):
        t[i, i + 1] = t[i + 1, i] = b
    low = math.sqrt(max(float(torch.linalg.eigvalsh(t)[-1]), 0.0))
    is_whole = k < steps or k == start.numel()
    epsilon = 0.0 if is_whole else gap(start.numel(), k)
    return low, low / math.sqrt(1 - epsilon) if epsilon < 1 else math.inf


def gap(columns: int, steps: int) -> float:
    """ε for which the probability is δ. From 1 on nothing is said; at 20 steps it is below for every J that fits in memory."""
    return (math.log(1.648 * math.sqrt(columns) / DOUBT) / (2 * steps - 1)) ** 2


def frobenius_interval(squares: list[float]) -> tuple[float, tuple[float, float]]:
    """√mean of ‖Jᵀg‖², and the roots of the ends of the mean's interval."""
    n = len(squares)
    mean = math.fsum(squares) / n
    error = STUDENT * math.sqrt(math.fsum((s - mean) ** 2 for s in squares) / (n - 1) / n)
    return math.sqrt(mean), (math.sqrt(max(mean - error, 0.0)), math.sqrt(mean + error))


def _start(run: BranchRun, columns: int) -> Tensor:
    made = torch.randn(columns, generator=run.material.generator(run.plan.output, 600), dtype=torch.float64)
    return made.to(run.material.tape.device, run.material.tape.dtype)


def _signs(run: BranchRun) -> list[Tensor]:
    return [g.sign() for g in run.directions(SIGNS, 3)]


__all__ = ["frobenius_interval", "gap", "norms", "spectral"]
