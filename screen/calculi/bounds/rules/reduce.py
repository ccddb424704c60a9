"""Reductions, softmax and attention."""

from __future__ import annotations

import math
from dataclasses import replace

from screen.calculi.bounds.axes import Layout, atoms
from screen.calculi.bounds.expr import add, mul, num, sym
from screen.calculi.bounds.interpreter import Multi, NotUnderstood, Walk, row
from screen.calculi.bounds.mixed_norms import NONE, Atoms, Bound, Fact, is_zero, query, tidy, times, zero
from screen.calculi.bounds.pointwise import added
from screen.calculi.bounds.rules.linear import multiplied_matrices, weighed
from screen.calculi.bounds.rules.view import resized, spread
from screen.calculi.bounds.value import Value, permuted, reshaped, scaled, unknown
from screen.graph import Node
from screen.structure.dataflow import axes_of
from screen.structure.types import Unknown


@row("sum mean amax amin nansum")
def reduce(walk: Walk, node: Node) -> Value:
    """Σ over atoms G: a fact that holds G in I or O costs √|G| (Cauchy-Schwarz), ℓ1 over G costs 1, none costs |G|.
    The largest of G (its slope is that of the chosen entry): √|G| where a norm over other atoms does not hold G, else 1."""
    value = walk.first(node)
    if node.op == "amax" and value.holes:  # of every fibre something is left
        walk.assumed["no row of a mask is empty"] = None
        value = replace(value, holes=False)
    if value.holes:
        raise NotUnderstood("of a masked value")
    axes = axes_of(walk.flow.operand(node, 1, "dim", "axis"), len(value.shape))
    return taken(value, axes, bool(walk.flow.operand(node, 2, "keepdim")), node.op)


def taken(value: Value, axes: tuple[int, ...], keep: bool, op: str) -> Value:
    """The sum, mean, largest or smallest over axes."""
    gone = frozenset(a for x in axes for a in atoms(value.layout, x))
    count = math.prod(value.flat[a] for a in gone)
    summing = op in ("sum", "mean", "nansum")
    factor = 1.0 / count if op == "mean" else 1.0
    layout, shape = without(value, axes, keep)
    names = {a: i for i, a in enumerate(a for a in range(len(value.flat)) if a not in gone)}
    mag = times(reduced(value, value.mag, gone, names, summing), num(factor))
    der = times(reduced(value, value.der, gone, names, summing), num(factor))
    wide = count * factor if summing else 1.0
    ends = (value.low * wide if value.low else 0.0, value.high * wide if value.high else 0.0)
    return Value(shape, layout, mag, der, ends[0], ends[1], jump=value.jump)


def without(value: Value, axes: tuple[int, ...], keep: bool) -> tuple[Layout, tuple[int, ...]]:
    """Layout and shape after axes are reduced."""
    rank = len(value.shape)
    gone = {a % rank for a in axes}
    layout = [() if i in gone else g for i, g in enumerate(value.layout) if keep or i not in gone]
    return tuple(layout), tuple(1 if i in gone else n for i, n in enumerate(value.shape) if keep or i not in gone)


def reduced(value: Value, bound: Bound, gone: Atoms, names: dict[int, int], summing: bool) -> Bound:
    """Facts after a sum (or a largest) over the atoms `gone`; `names` are the new positions of the others."""
    if isinstance(bound, Unknown):
        return bound
    if is_zero(bound):
        return zero(len(names))
    flat = tuple(n for a, n in enumerate(value.flat) if a not in gone)
    found = []
    ell = query(bound, value.flat, gone, NONE, 1) if summing else query(bound, value.flat)
    found.append(Fact(ell))
    for f in bound:
        inner, outer = f.inner - gone, f.outer - gone
        if not inner and not outer:
            continue
        cost = math.prod(_charge(f, a, value.flat[a], summing) for a in gone)
        found.append(Fact(mul(num(cost), f.bound), frozenset(names[a] for a in inner), frozenset(names[a] for a in outer), f.p))
    return tidy(found, flat)


