"""Statistics, poolings and transforms."""

from __future__ import annotations

import math
from dataclasses import replace

from screen.calculi.bounds.axes import Layout, atoms, plain, sizes
from screen.calculi.bounds.expr import Expr, add, mul, num
from screen.calculi.bounds.interpreter import Multi, NotUnderstood, Walk, row
from screen.calculi.bounds.mixed_norms import NONE, Bound, Fact, is_zero, query, relabel, tidy, times, with_ceiling, zero
from screen.calculi.bounds.pointwise import DEEP, as_value
from screen.calculi.bounds.rules.choice import chosen
from screen.calculi.bounds.rules.reduce import reduced, taken, without
from screen.calculi.bounds.rules.view import spread
from screen.calculi.bounds.value import Value, recut, unknown
from screen.graph import Node, Ref
from screen.structure.dataflow import axes_of
from screen.structure.norms.calls import norm_of
from screen.structure.types import Unknown


@row("norm vector_norm linalg_norm linalg_matrix_norm")
def length(walk: Walk, node: Node) -> Value:
    """‖x‖₂ over axes: at most that norm, and 1-Lipschitz in it. Of other norms (differences too: each is a norm) those that are at most c of it:
    1 for p >= 2 and for the largest singular value, √n for p = 1, √rows for column sums, √columns for row sums."""
    value = walk.first(node)
    found = norm_of(walk.flow, node, len(value.shape))
    if found is None or value.holes:
        raise NotUnderstood("another norm than the 2-norm")
    kind, order, axes = found
    sizes_ = [value.shape[a] for a in axes]
    factor = max(1.0, math.prod(sizes_) ** (1.0 / order - 0.5)) if kind == "vector" else _of_matrix(order, sizes_)
    made = _length(walk, node, value, tuple(sorted(a - len(value.shape) if a >= 0 else a for a in axes)))
    return replace(made, mag=times(made.mag, num(factor)), der=times(made.der, num(factor)))


def _of_matrix(order: float, sizes_: list[int]) -> float:
    rows, columns = sizes_
    return {2.0: 1.0, 1.0: math.sqrt(rows), math.inf: math.sqrt(columns), 0.0: math.sqrt(min(rows, columns))}[order]


def _length(walk: Walk, node: Node, value: Value, axes: tuple[int, ...]) -> Value:
    """‖x‖₂ over axes."""
    gone, names, layout, shape = _frame(value, axes, bool(walk.flow.operand(node, 3, "keepdim")))

    def taken(bound: Bound) -> Bound:
        rest = reduced(value, bound, gone, names, False)
        if isinstance(bound, Unknown) or isinstance(rest, Unknown):
            return rest
        facts = [f for f in rest if f.p == 2 and (f.inner or f.outer)]
        return tidy([Fact(query(bound, value.flat, gone)), *facts], sizes(layout))

    return Value(shape, layout, taken(value.mag), taken(value.der), 0.0, jump=value.jump)


def _frame(value: Value, axes: tuple[int, ...], keep: bool) -> tuple[frozenset[int], dict[int, int], Layout, tuple[int, ...]]:
    gone = frozenset(a for x in axes for a in atoms(value.layout, x))
    names = {a: i for i, a in enumerate(a for a in range(len(value.flat)) if a not in gone)}
    return gone, names, *without(value, axes, keep)


@row("cdist")
def distances(walk: Walk, node: Node) -> Value:
    """‖q_i − k_j‖₂ <= ‖q_i‖ + ‖k_j‖, and 1-Lipschitz in both."""
    q, k = walk.first(node), walk.operand(node, 1, "x2")
    order = walk.flow.operand(node, 2, "p")
    if not isinstance(k, Value) or order not in (None, 2, 2.0) or q.holes or k.holes or node.shape is None:
        raise NotUnderstood("another distance")
    sides = (q.norm(-1), k.norm(-1)), (q.slope(-1), k.slope(-1))
    sums: list[Bound] = [next((u for u in pair if isinstance(u, Unknown)), ()) for pair in sides]
    layout = plain(node.shape)
    for i, pair in enumerate(sides):
        if not isinstance(sums[i], Unknown):
            sums[i] = (Fact(add(*(u for u in pair if not isinstance(u, Unknown)))),)
    still = is_zero(q.der) and is_zero(k.der)
    jump = q.jump if q.jump is not None else k.jump
    return Value(node.shape, layout, sums[0], zero(len(sizes(layout))) if still else sums[1], 0.0, jump=jump)


@row("var std")
def variance(walk: Walk, node: Node) -> Value:
    """Of one statistic."""
    return _deviation(walk, node)


