"""Numbers of a point that claims speak of: divisors of norms, logits, the largest inner entry."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from screen.facts.bounds.walk import Spread
from screen.facts.flow import axes_of
from tests.soundness.measure import Values
from tests.soundness.region import Region


def divisors(region: Region, norms: Iterable[tuple[str, int, float | None]], nodes: Mapping[int, Any], point: Values) -> dict[str, float]:
    """The smallest divisor ρ of each norm over all tokens: from its formula for a fused call, else ‖z‖/‖y‖ of y = z/ρ."""
    found = {}
    for symbol, node, least in norms:
        norm = region.branch.norms.by_node[node]
        x = point[norm.source] if norm.source in point else nodes.get(norm.source)
        y = nodes.get(node)
        if not isinstance(x, Tensor) or not isinstance(y, Tensor):
            found[symbol] = least or 1e-300
            continue
        op = region.branch.flow.graph.nodes[node].op
        if op in ("group_norm", "batch_norm"):  # [samples, channels, …]: one divisor for each sample and group
            groups = x.reshape(x.shape[0], -1, norm.size) if op == "group_norm" else x.transpose(0, 1).reshape(1, x.shape[1], -1)
            found[symbol] = max(float(groups.var(-1, unbiased=False).min().sqrt()) * (1 - 1e-9), least or 0.0) or 1e-300
            continue
        z = x - x.mean(norm.axes, keepdim=True) if norm.centred else x
        size = torch.linalg.vector_norm(z, dim=norm.axes)
        if op in ("layer_norm", "rms_norm"):
            rho = (size.square() / norm.size + (least or 0.0) ** 2).sqrt()
        elif op == "normalize":
            rho = size.clamp(min=least)
        else:
            length = torch.linalg.vector_norm(y, dim=norm.axes)
            rho = torch.where(length > 0, size / length, least or 1e-300)
        found[symbol] = max(float(rho.min()) * (1 - 1e-9), least or 0.0) or 1e-300
    return found


def half_diameters(spreads: Iterable[Spread], nodes: Mapping[int, Any], point: Values) -> dict[str, float]:
    """√Σ_heads (max over samples of ½ max_jk ‖v_j − v_k‖)² of the vectors v [samples, heads …, tokens, features] that each softmax weighs."""
    found = {}
    for s in spreads:
        v = point[s.node] if s.node in point else nodes.get(s.node)
        if isinstance(v, Tensor):
            apart = torch.linalg.vector_norm(v.unsqueeze(-2) - v.unsqueeze(-3), dim=-1).amax((-1, -2)) / 2
            found[s.symbol] = float(torch.linalg.vector_norm(apart.amax(0))) * (1 + 1e-12)
    return found


def largest_logit(region: Region, node: int, nodes: Mapping[int, Any], point: Values) -> float:
    """max |logit| under a softmax (masked entries left out), or of q kᵀ · scale under an attention call, before its mask."""
    graph = region.branch.flow.graph
    here = graph.nodes[node]

    def read(index: int) -> Tensor:
        value = point[index] if index in point else nodes[index]
        assert isinstance(value, Tensor)
        return value

    if here.op != "scaled_dot_product_attention":
        u = read(here.inputs[0])
        kept = u[u > -1e30]
        return float(kept.abs().amax()) if kept.numel() else 0.0
    q, k = read(here.inputs[0]), read(here.inputs[1])
    scale = here.kwarg("scale", here.args[6] if len(here.args) > 6 else None)
    factor = float(scale) if isinstance(scale, int | float) else 1 / math.sqrt(q.shape[-1])
    if q.shape[1] != k.shape[1]:
        k = k.repeat_interleave(q.shape[1] // k.shape[1], 1)
    return float((q @ k.transpose(-2, -1) * factor).abs().amax())


def entries(region: Region, nodes: Mapping[int, Any]) -> float:
    """The largest |entry| of the values of the branch that carry data; what a mask took to −∞ is left out."""
    flow, found = region.branch.flow, 0.0
    for index, value in nodes.items():
        if index in region.branch.members and flow.data[index] and isinstance(value, Tensor) and value.is_floating_point() and value.numel():
            kept = value[value > -1e30]
            found = max(found, float(kept.abs().amax()) if kept.numel() else 0.0)
    return found


def cancelled(spreads: Iterable[Spread], nodes: Mapping[int, Any], point: Values) -> float:
    """The relative rounding error of Σ_j δp_j v_j, whose terms cancel where the v_j are nearly the same: 2⁻⁵² · max‖v_j‖·√n over
    their half diameter."""
    worst = 0.0
    for s in spreads:
        v = point[s.node] if s.node in point else nodes.get(s.node)
        if isinstance(v, Tensor) and v.shape[-2] > 1:
            apart = torch.linalg.vector_norm(v.unsqueeze(-2) - v.unsqueeze(-3), dim=-1).amax((-1, -2)) / 2
            top = torch.linalg.vector_norm(v, dim=-1).amax(-1)
            loss = 2**-52 * top * math.sqrt(v.shape[-2]) / apart.clamp(min=1e-300)
            worst = max(worst, float(loss[top > 0].amax()) if bool((top > 0).any()) else 0.0)
    return 16 * worst


def rounding(region: Region, nodes: Mapping[int, Any], point: Values) -> float:
    """The relative rounding error that norms and deviations make of inputs that hardly vary: 2⁻⁵² · max|x|·√n over the size of what is
    normalised, largest over tokens and norms. Values that are equal up to rounding are no sample of a statement about real arithmetic."""
    worst = 0.0
    for norm in region.branch.norms.by_node.values():
        x = point[norm.source] if norm.source in point else nodes.get(norm.source)
        if norm.node not in region.branch.members or not isinstance(x, Tensor) or not norm.axes:
            continue
        z = x - x.mean(norm.axes, keepdim=True) if norm.centred else x
        size = torch.linalg.vector_norm(z, dim=norm.axes) + (norm.eps or 0.0)
        top = x.abs().amax(norm.axes)
        worst = max(worst, float((2**-52 * top * math.sqrt(norm.size) / size.clamp(min=1e-300)).amax()) if bool((top > 0).any()) else 0.0)
    for index in region.branch.region:  # a deviation by itself has a slope that rounding alone decides there
        node = region.branch.flow.graph.nodes[index]
        x = point[node.inputs[0]] if node.inputs and node.inputs[0] in point else nodes.get(node.inputs[0]) if node.inputs else None
        if node.op == "std" and isinstance(x, Tensor):
            axes = axes_of(region.branch.flow.operand(node, 1, "dim"), x.dim())
            size = torch.linalg.vector_norm(x - x.mean(axes, keepdim=True), dim=axes)
            top = x.abs().amax(axes)
            loss = 2**-52 * top * math.sqrt(math.prod(x.shape[a] for a in axes)) / size.clamp(min=1e-300)
            worst = max(worst, float(loss[top > 0].amax()) if bool((top > 0).any()) else 0.0)
    return 16 * worst
