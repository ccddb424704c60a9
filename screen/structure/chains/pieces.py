"""A branch whose value is added in pieces, each times a factor that is made of that value: x + g(F) ⊙ P(F), and h(F) ⊙ Q(F) to that."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from screen.structure.chains.identity_edges import Edge
from screen.structure.chains.longest import Best
from screen.structure.dataflow import Flow, nodes_of

THROUGH = ("view", "part", "join", "add")
"""Classes of ops that a product stands behind."""


def is_piece(flow: Flow, table: Sequence[Best], edge: Edge, others: Callable[[Edge], tuple[int, ...]]) -> bool:
    """Whether an add adds one more piece of what the add before it added: all its new key ops stand in factors, and are made of that branch alone."""
    before = table[edge.source]
    while before.edge is not None and not before.adds and before.edge.kind in ("same", "scale"):
        before = table[before.edge.source]
    if before.edge is None or not before.adds:
        return False
    made = 0
    for other in others(before.edge):
        made |= flow.keys[other] & ~table[before.edge.source].passed
    added = others(edge)
    fresh = [flow.keys[o] & ~table[edge.source].passed for o in added]
    return bool(made) and any(fresh) and all(_in_factors(flow, o, new) and _is_made_of(flow, new, made) for o, new in zip(added, fresh, strict=True))


def _in_factors(flow: Flow, node: int, fresh: int) -> bool:
    """Whether some key ops stand in one factor of a product whose other factor is made of data without them."""
    if not flow.keys[node] & fresh:
        return True
    data = [i for i in flow.graph.nodes[node].inputs if flow.data[i]]
    if flow.graph.nodes[node].op == "mul" and len(data) == 2:
        return any(not flow.keys[i] & fresh for i in data)
    through = flow.classes[node] in THROUGH or flow.graph.nodes[node].op in ("add", "sub")
    return through and not flow.key[node] and all(_in_factors(flow, i, fresh) for i in data)


def _is_made_of(flow: Flow, fresh: int, made: int) -> bool:
    """Whether all that some key ops read is made by others of a given set."""
    known = set(nodes_of(fresh | made))
    stack = [i for k in nodes_of(fresh) for i in flow.graph.nodes[k].inputs]
    seen = set[int]()
    while stack:
        node = stack.pop()
        if node in known or node in seen or not flow.data[node]:
            continue
        data = [i for i in flow.graph.nodes[node].inputs if flow.data[i]]
        if flow.key[node] or not data:
            return False
        seen.add(node)
        stack += data
    return True


__all__ = ["is_piece"]
