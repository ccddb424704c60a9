"""Sums to which a state is carried past no norm and no function, where the longest chain passes one: which edge is the stream's."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from screen.structure.chains.identity_edges import Edge
from screen.structure.chains.longest import Best, leads_to, way_between

Table = Sequence[Sequence[Edge]]
_MULTIPLIED = ("same", "scale", "gate", "free")


def around_norms(table: Sequence[Best], into: Table) -> dict[int, tuple[Edge, frozenset[int]]]:
    """Sum -> the edge around a norm of the longest chain to it, which takes nothing off it, and the nodes in between: of sums that follow each
    other past no norm, no fewer of them than adds in between (else those are the depth, and the skips long ones)."""
    found: dict[int, tuple[Edge, list[int]]] = {}
    for node, best in enumerate(table):
        if best.edge is None or best.edge.kind != "add":
            continue
        for edge in (e for e in into[node] if e.source != best.edge.source):
            fork = edge.source
            while (step := table[fork].edge) is not None and step.kind in ("same", "scale"):
                fork = step.source
            way = way_between(table, best.edge.source, fork)
            off = any(e.source == fork and (e.factor or 0) < 0 for i in (node, *way) for e in into[i])  # x + w·(F − x) is a mean of both
            if edge.kind == "add" and table[way[0]].norms > table[way[-1]].norms and not off:
                found[node] = edge, way
    pairs = [(one, other) for one in found for other, (_, way) in found.items() if one < other and leads_to(table, way[-1], one)]
    chosen = {node: found[node] for pair in pairs for node in pair}
    most = max((sum(table[i].adds for i in way[:-1]) for _, way in chosen.values()), default=0)
    return {n: (edge, frozenset(way[:-1])) for n, (edge, way) in chosen.items()} if len(chosen) >= most else {}


def around_activations(table: Sequence[Best], into: Table) -> dict[int, tuple[Edge, frozenset[int]]]:
    """Sum -> the edge that carries a state to it past no function, where the other operand is a function, multiplied at most, of a sum to which the
    same state is carried; and that inner sum. The state goes on by the edge, and what the function gives is the branch: the cell of a gated
    recurrence, `c·h + (1 − c)·tanh(U·f + a·h)`."""
    found: dict[int, tuple[Edge, frozenset[int]]] = {}
    for node, best in enumerate(table):
        if best.edge is None or best.edge.kind != "add":
            continue
        for edge in (e for e in into[node] if e.kind == "add"):
            state = _state(table, edge.source)
            functions = [e for other in into[node] if other.source != edge.source for e in _functions(into, other.source)]
            inner = frozenset(s for e in functions if (s := _summed(table, into, e.source, state)) is not None)
            if inner:
                found[node] = edge, inner
    return found


def _state(table: Sequence[Best], node: int) -> int:
    """What a value is a multiple of."""
    while (step := table[node].edge) is not None and step.kind in ("same", "scale", "gate"):
        node = step.source
    return node


def _functions(into: Table, node: int) -> Collection[Edge]:
    """The edges through functions that a value is a multiple of."""
    found, seen, stack = list[Edge](), set[int](), [node]
    while stack:
        here = stack.pop()
        if here not in seen:
            seen.add(here)
            found += [e for e in into[here] if e.kind == "activation"]
            stack += [e.source for e in into[here] if e.kind in _MULTIPLIED]
    return found


def _summed(table: Sequence[Best], into: Table, node: int, state: int) -> int | None:
    """The sum that a value is a view of, if a multiple of the state is added there to what is none."""
    node = _state(table, node)
    states = [_state(table, e.source) == state for e in into[node] if e.kind == "add"]
    return node if len(states) == 2 and sum(states) == 1 else None


__all__ = ["around_activations", "around_norms"]
