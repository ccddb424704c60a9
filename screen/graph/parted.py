"""A map of several values side by side as a sum of maps: W·[a; b] = W₁·a + W₂·b, and behind a gate g ⊙ (W·[a; b]) = g ⊙ W₁·a + g ⊙ W₂·b. Plain data,
no torch."""

from __future__ import annotations

from collections.abc import Mapping

from screen.graph import Graph, Node, Ref
from screen.graph.renumbered import moved_node, renumbered


def parted(graph: Graph, chosen: Mapping[int, int]) -> Graph:
    """The graph in which each `linear` of `chosen`, of a `cat` along the features, is a linear map of each operand by its columns of the weight; the
    bias stays with the first. Their sum stands where `chosen` says: in place of the map, or of the product with a gate that alone reads the map and
    that is then one of each part. Equal but for rounding."""
    if not chosen:
        return graph
    nodes: list[Node] = []
    places: dict[int, int] = {}
    ends = {end: whole for whole, end in chosen.items()}
    parts: dict[int, list[Ref]] = {}

    def add(place: Node, op: str, *args: object, shape: tuple[int, ...] | None = None) -> Ref:
        nodes.append(Node(len(nodes), op, args, (), shape or place.shape, place.dtype, place.call, place.file, place.line))
        return Ref(len(nodes) - 1)

    for node in graph.nodes:
        if node.index in chosen:
            cat, weight = (graph.nodes[i] for i in node.inputs[:2])
            rows, first, made = (weight.shape or (0, 0))[0], 0, []
            for number, part in enumerate(cat.inputs):
                size = (graph.nodes[part].shape or (0,))[-1]
                cut = (("slice", None, None, None), ("slice", first, first + size, None))
                columns = add(node, "getitem", Ref(places[weight.index]), cut, shape=(rows, size))
                bias = [Ref(places[i]) for i in node.inputs[2:]] if number == 0 else []
                made.append(add(node, "linear", Ref(places[part]), columns, *bias))
                first += size
            parts[node.index] = made
            places[node.index] = made[-1].node
        if node.index in ends:
            whole = ends[node.index]
            made = parts[whole]
            if whole != node.index:
                made = [add(node, "mul", *(part if i == whole else Ref(places[i]) for i in node.inputs)) for part in made]
            total = made[0]
            for term in made[1:]:
                total = add(node, "add", total, term)
            places[node.index] = total.node
        elif node.index not in chosen:
            places[node.index] = len(nodes)
            nodes.append(moved_node(node, len(nodes), places))
    return renumbered(graph, nodes, places)


__all__ = ["parted"]
