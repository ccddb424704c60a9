"""Rows of tables that no data are in: learned or stored positions, and what a weight makes of them."""

from __future__ import annotations

from collections.abc import Sequence

from screen import ops
from screen.calculi.meanfield.lower.computed import rows_of
from screen.calculi.meanfield.lower.context import ORDERS, Reading
from screen.calculi.meanfield.moments import Moments
from screen.graph import Node, Ref
from screen.structure.initial.values import FILLED

COUNTED = frozenset({"arange", "cumsum", *ORDERS})
"""Ops that make positions."""
LOOKUPS = {"embedding": (1, 0), "index_select": (0, 2), "getitem": (0, 1)}
"""Op -> where its table and its index stand."""
FILLS = frozenset({"zeros", "zeros_like", "new_zeros", "ones", "ones_like", "new_ones", *FILLED})
"""Factories of one number."""
PICKS = frozenset({"gather", "index_select", "take_along_dim", "getitem", "index"})
"""Ops that pick entries of their first operand by others."""
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
        if here.op in ("linear", "matmul", "mm", "bmm"):
            return self._mapped(here)
        if ops.CLASSES.get(here.op) in ("view", "part", "alias") and (len(set(here.inputs)) == 1 or here.op in ("type_as", "view_as", "expand_as")):
            return self.rows(here.inputs[0])
        return rows_of(self.graph, node, self.tokens)

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

    def same_row(self, table: int, indices: Sequence[int]) -> float:
        """Share of the pairs of tokens that look up one and the same row: all where the index is one number, or the table has one row; of indices
        that are given from outside as few as its rows allow."""
        rows = (self.graph.nodes[table].shape or (0,))[0]
        if rows == 1 or (indices and all(map(self._is_one_number, indices))):
            return 1.0
        given = any(self._holds(i, frozenset({"input"})) for i in indices) and not any(self._holds(i, COUNTED) for i in indices)
        return max((self.tokens / rows - 1) / (self.tokens - 1), 0.0) if given and 0 < rows < self.tokens else 0.0

    def _is_one_number(self, node: int) -> bool:
        """Whether all entries are one number: of a factory, of a buffer that was filled with it, whatever entries of those are picked."""
        here = self.graph.nodes[node]
        if here.op in FILLS or self.weights.constant(node) is not None:
            return True
        kind = ops.CLASSES.get(here.op)
        moves = kind in ("view", "part") and len(set(here.inputs)) == 1
        return (moves or here.op in ("alias", *PICKS)) and bool(here.inputs) and self._is_one_number(here.inputs[0])

    def _mapped(self, node: Node) -> Moments | None:
        """W p + b."""
        found = self.rows(node.inputs[0])
        if found is None or not self.weights.is_trained(node.inputs[1]):
            return None
        gain = self.square(node.inputs[1]) * (self.graph.nodes[node.inputs[0]].shape or (1,))[-1]
        bias = self.bias(node.inputs[2]) if len(node.inputs) > 2 else 0.0
        return Moments(gain * found.power + bias, gain * found.gap)


__all__ = ["PLACED", "Tables"]
