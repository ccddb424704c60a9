"""The end of a branch, walked back from the add: its output norm and the multipliers behind it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from screen.ops.scalars import BOUNDED
from screen.structure.branches.region import Region
from screen.structure.chains.identity_edges import Edge
from screen.structure.dataflow import Flow, strip
from screen.structure.types import Norm, Tri, Unknown


@dataclass(frozen=True)
class Exit:
    """The end of a branch, walked back from the add."""

    norm: Norm | None
    normed: Tri | str
    """Position B: True, False, "partly", or unknown."""
    scales: tuple[Edge, ...]
    """Multipliers met before the norm or the key op, from the add backwards."""
    gated: bool
    carried: tuple[tuple[Edge, ...], ...]
    """Identity paths from the stream's state through the branch (nGPT's `N(F) − x`), each with its multipliers."""
    beside: float | None = 0.0
    """How many times the norm of the stream itself is added beside what the branch computes, `h + f(h)` with h = N(x); None if that is no number."""


_BOUNDED = BOUNDED | {"softmax"}


def is_bounded_gate(flow: Flow, node: int) -> bool:
    """A bounded function, perhaps times a number or plus one."""
    while True:
        here = flow.graph.nodes[node]
        if here.op in _BOUNDED:
            return True
        plain = flow.classes[node] == "view" or (here.op in ("add", "sub", "mul", "div") and len(here.inputs) == 1)
        if not plain or not here.inputs:
            return False
        node = here.inputs[0]


def walk_out(branch: Region) -> Exit:
    flow, norms = branch.flow, branch.norms
    found: dict[int, Norm] = {}
    ends: list[int] = []
    scales: list[Edge] = []
    carried: list[tuple[Edge, ...]] = []
    seen: set[int] = set()
    beside: list[float | None] = []
    stack: list[tuple[int, tuple[Edge, ...], bool, tuple[Edge, ...] | None]] = [(branch.output, (), True, None)]
    while stack:
        node, path, straight, summand = stack.pop()
        if node in branch.states:
            carried.append(path)
            continue
        if node in seen:
            continue
        seen.add(node)
        norm = norms.by_node.get(node)
        if norm is not None:
            if norm.of_tokens:
                found[node] = norm
                if summand is not None and _is_state(branch, norm.source):
                    last = summand[-1] if summand else None
                    gained = last is not None and last.scale is not None and flow.trained[last.scale] and strip(flow, last.source) == node
                    beside.append(_factor(summand[:-1] if gained else summand))
            else:
                ends.append(node)
            continue
        edges = _out_edges(branch, node)
        if branch.border(node) is not None or branch.key[node] or not edges:
            ends.extend([node] if flow.data[node] else [])
            continue
        straight = straight and (len(edges) == 1 or any(_is_state(branch, e.source) for e in edges))
        for edge in edges:
            if edge.kind == "activation":
                ends.append(node)
                continue
            scaled = edge.kind in ("scale", "gate", "free") or (edge.kind == "add" and edge.factor != 1.0)
            if scaled and straight and not _is_state(branch, edge.source):
                scales.append(edge)
            inner = () if summand is None and edge.kind == "add" and len(edges) > 1 else summand
            inner = (*inner, edge) if inner is not None and scaled else inner
            stack.append((edge.source, (*path, edge) if scaled else path, straight, inner))
    opaque = tuple(e for e in ends if flow.classes[e] == "unmodelled")
    gated = any(e.kind == "gate" for e in scales)
    normed: Tri | str = bool(found) and not ends
    if opaque:
        normed = Unknown("an op without a row ends the branch", opaque)
    elif found and ends:
        normed = "partly"
    times = None if None in beside else sum(b for b in beside if b is not None)
    return Exit(found[max(found)] if found else None, normed, tuple(scales), gated, tuple(carried), times)


def _factor(edges: tuple[Edge, ...]) -> float | None:
    """The number that a path multiplies by; None where a gate or a trained scale stands on it."""
    known = [e.factor for e in edges if e.factor is not None and e.scale is None]
    return math.prod(known) if len(known) == len(edges) else None


def _is_state(branch: Region, node: int) -> bool:
    """Whether a value is the stream's, behind views."""
    return node in branch.states or branch.flow.root(node) in branch.states


def _out_edges(branch: Region, node: int) -> tuple[Edge, ...]:
    """Identity edges into a node of the way out; of two factors only the branch's own, the other one is a gate."""
    edges = branch.chains.into[node]
    here = branch.flow.graph.nodes[node]
    data = [i for i in dict.fromkeys(here.inputs) if branch.flow.data[i] and not branch.flow.is_given_mask(i)]
    if here.op != "mul" or len(data) != 2 or node in branch.norms.by_node:
        return edges
    fed = [i for i in data if branch.flow.depends(i, branch.chain.nodes[0])]
    own = fed if len(fed) == 1 else [i for i in data if not is_bounded_gate(branch.flow, i)]
    own = own or [i for i in data if not any(branch.flow.depends(gate, i) for gate in branch.stream_gates)]
    if len(own) != 1:
        return ()
    gate = next(i for i in data if i != own[0])
    return (Edge(own[0], node, "gate", None, gate),)
