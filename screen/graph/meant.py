"""Steps that are means, x + u·(n − x), as one op, and gains behind the norms that they are folded into. Plain data, no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from screen.graph import Graph, Node, Ref
from screen.graph.renumbered import moved_node, renumbered


def meant(graph: Graph, chosen: Mapping[int, tuple[int, int, int]], left_out: frozenset[int]) -> Graph:
    """The graph in which each sum of `chosen` is `lerp` of (x, n, u), and what only its spelling needed (`left_out`) is not there. Equal but for
    rounding."""
    if not chosen:
        return graph
    nodes: list[Node] = []
    places: dict[int, int] = {}
    for node in graph.nodes:
        places[node.index] = len(nodes)  # of what is left out: of what comes next
        if node.index in left_out:
            continue
        fresh = moved_node(node, len(nodes), places)
        if node.index in chosen:
            fresh = replace(fresh, op="lerp", args=tuple(Ref(places[i]) for i in chosen[node.index]), kwargs=())
        nodes.append(fresh)
    return renumbered(graph, nodes, places, left_out)


@dataclass(frozen=True)
class Folded:
    """x · (g · s), or x · (g / s), by its nodes."""

    product: int
    """g · s."""
    value: int
    statistic: int
    gain: int


def unfolded(graph: Graph, chosen: Mapping[int, Folded]) -> Graph:
    """The graph in which each product of `chosen` is (x · s) · g, in as many nodes. Equal but for rounding."""
    if not chosen:
        return graph
    nodes = list(graph.nodes)
    for index, one in chosen.items():
        nodes[one.product] = replace(nodes[one.product], args=(Ref(one.value), Ref(one.statistic)), shape=nodes[index].shape)
        nodes[index] = replace(nodes[index], args=(Ref(one.product), Ref(one.gain)))
    return replace(graph, nodes=tuple(nodes))


__all__ = ["Folded", "meant", "unfolded"]
