"""Blocks that run the same program, fed the same way: what stands around one of them in the middle stands around all.

The first of several equal blocks reads the embedding and the last one gives to the head, so that a norm, a factor or a map at its own beginning or
end looks like one of the ends. A neighbour in the middle shows whose it is. Two calls run the same program where their nodes are equal one by one:
op, shape, numbers, line, and what they read, counted from the beginning of each; what comes from outside is told by its shape, whether it trains
and starts at zero, and the numbers of constants.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from screen.graph import SOURCES, Graph, Node, Ref
from screen.structure.initial.laws import starting_value_of


@dataclass(frozen=True)
class EqualCalls:
    """Compares the calls of one graph."""

    graph: Graph

    @cached_property
    def _inside(self) -> dict[int, tuple[int, ...]]:
        return {}

    def inside(self, call: int) -> tuple[int, ...]:
        """The nodes of a call in order, without sources (these are read once, by the first that needs them)."""
        if call not in self._inside:
            below = {call}
            for later in self.graph.calls[call + 1 :]:
                if later.parent in below:
                    below.add(later.index)
            self._inside[call] = tuple(n.index for n in self.graph.nodes if n.call in below and n.op not in SOURCES)
        return self._inside[call]

    def are_equal(self, calls: Sequence[int | None]) -> bool:
        """Whether all of them run the same program."""
        known = [c for c in calls if c is not None]
        return len(known) == len(calls) and all(self._is_same(a, b) for a, b in itertools.pairwise(known))

    def _is_same(self, one: int, other: int) -> bool:
        """Of two calls; as a rule the first nodes tell that they are not."""
        first, second = self.inside(one), self.inside(other)
        return len(first) == len(second) and all(a == b for a, b in zip(self._lines(one, first), self._lines(other, second), strict=True))

    def _lines(self, call: int, nodes: tuple[int, ...]) -> Iterator[object]:
        place, depth = {n: i for i, n in enumerate(nodes)}, len(self.graph.call_path(call))
        return (self._line(self.graph.nodes[n], place, depth) for n in nodes)

    def _line(self, node: Node, place: dict[int, int], depth: int) -> object:
        below = len(self.graph.call_path(node.call)) - depth
        return node.op, node.shape, node.file, node.line, below, self._read(node.args, place), self._read(node.kwargs, place)

    def _read(self, value: Any, place: dict[int, int]) -> object:
        if isinstance(value, Ref):
            return ("inside", place[value.node]) if value.node in place else self._outside(self.graph.nodes[value.node])
        if isinstance(value, tuple):
            return tuple(self._read(v, place) for v in value)
        return repr(value)  # 1 and True and 1.0 are equal

    def _outside(self, node: Node) -> object:
        graph = self.graph
        history = graph.histories.get(node.name, ())
        if node.op == "parameter":
            return "trained", node.shape, node.name in self._frozen, starting_value_of(history) == 0.0
        return "outside", node.shape, repr(graph.range_of.get(node.index)), tuple((i.op, repr(i.args)) for i in history)

    @cached_property
    def _frozen(self) -> frozenset[str]:
        return frozenset(self.graph.frozen)


@dataclass(frozen=True)
class Counterparts:
    """What stands in one call in the place of what stands in another of the same program."""

    equal: EqualCalls
    middle: int
    call: int

    def node(self, node: int) -> int | None:
        """The node of this call that is a given node of the one in the middle; None where that stands outside."""
        nodes = self.equal.inside(self.middle)
        return self.equal.inside(self.call)[nodes.index(node)] if node in nodes else None

    @cached_property
    def names(self) -> dict[str, str]:
        """Parameters that the call in the middle, and the one behind it, read -> those that this one reads in their place."""
        graph = self.equal.graph
        parent = graph.calls[self.middle].parent
        behind = next((c.index for c in graph.calls[self.middle + 1 :] if c.parent == parent), self.middle)
        table: dict[str, str] = {}
        for source in (self.middle, behind):
            for one, two in zip(self.equal.inside(source), self.equal.inside(self.call), strict=False):
                for a, b in zip(graph.nodes[one].inputs, graph.nodes[two].inputs, strict=False):
                    if graph.nodes[a].op == graph.nodes[b].op == "parameter":
                        table.setdefault(graph.nodes[a].name, graph.nodes[b].name)
        return table


__all__ = ["Counterparts", "EqualCalls"]
