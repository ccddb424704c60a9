"""Attention sinks: a learned logit beside those of the keys, whose share of each row is dropped before values are summed.

With a sink at s and n keys at about 0 that share is e^s/(e^s + n): 1/65 of 64 keys at s = 0. It is left out, which is said; a sink that starts far
from 0 has no row.
"""

from __future__ import annotations

from dataclasses import replace

from screen import ops
from screen.calculi.meanfield.lower.axes import dim_of
from screen.calculi.meanfield.lower.context import Read, Reading
from screen.calculi.meanfield.values import Largest, Logits, Stop
from screen.graph import Node

SMALL = 0.5
"""Of the root mean square of a sink at the start: e^s is less than 2."""
SUNK = "the share of a row that a learned logit beside the keys takes at the start is left out"


class Sinks(Reading):
    """Reads what is put beside logits and taken off again, and the shift of a softmax that is written out."""

    def beside_keys(self, node: Node) -> Read | None:
        """What adds or drops a sink, or takes the largest logit of a row off; None for any other node."""
        found = self.table.get(node.inputs[0]) if node.inputs else None
        if isinstance(found, Largest):
            return found if ops.CLASSES.get(node.op) in ("view", "part") else None
        logits = next((f for i in node.inputs if isinstance(f := self.table.get(i), Logits)), None)
        if logits is None:
            return None
        if node.op in ("amax", "max") and len(node.inputs) == 1 and not logits.rows:
            return Largest(logits) if dim_of(node) in (-1, len(self.graph.nodes[node.inputs[0]].shape or ()) - 1) else None
        if node.op == "sub" and len(node.inputs) == 2 and not node.kwargs:
            top = self.table.get(node.inputs[1])
            return logits if isinstance(top, Largest) and top.logits == found == logits else None
        if node.op == "cat":
            return self._sunk(node, logits)
        if logits.sink and ops.CLASSES.get(node.op) == "part":
            ends = ((1, None),) if logits.sink == "first" else ((None, -1), (0, -1))
            if node.op == "getitem" and logits.rows and _kept(node) in ends:
                return replace(logits, sink="")
            raise Stop(f"`{node.op}` cuts logits beside a sink in a way that has no row in the recursion", node.index)
        return None

    def _sunk(self, node: Node, logits: Logits) -> Logits:
        """Logits and one learned entry beside them."""
        shape, axis = node.shape or (), dim_of(node) or 0
        sinks = [i for i in node.inputs if i not in self.table]
        last = len(node.inputs) == 2 and axis in (-1, len(shape) - 1) and not logits.rows and not logits.sink
        if not last or len(sinks) != 1 or (self.graph.nodes[sinks[0]].shape or ())[-1:] != (1,) or not self.weights.is_trained(sinks[0]):
            raise Stop(f"`{node.op}` puts something beside logits that is no learned sink", node.index)
        if self.square(sinks[0]) > SMALL**2:
            raise Stop("a learned logit beside the keys starts far from zero", node.index)
        self.assumptions.add(SUNK)
        return replace(logits, sink="first" if node.inputs[0] == sinks[0] else "last")


def _kept(node: Node) -> tuple[object, object] | None:
    """(start, stop) of the last axis where all of the others is kept."""
    index = node.args[1] if len(node.args) > 1 else None
    items = index if isinstance(index, tuple) and index[:1] != ("slice",) else (index,)
    whole = [i for i in items[:-1] if i not in ("...", ("slice", None, None, None))]
    last = items[-1]
    return (last[1], last[2]) if not whole and isinstance(last, tuple) and last[:1] == ("slice",) and last[3] in (None, 1) else None


__all__ = ["SUNK", "Sinks"]