def _charge(f: Fact, atom: int, size: int, summing: bool) -> float:
    if not summing:
        if atom in f.inner or (atom in f.outer and f.p == 2):
            return 1.0
        return math.sqrt(size) if f.p == 2 or atom in f.outer else float(size)
    if atom in f.inner and f.p == 1:
        return 1.0
    return math.sqrt(size) if atom in f.inner or atom in f.outer else float(size)


@row("topk sort")
def topk(walk: Walk, node: Node) -> Multi:
    """(values, indices): the values of each fibre in another order, some left out: norms that hold the whole axis do not grow, nor do entries;
    the same entries' slopes. The values are continuous; what is done with the indices jumps."""
    value = walk.first(node)
    if not value.shape:
        raise NotUnderstood("of a single number")
    given = walk.integer(node, 2 if node.op == "topk" else 1, "dim")
    axis = (-1 if given is None else given) % len(value.shape)
    count = walk.integer(node, 1, "k") if node.op == "topk" else value.shape[axis]
    if count is None or value.holes:
        raise NotUnderstood("how many is not known")
    along = value.axis(axis)

    def kept(bound: Bound) -> Bound:
        if isinstance(bound, Unknown) or is_zero(bound):
            return bound
        return tidy([Fact(query(bound, value.flat)), *(Fact(f.bound, f.inner, NONE, f.p) for f in bound if along <= f.inner)], value.flat)

    shape = (*value.shape[:axis], count, *value.shape[axis + 1 :])
    ends = replace(resized(replace(value.bare(), mag=kept(value.mag), der=kept(value.der)), shape, walk), low=value.low, high=value.high)
    jump = value.jump if is_zero(value.der) else node.index
    indices = replace(unknown(shape, "integers", node.index, zero(len(ends.flat))), layout=ends.layout, jump=jump)
    return ends, indices


@row("cumsum")
def cumsum(walk: Walk, node: Node) -> Value:
    """Prefix sums along an axis of n: each norm without that axis times n (√n where the norm held it)."""
    value, axis = walk.first(node), walk.integer(node, 1, "dim")
    if axis is None or value.holes:
        raise NotUnderstood("its axis is not known")
    gone = value.axis(axis)
    n = value.length(axis)

    def grown(bound: Bound) -> Bound:
        if isinstance(bound, Unknown) or is_zero(bound):
            return bound
        made = [Fact(mul(num(math.sqrt(n) if gone <= f.inner | f.outer and f.p == 2 and gone else n), f.bound), f.inner - gone, f.outer - gone, f.p)
                for f in bound]
        return tidy([*made, Fact(query(bound, value.flat, gone, NONE, 1))], value.flat)

    low = value.low * n if value.low < 0 else min(value.low, value.low * n) if math.isfinite(value.low) else value.low
    return replace(value.bare(), mag=grown(value.mag), der=grown(value.der), low=low, high=math.inf if value.high > 0 else value.high)


@row("softmax")
def softmax(walk: Walk, node: Node) -> Value:
    """Rows p >= 0 of sum 1: ‖p‖₁ = 1. J = diag p − ppᵀ: ‖Ju‖₁ <= θ max|u| with θ <= 1 (E, 4.2), ‖Ju‖₂ <= ½‖u‖₂."""
    value = walk.first(node)
    axis = walk.integer(node, 1, "dim")
    if axis is None:
        raise NotUnderstood("its axis is not known")
    return softened(walk, node.index, value, axis)


@row("softmin")
def softmin(walk: Walk, node: Node) -> Value:
    """softmax(−u)."""
    value = walk.first(node)
    axis = walk.integer(node, 1, "dim")
    if value.holes or axis is None:
        raise NotUnderstood("of a masked value, or along an axis that is not known")
    return softened(walk, node.index, scaled(value, -1.0), axis)


@row("log_softmax")
def log_softmax(walk: Walk, node: Node) -> Value:
    """Between −(max u − min u) − log n and 0; Ju = δu − p·δu, at most 2 max|δu|."""
    value, axis = walk.first(node), walk.integer(node, 1, "dim")
    if axis is None:
        raise NotUnderstood("its axis is not known")
    walk.logits.append((node.index, replace(value, holes=False)))
    if value.holes:
        raise NotUnderstood("of a masked value")
    top = math.log(max(value.length(axis), 1))
    size = value.norm()
    mag: Bound = size if isinstance(size, Unknown) else (Fact(add(mul(num(2.0), size), num(top))),)
    slope = value.slope()
    der: Bound = value.der if isinstance(slope, Unknown) or is_zero(value.der) else (Fact(mul(num(2.0), slope)),)
    return Value(value.shape, value.layout, mag, der, high=0.0, jump=value.jump)


