"""Sums of a value with what it is mixed into, no weight between: attention that adds its queries to what it gives; and gates that read a branch."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

from screen.structure.chains.identity_edges import Edge
from screen.structure.dataflow import Flow
from screen.structure.tables import is_looked_up, is_map_of_each


def is_of_mixing(flow: Flow, edge: Edge) -> bool:
    """Whether a sum adds to the value that an edge carries what products alone make of it; a product with rows of a table (relative places) is no
    map."""
    start = edge.source
    while flow.classes[start] in ("view", "part", "alias") and flow.graph.nodes[start].inputs:
        start = flow.graph.nodes[start].inputs[0]
    between = [n for n in range(start + 1, edge.node) if flow.depends(n, start) and flow.depends(edge.node, n)]
    return any(flow.key[n] for n in between) and not any(flow.weighted[n] and not _is_table(flow, n) for n in between)


def _is_table(flow: Flow, node: int) -> bool:
    """Whether what is trained of a product are rows that were looked up."""
    trained = [i for i in flow.graph.nodes[node].inputs if flow.trained[i]]
    looked = (is_looked_up(flow, flow.root(i)) and not is_map_of_each(flow, node, i) for i in trained)
    return flow.classes[node] == "product" and bool(trained) and all(looked)


def reads_branch(flow: Flow, carrying: Sequence[Edge], added: int, source: int) -> bool:
    """Whether one of the edges that carry a state multiplies it by a gate that reads the branch that is added, times that gate, what is left of it,
    `x·(1 − g(f, x)) + f·g(f, x)`, or another one of the same map. (Of the share of a branch along the state, f − x̂·(f·x̂), f is added as it is.)"""
    if flow.graph.nodes[added].op != "mul":
        return False
    gates = [(e.source, e.scale) for e in carrying if e.kind == "gate" and e.scale is not None]
    return any(
        flow.depends(gate, part) and flow.depends(part, source) and flow.keys[part] & ~flow.keys[state]
        for state, gate in gates for part, other in permutations(flow.graph.nodes[added].inputs, 2)
        if not flow.depends(part, gate) and (flow.depends(gate, other) or flow.depends(other, gate) or flow.keys[other] == flow.keys[gate])
    )  # fmt: skip