def _deviation(walk: Walk, node: Node) -> Value:
    """var = ‖x − mean‖²/(n − c) <= ‖x‖²/(n − c), slope 2‖x‖‖δx‖/(n − c); std = ‖x − mean‖/√(n − c), slope ‖δx‖/√(n − c)."""
    value = walk.first(node)
    given = walk.flow.operand(node, 1, "dim")
    axes = axes_of(None if isinstance(given, bool) else given, len(value.shape))
    gone, _, layout, shape = _frame(value, axes, bool(walk.flow.operand(node, 3, "keepdim")))
    correction = node.kwarg("correction")
    unbiased = walk.flow.operand(node, 2, "unbiased")
    less = float(correction) if isinstance(correction, int | float) else 0.0 if unbiased is False or given is False else 1.0
    left = math.prod(value.flat[a] for a in gone) - less
    if left <= 0 or value.holes or isinstance(value.mag, Unknown):
        raise NotUnderstood("of a value that is not known")
    size = query(value.mag, value.flat, gone)
    slope: Expr | Unknown = value.der if isinstance(value.der, Unknown) else query(value.der, value.flat, gone)
    if node.op in ("std", "std_mean"):
        top, steep = mul(num(left**-0.5), size), slope if isinstance(slope, Unknown) else mul(num(left**-0.5), slope)
    else:
        top, steep = mul(num(1 / left), size, size), slope if isinstance(slope, Unknown) else mul(num(2 / left), size, slope)
    der: Bound = steep if isinstance(steep, Unknown) else zero(len(sizes(layout))) if is_zero(value.der) else (Fact(steep),)
    return Value(shape, layout, (Fact(top),), der, 0.0, jump=value.jump)


@row("var_mean std_mean")
def both_statistics(walk: Walk, node: Node) -> Multi:
    """(variance or std, mean) over the same axes."""
    value, given = walk.first(node), walk.flow.operand(node, 1, "dim")
    axes = axes_of(None if isinstance(given, bool) else given, len(value.shape))
    return _deviation(walk, node), taken(value, axes, bool(walk.flow.operand(node, 3, "keepdim")), "mean")


@row("maximum minimum")
def extreme(walk: Walk, node: Node) -> Value:
    """The larger or smaller of two, entry by entry: one of them, with its slope; no jump, since they meet where they change places."""
    left, right = walk.operand(node, 0, "input", "self"), walk.operand(node, 1, "other")
    values = [as_value(v, walk.first(node)) for v in (left, right)]
    floor = next((v for v in values if v.high < DEEP and is_zero(v.der)), None)
    if floor is not None and node.op in ("max", "maximum"):  # what is masked stays masked
        kept = spread(values[1] if floor is values[0] else values[0], node.shape or ())
        return replace(kept.bare(), low=kept.low, high=kept.high, holes=kept.holes, jump=kept.jump)
    if any(v.high < -1e3 or v.holes for v in values):
        raise NotUnderstood("a masked value")
    made = chosen(walk, node, None, *values)
    pick = max if node.op.startswith("max") else min
    low, high = pick(v.low for v in values), pick(v.high for v in values)
    along = (made.axis(-1),) if made.shape else ()
    return replace(made, mag=with_ceiling(made.mag, max(abs(low), abs(high)), made.flat, along), low=low, high=high)


@row("max min")
def largest(walk: Walk, node: Node) -> Value | Multi:
    """`max(x)`, `max(x, dim)` with indices, or `max(x, y)` entry by entry."""
    second = walk.flow.operand(node, 1, "dim", "axis", "other")
    if isinstance(second, Ref):
        return extreme(walk, node)
    value = walk.first(node)
    if node.op == "max" and value.holes:
        walk.assumed["no row of a mask is empty"] = None
        value = replace(value, holes=False)
    if value.holes:
        raise NotUnderstood("a masked value")
    if second is None:
        return taken(value, tuple(range(len(value.shape))), False, "amax")
    made = taken(value, axes_of(second, len(value.shape)), walk.flow.operand(node, 2, "keepdim") is True, "amax")
    jump = value.jump if is_zero(value.der) else node.index
    return made, replace(unknown(made.shape, "integers", node.index, zero(len(made.flat))), layout=made.layout, jump=jump)


@row("avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d")
def averaged(walk: Walk, node: Node) -> Value:
    """Means over windows (zeros count as entries): convex, so that norms over the other axes do not grow."""
    if walk.flow.operand(node, 6, "divisor_override") is not None:
        raise NotUnderstood("a divisor of its own")
    value = walk.first(node)
    return _over_places(value, node, len(value.shape) - int(node.op[-2]))


@row("interpolate")
def resampled(walk: Walk, node: Node) -> Value:
    """Copies and means of neighbours: convex, so that norms over samples and channels do not grow. Cubic weights are of both signs: not covered."""
    mode = walk.flow.operand(node, 3, "mode")
    if mode not in (None, "nearest", "nearest-exact", "linear", "bilinear", "trilinear", "area"):
        raise NotUnderstood(f"a mode of {mode}")
    return _over_places(walk.first(node), node, 2)


