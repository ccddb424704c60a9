"""What every part of the reader of a branch works on: the graph, what has been read, and the steps written so far."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from screen.calculi.meanfield.lower.axes import Layout, stream_layout
from screen.calculi.meanfield.lower.other_streams import ARGUMENT, NOTHING, Foreign, argument_layout
from screen.calculi.meanfield.moments import Moments
from screen.calculi.meanfield.transfer import Begin
from screen.calculi.meanfield.values import Largest, Logits, Order, Pairs, Partial, Places, Routed, Spectrum, Stop, Value, Weighted, Writer
from screen.calculi.meanfield.weights import Weights
from screen.graph import Graph, Node
from screen.structure.types import Norm, Unknown

Read = Value | Logits | Places | Spectrum | Pairs | Largest | Routed | Order | Weighted | Partial
MASKED = "a mask on the logits is taken as causal, and what a table of fixed numbers adds to them besides as zero"
OPEN = "what is added to the logits and compares no positions is taken as a mask that is open, or as a bias of zero"
COMPARISONS = frozenset({"le", "lt", "ge", "gt"})
ORDERS = COMPARISONS | {"tril", "triu", "tril_indices", "triu_indices"}
POSITIONS = frozenset({"arange", "cumsum", "buffer", "constant"})
"""Where positions come from; a comparison of positions with lengths hides padding alone."""
LOOKUPS = frozenset({"embedding", "index_select", "gather", "index", "getitem"})
BIASED = "a learned bias on the logits is taken as zero"


@dataclass
class Reading:
    """One branch of one graph, while it is read."""

    graph: Graph
    weights: Weights
    norms: Mapping[int, Norm]
    leaves: Mapping[int, Layout]
    """Nodes that hold the stream's state (slot 0)."""
    tokens: int
    assumptions: set[str] = field(default_factory=set)
    writer: Writer = field(default_factory=Writer)
    table: dict[int, Read] = field(default_factory=dict)
    used: set[tuple[int, int | None]] = field(default_factory=set)
    """Weights that have been read."""
    foreign: Foreign = NOTHING
    """States of other streams."""
    routers: dict[int, Any] = field(default_factory=dict)
    """Slot of a router's logits -> what is done with them."""
    experts: dict[int, int] = field(default_factory=dict)
    """Slot that experts made, each with a weight of its own -> their number."""
    scores: frozenset[int] = frozenset()
    """Nodes between a choice and the weight that made its scores."""
    sources: bool = False
    """Whether values may begin inside (embeddings, float arguments): the way into a stream."""
    linked: bool = False
    """Whether all of a block is read, in which values may meet that have something in common (see `forms`)."""
    earlier: frozenset[int] = frozenset()
    """States of the stream that must not be read: they are no part of `leaves`, and not independent of them."""
    gaussian: bool = True
    """Whether the entries of slot 0 are Gaussian."""

    def __post_init__(self) -> None:
        self.writer.signs = self.linked

    def entries(self, node: int) -> Value:
        """The entries that a node holds, turned or not."""
        found = self.table.get(node)
        if not isinstance(found, Value):
            raise Stop("attention logits or rows go where no row of the recursion reads them", node)
        return found

    def value(self, node: int) -> Value:
        """The entries that a node holds."""
        found = self.entries(node)
        if found.turn is not None:
            raise Stop("a value is multiplied by a fixed table that is not seen to rotate it", node)
        return found

    def square(self, node: int, *, row: bool = False) -> float:
        """E W² of the weight behind a node."""
        found = self.weights.mean_square(node, row=row)
        if isinstance(found, Unknown):
            raise Stop(found.reason, *found.nodes)
        return found

    def bias(self, node: int) -> float:
        """b² of a bias that is zero or random."""
        found = self.square(node)
        if found and self.weights.constant(node) is not None:
            raise Stop("a bias starts at a constant other than zero", node)
        return found

    def is_causal(self, node: int) -> bool:
        """Whether a mask is made by comparing positions (or is a stored one); one made of an argument alone hides no future."""
        seen: set[int] = set()
        stack = [node]
        while stack:
            here = self.graph.nodes[stack.pop()]
            if here.index in seen or here.index in self.table:  # data lend their shape alone
                continue
            seen.add(here.index)
            if here.op in LOOKUPS and any(self._holds(i, frozenset({"parameter"})) for i in here.inputs):
                self.assumptions.add(BIASED)
                continue
            if here.op in COMPARISONS and len(set(here.inputs)) > 1 and not all(self._holds(i, POSITIONS | ORDERS) for i in here.inputs):
                continue
            if here.op in ORDERS or here.op in ("buffer", "constant"):
                return True
            stack.extend(here.inputs)
        self.assumptions.add(OPEN)
        return False

    def _holds(self, node: int, wanted: frozenset[str]) -> bool:
        """Whether one of these ops is among what a node is made of."""
        stack, seen = [node], set[int]()
        while stack:
            here = self.graph.nodes[stack.pop()]
            if here.op in wanted:
                return True
            stack.extend(i for i in here.inputs if i not in seen)
            seen.update(here.inputs)
        return False

    def beyond(self, node: Node) -> Value | None:
        """The value of a node that is no part of the branch and not of its stream: another stream's last state, or an argument."""
        if self.foreign.holds(node.index):
            known = self.foreign.layouts.get(node.index) or stream_layout(node.shape or (1,), -1)
            return self._given(known, self.foreign.moments(node.index))
        layout = argument_layout(self.graph, node)
        if layout is None:
            return None
        self.assumptions.add(ARGUMENT)
        return self._given(layout, Moments(1.0, 1.0))

    def _given(self, layout: Layout, moments: Moments) -> Value:
        slot = self.writer.slot()
        self.writer.given.append((slot, moments))
        return Value(slot, layout, frozenset({slot}))

    def begin(self, node: Node, square: float, axis: int = -1, same: float = 0.0) -> Value:
        """Slot 0 is (1, 1, 0) on the way into a stream: independent rows of mean square one, of which a share `same` of all pairs are one row."""
        layout = stream_layout(node.shape or (1,), axis)
        slot = self.writer.slot()
        self.writer.steps.append(Begin(0, slot, math.sqrt(square), node.index, same))
        return Value(slot, layout, frozenset({slot}))


__all__ = ["BIASED", "MASKED", "Read", "Reading"]
