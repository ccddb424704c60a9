"""The scale-degree calculus: how a branch and its Jacobian answer when weights are scaled (theory, section 2; review, items 8 to 17).

Degrees only: no number comes from here, and no bound (`screen.calculi.bounds` is the other calculus).
"""

from __future__ import annotations

from screen.calculi.degrees.monomials import STREAM
from screen.calculi.degrees.orders import orders_of
from screen.calculi.degrees.rules import evaluate, logits_of
from screen.calculi.degrees.types import Degree, Degrees, Orders
from screen.calculi.degrees.values import Value, Walk, settled
from screen.calculi.degrees.weight_groups import Groups
from screen.structure.branches.branch import Branch
from screen.structure.branches.role import Mixer


def degrees_of(branch: Branch, mixer: Mixer | None = None) -> Degrees:
    """Degrees of the branch's Jacobian in each weight group, and m."""
    mixer = mixer or Mixer(branch)
    walk = _walked(branch, mixer)
    output = walk.values[branch.output] if branch.output in walk.values else walk.value(branch.output)
    return orders_of(walk, output, mixer.maps)


def _walked(branch: Branch, mixer: Mixer) -> Walk:
    walk = Walk(branch, Groups(branch, mixer.map_counter))
    for index in branch.region:
        walk.values[index] = evaluate(walk, index)
    return walk


def laws_of(branch: Branch, node: int, logits: bool = False) -> tuple[tuple[tuple[str, ...], float], ...]:
    """(parameters of a group with the biases that are scaled along, k) for every group in which a node of the branch is homogeneous of degree k,
    exactly (no parameters: in the stream). `logits`: of those that a fused attention makes, in place of its value."""
    walk = _walked(branch, Mixer(branch))
    found = settled(logits_of(walk, node) if logits else walk.value(node))
    if found.unknown is not None:
        return ()
    nodes, exact = branch.flow.graph.nodes, [(g, law[0]) for g, law in found.laws.items() if law is not None and law[1]]
    members = {g: (*walk.groups.members[g], *(nodes[b].name for b in walk.biases.get(g, {}))) if g != STREAM else () for g, _ in exact}
    return tuple((members[g], float(k)) for g, k in exact)


__all__ = ["Degree", "Degrees", "Orders", "Value", "degrees_of", "laws_of"]
