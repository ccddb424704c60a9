"""Sensitivity of whole stacks: the Jacobian measured from below, our products of slopes, and E's."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import torch
from torch import Tensor, nn

from screen.calculi.bounds import BranchBounds, bounds_of
from screen.structure.types import Unknown
from tests.soundness.grammar import Design, Part
from tests.soundness.measure import alternated, fibre
from tests.soundness.points import divisors, half_diameters
from tests.soundness.quantities import value
from tests.soundness.region import Region, regions

EPS = 1e-5
SLOPES = {"relu": 1.0, "gelu": 1.13, "silu": 1.1}
"""Lipschitz constants of activations, for E's bounds."""


def size(w: Tensor) -> float:
    """‖W‖₂."""
    return float(torch.linalg.matrix_norm(w.detach(), 2))


def measured(model: nn.Module, x: Tensor) -> float:
    """A lower bound of the norm of the Jacobian of the stack at x, from the largest token to the largest token (last token, alternated)."""
    x = x.detach().requires_grad_(True)
    out = model(x)
    rows = []
    for entry in out.reshape(-1, out.shape[-1])[-1]:
        (grad,) = torch.autograd.grad(entry, x, retain_graph=True)
        rows.append(grad.reshape(-1, x.shape[-1]))
    return alternated(torch.stack(rows))[0]


def shifted(weights: Mapping[str, Tensor], block: int) -> dict[str, Tensor]:
    """Parameters of one block under the names of the first."""
    mine = f"blocks.{block}."
    return {"blocks.0." + k.removeprefix(mine): v for k, v in weights.items() if k.startswith(mine)}


@cache
def known(design: Design) -> tuple[list[Region], list[BranchBounds]]:
    """The branches of a design, with their bounds."""
    found = regions(design)
    return found, [bounds_of(r.branch) for r in found]


def branch_slope(region: Region, bounds: BranchBounds, weights: Mapping[str, Tensor], state: Tensor, *, local: bool, plain: bool = False) -> float:
    """Our bound of one branch's slope: with the divisors measured at its input, or over all inputs of that size."""
    claim = bounds.lipschitz_local if local else bounds.lipschitz
    claim = bounds.plain(claim) if plain else claim
    if isinstance(claim, Unknown):
        return math.inf
    values = {q.symbol: value(q, weights) for q in bounds.quantities} | {"B": float(fibre(state))}
    values |= {s: 1.0 for s in claim.symbols() if s.startswith("theta_")}
    if local:
        point = dict.fromkeys(region.leaves, state)
        with torch.no_grad():
            nodes = region.run(point, weights, copies=True)
        values |= divisors(region, bounds.norms, nodes, point) | half_diameters(bounds.spreads, nodes, point)
    return claim.evaluate(values)


def ours(design: Design, model: nn.Module, states: list[Tensor], *, local: bool, plain: bool = False) -> float:
    """log10 of the product over residual adds of (|α| + slopes), times 1/σ of each norm on the stream (1/√ε over all inputs)."""
    found, bounds = known(replace(design, depth=1))
    weights, total, at = dict(model.named_parameters()), 0.0, 0
    for block in range(design.depth):
        here = shifted(weights, block)
        alpha = abs(float(here["blocks.0.alpha"].detach())) if "blocks.0.alpha" in here else 1.0
        inputs = [states[at + (0 if design.parallel else i)] for i in range(len(found))]
        each = [branch_slope(r, b, here, x, local=local, plain=plain) for r, b, x in zip(found, bounds, inputs, strict=True)]
        for slopes in [each] if design.parallel else [[e] for e in each]:
            total += math.log10(alpha + sum(slopes))
            at += 1
            if design.stream_norm:
                total -= math.log10(_least_sigma(model, block, states, at) if local else math.sqrt(EPS))
    return total


def _least_sigma(model: nn.Module, block: int, states: list[Tensor], at: int) -> float:
    """The smallest √(variance + ε) under the norm on the stream after one residual add."""
    here = model.blocks[block]  # type: ignore[index]
    with torch.no_grad():
        before = here.kept(states[at - 1]) + here.branches[(at - 1) % len(here.norms)](states[at - 1])
        return float((before.var(-1, unbiased=False) + EPS).sqrt().min())


def theirs(design: Design, model: nn.Module) -> float | None:
    """log10 of E's theorems 5.2 and 5.3 with 5.1 in them (θ = 1); E has none for norms at outputs, parallel blocks, QK-norm and gated layers."""
    first = design.parts[0]
    if design.parallel or first.output_norm or first.attend.qk or design.parts[1].mixer != "mlp":
        return None
    total, lip = 0.0, 1 / math.sqrt(EPS)
    for block in model.blocks:  # type: ignore[union-attr]
        alpha = abs(float(block.alpha.detach())) if block.alpha is not None else 1.0
        for part, branch in zip(design.parts, block.branches, strict=True):
            scale = float(branch.factor.detach().abs().amax()) if branch.factor is not None else 1.0
            slope = scale * _their_slope(design, part, branch.mixer)
            total += math.log10(alpha + slope * lip) if first.input_norm else math.log10(lip * (alpha + slope))
    return total


def _their_slope(design: Design, part: Part, mixer: nn.Module) -> float:
    """‖W_O‖ Σ_h (‖W_V^h‖ + 2B²/√d_h ‖W_Q^h‖‖W_K^h‖‖W_V^h‖) with B = √d; ‖W_2‖‖W_1‖ Lip φ."""
    if part.mixer == "mlp":
        return size(mixer.out.weight) * size(mixer.up.weight) * SLOPES[part.act]  # type: ignore[union-attr,arg-type]
    heads = part.attend.heads
    q, k, v = ([size(w) for w in m.weight.chunk(heads, 0)] for m in mixer.maps)  # type: ignore[union-attr]
    factor = 2 * design.width / math.sqrt(design.width / heads)
    return size(mixer.out.weight) * sum(c + factor * a * b * c for a, b, c in zip(q, k, v, strict=True))  # type: ignore[arg-type]
