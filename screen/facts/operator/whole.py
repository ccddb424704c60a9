"""The model as one linear operator: the gain of all identity paths together, where it is that of no stream alone.

Several streams that begin with one value and are summed at the end (two towers, a reversible net) have a gain each, and the model has that of their
sum: x and x are 2x, and x − x is nothing. The sum is followed on to the last value that is linear in it: what divides it counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from screen.facts.operator.forms import Forms
from screen.facts.operator.polynomial import ZERO, Range
from screen.facts.operator.recurrence import StreamOperator, resolved
from screen.graph import Graph
from screen.structure.reach import used
from screen.structure.streams.reader import Reader
from screen.structure.types import Unknown

EVEN = 1e-6
"""Relative difference up to which two gains are one."""
JOINS = frozenset({"add", "sub", "mean", "sum", "lerp", "where", "nansum", "einsum", "matmul", "tensordot", "bmm", "mm"})
"""Ops that can make one value of two."""
FOLLOWED = frozenset({"add", "sub", "mul", "div", "true_divide", "neg"})
"""Ops behind a sum that leave it linear, entry by entry."""


@dataclass(frozen=True)
class Whole:
    """All streams of one beginning, up to one end."""

    begin: int
    end: int
    gain: Range | Unknown
    """Of the sum over all identity paths, with learned scales at the numbers that they start at."""
    held: tuple[int, ...]
    """What branches add, and first states of other streams: nothing is followed through these."""


def whole_of(readers: Sequence[Reader], operators: Sequence[StreamOperator | Unknown]) -> Whole | None:
    """The gain of the model; None where no two streams of one beginning are summed, so that each stream tells its own."""
    mine = [(r, o) for r, o in zip(readers, operators, strict=True) if not r.chain.inner and isinstance(o, StreamOperator) and o.states]
    roots = {o.begin for _, o in mine}
    if len(mine) < 2:
        return None
    flow, norms = mine[0][0].flow, mine[0][0].chains.edges.norms
    graph, begin = flow.graph, min(roots)
    outputs = frozenset(b.output for r in readers for _, b in r.branches) - {n for _, o in mine for n in o.through} - roots
    forms = _read(Forms(flow, norms, outputs | {begin}))
    begun = [(r, o) for r, o in mine if o.begin == begin or any(s == begin for s, _ in forms.of(o.begin).terms)]
    ends = frozenset(o.states[-1].node for _, o in begun)
    join = _join(_read(Forms(flow, norms, ends)), ends) if len(ends) > 1 else None
    if join is None:
        return None
    end = _followed(graph, forms, join, {n.source for n in norms.by_node.values()})
    state = resolved(end, forms.inside(end))
    gain = next(_doubts(begun, state.lost), state.terms.get(begin, ZERO).at_start().gain)
    return Whole(begin, end, gain, tuple(sorted(outputs | (roots - {o.begin for _, o in begun}))))


def _read(forms: Forms) -> Forms:
    """Forms of all nodes in order: they are sums of sums over the whole depth, and none is asked for before those that it is made of."""
    for node in forms.flow.graph.nodes:
        forms.inside(node.index)
    return forms


def _join(forms: Forms, ends: frozenset[int]) -> int | None:
    """The first value behind the streams that is linear in two of their ends."""
    graph = forms.flow.graph
    live = used(graph)
    size = math.prod(graph.nodes[min(ends)].shape or ())
    for node in graph.nodes[min(ends) :]:
        if node.index not in live or node.op not in JOINS or math.prod(node.shape or ()) != size:
            continue
        form = forms.inside(node.index)
        held = {s for s, _ in form.terms} | ({node.index} & ends)
        if form.lost is not None:
            held |= _above(graph, node.index, ends)
        if len(held) > 1:
            return node.index
    return None


def _above(graph: Graph, node: int, ends: frozenset[int]) -> set[int]:
    """The ends that an op without a row reads, behind views and joins."""
    found, stack, seen = set[int](), [node], set[int]()
    while stack:
        here = stack.pop()
        for i in graph.nodes[here].inputs:
            if i in ends:
                found.add(i)
            elif i not in seen and graph.nodes[i].op in ("stack", "cat", "view", "reshape", "unsqueeze", "transpose", "permute"):
                seen.add(i)
                stack.append(i)
    return found


def _followed(graph: Graph, forms: Forms, last: int, normed: set[int]) -> int:
    """The last value behind a sum that is that sum times something, or with something added."""
    live = used(graph)
    while last not in normed and last not in graph.outputs:
        users = [u for u in graph.users[last] if u in live]
        if len(users) != 1 or graph.nodes[users[0]].op not in FOLLOWED or graph.nodes[users[0]].shape != graph.nodes[last].shape:
            break
        form = forms.inside(users[0])
        if form.lost is None and form.rest == users[0]:
            break
        last = users[0]
    return last


def _doubts(begun: Sequence[tuple[Reader, StreamOperator]], lost: int | None) -> Iterator[Unknown]:
    """Why the gain is not known: an op that is not, a stream that broke off, or members that did not run, which leave nothing out where each block
    has gain 1."""
    graph = begun[0][0].flow.graph
    if lost is not None:
        yield Unknown(f"how `{graph.nodes[lost].op}` carries the streams is not known", (lost,))
    absent = max(graph.times.values(), default=1) > 1
    for operator in (o for _, o in begun):
        if operator.breaks or operator.lost is not None:
            yield Unknown("every path of one of its streams crosses a norm or another function of it", operator.breaks)
        number = None if isinstance(operator.start, Unknown) else operator.start.number
        if absent and (number is None or abs(number - 1.0) > EVEN):
            yield Unknown("not all blocks ran, and a stream is multiplied")


__all__ = ["Whole", "whole_of"]
