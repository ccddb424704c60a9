"""The scale-degree calculus: how a branch and its Jacobian answer when weights are scaled (theory, section 2; review, items 8 to 17).

Degrees only: no number comes from here, and no bound (`screen.facts.bounds` is the other calculus).
"""

from __future__ import annotations

from screen.facts.branches import Branch
from screen.facts.degrees.groups import Groups
from screen.facts.degrees.orders import orders_of
from screen.facts.degrees.nouns import Degree, Degrees, Orders
from screen.facts.degrees.rows_by_op import evaluate
from screen.facts.degrees.walk import Value, Walk
from screen.facts.mixers import Mixer


def degrees_of(branch: Branch, mixer: Mixer | None = None) -> Degrees:
    """Degrees of the branch's Jacobian in each weight group, and m."""
    mixer = mixer or Mixer(branch)
    walk = Walk(branch, Groups(branch, mixer.map_counter))
    for index in branch.region:
        walk.values[index] = evaluate(walk, index)
    output = walk.values[branch.output] if branch.output in walk.values else walk.value(branch.output)
    return orders_of(walk, output, mixer.maps)


__all__ = ["Degree", "Degrees", "Orders", "Value", "degrees_of"]
