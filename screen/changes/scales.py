"""Changes of scales: DeepNorm's multipliers, and weights that start smaller."""

from __future__ import annotations

import math

from screen.changes.norms import NotPossible, skip_of, traced
from screen.facts.advice import deepnorm_code
from screen.facts.queries import branches
from screen.facts.record import Facts
from screen.graph.edit import Edit
from screen.probe.plan.update import parts_of
from screen.structure.branches.branch import Branch
from screen.structure.initial.laws import deviations
from screen.structure.types import Sublayer
from screen.theorems.depth_scale import deepnorm

SCALED = ("V", "O", "FFN in", "FFN out")
"""Weights that DeepNorm multiplies by β."""


def deepnorm_scales(facts: Facts) -> Edit:
    """norm(α·x + F(x)), and V, O and both maps of the FFN × β (Wang et al. 2022, table 1); where a number multiplies the stream already, β alone."""
    edit = Edit(facts.graph)
    for stream, reader, position, branch, sublayer in traced(facts):
        skip = skip_of(reader, position)
        maps = _maps(facts, branch, sublayer)
        if deepnorm_code(facts, stream) is None or sublayer.alpha.kind not in ("none", "constant"):
            raise NotPossible("the stream is not made of blocks of two sublayers with a norm on each sum")
        if not set(maps.values()) <= {*SCALED, "Q and K"}:
            raise NotPossible("V shares a weight with Q and K, or a map is none of an attention or an FFN")
        alpha, beta = deepnorm(facts.depth(stream))
        if sublayer.alpha.kind == "none":
            edit.read(branch.add, skip, edit.call("mul", skip, alpha, at=branch.add))
        for name, group in maps.items():
            if group in SCALED:
                edit.scale(name, beta)
    return edit


def depth_scaled_maps(facts: Facts) -> Edit:
    """The last map of each branch at σ/√(number of branches), σ that of its other maps (Radford et al. 2019, section 2.3)."""
    edit = Edit(facts.graph)
    for stream, _, _, branch, sublayer in traced(facts):
        maps = _maps(facts, branch, sublayer)
        last = [name for name, group in maps.items() if group in ("O", "FFN out")]
        others = [law[-1] for name in maps if name not in last and (law := deviations(facts.graph, name))]
        if not last or not others or {"B", "C"} & set(sublayer.positions):
            raise NotPossible("which map ends a branch, or how the others start, is not known, or a norm divides the scale out")
        for name in last:
            edit.start(name, max(others) / math.sqrt(branches(facts, stream)))
    return edit


def _maps(facts: Facts, branch: Branch, sublayer: Sublayer) -> dict[str, str]:
    """Matrix of a branch -> what it makes."""
    shapes = facts.graph.parameters
    return {name: group for name, group in parts_of(branch, sublayer.role) if len(shapes[name].shape or ()) > 1}


__all__ = ["deepnorm_scales", "depth_scaled_maps"]
