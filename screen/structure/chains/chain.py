"""One path of identity edges, and where it begins."""

from __future__ import annotations

from dataclasses import dataclass

from screen.graph import Graph
from screen.structure.chains.identity_edges import Edge


@dataclass(frozen=True)
class Chain:
    """One path of identity edges, from its source to the last node it reaches."""

    nodes: tuple[int, ...]
    edges: tuple[Edge, ...]
    """edges[i] leads into nodes[i + 1]."""
    adds: tuple[int, ...]
    """The residual adds, ascending."""
    inner: bool = False
    """A residual network inside a branch of another stream."""

    @property
    def begin(self) -> int:
        """Where the state stands that the first branch reads, at the latest: what comes before may feed other streams as well."""
        position = self.nodes.index(self.adds[0]) - 1 if self.adds else 0
        while position > 0 and self.edges[position - 1].kind in ("same", "scale", "gate", "free", "norm"):
            position -= 1
        return position

    def behind(self, node: int) -> Chain:
        """The rest from a node on."""
        place = self.nodes.index(node)
        return Chain(self.nodes[place:], self.edges[place:], tuple(a for a in self.adds if a > node))


def behind_embedding(graph: Graph, chain: Chain) -> Chain:
    """The chain with its first norm as its first edge, where the one sum before that (a convolution that says the positions, a share of the token
    before) and the norm stand in the call that calls the blocks, and the next sum in the first of these: both are of the embedding."""
    place = next((n for n, edge in enumerate(chain.edges) if edge.kind == "norm"), None)
    if chain.inner or graph.loop is not None or place is None:
        return chain
    norm = chain.nodes[place + 1]
    before, after = [a for a in chain.adds if a <= norm], [_block_of(graph, a) for a in chain.adds if a > norm]
    blocks = {c for c in after if c is not None}
    if len(before) != 1 or len(blocks) < 2 or after[0] is None or {graph.calls[c].parent for c in blocks} != {graph.nodes[before[0]].call}:
        return chain
    call = graph.nodes[norm].call
    return chain.behind(chain.nodes[place]) if graph.nodes[before[0]].call in (call, graph.calls[call].parent) else chain


def _block_of(graph: Graph, node: int) -> int | None:
    """The outermost call of a member of a list of modules that holds a node."""
    return next((c for c in graph.call_path(graph.nodes[node].call) if c in graph.members), None)


__all__ = ["Chain", "behind_embedding"]