def softened(walk: Walk, index: int, u: Value, axis: int) -> Value:
    """softmax(u) along an axis, with a symbol `theta_i` for its sensitivity."""
    rows = u.axis(axis)
    if u.holes:
        walk.assumed["no row of a mask is empty"] = None
    walk.logits.append((index, replace(u, holes=False)))
    der: Bound
    if isinstance(u.der, Unknown):
        der = u.der
    elif is_zero(u.der):
        der = zero(len(u.flat))
    else:
        theta = f"theta_{len(walk.thetas)}"
        walk.thetas.append(theta)
        half = [Fact(mul(num(0.5), query(u.der, u.flat, rows)), rows)] if any(rows <= f.inner | f.outer for f in u.der) else []
        der = tidy([Fact(mul(sym(theta), query(u.der, u.flat)), rows, NONE, 1), *half], u.flat)
    return Value(u.shape, u.layout, (Fact(num(1.0), rows, NONE, 1),), der, 0.0, 1.0, jump=u.jump, balanced=rows)


@row("scaled_dot_product_attention")
def attention(walk: Walk, node: Node) -> Value:
    """softmax(q kᵀ·scale + mask) v."""
    q, k, v = (walk.operand(node, i, name) for i, name in enumerate(("query", "key", "value")))
    mask, dropout = walk.operand(node, 3, "attn_mask"), walk.flow.operand(node, 4, "dropout_p")
    if not isinstance(q, Value) or not isinstance(k, Value) or not isinstance(v, Value) or dropout not in (None, 0, 0.0):
        raise NotUnderstood("operands that are not known, or dropout")
    shared = walk.flow.operand(node, 7, "enable_gqa") is True
    values, heads = v, q.shape[-3] if len(q.shape) > 2 else 1
    if shared:
        k, v = _grouped(walk, k, heads), _grouped(walk, v, heads)
    given = walk.flow.operand(node, 6, "scale")
    scale = float(given) if isinstance(given, int | float) else 1.0 / math.sqrt(q.shape[-1])
    order = (*range(len(k.shape) - 2), len(k.shape) - 1, len(k.shape) - 2)
    logits = scaled(multiplied_matrices(walk, q, permuted(k, order)), scale)
    logits = _masked(walk, node, logits, mask)
    if walk.flow.operand(node, 5, "is_causal") is True:
        logits = replace(logits, holes=False)  # the diagonal is always left
    weights = softened(walk, node.index, logits, -1)
    spread = weighed(walk, weights, values, walk.flow.ref(node, 2, "value"))
    return multiplied_matrices(walk, weights, v, _grouped(walk, spread, heads) if shared and spread is not None else spread)


def _masked(walk: Walk, node: Node, logits: Value, mask: Value | float | None) -> Value:
    if not isinstance(mask, Value):
        return logits
    where = walk.flow.ref(node, 3, "attn_mask")
    if where is not None and walk.graph.nodes[where].dtype == "bool":
        return replace(logits, holes=True, jump=logits.jump if mask.jump is None else mask.jump)
    still = is_zero(mask.der) and not walk.flow.data[where if where is not None else node.index]
    if still and isinstance(mask.mag, Unknown):  # what does not depend on the stream leaves the derivative as it is, −∞ or any number
        return replace(logits, holes=True, mag=mask.mag if not mask.holes else logits.mag)
    return added(walk, logits, mask)


def _grouped(walk: Walk, value: Value, heads: int) -> Value:
    """Keys or values shared by groups of heads."""
    *lead, own, n, width = value.shape
    wide = reshaped(value, (*lead, own, 1, n, width), walk.names)
    return reshaped(spread(wide, (*lead, own, heads // own, n, width)), (*lead, heads, n, width), walk.names)


