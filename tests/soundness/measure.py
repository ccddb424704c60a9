"""What is measured of a branch, always from below: magnitudes, the block-∞ → block-∞ norm of the Jacobian, secants, entries, and ascent on each.

Norms: ‖v‖ of a value is the largest plain 2-norm of a fibre along its last axis; the Jacobian's norm is sup ‖J δ‖ over ‖δ‖ ≤ 1 in these norms. For
one output token i and one unit vector u it is Σ_j ‖(Jᵀ (e_i ⊗ u))_j‖₂, which is a lower bound of it, and alternating over u and δ only raises it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from tests.soundness.region import Region

Values = Mapping[int, Tensor]
"""Values of the leaves of a region."""


def fibre(t: Tensor) -> Tensor:
    """sup over fibres along the last axis of the 2-norm, without overflow of the squares."""
    top = t.detach().abs().amax()
    if t.numel() == 0 or not bool(top > 0) or not bool(torch.isfinite(top)):
        return t.abs().sum() if t.numel() else t.sum()
    return top * (t / top).norm(dim=-1).amax()


@dataclass
class Attack:
    """One region with weights: measures at a point and climbs."""

    region: Region
    weights: Mapping[str, Tensor]
    rng: random.Random

    def output(self, leaves: Values, weights: Mapping[str, Tensor] | None = None) -> Tensor:
        """F at the leaves."""
        value = self.region.run(leaves, self.weights if weights is None else weights)[self.region.branch.output]
        assert isinstance(value, Tensor)
        return value

    def size(self, leaves: Values, kind: str = "own") -> float:
        """B: sup over tokens of the leaves of one kind."""
        return max((float(fibre(t)) for i, t in leaves.items() if self.region.kind(i) == kind), default=0.0)

    # -- Jacobian ---------------------------------------------------------------------------------------------------------------------

    def moving(self, leaves: Values) -> list[int]:
        """Leaves that the derivative is taken in: the state that the branch is added to."""
        return [i for i in leaves if self.region.kind(i) == "own"]

    def pulled(self, leaves: Values, token: int, u: Tensor, *, keep: bool = False) -> tuple[Tensor, list[Tensor]]:
        """Σ_j ‖(Jᵀ (e_i ⊗ u))_j‖₂ and the gradients."""
        out = self.output(leaves)
        scalar = (out.reshape(-1, out.shape[-1])[token] * u).sum()
        sources = [leaves[i] for i in self.moving(leaves)]
        if not scalar.requires_grad:
            return out.new_zeros(()), [torch.zeros_like(s) for s in sources]
        found = torch.autograd.grad(scalar, sources, create_graph=keep, allow_unused=True)
        grads = [torch.zeros_like(s) if g is None else g for g, s in zip(found, sources, strict=True)]
        return _block_one(grads), grads

    def jacobian(self, leaves: Values, token: int) -> tuple[float, Tensor]:
        """A lower bound of the Jacobian's norm from one output token, with the u that reaches it."""
        fresh = {i: t.detach().requires_grad_(True) for i, t in leaves.items()}
        out = self.output(fresh)
        flat = out.reshape(-1, out.shape[-1])
        sources = [fresh[i] for i in self.moving(fresh)]
        rows = []
        for d in range(flat.shape[-1]):
            if not flat.requires_grad:
                return 0.0, torch.ones(flat.shape[-1], dtype=flat.dtype)
            got = torch.autograd.grad(flat[token, d], sources, retain_graph=True, allow_unused=True)
            rows.append(torch.cat([(torch.zeros_like(s) if g is None else g).reshape(-1, s.shape[-1]) for g, s in zip(got, sources, strict=True)]))
        return alternated(torch.stack(rows))

    def secant(self, leaves: Values) -> tuple[float, float]:
        """‖F(y) − F(x)‖/‖y − x‖ for a random small or large step, and the rounding error to allow for."""
        step = 10 ** self.rng.uniform(-4, 0.5)
        moved = dict(leaves)
        for i in self.moving(leaves):
            noise = torch.randn_like(leaves[i])
            moved[i] = leaves[i] + step * fibre(leaves[i]).clamp(min=1e-300) * noise / fibre(noise)
        with torch.no_grad():
            one, two = self.output(leaves), self.output(moved)
            gap = max(float(fibre(moved[i] - leaves[i])) for i in self.moving(leaves)) if self.moving(leaves) else 1.0
            size = max(float(fibre(one)), float(fibre(two)))
        return float(fibre(two - one)) / gap, size / gap

    # -- ascent -----------------------------------------------------------------------------------------------------------------------

    def climb(self, leaves: Values, objective: Callable[[Values], Tensor], steps: int) -> Values:
        """Normalised gradient steps on the leaves, relative to the size of each; returns the best point."""
        point = {i: t.detach().clone() for i, t in leaves.items()}
        best, best_value, rate = point, -float("inf"), 0.5
        for _ in range(steps + 1):
            fresh = {i: t.detach().requires_grad_(True) for i, t in point.items()}
            value = objective(fresh)
            if not bool(torch.isfinite(value)):
                break
            reached = float(value.detach())
            if reached > best_value:
                best, best_value = point, reached
            else:
                rate *= 0.6
            if not value.requires_grad:
                break
            grads = torch.autograd.grad(value, list(fresh.values()), allow_unused=True)
            point = {i: _stepped(fresh[i].detach(), g, rate) for i, g in zip(fresh, grads, strict=True)}
        return best


def _stepped(x: Tensor, grad: Tensor | None, rate: float) -> Tensor:
    if grad is None or not bool(torch.isfinite(grad).all()):
        return x
    length = grad.norm(dim=-1, keepdim=True) if x.dim() else grad.abs()
    size = x.norm(dim=-1, keepdim=True) if x.dim() else x.abs()
    return x + rate * size.clamp(min=1e-12) * grad / length.clamp(min=1e-300)


def _block_one(grads: list[Tensor]) -> Tensor:
    """Σ over tokens of 2-norms, with a gradient that is finite at zero."""
    total = grads[0].new_zeros(()) if grads else torch.zeros(())
    for g in grads:
        total = total + (g.pow(2).sum(-1) + 1e-300).sqrt().sum()
    return total


def alternated(rows: Tensor) -> tuple[float, Tensor]:
    """max over unit u of Σ_j ‖uᵀ J_j‖ by alternation, from every unit vector's best and a random one. rows: [out, tokens, in]."""
    top = rows.abs().amax()
    if not bool(top > 0) or not bool(torch.isfinite(top)):
        return float(top), torch.ones(rows.shape[0], dtype=rows.dtype)
    scaled = rows / top
    starts = [torch.eye(rows.shape[0], dtype=rows.dtype)[int(scaled.norm(dim=-1).sum(-1).argmax())], torch.randn(rows.shape[0], dtype=rows.dtype)]
    found = []
    for u in starts:
        u = u / u.norm()
        for _ in range(6):
            g = torch.einsum("o,oji->ji", u, scaled)
            v = torch.einsum("oji,ji->o", scaled, g / g.norm(dim=-1, keepdim=True).clamp(min=1e-300))
            u = v / v.norm().clamp(min=1e-300)
        found.append((float(torch.einsum("o,oji->ji", u, scaled).norm(dim=-1).sum() * top), u))
    return max(found, key=lambda pair: pair[0])