def _over_places(value: Value, node: Node, kept: int) -> Value:
    """What is made of a value along its axes behind the first few, with norms over those as they are."""
    shape = node.shape or ()
    layout: Layout = (*value.layout[:kept], *((n,) if n != 1 else () for n in shape[kept:]))
    names = {a: a for a in range(len(sizes(value.layout[:kept])))}
    return replace(value.bare(), shape=shape, layout=layout, mag=relabel(value.mag, names), der=relabel(value.der, names),
                   low=min(value.low, 0.0), high=max(value.high, 0.0))


@row("fft_fft fft_fft2 fft_fftn fft_ifft fft_ifft2 fft_ifftn")
def fourier(walk: Walk, node: Node) -> Value:
    """Discrete Fourier transform along axes: norms that hold an axis of n grow by √n (Parseval), others by n (a sum of n); `ortho` divides by
    √n, and so does each inverse by n."""
    value = walk.first(node)
    rank = len(value.shape)
    default: object = (-2, -1) if node.op.endswith("2") else None if node.op.endswith("n") else -1
    given = walk.flow.operand(node, 2, "dim")
    axes = axes_of(default if given is None else given, rank)
    norm = walk.flow.operand(node, 3, "norm")
    if walk.flow.operand(node, 1, "n", "s") is not None or norm not in (None, "backward", "ortho"):
        raise NotUnderstood("a form that is not covered")
    value = recut(value.bare(), plain(value.shape), value.shape, walk.names)
    count = math.prod(value.shape[a] for a in axes)
    factor = count**-0.5 if norm == "ortho" else 1.0 / count if "ifft" in node.op else 1.0
    touched = frozenset(a for x in axes for a in atoms(value.layout, x))

    costs = {a: (float(value.flat[a]), math.sqrt(value.flat[a])) for a in touched}
    return _transformed(value, value.layout, node.shape or (), factor, costs, 1.0)


def _transformed(value: Value, layout: Layout, shape: tuple[int, ...], factor: float, costs: dict[int, tuple[float, float]], most: float) -> Value:
    """A transform of some axes. `costs`: of an axis, how much entries that are bounded one by one gain, and how much a 2-norm that holds it does; an
    entry is at most `most` sums of sizes along them."""
    flat, touched = sizes(layout), frozenset(costs)

    def moved(bound: Bound) -> Bound:
        if isinstance(bound, Unknown) or is_zero(bound):
            return bound
        made = [Fact(mul(num(factor * most), query(bound, value.flat, touched, NONE, 1)))]
        for f in bound:
            cost = math.prod(costs[a][a in f.inner | f.outer] for a in touched)
            if f.p == 2:
                made.append(Fact(mul(num(cost * factor), f.bound), f.inner | (f.outer & touched), f.outer - touched))
        return tidy(made, flat)

    return replace(value, shape=shape, layout=layout, mag=moved(value.mag), der=moved(value.der), low=-math.inf, high=math.inf)


@row("fft_rfft fft_irfft fft_rfft2 fft_irfft2")
def real_fourier(walk: Walk, node: Node) -> Value:
    """Half of a spectrum is a part of the whole one; a half made whole has each entry twice at most, so that its 2-norm is √2 as large. Zeros that
    a length asks for add to no norm."""
    value, shape = walk.first(node), node.shape or ()
    rank, inverse = len(value.shape), "irfft" in node.op
    given = walk.flow.operand(node, 2, "dim")
    axes = axes_of((-2, -1) if node.op.endswith("2") and given is None else -1 if given is None else given, rank)
    norm, lengths = walk.flow.operand(node, 3, "norm"), walk.flow.operand(node, 1, "n", "s")
    sizes_asked = [None] * len(axes) if lengths is None else list(lengths) if isinstance(lengths, tuple | list) else [lengths]
    if norm not in (None, "backward", "ortho", "forward") or len(sizes_asked) != len(axes) or not axes:
        raise NotUnderstood("a form that is not covered")
    value = recut(value.bare(), plain(value.shape), value.shape, walk.names)
    layout = plain(shape)
    costs: dict[int, tuple[float, float]] = {}
    count = 1.0
    for place, axis in enumerate(axes):
        half = place == len(axes) - 1
        length = shape[axis] if inverse or not half else sizes_asked[place] or value.shape[axis]
        if not isinstance(length, int) or value.shape[axis] == 1 or shape[axis] == 1:
            raise NotUnderstood("an axis of one entry")
        read = float(length if inverse and half else min(length, value.shape[axis]))
        costs[atoms(value.layout, axis)[0]] = read, math.sqrt(2.0 * length if inverse and half else length)
        count *= length
    divided = norm == "forward" if not inverse else norm != "forward"
    factor = count**-0.5 if norm == "ortho" else 1.0 / count if divided else 1.0
    return _transformed(value, layout, shape, factor, costs, 2.0 if inverse else 1.0)
