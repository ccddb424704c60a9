"""What is exactly zero at the recorded start, what a first gradient reaches, and which products have two zeros that no step moves.

A value is *zero* when its parameters start at 0 and the ops between keep it; *reached* when some output's gradient can get to it: through a product
only if the other factor is not zero. Parameters that start at 0 and are reached move with the first step; with these taken as not zero the same is
asked again, until nothing new is reached. Products of two zeros that are left, and are reached themselves, are dead: ∂(a·b)/∂a = b = 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from screen.graph import SOURCES, Graph, Node, Ref
from screen.ops import CLASSES
from screen.structure.initial.laws import starting_value_of

KEEPING = frozenset({
    "relu", "gelu", "silu", "tanh", "sin", "elu", "selu", "celu", "leaky_relu", "mish", "hardswish", "hardtanh", "relu6", "softsign", "erf", "abs",
    "sign", "tan", "atan", "asin", "sinh", "expm1", "log1p", "square", "neg", "tanhshrink", "hardshrink", "softshrink", "sum", "mean",
})  # fmt: skip
"""Functions of one value with f(0) = 0."""
PRODUCTS = frozenset({"mul", "matmul", "bmm", "mm", "mv", "linear", "conv1d", "conv2d", "conv3d"})
"""Ops that are linear in each of their first two operands."""
CARRYING = ("view", "part")

Zero = bool | None
"""None: an op without a row stands between a zero and the value."""


@dataclass(frozen=True)
class Zeros:
    """The zeros of one graph."""

    graph: Graph

    @cached_property
    def _settled(self) -> tuple[tuple[Zero, ...], frozenset[int]]:
        """What is zero, and what is reached, when no further weight moves."""
        moved, zero = frozenset[int](), self._at_first
        while True:
            reached = self._reached(zero)
            fresh = {n.index for n in self.graph.nodes if n.op == "parameter" and zero[n.index] and n.index in reached} - moved
            if not fresh:
                return zero, reached
            moved |= fresh
            zero = self._zeros(moved)

    @cached_property
    def _at_first(self) -> tuple[Zero, ...]:
        """What is zero before any step."""
        return self._zeros(frozenset())

    def at_start(self, node: int) -> bool:
        """Whether a value is known to be zero before any step."""
        return self._at_first[node] is True

    @cached_property
    def dead(self) -> tuple[int, ...]:
        """Products of two values that weights make zero, reached and never moved."""
        zero, reached = self._settled
        products = [n for n in self.graph.nodes if n.index in reached and self._factors(n)]
        return tuple(n.index for n in products if all(self._is_made_zero(i, zero) for i in self._factors(n)))

    @cached_property
    def unread(self) -> tuple[int, ...]:
        """Products of a weight at zero and of a value of which an op without a row hides whether it is zero."""
        zero = self._at_first
        return tuple(n.index for n in self.graph.nodes if (f := self._factors(n)) and {zero[f[0]], zero[f[1]]} == {True, None})

    def culprits(self, node: int) -> tuple[int, ...]:
        """The weights at zero that a zero value is zero for, in the order in which they were read."""
        zero, _ = self._settled
        seen, todo, found = {node}, [node], set[int]()
        while todo:
            here = self.graph.nodes[todo.pop()]
            if here.op == "parameter" and zero[here.index]:
                found.add(here.index)
            fresh = {i for i in here.inputs if zero[i]} - seen
            seen |= fresh
            todo.extend(fresh)
        return tuple(sorted(found))

    def _is_made_zero(self, node: int, zero: tuple[Zero, ...]) -> bool:
        return zero[node] is True and bool(self.culprits(node))

    def _factors(self, node: Node) -> tuple[int, ...]:
        """The two operands of a product; nothing for another op."""
        return node.inputs[:2] if node.op in PRODUCTS and len(node.inputs) >= 2 else ()

    def _zeros(self, moved: frozenset[int]) -> tuple[Zero, ...]:
        found: list[Zero] = []
        for node in self.graph.nodes:
            found.append(node.index not in moved and self._is_zero(node, found))
        return tuple(found)

    def _is_zero(self, node: Node, found: list[Zero]) -> Zero:
        if node.op in SOURCES:
            return node.op == "parameter" and starting_value_of(self.graph.histories.get(node.name, ())) == 0.0
        given = [found[i] for i in node.inputs]
        if True not in given and None not in given:
            return False
        kind = CLASSES.get(node.op)
        if kind is None and node.op != "alias":
            return None
        if node.op in PRODUCTS:
            return _all([_any(given[:2]), *given[2:]])
        if node.op in ("layer_norm", "rms_norm"):
            weighted = isinstance(node.kwarg("weight"), Ref) or isinstance((*node.args, None, None, None)[2], Ref)
            return _all([_any(given[:2]), *given[2:]]) if weighted else _all(given)
        if node.op == "scaled_dot_product_attention":
            return given[2] if len(given) > 2 else False
        if node.op in ("add", "sub"):
            plain = any(isinstance(a, int | float) and a != 0 for a in node.args)
            return False if plain else _all(given)
        if node.op == "div" or node.op in KEEPING or kind in CARRYING:
            return given[0]
        return _all(given) if kind == "join" or node.op == "alias" else False

    def _reached(self, zero: tuple[Zero, ...]) -> frozenset[int]:
        found = set(self.graph.outputs)
        for node in reversed(self.graph.nodes):
            if node.index not in found:
                continue
            factors = self._factors(node)
            if not factors:
                found.update(node.inputs)
                continue
            for i in node.inputs:
                others = [j for j in factors if j != i]
                if i in factors and others and zero[others[0]] is True:
                    continue
                found.add(i)
        return frozenset(found)


def _any(values: list[Zero]) -> Zero:
    return True if True in values else None if None in values else False


def _all(values: list[Zero]) -> Zero:
    return False if False in values else None if None in values else True


__all__ = ["Zeros"]
