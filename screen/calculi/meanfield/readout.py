"""What the output reads of a stream's end: each token, their mean, or one of them, from which gradients come back alone.

The recursion has a gradient of equal size at each token, independent between tokens. A mean hands the same gradient to all of them. One token among
others that are like it changes nothing but the size of all gradients, which is linear; but a token that begins otherwise (a class token, one
learned row before the patches) has a size of its own, and the norms in front of the branches multiply its gradient by one over that, whether it is
read by itself or among the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Literal

from screen.graph import Graph, Node
from screen.structure.types import Norm, Stream

Readout = Literal["each", "rest", "mean", "mean of the rest", "one"]
MEANS = frozenset({"mean", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d", "sum"})
PARTS = frozenset({"getitem", "select", "narrow", "index_select"})
EACH: tuple[Readout, int] = ("each", 1)
REST: tuple[Readout, int] = ("rest", 1)
SAME = frozenset({"reshape", "view", "transpose", "permute", "squeeze", "unsqueeze", "flatten", "contiguous", "movedim", "dropout", "identity"})
"""Calls that hand on every entry."""


def read_out(graph: Graph, stream: Stream, norms: Mapping[int, Norm], alive: set[int]) -> tuple[Readout, int]:
    """How the tokens of a stream's end are read on the way to the first output, and of how many one is made; ("each", 1) where that is not one way.
    `rest`: each of those that are left where some are cut off. `alive`: what leads there."""
    width, normed = stream.width, {norm.source: norm.node for norm in norms.values()}
    if width is None or not graph.nodes[stream.states[-1]].shape:
        return EACH

    def ways(here: int, each: tuple[Readout, int] = EACH) -> Iterator[tuple[Readout, int]]:
        before = graph.nodes[here]
        if here in normed and normed[here] in alive:
            yield from ways(normed[here], each)
            return
        users = [graph.nodes[u] for u in graph.users[here] if u in alive and u != here]
        if not users:
            yield each
        for user in users:
            lost = _lost(before, user, width)
            left = _tokens(user, width)
            alone = left in (before.shape or ()) and len([size for size in user.shape or () if size > 1]) < 3  # one for each sample
            if lost in MEANS:
                yield ("mean" if each == EACH else "mean of the rest", _tokens(before, width) // left) if alone else each
            elif lost and alone:
                yield "one", _tokens(before, width) // left
            elif lost or (user.op in SAME and _tokens(user, width) == _tokens(before, width)):
                yield from ways(user.index, REST if lost else each)
            else:
                yield each

    found = set(ways(stream.states[-1]))
    return found.pop() if len(found) == 1 else EACH


def _tokens(node: Node, width: int) -> int:
    return math.prod(node.shape or (0,)) // width


def _lost(before: Node, after: Node, width: int) -> str:
    """The call by which tokens are lost, and features are not; empty for any other."""
    fewer = after.op in MEANS | PARTS and 0 < _tokens(after, width) < _tokens(before, width)
    return after.op if fewer and width in (after.shape or ()) and after.inputs[:1] == (before.index,) else ""


def above(graph: Graph, node: int) -> set[int]:
    """A node and all that leads to it."""
    found = {node}
    for here in reversed(graph.nodes[: node + 1]):
        if here.index in found:
            found.update(here.inputs)
    return found


def begins_otherwise(graph: Graph, stream: Stream) -> int | None:
    """Where rows that follow from no input are put beside rows that do, on the way to the first sum of a stream; None where that is not seen."""
    if not stream.traced:
        return None
    nodes = graph.nodes[: stream.traced[0].branches[0][0] + 1]
    follows: set[int] = set()
    for node in nodes:
        if node.op == "input" or not follows.isdisjoint(node.inputs):
            follows.add(node.index)
    for node in (graph.nodes[i] for i in sorted(above(graph, nodes[-1].index), reverse=True)):
        joined = node.op == "cat" and node.shape is not None and stream.width in (node.shape[-1], node.shape[min(1, len(node.shape) - 1)])
        if joined and {i in follows for i in node.inputs} == {True, False}:
            return node.index
    return None


__all__ = ["EACH", "Readout", "above", "begins_otherwise", "read_out"]
