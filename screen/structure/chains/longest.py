"""The table of the longest chain to each node, and what is read off it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from screen.structure.chains.identity_edges import Edge


class Best(NamedTuple):
    """The longest chain that ends at a node."""

    length: int
    source: int
    edge: Edge | None
    adds: bool = False
    """Whether that edge is a residual add."""
    norms: int = 0
    """Norms that it passes."""
    passed: int = 0
    """The key ops that what it carries is made of: those of its source and of what is added to it, and not those of gates that multiply it."""


def way_between(table: Sequence[Best], end: int, start: int) -> list[int]:
    """The nodes of the chain to a node, back to another one; the first alone where it does not pass that."""
    nodes = [end]
    while nodes[-1] > start and (edge := table[nodes[-1]].edge) is not None:
        nodes.append(edge.source)
    return nodes if nodes[-1] == start else [end]


def leads_through(table: Sequence[Best], end: int, start: int) -> bool:
    """Whether the chain to a node passes another one."""
    return way_between(table, end, start)[-1] == start


def leads_to(table: Sequence[Best], end: int, start: int) -> bool:
    """Whether the chain to a node passes another one, and neither a norm nor another function behind that."""
    node = end
    while node > start and (edge := table[node].edge) is not None and edge.kind not in ("norm", "activation", "opaque"):
        node = edge.source
    return node == start


def own_adds(table: Sequence[Best], end: int, other: int) -> int:
    """Residual adds on the chain to a node before it meets the chain to another one."""
    shared, node = {other}, other
    while (edge := table[node].edge) is not None:
        node = edge.source
        shared.add(node)
    count, node = 0, end
    while node not in shared and (edge := table[node].edge) is not None:
        count += table[node].adds
        node = edge.source
    return count


__all__ = ["Best", "leads_through", "leads_to", "own_adds", "way_between"]
