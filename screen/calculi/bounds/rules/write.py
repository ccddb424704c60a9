"""Writes: the first operand with some entries replaced or added to."""

from __future__ import annotations

import math
from dataclasses import replace

from screen.calculi.bounds.axes import Layout, atoms, plain, sizes
from screen.calculi.bounds.expr import add, largest, rss
from screen.calculi.bounds.interpreter import NotUnderstood, Walk, row
from screen.calculi.bounds.mixed_norms import NONE, Bound, Fact, query, relabel, tidy
from screen.calculi.bounds.pointwise import added, as_value
from screen.calculi.bounds.rules.view import resized, spread
from screen.calculi.bounds.value import Value, constant, recut, scaled
from screen.graph import Node, Ref
from screen.structure.dataflow import number
from screen.structure.types import Unknown


@row("setitem")
def setitem(walk: Walk, node: Node) -> Value:
    """`x[index] = y`. Axes at the end that the index leaves alone are whole in x and in y: norms over them are at most the larger of the
    two; of other norms only the largest entry is kept."""
    base, new = walk.first(node), walk.operand(node, 2, "value")
    items = _spelled(_items(node.args[1]), len(base.shape))
    if node.shape != base.shape or base.holes:
        raise NotUnderstood("an index that is not known")
    taken = sum(1 for i in items if i is not None)
    whole = len(base.shape) - taken
    if any(isinstance(i, Ref) and walk.graph.nodes[i.node].dtype == "bool" for i in items):
        whole = 0
    value = as_value(new, base)
    if value.holes:
        raise NotUnderstood("a masked value is written")
    places = [walk.one(i.node) for i in items if isinstance(i, Ref)]
    return replace(_either(walk, base, value, whole), jump=_jump(*places, base, value))


def _spelled(items: tuple[object, ...], rank: int) -> tuple[object, ...]:
    """Without `...`, and without whole slices at the end."""
    whole = ("slice", None, None, None)
    used = sum(1 for i in items if i is not None and i != "...")
    found = [j for i in items for j in ([whole] * (rank - used) if i == "..." else [i])]
    while found and found[-1] == whole:
        found.pop()
    return tuple(found)


def _items(index: object) -> tuple[object, ...]:
    return index if isinstance(index, tuple) and index[:1] != ("slice",) else (index,)


def _either(walk: Walk, base: Value, value: Value, whole: int) -> Value:
    """Fibres over the last `whole` axes come from one or from the other."""
    tail = base.shape[len(base.shape) - whole :] if whole else ()
    if value.shape[-whole:] != tail if whole else False:
        value = spread(value, tail) if len(value.shape) <= whole else value
    if whole and value.shape[-whole:] != tail:
        whole, tail = 0, ()
    layout: Layout = plain(base.shape)
    flat = sizes(layout)
    last = [a for axis in range(len(base.shape) - whole, len(base.shape)) for a in atoms(layout, axis)]
    base = recut(base, layout, base.shape, walk.names)
    value = recut(value, plain(value.shape), value.shape, walk.names)
    shift = len(flat) - len(value.flat)

    def joined(one: Bound, two: Bound) -> Bound:
        if isinstance(one, Unknown):
            return one
        if isinstance(two, Unknown):
            return two
        mine = relabel(one, {a: a for a in last})
        theirs = relabel(two, {a - shift: a for a in last})
        assert not isinstance(mine, Unknown) and not isinstance(theirs, Unknown)
        keys = dict.fromkeys([(NONE, NONE, 2), *((f.inner, NONE, f.p) for f in (*mine, *theirs) if f.inner)])
        return tidy((Fact(largest(query(mine, flat, *k), query(theirs, flat, *k)), *k) for k in keys), flat)

    return replace(base.bare(), mag=joined(base.mag, value.mag), der=joined(base.der, value.der), low=min(base.low, value.low),
                   high=max(base.high, value.high))


@row("copy")
def copy(walk: Walk, node: Node) -> Value:
    """`x.copy_(y)`: y, broadcast."""
    new = walk.operand(node, 1, "src", "other")
    if not isinstance(new, Value):
        raise NotUnderstood("a source that is no tensor")
    return spread(new, node.shape or ())


@row("scatter")
def scatter(walk: Walk, node: Node) -> Value:
    """Entries of y at other places of their fibre of x along an axis, each once: norms that hold the axis add up (as root of the sum of squares for
    p = 2), of others only the largest entry is kept. At fixed places: with the places it jumps."""
    base, axis, where = walk.first(node), walk.integer(node, 1, "dim"), walk.operand(node, 2, "index")
    new = as_value(walk.operand(node, 3, "src", "value"), base)
    if axis is None or not isinstance(where, Value) or base.holes or new.holes or node.kwarg("reduce") is not None or len(node.args) > 4:
        raise NotUnderstood("a form that is not covered")
    axis %= len(base.shape)
    moved = resized(new, base.shape, walk) if len(new.shape) == len(base.shape) else spread(new, base.shape)
    same = all(n == m for i, (n, m) in enumerate(zip(new.shape, base.shape, strict=False)) if i != axis)
    base, moved = (recut(v, plain(v.shape), v.shape, walk.names) for v in (base, moved))
    along = base.axis(axis)

    def joined(one: Bound, two: Bound) -> Bound:
        if isinstance(one, Unknown) or isinstance(two, Unknown):
            return one if isinstance(one, Unknown) else two
        kept = dict.fromkeys(f.key for f in (*one, *two) if along and along <= f.inner and same and len(new.shape) == len(base.shape))
        made = [Fact(largest(query(one, base.flat), query(two, base.flat)))]
        for inner, outer, p in kept:
            sides = query(one, base.flat, inner, outer, p), query(two, base.flat, inner, outer, p)
            made.append(Fact(rss(*sides) if p == 2 else add(*sides), inner, outer, p))
        return tidy(made, base.flat)

    return replace(base.bare(), mag=joined(base.mag, moved.mag), der=joined(base.der, moved.der), low=min(base.low, new.low),
                   high=max(base.high, new.high), jump=_jump(where, base, new))


