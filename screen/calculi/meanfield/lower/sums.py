"""Sums of data values, of independent ones or of such as have something in common; means over tokens; factors and shifts of the stream."""

from __future__ import annotations

import math
from dataclasses import replace

from screen.calculi.meanfield.lower.axes import Layout, features, is_features
from screen.calculi.meanfield.lower.context import Read
from screen.calculi.meanfield.lower.ends import ends_of
from screen.calculi.meanfield.lower.tables import Tables
from screen.calculi.meanfield.transfer import Average, Product, Shift, Sum, Within
from screen.calculi.meanfield.values import Stop, Value
from screen.graph import Node, Ref


class Sums(Tables):
    """Reads sums."""

    def summed(self, node: Node, left: Value, right: Value) -> Value:
        """left + right: independent, or in a whole block linear forms of one another."""
        if left.slot == right.slot and left.function is None and right.function is None and left.moved == right.moved:
            return replace(left, factor=left.factor + right.factor)
        if left.roots & right.roots and (not self.linked or self._is_bent(left, right)):
            raise Stop(f"`{node.op}` of two dependent values has no row in the recursion", node.index)
        left, right = self.writer.settled(left), self.writer.settled(right)
        if features(left.layout) != features(right.layout):
            raise Stop(f"`{node.op}` of data values of different sizes has no row in the recursion", node.index)
        self._check_spread(node, left, right)
        slot = self.writer.slot()
        self.writer.steps.append(Sum((left.slot, right.slot), slot))
        return Value(slot, _longest(left, right), left.roots | right.roots, left.gaussian and right.gaussian, left.bent | right.bent,
                     left.moved or right.moved, left.common and right.common)  # fmt: skip

    def multiplied(self, node: Node, left: Value, right: Value) -> Value:
        """left ⊙ right, independent of each other."""
        if left.roots & right.roots:
            raise Stop(f"`{node.op}` of two dependent values has no row in the recursion", node.index)
        left, right = self.writer.settled(left), self.writer.settled(right)
        self._check_spread(node, left, right)
        most, slot, roots = max(features(left.layout), features(right.layout)), self.writer.slot(), left.roots | right.roots
        self.writer.steps.append(Product(left.slot, right.slot, slot, (most / features(left.layout), most / features(right.layout))))
        return Value(slot, _longest(left, right), roots, gaussian=False, bent=roots, common=left.common and right.common)

    def _is_bent(self, left: Value, right: Value) -> bool:
        """Whether what two values have in common is more than linear in one of them."""
        shared = left.roots & right.roots
        return bool(shared & (left.bent | right.bent)) or left.moved or right.moved or left.function is not None or right.function is not None

    def _check_spread(self, node: Node, left: Value, right: Value) -> None:
        """What is spread over the tokens of a sequence must be the same at all of them; over a batch anything may be."""
        for value, other in ((left, right), (right, left)):
            axis = _sequence(other.layout)
            if _tokens(value.layout, axis) < _tokens(other.layout, axis) and not value.common:
                raise Stop(f"`{node.op}` spreads some tokens of a value over others", node.index)

    def statistic(self, node: Node) -> Read:
        """A mean over the tokens of a sequence, in a whole block."""
        source = self.value(node.inputs[0])
        dim = node.args[1] if len(node.args) > 1 else node.kwarg("dim")
        axes = (dim,) if isinstance(dim, int) else dim if isinstance(dim, tuple) else ()
        rank, shape = len(source.layout), self.graph.nodes[node.inputs[0]].shape or ()
        known = rank == 3 and is_features(source.layout[-1]) and [a % rank for a in axes if isinstance(a, int)] == [1] and shape[1] > 1
        if not self.linked or node.op != "mean" or not known or source.common:
            raise Stop(f"`{node.op}` of the stream has no row in the recursion", node.index)
        settled, slot = self.writer.settled(source), self.writer.slot()
        self.writer.steps.append(Average(settled.slot, slot, self.tokens))
        layout: Layout = (source.layout[0], ((1, "t"),), source.layout[2])
        return replace(settled, slot=slot, layout=layout if len(node.shape or ()) == 3 else (layout[0], layout[2]), common=True, whole=None)

    def weighed(self, node: Node) -> Value | None:
        """`lerp(x, y, w)` with a number w; None for other operands."""
        if len(node.args) < 3 or node.op != "lerp":
            return None
        first, second, third = (self._operand(a) for a in node.args[:3])
        if not isinstance(first, Value) or not isinstance(second, Value) or not isinstance(third, float):
            return None
        return self.summed(node, first.times(1 - third), second.times(third))

    def _operand(self, arg: object) -> Value | float | None:
        if isinstance(arg, Ref):
            found = self.table.get(arg.node)
            return self.value(arg.node) if found is not None else self.weights.constant(arg.node)
        return float(arg) if isinstance(arg, int | float) and not isinstance(arg, bool) else None

    def shifted(self, node: Node, value: Value, number: float) -> Value | None:
        """The stream and a number; None for anything else."""
        if not self.linked or node.op not in ("add", "sub") or 0 not in value.roots or value.function is not None:
            return None
        if node.op == "sub" and not (isinstance(node.args[0], Ref) and node.args[0].node in self.table):
            value = value.times(-1.0)
        elif node.op == "sub":
            number = -number
        settled, slot = self.writer.settled(value), self.writer.slot()
        self.writer.steps.append(Shift(settled.slot, slot, number**2, 0.0, number))
        return replace(settled, slot=slot, whole=None, gaussian=False)

    def ends(self, node: Node) -> tuple[float, float] | None:
        """(lowest, highest) of what a node cuts off its one data operand."""
        data = [i for i in dict.fromkeys(node.inputs) if i in self.table]
        return ends_of(node, data[0], self.weights.constant) if len(data) == 1 else None

    def clamped(self, node: Node, value: Value) -> Value | None:
        """A clamp so far out that no entry of a Gaussian value gets there; checked when sizes are known."""
        ends = self.ends(node)
        if ends is None or not value.gaussian or value.function is not None:
            return None
        low, high = ends
        if not low < 0 < high or (node.op == "hardtanh" and math.isinf(high)):
            return None
        settled, slot = self.writer.settled(value), self.writer.slot()
        self.writer.steps.append(Within(settled.slot, slot, min(-low, high), node.index))
        return replace(settled, slot=slot, whole=None)


def _sequence(layout: Layout) -> int | None:
    """The last axis that holds tokens, counted from the end, of more than two axes; None where all of them count together."""
    held = [-i for i, axis in enumerate(reversed(layout), 1) if any(label != "f" and n > 1 for n, label in axis)]
    return held[0] if held and len(layout) > 2 else None


def _tokens(layout: Layout, axis: int | None) -> int:
    """Tokens along an axis, or along all; one where the axis is not there."""
    axes = layout if axis is None or len(layout) < 3 else layout[axis : axis + 1 or None] if -axis <= len(layout) else ()
    return math.prod(n for one in axes for n, label in one if label != "f")


def _longest(left: Value, right: Value) -> Layout:
    """The layout of a sum."""
    return max(left.layout, right.layout, key=lambda a: (len(a), math.prod(n for axis in a for n, _ in axis), features(a)))


__all__ = ["Sums"]
