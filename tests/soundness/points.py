"""Numbers of a point that claims speak of: divisors of norms, logits, spreads, the largest inner entry.

They are measured as the probe does it (`screen.probe.bounds.point`)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from screen.calculi.bounds.interpreter import Spread
from screen.probe.bounds import point as place
from screen.probe.measure.attention import bounded_logit
from screen.probe.plan.quantities import norm_plan
from screen.structure.dataflow import axes_of
from tests.soundness.measure import Values
from tests.soundness.region import Region


def divisors(region: Region, norms: Iterable[tuple[str, int, float | None]], nodes: Mapping[int, Any], point: Values) -> dict[str, float]:
    """The smallest divisor ρ of each norm over all tokens."""
    values, by_node = {**nodes, **point}, region.branch.norms.by_node
    return {symbol: place.divisor(norm_plan(region.branch, by_node[node], symbol, least), values) for symbol, node, least in norms}


def half_diameters(spreads: Iterable[Spread], nodes: Mapping[int, Any], point: Values) -> dict[str, float]:
    """Half the diameter of the vectors that each softmax weighs."""
    values = {**nodes, **point}
    return {s.symbol: place.half_diameter(v) for s in spreads if isinstance(v := values.get(s.node), Tensor)}


def largest_logit(region: Region, node: int, nodes: Mapping[int, Any], point: Values) -> float:
    """max |logit| under a softmax (masked entries left out), or of q kᵀ · scale under an attention call, before its mask."""
    found = bounded_logit(region.branch.flow.graph, node, {**nodes, **point})
    assert found is not None
    return found


def entries(region: Region, nodes: Mapping[int, Any]) -> float:
    """The largest |entry| of the values of the branch that carry data; what a mask took to −∞ is left out."""
    data, inside = region.branch.flow.data, region.branch.members
    return place.largest_entry(value for index, value in nodes.items() if index in inside and data[index])


def cancelled(spreads: Iterable[Spread], nodes: Mapping[int, Any], point: Values) -> float:
    """The relative rounding error of Σ_j δp_j v_j."""
    values = {**nodes, **point}
    return max((place.spread_blur(v) for s in spreads if isinstance(v := values.get(s.node), Tensor)), default=0.0)


def rounding(region: Region, nodes: Mapping[int, Any], point: Values) -> float:
    """The relative rounding error that norms and deviations make of inputs that hardly vary, largest over tokens and norms. Values that are equal up
    to rounding are no sample of a statement about real arithmetic."""
    values, worst = {**nodes, **point}, 0.0
    for norm in region.branch.norms.by_node.values():
        x = values.get(norm.source)
        if norm.node in region.branch.members and isinstance(x, Tensor):
            worst = max(worst, place.norm_blur(norm_plan(region.branch, norm, "", None), x, always=True))
    for index in region.branch.region:  # a deviation by itself has a slope that rounding alone decides there
        node = region.branch.flow.graph.nodes[index]
        x = values.get(node.inputs[0]) if node.inputs else None
        if node.op == "std" and isinstance(x, Tensor):
            axes = axes_of(region.branch.flow.operand(node, 1, "dim"), x.dim())
            size = torch.linalg.vector_norm(x - x.mean(axes, keepdim=True), dim=axes)
            top = x.abs().amax(axes)
            loss = 2**-52 * top * math.sqrt(math.prod(x.shape[a] for a in axes)) / size.clamp(min=1e-300)
            worst = max(worst, 16 * float(loss[top > 0].amax()) if bool((top > 0).any()) else 0.0)
    return worst
