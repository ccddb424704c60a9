"""What was read and what was not: ops without a row, guesses, doubled norms, and what stands where a norm would and normalises nothing."""

from __future__ import annotations

from screen.graph import SOURCES, Graph
from screen.structure.chains.find import Chains
from screen.structure.dataflow import Flow, strip
from screen.structure.norms.find import place_of
from screen.structure.types import Coverage, DoubledNorm, HollowNorm, Norm, Place, Stream, UnmodelledOp


def coverage_of(chains: Chains, streams: tuple[Stream, ...]) -> Coverage:
    """Counts of ops, and those without a row, in order of first appearance."""
    flow = chains.flow
    ops = [n for n in flow.graph.nodes if n.op not in SOURCES and n.op not in ("alias", "getitem")]
    blamed = {i for s in streams for k in s.kinds for sub in k.sublayers for u in sub.unknown for i in u.nodes}
    blamed |= {e.node for c in chains.streams for e in c.edges if e.kind == "opaque"}
    found: dict[str, UnmodelledOp] = {}
    for node in ops:
        if flow.classes[node.index] != "unmodelled":
            continue
        old = found.get(node.op)
        on_stream = node.index in blamed or (old is not None and old.on_stream)
        count = old.count + 1 if old else 1
        found[node.op] = UnmodelledOp(node.op, count, on_stream, old.place if old else place_of(flow.graph, node.index))
    return Coverage(len(ops), len(ops) - sum(u.count for u in found.values()), tuple(found.values()))


def guessed(graph: Graph) -> frozenset[int]:
    """Nodes recorded after a guess whose other answer may give another program."""
    starts = [g.node for g in graph.guesses if g.decides and g.node is not None]
    return frozenset(range(min(starts), len(graph.nodes))) if starts else frozenset()


def doubled_norms(chains: Chains) -> tuple[DoubledNorm, ...]:
    """Norms of a value that is the affine of a norm of the same type over the same axes."""
    norms = chains.edges.norms.by_node
    found = []
    for norm in norms.values():
        node = norm.source
        for _ in range(8):
            node = strip(chains.flow, node)
            if node in norms:
                first = norms[node]
                if first.axes == norm.axes and first.node != norm.node and first.of_tokens and norm.of_tokens:
                    found.append(DoubledNorm(first, norm))
                break
            affine = [e for e in chains.into[node] if e.kind in ("scale", "add") and not _adds_data(chains.flow, node)]
            if len(affine) != 1 or (affine[0].scale is not None and chains.flow.data[affine[0].scale]):
                break
            node = affine[0].source
    return tuple(found)


def _adds_data(flow: Flow, node: int) -> bool:
    return sum(flow.data[i] for i in flow.graph.nodes[node].inputs) > 1


IDLE_EPSILON = 100.0
"""An ε above it stands far over the mean square of any ordinary stream (convention)."""


def hollow_norms(chains: Chains, streams: tuple[Stream, ...]) -> tuple[HollowNorm, ...]:
    """Norms over one entry, scale-free quotients, and affines without statistics that stand between two blocks."""
    flow = chains.flow
    found = []
    for norm in chains.edges.norms.by_node.values():
        if norm.size == 1:
            place, left = place_of(flow.graph, norm.node), _is_left_of_input(flow, norm)
            why = "it is taken over places, and this input has one there" if left else "a norm over one entry gives a constant: the value is lost"
            found.append(HollowNorm(why, place, left))
        if norm.eps is not None and norm.eps > IDLE_EPSILON:
            why = f"its ε of {norm.eps:g} is so large that it only divides by a constant until the value is as large"
            found.append(HollowNorm(why, place_of(flow.graph, norm.node)))
    for node in chains.edges.norms.scale_free:
        if not flow.learned[node]:  # data are put on a scale, by the rows of a table that are known: no layer's norm would stand there
            continue
        if flow.graph.nodes[node].shape != (flow.graph.nodes[chains.edges.norms.scale_free[node]].shape) or chains.edges.norms.is_share(node):
            continue
        found.append(
            HollowNorm("divides by a statistic that does not bound it (of part of it, of another value, or a mean)", place_of(flow.graph, node))
        )
    found += [HollowNorm(*pair) for pair in _bare_affines(chains)]
    return tuple(sorted(found, key=lambda h: h.place.node))


def _is_left_of_input(flow: Flow, norm: Norm) -> bool:
    """Whether the one entry of a norm of each channel is the place that steps of convolutions and pools left of this input: of a larger one more
    are left. A mean over places, or an axis that a view made, has one for each input."""
    nodes, node = flow.graph.nodes, norm.source
    if nodes[norm.node].op not in ("group_norm", "instance_norm"):
        return False
    while all(n == 1 for n in (nodes[node].shape or ())[2:]) and nodes[node].op != "input":
        before = [i for i in nodes[node].inputs if flow.data[i] and len(nodes[i].shape or ()) == len(nodes[node].shape or ())]
        moved = nodes[node].op.startswith(("conv", "max_pool", "avg_pool")) or nodes[node].shape in [nodes[i].shape for i in before]
        if not before or not moved:
            return False
        node = before[0]
    return len(nodes[node].shape or ()) > 2


def _bare_affines(chains: Chains) -> list[tuple[str, Place]]:
    """w⊙x + b with trained vectors w and b on a stream, of the shape of x, and no norm before it.

    Where the product is larger than x, each number is mapped to features of its own, as a tokenizer of numbers does: no norm would stand there.
    """
    flow, norms = chains.flow, chains.edges.norms.by_node
    found = []
    for chain in chains.streams:
        for edge in chain.edges:
            if edge.kind != "scale" or edge.scale is None or not flow.trained[edge.scale]:
                continue
            if flow.graph.nodes[edge.node].shape != flow.graph.nodes[edge.source].shape:
                continue
            if strip(flow, edge.source) in norms or not any(_is_trained_add(flow, u) for u in flow.graph.users[edge.node]):
                continue
            found.append(("a learned gain and bias without any statistic stand where a norm would", place_of(flow.graph, edge.node)))
    return found


def _is_trained_add(flow: Flow, node: int) -> bool:
    here = flow.graph.nodes[node]
    return here.op == "add" and any(flow.trained[i] for i in here.inputs)
