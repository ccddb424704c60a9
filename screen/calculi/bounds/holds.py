"""Sizes: nodes that are known to be no less than a norm of some value, `‖u‖ <= c · size^(1/degree)` over some of its axes.

A sum of squares, of sizes or of |u|, a mean, a largest one, norms of vectors and matrices, variances of what is centred; more of them over further
axes (the largest token's norm); and these with something added that is not negative.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from screen.calculi.bounds.interpreter import Walk
from screen.graph import Node, Ref
from screen.structure.dataflow import axes_of, number
from screen.structure.norms.calls import norm_of, room_of
from screen.structure.norms.statistics import Centred

Subject = tuple[int, object]
"""A value, and the axes over which its mean was taken away (None: it was not)."""
DEPTH = 12


@dataclass(frozen=True)
class Hold:
    """‖u‖₂ over `axes` (negative; none: of each entry) is at most c · size^(1/degree)."""

    subject: Subject
    axes: tuple[int, ...]
    c: float
    degree: float
    gone: tuple[int, ...] = ()
    """Axes of u that the size has been taken over."""
    steep: float = math.inf
    """|δ size^(1/degree)| <= steep · ‖δu‖ over `axes`."""

    def frame(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape in which the size stands beside u."""
        return tuple(1 if i - len(shape) in self.gone else n for i, n in enumerate(shape))


def subject_of(walk: Walk, index: int) -> Subject:
    """What a value is: itself, or another one without its mean."""
    index = walk.behind(index)
    found = walk.branch.norms.readings[index]
    return (found.source, found.axes) if isinstance(found, Centred) else (index, None)


def holds_of(walk: Walk, index: int, depth: int = DEPTH) -> tuple[Hold, ...]:
    """Of which norms a node is an upper bound, up to a constant."""
    node = walk.graph.nodes[walk.behind(index)]
    if not depth or not node.inputs or node.shape is None or not walk.flow.is_float(node):
        return ()
    if node.index not in walk.branch.members and not walk.flow.of_weights[node.index]:
        return ()
    return tuple(_found(walk, node, depth))


def _found(walk: Walk, node: Node, depth: int) -> Iterator[Hold]:
    shape = walk.graph.nodes[node.inputs[0]].shape
    if shape is None:
        yield from _of_pair(walk, node, depth)
    elif node.op in ("sum", "mean", "amax", "nansum", "nanmean") or (node.op == "max" and len(node.inputs) == 1):
        yield from _over(walk, node, shape, node.op, depth)
    elif node.op in ("norm", "vector_norm", "linalg_norm", "linalg_matrix_norm", "matrix_norm"):
        yield from _norms(walk, node, shape, depth)
    elif node.op in ("var", "std"):
        yield from _deviations(walk, node, shape)
    else:
        yield from _entries(walk, node, depth)


def _of_pair(walk: Walk, node: Node, depth: int) -> Iterator[Hold]:
    """The values of `max(dim=…)`, and the first of `var_mean`."""
    call = walk.graph.nodes[node.inputs[0]]
    shape = walk.graph.nodes[call.inputs[0]].shape if call.inputs else None
    if node.op == "getitem" and node.args[1:] == (0,) and call.op == "max" and shape is not None:
        yield from _over(walk, call, shape, "amax", depth)
    elif node.op == "getitem" and node.args[1:] == (0,) and call.op in ("var_mean", "std_mean") and shape is not None:
        yield from _deviations(walk, call, shape)


def _entries(walk: Walk, node: Node, depth: int) -> Iterator[Hold]:
    """|u|, u², and sizes behind monotone steps."""
    op, flow = node.op, walk.flow
    exponent = {"square": 2.0, "sqrt": 0.5}.get(op, number(flow.operand(node, 1, "exponent")) if op == "pow" else None)
    first = node.inputs[0]
    if op == "abs":
        yield from _itself(walk, first, 1.0)
    elif (exponent is not None and exponent > 0) or (op == "mul" and len(node.inputs) == 2 and walk.behind(first) == walk.behind(node.inputs[1])):
        power = 2.0 if exponent is None else exponent
        inner = holds_of(walk, first, depth - 1)
        yield from (replace(h, degree=h.degree * power) for h in inner)
        if not inner and power == 2.0:
            yield from _itself(walk, first, 2.0)
    elif op == "add" and node.kwarg("alpha") in (None, 1) and len(node.args) == 2:
        for one, other in (node.args, node.args[::-1]):
            if isinstance(one, Ref) and _is_nonnegative(walk, other):
                moves = isinstance(other, Ref) and walk.flow.data[other.node]
                yield from (replace(h, steep=math.inf if moves else h.steep) for h in holds_of(walk, one.node, depth - 1))
    elif op in ("clamp", "clamp_min", "maximum") and flow.operand(node, 2, "max") is None:
        for argument in node.args if op == "maximum" else node.args[:1]:
            moves = sum(walk.flow.data[i] for i in node.inputs) > 1
            held = holds_of(walk, argument.node, depth - 1) if isinstance(argument, Ref) else ()
            yield from (replace(h, steep=math.inf if moves else h.steep) for h in held)


