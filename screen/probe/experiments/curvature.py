"""Experiment `curvature`: how sharp the loss is at the start as Adam sees it, and the learning rate at its edge of stability.

λ is the largest eigenvalue of D^(−1/2) H D^(−1/2), H the Hessian of the loss of a synthetic task on one batch, D = √(mean g²) + ε over `BATCHES`
others: what Adam divides by. With decay β₁ of its first average, Adam at a rate η is at the edge of its stability along that direction where

    λ = (2 + 2β₁)/((1 − β₁)·η),   38/η at β₁ = 0.9

(Cohen et al. 2022, "Adaptive Gradient Methods at the Edge of Stability"; here D is frozen at the start; Gilmer et al. 2021, "A Loss Curvature
Perspective on Training Instability in Deep Learning", on curvature, warm-up and architecture). Above it the first steps overshoot; training may find
a flatter place by that, and warm-up gives it the time.

H is met through products alone: the gradient of ⟨g, v⟩ (Pearlmutter 1994). Entries of weights whose gradient is 0 on every batch do not move in the
first step and are left out. See `screen.probe.measure.lanczos` for both ends and their intervals.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from screen.capture import phase
from screen.probe.budget.whole import Size, fullest, sizes_of
from screen.probe.measure.lanczos import End, Vector, ends
from screen.probe.measure.session import Session, said
from screen.probe.measure.whole import Weights, Whole
from screen.probe.plan.types import CURVATURE, Experiment, ProbePlan, rounded
from screen.probe.stress.sweep import Make

BATCHES = 4
PRODUCTS = 10
CONVERGED = 0.02
"""Share of λ that its residual may have."""
TOLD = 0.2
"""Share of it beyond which λ has not converged."""
BYTES = 44
"""Of a weight: itself, two gradients, D, four vectors, and what a product makes."""


@dataclass(frozen=True)
class Sharpness:
    """Both ends of the preconditioned Hessian."""

    top: End
    bottom: End
    products: int
    left_out: int
    """Entries of weights without a gradient."""
    entries: int


def curvatures(plan: ProbePlan, session: Session, make: Make) -> Iterator[Experiment]:
    """λ and the rate at its edge, or why they were not measured."""
    empty = Experiment("curvature", "λ: largest curvature of the loss at the start, as Adam scales it", "not_measured")
    if not plan.asks("curvature", "", "", ""):
        return
    phase.measure("curvature", 1.0)
    try:
        size, _ = fullest(sizes_of(plan, session, make), ("",), _cost, CURVATURE * session.options.seconds, BYTES)
        whole = Whole(size.build(), size.session, replace(plan.update, state=None))
        words = "; ".join(w for w in (size.words, f"batches of 8, {whole.task.words}, without dropout") if w)
        found = sharpness(whole, plan.update.eps)
        yield from _told(found, plan.update.beta1, words, empty)
    except Exception as error:  # the user's own code runs here
        yield replace(empty, reason=said(error).replace("the replay raised", "it raised"))


def _cost(size: Size, form: str) -> float:
    """Gradients of all batches, one of them with its graph, and the products: each a backward pass through a forward and a backward one."""
    return size.seconds(8.0 * (3 * (BATCHES + 1) + 4 * PRODUCTS), 5.0 * BATCHES + 10 * PRODUCTS, BATCHES + 1 + 3 * PRODUCTS)


def sharpness(whole: Whole, eps: float) -> Sharpness | None:
    """Both ends; None where the loss does not depend on the weights."""
    squares: Weights = {}
    for _ in range(BATCHES):
        for name, g in whole.gradients(whole.batch()).items():
            squares[name] = g.square() if name not in squares else squares[name].addcmul_(g, g)
    if not squares:
        return None
    scales = {n: torch.where(s > 0, ((s / BATCHES).sqrt_() + eps).rsqrt_(), 0.0) for n, s in squares.items()}
    with torch.enable_grad():
        gradient = {n: g for n, g in whole.gradients(whole.batch(), create_graph=True).items() if n in scales}
    names = [n for n, g in gradient.items() if g.requires_grad]
    scale = [scales[n] for n in names]
    left_out, entries = sum(int((s == 0).sum()) for s in scales.values()), sum(s.numel() for s in scales.values())
    if not names:
        return Sharpness(End(0.0, 0.0, 0.0), End(0.0, 0.0, 0.0), 0, left_out, entries)
    weights = whole.weights
    sources = [weights[n] for n in names]

    def product(v: Vector) -> Vector:
        with torch.enable_grad():
            parts = torch.autograd.grad([gradient[n] for n in names], sources, [s * t for s, t in zip(scale, v, strict=True)],
                                        retain_graph=True, allow_unused=True)  # fmt: skip
        return [torch.zeros_like(s) if p is None else p.detach() * s for p, s in zip(parts, scale, strict=True)]

    start = [_drawn(s, whole.generator) * (s != 0) for s in scale]
    top, bottom, products = ends(product, start, PRODUCTS, CONVERGED)
    return Sharpness(top, bottom, products, left_out, entries)


def _drawn(like: Tensor, generator: torch.Generator) -> Tensor:
    return torch.randn(like.shape, generator=generator).to(like.device, like.dtype)


def _told(found: Sharpness | None, beta1: float, words: str, empty: Experiment) -> Iterator[Experiment]:
    if found is None:
        yield replace(empty, outcome="not_applicable", reason=f"no weight has a gradient; {words}")
        return
    top, bottom = found.top, found.bottom
    numbers: dict[str, float | str] = {
        "before": rounded(top.before), "residual": rounded(top.residual),
        "smallest": rounded(bottom.value), "smallest_residual": rounded(bottom.residual),
        "entries_without_a_gradient": float(found.left_out), "entries": float(found.entries), "beta1": beta1,
    }  # fmt: skip
    state = "converged" if top.has_converged(TOLD) else "not converged"
    change = f"{state}: {top.before:.3g}, then {top.value:.3g} in {found.products} products"
    change = change if found.products else "the loss is linear in the weights"
    sign = "; the curvature is larger downwards" if bottom.value < -abs(top.value) else ""
    lost = f"; {found.left_out / found.entries:.0%} of the weights have no gradient and are left out" if found.left_out else ""
    high = top.value + top.residual
    yield replace(empty, outcome="observed", measured=rounded(top.value), interval=(rounded(top.value), rounded(high)), samples=found.products,
                  numbers=numbers, reason=f"{change}{sign}{lost}; {words}")  # fmt: skip
    edge = Experiment("curvature", "learning rate at the edge of stability at the start, without warm-up", "observed")
    if not top.value > 0:
        yield replace(edge, outcome="not_applicable", reason="the loss bends upwards in no direction that was met")
        return
    factor = (2 + 2 * beta1) / (1 - beta1)
    yield replace(edge, measured=rounded(factor / top.value), interval=(rounded(factor / high), rounded(factor / top.value)),
                  reason=f"{factor:.3g}/λ: above it the first steps overshoot in the sharpest direction")  # fmt: skip


__all__ = ["Sharpness", "curvatures", "sharpness"]
