"""What is known of a node beside its rule: as a function of one value (`curves`), or of a value and a size of it (`radial`)."""

from __future__ import annotations

from screen.calculi.bounds.curves import known
from screen.calculi.bounds.interpreter import PATTERNS, Walk
from screen.calculi.bounds.meet import met
from screen.calculi.bounds.radial import radial
from screen.calculi.bounds.value import Value
from screen.graph import Node
from screen.structure.types import Norm, Unknown


def sharper(walk: Walk, node: Node, made: Value, norm: Norm | None) -> Value:
    """The value of a node with what is known of it as a function of one value (`curves`), or of a value and a size of it (`radial`)."""
    lost = isinstance(made.mag, Unknown)
    if made.holes or not walk.flow.is_float(node) or (norm is not None and not lost):
        return made
    named, found = known(walk, node, lost)
    if named and found is not None:
        return found
    for other in (found, radial(walk, node)):
        if other is not None and other.shape == made.shape:
            made = met(made, other, walk.names)
    return made


PATTERNS.sharper = sharper