def _itself(walk: Walk, index: int, degree: float) -> Iterator[Hold]:
    yield Hold((walk.behind(index), None), (), 1.0, degree, (), 1.0)
    if subject_of(walk, index)[1] is not None:
        yield Hold(subject_of(walk, index), (), 1.0, degree, (), 1.0)


def _is_nonnegative(walk: Walk, argument: object) -> bool:
    if isinstance(argument, Ref):
        found = walk.value(argument.node)
        return not isinstance(found, tuple) and found.low >= 0
    value = number(argument)
    return value is not None and value >= 0


def _over(walk: Walk, node: Node, shape: tuple[int, ...], op: str, depth: int) -> Iterator[Hold]:
    """Of sizes along more axes: the largest is no less than each, a sum of squares no less than that of all. What has lost axes already speaks of
    its own axes no more, but for the largest of all."""
    axes = axes_of(walk.flow.operand(node, 1, "dim", "axis"), len(shape))
    count = math.prod(shape[a] for a in axes)
    average, largest = op in ("mean", "nanmean"), op in ("amax", "max")
    for h in holds_of(walk, node.inputs[0], depth - 1):
        whole = len(walk.graph.nodes[h.subject[0]].shape or ()) == len(shape)
        if not whole and set(axes) != set(range(-len(shape), 0)):
            continue
        rank = len(walk.graph.nodes[h.subject[0]].shape or ())
        gone = tuple(sorted({*h.gone, *axes})) if whole else tuple(range(-rank, 0))
        wide = whole and not largest and h.degree in (1.0, 2.0)
        c = h.c * count ** (1.0 / h.degree) if average else h.c
        spread = 1.0 if largest or h.degree == 2.0 else math.sqrt(count) if h.degree == 1.0 and wide else math.inf
        steep = h.steep * spread / (count ** (1.0 / h.degree) if average else 1.0)
        yield replace(h, axes=tuple(sorted({*h.axes, *axes})) if wide else h.axes, c=c, gone=gone, steep=steep if wide or largest else math.inf)
        if largest and not h.axes and whole:
            yield replace(h, axes=axes, c=h.c * math.sqrt(count), gone=gone)


def _norms(walk: Walk, node: Node, shape: tuple[int, ...], depth: int) -> Iterator[Hold]:
    """Norms of vectors, and of matrices: the spectral norm is no less than any row or column, the largest column sum than any column, …"""
    found = norm_of(walk.flow, node, len(shape))
    if found is None:
        return
    kind, order, axes = found
    rank = len(shape)
    axes = tuple(a - rank if a >= 0 else a for a in axes)
    gone, sizes = tuple(sorted(axes)), tuple(shape[a] for a in axes)
    for subject in dict.fromkeys([(walk.behind(node.inputs[0]), None), subject_of(walk, node.inputs[0])]):
        yield Hold(subject, gone, room_of(kind, order, sizes), 1.0, gone, _steep(kind, order, sizes))
        yield Hold(subject, (), 1.0, 1.0, gone)
        sides = {2.0: axes, 1.0: axes[:1], math.inf: axes[1:], 0.0: axes}[order] if kind == "matrix" else ()
        yield from (Hold(subject, (a,), 1.0, 1.0, gone) for a in sides)
    if kind == "vector":  # of sizes
        for h in holds_of(walk, node.inputs[0], depth - 1):
            if len(walk.graph.nodes[h.subject[0]].shape or ()) == rank and h.degree == 1.0:
                joint = tuple(sorted({*h.axes, *gone})) if order <= 2 else h.axes
                yield replace(h, axes=joint, gone=tuple(sorted({*h.gone, *gone})), steep=h.steep if order == 2 else math.inf)


def _steep(kind: str, order: float, sizes: tuple[int, ...]) -> float:
    """c of norm <= c · ‖x‖₂."""
    if kind == "vector":
        return max(1.0, math.pow(math.prod(sizes), 1.0 / order - 0.5))
    return {2.0: 1.0, 1.0: math.sqrt(sizes[0]), math.inf: math.sqrt(sizes[1]), 0.0: math.sqrt(min(sizes))}[order]


def _deviations(walk: Walk, node: Node, shape: tuple[int, ...]) -> Iterator[Hold]:
    """var and std of x over axes, of x without its mean over these axes."""
    given = walk.flow.operand(node, 1, "dim")
    axes = axes_of(None if isinstance(given, bool) else given, len(shape))
    correction, unbiased = node.kwarg("correction"), walk.flow.operand(node, 2, "unbiased")
    less = float(correction) if isinstance(correction, int | float) else 0.0 if unbiased is False or given is False else 1.0
    left = math.prod(shape[a] for a in axes) - less
    source, centred = subject_of(walk, node.inputs[0])
    if left > 0:
        base = source if centred == axes else walk.behind(node.inputs[0])
        yield Hold((base, axes), axes, math.sqrt(left), 2.0 if node.op in ("var", "var_mean") else 1.0, axes, left**-0.5)


__all__ = ["Hold", "holds_of", "subject_of"]
