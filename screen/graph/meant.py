"""Steps that are means, x + u·(n − x), as one op. Plain data, no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from screen.graph import Graph, Node, Ref


def meant(graph: Graph, chosen: Mapping[int, tuple[int, int, int]], left_out: frozenset[int]) -> Graph:
    """The graph in which each sum of `chosen` is `lerp` of (x, n, u), and what only its spelling needed (`left_out`) is not there. Equal but for
    rounding."""
    if not chosen:
        return graph
    nodes: list[Node] = []
    places: dict[int, int] = {}

    def moved(value: object) -> object:
        if isinstance(value, Ref):
            return Ref(places[value.node])
        return tuple(map(moved, value)) if isinstance(value, tuple) else value

    for node in graph.nodes:
        places[node.index] = len(nodes)  # of what is left out: of what comes next
        if node.index in left_out:
            continue
        args, kwargs = tuple(map(moved, node.args)), tuple((key, moved(value)) for key, value in node.kwargs)
        op = node.op
        if node.index in chosen:
            op, args, kwargs = "lerp", tuple(Ref(places[i]) for i in chosen[node.index]), ()
        nodes.append(replace(node, index=len(nodes), op=op, args=args, kwargs=kwargs))
    return replace(
        graph,
        nodes=tuple(nodes),
        outputs=tuple(places[i] for i in graph.outputs),
        guesses=tuple(g if g.node is None else replace(g, node=places[g.node]) for g in graph.guesses),
        failure=graph.failure if graph.failure is None or graph.failure.node is None else replace(graph.failure, node=places[graph.failure.node]),
        ranges=tuple((places[i], low, high) for i, low, high in graph.ranges if i not in left_out),
    )


__all__ = ["meant"]
