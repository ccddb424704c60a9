"""Mixtures of experts: what a router's scores become, which tokens go where, and the weighted sum at the end.

By data flow alone: scores are what a choice (`topk`, `argmax`) is made from, between it and the weight that made them; whatever is computed
from chosen places is an order of tokens; experts are one weight with an axis of its own for them, applied to tokens in such an order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from screen import ops
from screen.calculi.meanfield.experts import Array, Choice, Gates, Routing
from screen.calculi.meanfield.lower.context import Read
from screen.calculi.meanfield.lower.linear import Maps
from screen.calculi.meanfield.lower.routing import Call, Row, Table, row_of
from screen.calculi.meanfield.transfer import Mix
from screen.calculi.meanfield.values import Function, Order, Partial, Routed, Stop, Value, Weighted
from screen.graph import Node, Ref
from screen.structure.axis_order import TURNS

CHOOSERS = frozenset({"topk", "argmax"})
ZEROS = frozenset({"zeros", "zeros_like", "new_zeros"})
STORED = "a stored bias on a router's scores is taken as zero"


@dataclass
class Router:
    """What is done with one row of logits, op by op."""

    start: int
    function: Function
    tokens: int
    experts: int
    constants: Table = field(default_factory=dict)
    steps: list[tuple[Node, Row, tuple[int, ...], int]] = field(default_factory=list)

    def gates(self, routed: Routed) -> Gates:
        """Logits -> gates over all experts, zero where one was not chosen."""
        start, function, experts, constants, steps = self.start, self.function, self.experts, dict(self.constants), tuple(self.steps)

        def run(logits: Array, choice: Choice) -> Array:
            table: Table = {**constants, start: function(logits)}
            for node, row, rest, lead in steps:
                table[node.index] = row(Call(node, table, rest, lead, choice))
            values = np.asarray(table[routed.node], dtype=np.float64).reshape(len(logits), -1)
            if routed.picks is None:
                return values
            where = table[routed.picks]
            dense = np.zeros((len(logits), experts))
            np.put_along_axis(dense, np.asarray(where[1] if isinstance(where, tuple) else where).reshape(values.shape), values, 1)
            return dense

        return run


COUNTS = frozenset({"float", "to", "histc", "bincount", "cumsum"})
"""How many tokens go to each expert, in whatever type."""


class Routes(Maps):
    """Reads routers and experts."""

    def is_route(self, node: Node) -> bool:
        """Whether an op works on scores, on an order of tokens, or on weighted outputs of experts."""
        return node.index in self.scores or any(isinstance(self.table.get(i), Routed | Order | Weighted | Partial) for i in node.inputs)

    def scores_in(self, region: list[int]) -> frozenset[int]:
        """What lies between a choice and the weight that made its scores."""
        found: set[int] = set()
        stack = [n for n in region if _chooses(self.graph.nodes[n]) and self._is_asked(n)]
        inside = set(region)
        while stack:
            node = stack.pop()
            kind = ops.CLASSES.get(self.graph.nodes[node].op)
            if node in found or node not in inside or node in self.leaves or node in self.norms or kind in ("weighted", "product"):
                continue
            found.add(node)
            stack.extend(self.graph.nodes[node].inputs)
        return frozenset(found)

    def _is_asked(self, node: int) -> bool:
        """Whether something reads which entries were chosen: of `max` along an axis its second result."""
        made = [u for u in self.graph.users[node] if self.graph.nodes[u].args[1:] == (1,)]
        return self.graph.nodes[node].op != "max" or any(self.graph.users[u] for u in made)

    def route(self, node: Node) -> Read:
        """One op of a mixture of experts."""
        found = [self.table[i] for i in dict.fromkeys(node.inputs) if i in self.table]
        weighted = next((f for f in found if isinstance(f, Weighted | Partial)), None)
        if weighted is not None:
            return self._combined(node, found)
        order = next((f for f in found if isinstance(f, Order)), None)
        if order is not None:
            return self._ordered(node, order, found)
        routed = next((f for f in found if isinstance(f, Routed)), None)
        value = next((f for f in found if isinstance(f, Value)), None)
        if routed is not None and value is not None:
            return self._gated(node, routed)
        return self._scored(node, routed)

    # -- scores ------------------------------------------------------------------------------------------------------------------------

    def _scored(self, node: Node, routed: Routed | None) -> Routed | Order:
        """An op on the scores of each token."""
        if routed is None:
            routed = self._begun(node)
        router = self.routers[routed.slot]
        rest, row = _rest(node.shape, router.tokens), row_of(node)
        if rest is None or routed.rest is None or row is None or node.op in TURNS:
            if not _is_float(node):
                return Order(routed.slot)
            if ops.CLASSES.get(node.op) in ("view", "alias"):
                return replace(routed, rest=None)
            raise Stop(f"`{node.op}` of a router's scores has no row in the recursion", node.index)
        for i in node.inputs:
            if i not in self.table and i not in router.constants:
                router.constants[i] = self._fixed(node, i)
        first = self.graph.nodes[node.inputs[0]].shape or ()
        router.steps.append((node, row, rest, len(first) - len(routed.rest)))
        return Routed(routed.slot, node.index, rest, self._picks(node, router.experts))

    def _begun(self, node: Node) -> Routed:
        """Scores at their beginning: logits, or an entry-wise function of them."""
        source = next(i for i in node.inputs if i in self.table)
        value, shape = self.value(source), self.graph.nodes[source].shape or ()
        if not value.gaussian or len(shape) < 2:
            raise Stop("a choice is made from something else than a linear map of each token", node.index)
        if value.slot not in self.routers:
            self.routers[value.slot] = Router(source, value.whole_function(), math.prod(shape[:-1]), shape[-1])
        self.table[source] = begun = Routed(value.slot, source, shape[-1:])
        return begun

    def _fixed(self, node: Node, other: int) -> float:
        """The number that stands for a tensor beside scores."""
        if self.weights.is_trained(other):
            constant = self.weights.constant(other)
            if constant is None:
                raise Stop("a router's scores meet a weight that does not start constant", node.index)
            return constant
        if node.op not in ("add", "sub") or self.graph.nodes[other].op not in ("buffer", "constant"):
            raise Stop(f"`{node.op}` of a router's scores with a value that is not in the graph", node.index)
        self.assumptions.add(STORED)
        return 0.0

    def _picks(self, node: Node, experts: int) -> int | None:
        """Where the choice stands that the entries of a node belong to."""
        if _chooses(node):
            return node.index
        if node.op == "gather":
            index = node.args[2] if len(node.args) > 2 else node.kwarg("index")
            return index.node if isinstance(index, Ref) else None
        found = [f.picks for i in node.inputs if isinstance(f := self.table.get(i), Routed) and f.picks is not None]
        return found[0] if found and (node.shape or (0,))[-1] != experts else None

    # -- tokens in order, experts, the sum ---------------------------------------------------------------------------------------------

    def _ordered(self, node: Node, order: Order, found: list[Read]) -> Read:
        """Tokens taken in an order, experts applied to them, or another order."""
        source, shape = self.table.get(node.inputs[0]), node.shape or ()
        if node.op == "getitem" and isinstance(source, Routed) and _is_float(node):
            return replace(source, rest=None)
        if source is None and node.op == "getitem" and self.graph.nodes[node.inputs[0]].op in ZEROS:
            return Partial(None, (), (node.inputs[0], node.inputs[1]))
        if isinstance(source, Value) and node.op in ("getitem", "index_select") and shape and shape[-1] == math.prod(n for n, _ in source.layout[-1]):
            return replace(source, layout=(*(((n, "t"),) for n in shape[:-1]), source.layout[-1]))
        if isinstance(source, Value) and node.op == "grouped_mm":
            experts = (self.graph.nodes[node.inputs[1]].shape or (1,))[0]
            made = self._map(node, node.inputs[0], node.inputs[1], experts=experts)
            self.experts[made.slot] = experts
            return made
        counts = node.op in COUNTS and all(isinstance(f, Order) for f in found)
        if counts or (all(isinstance(f, Order | Routed) for f in found) and not _is_float(node)):
            return order
        raise Stop(f"`{node.op}` on an order of tokens has no row in the recursion", node.index)

    def _gated(self, node: Node, routed: Routed) -> Weighted:
        """Outputs of experts times their gates."""
        value = next(self.value(i) for i in node.inputs if isinstance(self.table.get(i), Value))
        router = self.routers[routed.slot]
        whole = all(self.experts.get(r) == router.experts for r in value.roots)
        if node.op != "mul" or not value.gaussian or value.function is not None or routed.slot in value.roots or 0 in value.roots:
            raise Stop("a router's gates multiply something else than the output of an expert with weights of its own", node.index)
        return Weighted(self.writer.settled(value), routed, whole)

    def _combined(self, node: Node, found: list[Read]) -> Read:
        """Weighted outputs moved, or summed up for each token."""
        weighted = next((f for f in found if isinstance(f, Weighted)), None)
        before = next((f for f in found if isinstance(f, Partial)), None)
        if weighted is None and before is not None:
            return self._placed(node, before)
        moved = ops.CLASSES.get(node.op) in ("view", "alias") or (node.op == "getitem" and any(isinstance(f, Order) for f in found))
        if weighted is not None and before is None and moved:
            return weighted
        fits = weighted is not None and math.prod(node.shape or ()) == self.routers[weighted.routed.slot].tokens * (node.shape or (1,))[-1]
        into = node.op == "add" and before is not None and before.taken is not None
        if weighted is None or not (into or (fits and (node.op == "index_add" or (node.op == "sum" and weighted.whole)))):
            raise Stop(f"`{node.op}` of the weighted outputs of experts has no row in the recursion", node.index)
        if weighted.whole and before is None:
            return self._mixed(node, weighted.routed, (weighted.value.slot,))
        return self._joined(node, weighted, before)

    def _joined(self, node: Node, weighted: Weighted, before: Partial | None) -> Read:
        """One more expert in the sum."""
        slots = (*(before.slots if before is not None else ()), weighted.value.slot)
        other = before is not None and before.routed is not None and before.routed.slot != weighted.routed.slot
        if weighted.whole or len(set(slots)) < len(slots) or other:
            raise Stop("a sum over experts counts one of them twice", node.index)
        if node.op == "index_add" and len(slots) == self.routers[weighted.routed.slot].experts:
            return self._mixed(node, weighted.routed, slots)
        return Partial(weighted.routed, slots, before.taken if before is not None else None)

    def _placed(self, node: Node, before: Partial) -> Read:
        """`y[places]` of a sum over some experts, and `y[places] = …` at the places that were taken."""
        if node.op == "getitem" and before.taken is None:
            return replace(before, taken=(node.inputs[0], node.inputs[1]))
        made = self.table.get(node.inputs[2]) if node.op == "setitem" and len(node.inputs) == 3 else None
        if not isinstance(made, Partial) or made.routed is None or made.taken != node.inputs[:2]:
            raise Stop(f"`{node.op}` of a sum over some of the experts has no row in the recursion", node.index)
        if len(made.slots) == self.routers[made.routed.slot].experts:
            return self._mixed(node, made.routed, made.slots)
        return replace(made, taken=None)

    def _mixed(self, node: Node, routed: Routed, slots: tuple[int, ...]) -> Value:
        """The sum over all experts."""
        router, shape = self.routers[routed.slot], node.shape or (1,)
        core = Routing(router.experts, shape[-1], router.gates(routed))
        self.writer.steps.append(Mix(routed.slot, slots, slot := self.writer.slot(), core))
        return Value(slot, (*(((n, "t"),) for n in shape[:-1]), ((shape[-1], "f"),)), frozenset({slot}))


def _chooses(node: Node) -> bool:
    return node.op in CHOOSERS or (node.op == "max" and node.shape is None)


def _is_float(node: Node) -> bool:
    return (node.dtype or "").startswith(("float", "bfloat"))


def _rest(shape: tuple[int, ...] | None, tokens: int) -> tuple[int, ...] | None:
    """What of a shape stands behind its token axes; None where no such axes come first."""
    if shape is None:
        return ()
    for lead in range(1, len(shape) + 1):
        if math.prod(shape[:lead]) == tokens:
            return shape[lead:]
    return None


__all__ = ["Routes"]
