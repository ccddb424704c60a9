"""What a value goes into: which nodes an output is made of, and what a value meets first on its way.

By hand: `networkx` takes 2.3 to 4.2 times as long (docs/architecture.md), and nodes stand in topological order as they were recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from screen.graph import Graph
from screen.ops import CLASSES


def used(graph: Graph, ends: Collection[int] | None = None) -> frozenset[int]:
    """The nodes that some output of the model depends on, or one of some other values."""
    found = set(graph.outputs if ends is None else ends)
    for node in reversed(graph.nodes):
        if node.index in found:
            found.update(node.inputs)
    return frozenset(found)


def onward(graph: Graph, start: int, stops: Callable[[int], bool]) -> Iterator[tuple[int, int]]:
    """(node, the operand by which it was reached) for everything behind a value, not beyond nodes that stop the way; those are named too."""
    seen: set[tuple[int, int]] = set()
    todo = [start]
    while todo:
        here = todo.pop()
        for user in graph.users[here]:
            if (user, here) in seen:
                continue
            seen.add((user, here))
            yield user, here
            if not stops(user):
                todo.append(user)


def is_state(graph: Graph, node: int, states: Collection[int]) -> bool:
    """Whether a value is one of the states of a stream, behind views."""
    while node not in states and CLASSES.get(graph.nodes[node].op) == "view" and graph.nodes[node].inputs:
        node = graph.nodes[node].inputs[0]
    return node in states


__all__ = ["is_state", "onward", "used"]
