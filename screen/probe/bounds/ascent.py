"""Gradient ascent on what a branch reads and on its weights, and the Jacobian's norm in the units of the bounds.

A step moves every token by a share of its own size along its gradient, and every weight by a share of its Frobenius norm; a weight then gets its
Frobenius norm back, so that it turns and does not grow. Gradients of norms are of low rank: a weight that turns towards them has all of its norm
in few directions, and a bound in spectral norms is approached.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from screen.probe.measure.attention import bounded_logits
from screen.probe.measure.branch import BranchRun, fibre
from screen.probe.measure.leaves import Missing
from screen.probe.measure.replay import Env

Objective = Callable[[Env], Tensor]
"""Of the values of cuts and weights."""
TURNS = 3
RATE, SLOWER = 0.5, 0.6
TURN = 2.0
"""Of a weight, for one of a token."""


@dataclass(frozen=True)
class Spot:
    """Values of the cuts, and of weights in place of the branch's own."""

    point: Env
    given: Env = field(default_factory=dict)

    @property
    def both(self) -> Env:
        """All values."""
        return {**self.given, **self.point}


def size(run: BranchRun) -> Objective:
    """sup over tokens of ‖F‖₂."""
    return lambda values: fibre(run.output(values))


def logit(run: BranchRun, node: int) -> Objective:
    """The largest |logit| of one softmax."""

    def measured(values: Env) -> Tensor:
        found = bounded_logits(run.material.tape.graph, node, {**run.point, **run.values(values), **values})
        if found is None:
            raise Missing("its logits are not one tensor")
        return found

    return measured


def inner(run: BranchRun) -> Objective:
    """The largest entry inside, as a gradient sees it: of the value that holds it."""

    def measured(values: Env) -> Tensor:
        env = run.values(values)
        tops = [t.abs().amax() for i in run.plan.inside if isinstance(t := env.get(i), Tensor) and t.is_floating_point() and t.numel()]
        return max((t for t in tops if bool(torch.isfinite(t))), key=lambda t: float(t.detach()), default=run.output(values).abs().amax())

    return measured


def slope(run: BranchRun, u: Tensor) -> Objective:
    """Σ_j ‖(Jᵀ(e_i ⊗ u))_j‖₂ for one fixed u and the last token i, with its gradient."""

    def measured(values: Env) -> Tensor:
        out = run.output(values)
        scalar: Tensor = (out.reshape(-1, out.shape[-1])[-1] * u).sum()
        if not scalar.requires_grad:
            return scalar
        grads = torch.autograd.grad(scalar, [values[i] for i in run.own], create_graph=True, allow_unused=True)
        total: Tensor = scalar * 0.0
        for g in grads:
            if g is not None:
                total = total + (g.square().sum(-1) + _tiny(g)).sqrt().sum()
        return total

    return measured


def jacobian(run: BranchRun, spot: Spot) -> tuple[float, Tensor]:
    """‖J‖ from block-∞ to the last output token, from below, and the unit u that reaches it: alternation between output and input direction."""
    sources = {i: spot.point[i].detach().clone().requires_grad_(True) for i in run.own}
    with torch.enable_grad():
        out = run.output({**spot.both, **sources})
        token = out.reshape(-1, out.shape[-1])[-1]
        u = run.directions(1, 1)[0].reshape(-1, out.shape[-1])[-1]
        best, top = 0.0, _unit(u)
        for _ in range(TURNS if token.requires_grad else 0):
            u = _unit(u).detach().requires_grad_(True)
            grads = [g for g in torch.autograd.grad((token * u).sum(), list(sources.values()), create_graph=True, allow_unused=True) if g is not None]
            reached = sum(float(g.detach().norm(dim=-1).sum()) for g in grads)
            if reached > best:
                best, top = reached, u.detach()
            inner = sum((g * _unit(g).detach()).sum() for g in grads)
            if not isinstance(inner, Tensor) or not inner.requires_grad:
                break
            (u,) = torch.autograd.grad(inner, u, retain_graph=True)
    return best, top


def climbed(spot: Spot, objective: Objective, steps: int, free: Sequence[int] = ()) -> Spot:
    """The best place after some steps on every cut and on the free weights."""
    here, best, top, rate = spot, spot, -math.inf, RATE
    for step in range(steps + 1):
        point = {i: t.detach().clone().requires_grad_(True) for i, t in here.point.items()}
        weights = {i: here.given[i].detach().requires_grad_(True) for i in free}
        with torch.enable_grad():
            value = objective({**here.given, **weights, **point})
        reached = float(value.detach())
        if not math.isfinite(reached) or not value.requires_grad:
            break
        if reached > top:
            best, top = here, reached
        else:
            rate *= SLOWER
        if step == steps:
            break
        grads = iter(torch.autograd.grad(value, [*point.values(), *weights.values()], allow_unused=True))
        cuts = {i: _stepped(t.detach(), next(grads), rate) for i, t in point.items()}
        here = Spot(cuts, {**here.given, **{i: _turned(t.detach(), next(grads), rate) for i, t in weights.items()}})
    return best


def _stepped(x: Tensor, grad: Tensor | None, rate: float) -> Tensor:
    """Each token by a share of its size."""
    if grad is None or not bool(torch.isfinite(grad).all()):
        return x
    step: Tensor = x.norm(dim=-1, keepdim=True) * _unit(grad)
    return x + rate * step


def _turned(w: Tensor, grad: Tensor | None, rate: float) -> Tensor:
    """A weight along its gradient, at the Frobenius norm that it had."""
    steep = float(grad.norm()) if grad is not None else 0.0
    if grad is None or not 0.0 < steep < math.inf:
        return w
    length = float(w.norm())
    moved = torch.add(w, grad, alpha=TURN * rate * length / steep)
    return moved.mul_(length / max(float(moved.norm()), _tiny(w)))


def _unit(t: Tensor) -> Tensor:
    """Each vector along the last axis over its length; 0 where it is 0."""
    found: Tensor = t / t.norm(dim=-1, keepdim=True).clamp(min=_tiny(t))
    return found


def _tiny(t: Tensor) -> float:
    return torch.finfo(t.dtype).tiny


__all__ = ["Objective", "Spot", "climbed", "inner", "jacobian", "logit", "size", "slope"]
