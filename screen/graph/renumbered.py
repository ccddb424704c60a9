"""A graph with other nodes in the places of its own: what points at them follows. Plain data, no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from screen.graph import Graph, Node, Ref


def _moved(value: object, places: Mapping[int, int]) -> object:
    """An argument of a call, whose references are those of the new places."""
    if isinstance(value, Ref):
        return Ref(places[value.node])
    return tuple(_moved(v, places) for v in value) if isinstance(value, tuple) else value


def moved_node(node: Node, index: int, places: Mapping[int, int]) -> Node:
    """A node at another place."""
    args = tuple(_moved(a, places) for a in node.args)
    return replace(node, index=index, args=args, kwargs=tuple((key, _moved(value, places)) for key, value in node.kwargs))


def renumbered(graph: Graph, nodes: Sequence[Node], places: Mapping[int, int], left_out: frozenset[int] = frozenset()) -> Graph:
    """The graph of these nodes. `places`: the new place of each old node; `left_out`: old nodes that are not there."""
    failure = graph.failure
    return replace(
        graph,
        nodes=tuple(nodes),
        outputs=tuple(places[i] for i in graph.outputs),
        guesses=tuple(g if g.node is None else replace(g, node=places[g.node]) for g in graph.guesses),
        failure=failure if failure is None or failure.node is None else replace(failure, node=places[failure.node]),
        ranges=tuple((places[i], low, high) for i, low, high in graph.ranges if i not in left_out),
    )


__all__ = ["moved_node", "renumbered"]