def added_to(walk: Walk, node: Node) -> Value:
    """Entries of y added to x at other places of their fibre along an axis: x, and y as often as there are places, as all of them may be one. By
    `index_add` slices move as they are, so that norms over the other axes stay; by `scatter_add` each entry does, and norms along the axis stay."""
    base, axis, new = _along(walk, node)
    where = walk.operand(node, 2, "index")
    times = 1.0 if node.op != "index_add" else number(given) if (given := walk.flow.operand(node, 4, "alpha")) is not None else 1.0
    if times is None or not isinstance(where, Value):
        raise NotUnderstood("a form that is not covered")
    count = where.shape[axis] if len(where.shape) == len(base.shape) else where.shape[0] if where.shape else 1
    moved = recut(resized(new, base.shape, walk), plain(base.shape), base.shape, walk.names).bare()
    if node.op != "index_add":
        whole = all(n == m for i, (n, m) in enumerate(zip(new.shape, base.shape, strict=True)) if i != axis)
        along = frozenset(moved.axis(axis)) if whole else frozenset[int]()
        moved = replace(moved, mag=_kept(moved.mag, moved, along), der=_kept(moved.der, moved, along))
    made = added(walk, recut(base, plain(base.shape), base.shape, walk.names).bare(), scaled(moved, times * count))
    return replace(made.bare(), jump=_jump(where, base, new))


row("index_add scatter_add")(added_to)


@row("scatter_reduce")
def reduced_into(walk: Walk, node: Node) -> Value:
    """Entries of y and x at places of x: their mean, or the largest or smallest of them, is no larger than the largest of both; their sum is as
    by `scatter_add`."""
    base, _, new = _along(walk, node)
    how, where = walk.flow.operand(node, 4, "reduce"), walk.operand(node, 2, "index")
    if how == "sum":
        return added_to(walk, node)
    if how not in ("mean", "amax", "amin") or not isinstance(where, Value):
        raise NotUnderstood("a form that is not covered")
    return replace(_either(walk, base, new, 0), jump=_jump(where, base, new))


@row("index_copy slice_scatter select_scatter masked_scatter")
def replaced(walk: Walk, node: Node) -> Value:
    """x with slices along an axis, or entries, replaced by those of y: norms over the axes behind that one are at most the larger of the two."""
    base = walk.first(node)
    place = {"index_copy": 3, "masked_scatter": 2}.get(node.op, 1)
    new = walk.operand(node, place, "source", "src")
    axis = 0 if node.op == "masked_scatter" else walk.integer(node, 1 if node.op == "index_copy" else 2, "dim") or 0
    if not isinstance(new, Value) or axis is None or base.holes or new.holes:
        raise NotUnderstood("a form that is not covered")
    whole = 0 if node.op == "masked_scatter" else len(base.shape) - 1 - axis % len(base.shape)
    return replace(_either(walk, base, new, whole), jump=_jump(walk.operand(node, 2, "index"), base, new))


@row("index_put")
def index_put(walk: Walk, node: Node) -> Value:
    """`x[i, j, ...] = y`, or `+=` where it accumulates: y as often as there are places."""
    base, items = walk.first(node), walk.flow.operand(node, 1, "indices")
    new = as_value(walk.operand(node, 2, "values"), base)
    if not isinstance(items, tuple) or not all(isinstance(i, Ref) for i in items) or base.holes or new.holes:
        raise NotUnderstood("an index that is not known")
    places = [walk.one(i.node) for i in items if isinstance(i, Ref)]
    boolean = any(walk.graph.nodes[i.node].dtype == "bool" for i in items if isinstance(i, Ref))
    whole = 0 if boolean else len(base.shape) - len(places)
    jump = _jump(*places, base, new)
    if not walk.flow.operand(node, 3, "accumulate"):
        return replace(_either(walk, base, new, whole), jump=jump)
    count = max([1, *(math.prod(p.shape) for p in places)])
    moved = _either(walk, spread(constant((), 0.0, 0.0), base.shape), new, whole)
    return replace(added(walk, base.bare(), scaled(moved, count)).bare(), jump=jump)


def _along(walk: Walk, node: Node) -> tuple[Value, int, Value]:
    """What is written to, along which axis, and what is."""
    base, axis, new = walk.first(node), walk.integer(node, 1, "dim"), walk.operand(node, 3, "source", "src")
    if axis is None or not isinstance(new, Value) or base.holes or new.holes or len(new.shape) != len(base.shape) or not base.shape:
        raise NotUnderstood("a form that is not covered")
    return base, axis % len(base.shape), new


def _kept(bound: Bound, value: Value, along: frozenset[int]) -> Bound:
    """The largest entry, and norms that hold an axis."""
    if isinstance(bound, Unknown):
        return bound
    held = [f for f in bound if along and along <= f.inner]
    return tidy([Fact(query(bound, value.flat)), *held], value.flat)


def _jump(*values: object) -> int | None:
    """The first place at which one of them jumps."""
    return next((v.jump for v in values if isinstance(v, Value) and v.jump is not None), None)
