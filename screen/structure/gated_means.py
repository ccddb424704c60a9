"""Means by a gate that are written as a step: x + u·(n − x), with u between 0 and 1 and made from the data, is (1 − u)·x + u·n."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from screen.graph import Node, Ref
from screen.structure.dataflow import Flow, number

SHARES = ("sigmoid", "hardsigmoid")
"""Functions whose values are shares: from 0 to 1."""
MADE = ("weighted", "activation", "product", "mixing", "softmax")
"""Classes of ops that carry no state on."""


@dataclass(frozen=True)
class Mean:
    """One step that is a mean."""

    start: int
    """x: what the mean is for u = 0."""
    end: int
    """n: what it is for u = 1."""
    share: int
    """u."""
    steps: tuple[int, ...]
    """What only the spelling needs: the difference, and its product with u. Nothing else reads them."""


def gated_means(flow: Flow) -> dict[int, Mean]:
    """Sums that are means by a gate, by their nodes."""
    found: dict[int, Mean] = {}
    for node in flow.graph.nodes:
        if node.op in ("add", "sub") and len(node.inputs) == 2 and node.kwarg("alpha") in (None, 1) and (mean := _mean(flow, node)) is not None:
            found[node.index] = mean
    return found


def _mean(flow: Flow, node: Node) -> Mean | None:
    places = ((0, 1), (1, 0)) if node.op == "add" else ((0, 1),)
    for start, stepped in ((node.inputs[a], node.inputs[b]) for a, b in places):
        step = flow.graph.nodes[stepped]
        if step.op != "mul" or len(step.inputs) != 2 or not _is_read_here_alone(flow, stepped):
            continue
        for share, difference in (step.inputs, step.inputs[::-1]):
            apart = flow.graph.nodes[difference]
            if apart.op != "sub" or len(apart.inputs) != 2 or apart.kwarg("alpha") not in (None, 1) or not _is_read_here_alone(flow, difference):
                continue
            end, begin = apart.inputs if node.op == "add" else apart.inputs[::-1]
            one = {flow.graph.nodes[i].dtype for i in (start, end, share, node.index)}
            alike = len(one) == 1 and flow.graph.nodes[start].shape == flow.graph.nodes[end].shape == node.shape
            carried = any(flow.classes[flow.root(i)] not in MADE for i in (start, end))  # of two values that a net has made none is a stream
            if begin == start and end != start and alike and carried and _is_share(flow, share):
                return Mean(start, end, share, (difference, stepped))
    return None


def _is_read_here_alone(flow: Flow, index: int) -> bool:
    return len(flow.graph.users[index]) == 1 and index not in flow.graph.outputs


def _is_share(flow: Flow, index: int) -> bool:
    """Whether a value of the data is between 0 and 1: a share, or 1 less one."""
    if not flow.data[index]:
        return False
    node = flow.graph.nodes[flow.root(index)]
    if node.op == "sub" and len(node.inputs) == 1 and number(node.args[0]) == 1.0 and isinstance(node.args[1], Ref):
        return node.kwarg("alpha") in (None, 1) and _is_share(flow, node.inputs[0])
    return node.op in SHARES


def spelled(means: Mapping[int, Mean]) -> tuple[dict[int, tuple[int, int, int]], frozenset[int]]:
    """(x, n, u) of each sum, and what only their spelling needs."""
    return {node: (m.start, m.end, m.share) for node, m in means.items()}, frozenset(i for m in means.values() for i in m.steps)


__all__ = ["Mean", "gated_means", "spelled"]
