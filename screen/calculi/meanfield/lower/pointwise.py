"""Sums, products and functions entry by entry."""

from __future__ import annotations

import math
from dataclasses import replace

from screen.calculi.meanfield.activation_kernels import FUNCTIONS, kernel
from screen.calculi.meanfield.lower.axes import features, is_features
from screen.calculi.meanfield.lower.context import BIASED, Read
from screen.calculi.meanfield.lower.functions import joined, named_function
from screen.calculi.meanfield.lower.rotary import TABLE, Rotations, turned, turns
from screen.calculi.meanfield.lower.sinks import Sinks
from screen.calculi.meanfield.lower.sums import Sums
from screen.calculi.meanfield.transfer import Entrywise, Part, Product, Shift
from screen.calculi.meanfield.values import Logits, Places, Stop, Value
from screen.graph import Node, Ref
from screen.structure.dataflow import number

OUT = -1e3
"""What is added to a logit at most, where it is left out of a softmax."""
LEAST = -30.0
"""Of e to this many nothing is left beside the weights of others."""
FACTOR = "a product with a value that is not in the graph"
"""Why no more is known: an argument of forward multiplies, say."""


class Entries(Sums, Rotations, Sinks):
    """Reads ops that work entry by entry."""

    def activation(self, node: Node) -> Read:
        found = self.table[next(i for i in node.inputs if i in self.table)]
        if isinstance(found, Logits) and node.op == "tanh" and not found.rows and not found.cap:
            return replace(found, cap=1.0)
        ends = self.ends(node)
        if isinstance(found, Logits) and ends is not None:
            return self._clipped(node, found, *ends)
        if isinstance(found, Logits) or (len(set(node.inputs)) > 1 and ends is None):
            raise Stop(f"`{node.op}` has no row in the recursion for these operands", node.index)
        value = self.value(next(i for i in node.inputs if i in self.table))
        if (far := self.clamped(node, value)) is not None:
            return far
        if node.op == "glu":
            return self._glu(node, value)
        name, function = named_function(node) if ends != (0.0, math.inf) else ("relu", FUNCTIONS["relu"])
        if function is None or not value.gaussian:
            what = "of a value that is not Gaussian" if function is not None else "with these settings"
            raise Stop(f"`{node.op}` {what} has no row in the recursion", node.index)
        return value.through(function, name)

    def statistic(self, node: Node) -> Read:
        """The larger or smaller one of two, where it is no statistic."""
        return super().statistic(node) if self.ends(node) is None else self.activation(node)

    def _glu(self, node: Node, value: Value) -> Value:
        """a·σ(b) of the two halves of a Gaussian value along its features."""
        dim = node.args[1] if len(node.args) > 1 else node.kwarg("dim", -1)
        axis = dim % len(value.layout) if isinstance(dim, int) else 0
        if not value.gaussian or not is_features(value.layout[axis]):
            raise Stop("`glu` of a value that is not Gaussian, or not over its features, has no row in the recursion", node.index)
        whole, half, gate, product = self.writer.settled(value), *(self.writer.slot() for _ in range(3))
        self.writer.steps += [Part(whole.slot, half, 0.5), Entrywise(half, gate, kernel("sigmoid")), Product(half, gate, product)]
        layout = (*value.layout[:axis], (((node.shape or (1,))[axis], "f"),), *value.layout[axis + 1 :])
        roots = frozenset({product}) | (whole.roots if self.linked else frozenset())
        return Value(product, layout, roots, gaussian=False, bent=roots)

    def linear(self, node: Node) -> Read:
        data = [i for i in node.inputs if i in self.table]
        if (made := self.weighed(node)) is not None:
            return made
        if len(data) == 1:
            return self._with_fixed(node, data[0])
        return self._with_data(node, data)

    def _with_fixed(self, node: Node, source: int) -> Read:
        """One data operand: a number, a weight or a table beside it."""
        found = self.table[source]
        if isinstance(found, Logits):
            return self._on_logits(node, found)
        if isinstance(found, Places):
            return self._on_places(node, found)
        number = _number(node, source)
        others = [i for i in node.inputs if i != source]
        if others and not self.weights.is_trained(others[0]) and (constant := self.weights.constant(others[0])) is not None:
            number, others = constant, []
        if node.op == "mul" and others and not self.weights.is_trained(others[0]):
            turn = turns(self.graph, others[0])
            if turn is None:
                raise Stop(FACTOR, node.index)
            if turn.kind == "table":
                self.assumptions.add(TABLE)
            return replace(self.writer.settled(self.entries(source)), turn=turn)
        value = self.value(source)
        if others:
            return self._with_weight(node, value, others[0])
        if number == 0.0 and node.op == "add":
            return value
        if number is not None and (moved := self.shifted(node, value, number)) is not None:
            return moved
        joint = joined(node, number, first=bool(node.args) and isinstance(node.args[0], Ref) and node.args[0].node == source)
        if joint is None:
            raise Stop(f"`{node.op}` has no row in the recursion for these operands", node.index)
        if isinstance(joint, float):
            return value.times(joint)
        if not value.gaussian:
            raise Stop(f"`{node.op}` of a value that is not Gaussian has no row in the recursion", node.index)
        return value.through(joint)

    def _with_weight(self, node: Node, value: Value, weight: int) -> Value:
        """A gain or a bias: a vector of weights, entry by entry; or rows of a table."""
        while self.graph.nodes[weight].op in ("expand", "expand_as", "broadcast_to"):  # as an operand it would be repeated anyway
            weight = self.graph.nodes[weight].inputs[0]
        rows = self.rows(weight) if node.op == "add" and not self.weights.is_trained(weight) else None
        if rows is not None and self.linked and 0 in value.roots:
            raise Stop("a table is added to the stream in every block", node.index)
        if rows is not None:
            settled, slot = self.writer.settled(value), self.writer.slot()
            self.writer.steps.append(Shift(settled.slot, slot, rows.power, rows.gap, rows.mean))
            return replace(settled, slot=slot, whole=None)
        if not self.weights.is_trained(weight):
            raise Stop(f"`{node.op}` with a value that is not in the graph", node.index)
        square = self.square(weight)
        divided = node.op in ("div", "true_divide") and node.inputs[-1] == weight
        if node.op == "mul" or divided:
            constant = self.weights.constant(weight)
            if constant is None or (divided and constant == 0):
                raise Stop("a gain starts at random values" if constant is None else "a divisor starts at zero", node.index)
            if divided:
                return value.times(1 / constant)
            return value.times(constant, (math.prod(self.graph.nodes[weight].shape or ()), features(value.layout)))
        if node.op not in ("add", "sub"):
            raise Stop(f"`{node.op}` with a weight has no row in the recursion", node.index)
        shape = self.graph.nodes[weight].shape or ()
        common = math.prod(shape[:-1]) == 1
        if self.bias(weight) == 0.0 and not common:
            return value
        settled, slot = self.writer.settled(value), self.writer.slot()
        self.writer.steps.append(Shift(settled.slot, slot, square, 0.0 if common else square, entries=math.prod(shape) if common else 0))
        return replace(settled, slot=slot, whole=None)

    def _on_logits(self, node: Node, found: Logits) -> Logits:
        others = [i for i in node.inputs if i not in self.table]
        number = _number(node, node.inputs[0]) if not others else self.weights.constant(others[0])
        if node.op in ("mul", "div") and number:
            return found.times(number if node.op == "mul" else 1 / number)
        if node.op in ("masked_fill", "where") or (node.op in ("add", "sub") and not found.rows):
            trained = any(self.weights.is_trained(i) for i in node.inputs)
            if trained:
                self.assumptions.add(BIASED)
                return found
            beside = [i for i in node.inputs if i not in self.table]
            return replace(found, masked=found.masked or any(self.is_causal(i) for i in beside))
        if node.op == "mul" and others and self._is_kept(node, others[0]):
            return replace(found, masked=found.masked or self.is_causal(others[0]))
        raise Stop(f"`{node.op}` on attention logits has no row in the recursion", node.index)

    def _clipped(self, node: Node, found: Logits, low: float, high: float) -> Logits:
        """Logits cut off so far out that none gets there, but for those that a mask leaves out: checked when sizes are known."""
        if found.rows or not low < 0 < high or (found.masked and math.isfinite(low) and low > LEAST):
            raise Stop(f"`{node.op}` on attention logits has no row in the recursion", node.index)
        return replace(found, within=min(found.within, -low, high))

    def _is_kept(self, node: Node, mask: int) -> bool:
        """Whether logits are multiplied by a mask of which −c·(1 − mask) is added next, c being large (u·b − 1e4·(1 − b)): what the mask leaves out
        is out, and the rest is as it was."""
        nodes = self.graph.nodes
        sums = [nodes[u] for u in self.graph.users[node.index]]
        if not sums or any(s.op != "add" or len(s.inputs) != 2 for s in sums):
            return False
        products = [nodes[i] for s in sums for i in s.inputs if i != node.index]
        low = [min((v for a in p.args if (v := number(a)) is not None), default=0.0) for p in products]
        left = [nodes[i] for p in products for i in p.inputs]
        rest = all(one.op == "sub" and number(one.args[0]) == 1.0 and one.args[1:2] == (Ref(mask),) for one in left)
        return rest and len(left) == len(products) and all(p.op == "mul" and v <= OUT for p, v in zip(products, low, strict=True))

    def _on_places(self, node: Node, found: Places) -> Places:
        """A part of the logits, before it is added to the rest."""
        number = _number(node, node.inputs[0]) if len(set(node.inputs)) == 1 else None
        if node.op in ("mul", "div") and number:
            return replace(found, square=found.square * (number if node.op == "mul" else 1 / number) ** 2)
        raise Stop(f"`{node.op}` of logits of relative positions has no row in the recursion", node.index)

    def _with_places(self, node: Node, found: list[Read]) -> Logits:
        """The two parts of the logits."""
        logits, places = next((f for f in found if isinstance(f, Logits)), None), tuple(f for f in found if isinstance(f, Places))
        if logits is None or node.op != "add" or logits.cap or logits.rows or len(places) != 1:
            raise Stop(f"`{node.op}` of logits of relative positions has no row in the recursion", node.index)
        return replace(logits, places=logits.places + places)

    def _with_data(self, node: Node, data: list[int]) -> Read:
        if len(data) != 2 or len(node.args) < 2 or node.op not in ("add", "sub", "mul"):
            raise Stop(f"`{node.op}` of several data values has no row in the recursion", node.index)
        found = [self.table[i] for i in data]
        if any(isinstance(f, Places) for f in found):
            return self._with_places(node, found)
        if any(not isinstance(f, Value) for f in found):
            raise Stop(f"`{node.op}` of these data values has no row in the recursion", node.index)
        left, right = (f for f in found if isinstance(f, Value))
        if left.turn is not None and right.turn is not None and node.op in ("add", "sub"):
            return turned(self.graph, node, left, right)
        left, right = self.value(data[0]), self.value(data[1])
        plain = left.function is None and right.function is None and node.op != "mul"
        if left.slot == right.slot and left.gaussian and right.gaussian and not plain and left.moved == right.moved:
            joint = joined(node, None, left.whole_function(), right.whole_function())
            if joint is not None and not isinstance(joint, float):
                return replace(left, factor=1.0, function=joint, name="")
        if node.op == "mul":
            return self.multiplied(node, left, right)
        times = node.kwarg("alpha", 1)
        if not isinstance(times, int | float):
            raise Stop("the factor of an add is no number", node.index)
        right = right.times(float(times) * (-1.0 if node.op == "sub" else 1.0))
        return self.summed(node, left, right)


def _number(node: Node, source: int) -> float | None:
    """The number beside a data operand."""
    numbers = [a for a in node.args if isinstance(a, int | float) and not isinstance(a, bool)]
    return float(numbers[0]) if len(numbers) == 1 else None


__all__ = ["Entries"]
