"""Rows of tables that no data are in: learned or stored positions, and what a weight makes of them."""

from __future__ import annotations

from screen import ops
from screen.calculi.meanfield.lower.context import ORDERS, Reading
from screen.calculi.meanfield.moments import Moments
from screen.graph import Node, Ref

COUNTED = frozenset({"arange", "cumsum", *ORDERS})
"""Ops that make positions."""
LOOKUPS = {"embedding": (1, 0), "index_select": (0, 2), "getitem": (0, 1)}
"""Op -> where its table and its index stand."""
PLACED = "logits of relative positions are independent between queries, each key at a row of its own"


class Tables(Reading):
    """Reads what stands beside data."""

    def rows(self, node: int) -> Moments | None:
        """(q, δ, m) of a node whose rows stand for tokens: δ over pairs of different rows; None where they are not known."""
        here = self.graph.nodes[node]
        if here.op in ("buffer", "constant"):
            return self._stored(here)
        if here.op in LOOKUPS and len(here.inputs) > 1:
            return self._looked_up(here)
        if here.op == "linear":
            return self._mapped(here)
        if ops.CLASSES.get(here.op) in ("view", "part", "alias") and (len(set(here.inputs)) == 1 or here.op in ("type_as", "view_as", "expand_as")):
            return self.rows(here.inputs[0])
        return None

    def _stored(self, node: Node) -> Moments | None:
        """What was kept of a buffer, for the number of rows nearest to the tokens."""
        calls = [c for c in self.weights.histories.get(node.name, ()) if c.op == "rows_" and len(c.args) == 4]
        found = [tuple(float(a) for a in c.args if isinstance(a, int | float)) for c in calls]
        if not found:
            return None
        _, power, both, mean = min(found, key=lambda row: abs(row[0] - self.tokens))
        return Moments(power, power - both, mean)

    def _looked_up(self, node: Node) -> Moments | None:
        """Rows at positions."""
        where, which = LOOKUPS[node.op]
        table, index = (node.args[p] if len(node.args) > p else None for p in (where, which))
        places = [i for i in node.inputs if not isinstance(table, Ref) or i != table.node]
        if not isinstance(table, Ref) or index is None or not all(self._holds(i, COUNTED) for i in places):
            return None
        if not self.weights.is_trained(table.node):
            return self.rows(table.node)
        square = self.square(table.node, row=isinstance(node.kwarg("padding_idx"), int))
        return Moments(square, square)

    def _mapped(self, node: Node) -> Moments | None:
        """W p + b."""
        found = self.rows(node.inputs[0])
        if found is None or not self.weights.is_trained(node.inputs[1]):
            return None
        gain = self.square(node.inputs[1]) * (self.graph.nodes[node.inputs[0]].shape or (1,))[-1]
        bias = self.bias(node.inputs[2]) if len(node.inputs) > 2 else 0.0
        return Moments(gain * found.power + bias, gain * found.gap)


__all__ = ["PLACED", "Tables"]
