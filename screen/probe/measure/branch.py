"""One branch on real weights: a function of the state that it reads, with any weights in place of its own.

Norms here are those of the bounds: of a value the largest 2-norm of a fibre along its last axis; of a Jacobian the operator norm from block-∞ to
block-∞, always measured from below.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from screen.probe.measure.leaves import Material, Missing
from screen.probe.measure.replay import Env
from screen.probe.plan.types import DegreePlan, NormPlan, SublayerPlan


@dataclass
class BranchRun:
    """A branch, the values of its leaves, and a point on the stream."""

    plan: SublayerPlan
    material: Material
    calls: list[int]
    leaves: Env
    point: Env
    """Node of a cut -> its value: N(0, 1) on every entry, seeded by the node."""
    names: Mapping[str, int]
    """Parameter -> its node."""
    buffers: Mapping[str, int]
    """Buffer -> its node."""

    @property
    def own(self) -> list[int]:
        """The cuts that the branch is a function of."""
        kinds = dict(self.plan.cuts)
        return [i for i in self.point if kinds[i] == "own"]

    def values(self, given: Env | None = None) -> Env:
        """The values of all nodes, with some leaves or cuts replaced."""
        return self.material.tape.run(self.calls, {**self.leaves, **self.point, **(given or {})})

    def output(self, given: Env | None = None) -> Tensor:
        """F at the point."""
        found = self.values(given)[self.plan.output]
        if not isinstance(found, Tensor):
            raise Missing("the branch does not end in one tensor")
        return found

    def weight(self, name: str) -> Tensor:
        """A parameter's value."""
        return self.leaves[self.names[name]]  # type: ignore[no-any-return]

    def scaled(self, degree: DegreePlan, c: float) -> Env:
        """The group's parameters times c, and the biases that join it times their powers of c. Raises `Missing`."""
        if degree.rows is None and degree.group not in degree.parameters:
            raise Missing(f"which rows of `{degree.parameters[0]}` are its part cannot be told")
        given: Env = {}
        first = self.names.get(degree.parameters[0])
        for name, power in (*((p, 1.0) for p in degree.parameters), *degree.biases):
            node = self.names.get(name)
            if node is None:  # an expert that no token reached, or a bias beyond the branch
                continue
            is_bias = name not in degree.parameters
            value = self.leaves[node].clone()
            axis = 0 if is_bias else degree.axis
            fused = not is_bias or (degree.rows is not None and first is not None and value.shape[0] == self.leaves[first].shape[degree.axis])
            chosen = rows(degree.rows if fused else None, value.shape[axis] if value.dim() else 0).to(value.device)
            given[node] = value.index_copy(axis, chosen, value.index_select(axis, chosen) * c**power) if value.dim() else value * c**power
        return given

    def pulled(self, given: Env, directions: list[Tensor]) -> list[list[Tensor]]:
        """Jᵀg for each direction g, by cut."""
        sources = {i: self.point[i].detach().clone().requires_grad_(True) for i in self.own}
        with torch.enable_grad():
            out = self.output({**given, **sources})
        if not out.requires_grad:
            return [[torch.zeros_like(s) for s in sources.values()] for _ in directions]
        found = []
        for g in directions:
            grads = torch.autograd.grad(out, list(sources.values()), g.reshape(out.shape), retain_graph=True, allow_unused=True)
            found.append([torch.zeros_like(s) if t is None else t for t, s in zip(grads, sources.values(), strict=True)])
        return found

    def directions(self, count: int, seed: int) -> list[Tensor]:
        """Fixed random directions at the output."""
        shape = self.material.tape.graph.nodes[self.plan.output].shape
        if shape is None:
            raise Missing("the branch does not end in one tensor")
        generator = self.material.generator(self.plan.output, 500 + seed)
        made = (torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(count))
        return [g.to(self.material.tape.device, self.material.tape.dtype) for g in made]

    def variances(self, env: Env) -> list[tuple[NormPlan, Tensor]]:
        """Mean square of what each norm with an ε divides, per token."""
        found = []
        for norm in self.plan.norms:
            x = env.get(norm.source)
            if norm.eps and isinstance(x, Tensor):
                z = x - x.mean(norm.axes, keepdim=True) if norm.centred else x
                found.append((norm, z.square().mean(norm.axes)))
        return found


def rows(text: str | None, size: int) -> Tensor:
    """The row numbers of a group: `first:last`, or `first:last of every period`; all without a text."""
    if text is None:
        return torch.arange(size)
    span, _, period = text.partition(" of every ")
    first, last = (int(n) for n in span.split(":"))
    step = int(period) if period else size
    return torch.cat([torch.arange(first + k, last + k) for k in range(0, size, step) if first + k < size])


def fibre(t: Tensor) -> Tensor:
    """sup over fibres along the last axis of the 2-norm."""
    return torch.linalg.vector_norm(t, dim=-1).amax() if t.dim() else t.abs()


def branch_run(plan: SublayerPlan, material: Material, copy: int = 0) -> BranchRun:
    """A branch with its leaves drawn. Raises `Missing`."""
    tape = material.tape
    calls, leaves, met = tape.steps([plan.output], [i for i, _ in plan.cuts])
    point = {i: material.normal(i, copy) for i in met}
    names = {tape.nodes[i].meta["label"]: i for i in leaves if tape.graph.nodes[i].op == "parameter"}
    buffers = {tape.graph.nodes[i].name: i for i in leaves if tape.graph.nodes[i].op in ("buffer", "constant")}
    return BranchRun(plan, material, calls, material.leaves(leaves, copy), point, names, buffers)


def frobenius(parts: list[list[Tensor]]) -> float:
    """√(mean over directions of ‖Jᵀg‖²): Hutchinson's estimate of ‖J‖_F."""
    return math.sqrt(sum(float(t.square().sum()) for found in parts for t in found) / len(parts))


def entries(value: Any) -> int:
    """Number of entries of a leaf."""
    return value.numel() if isinstance(value, Tensor) else 0


__all__ = ["BranchRun", "branch_run", "entries", "fibre", "frobenius", "rows"]
