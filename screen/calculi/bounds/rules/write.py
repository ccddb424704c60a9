"""Writes: the first operand with some entries replaced or added to."""

from __future__ import annotations

from dataclasses import replace

from screen.calculi.bounds.axes import Layout, atoms, plain, sizes
from screen.calculi.bounds.expr import add, largest, rss
from screen.calculi.bounds.interpreter import NotUnderstood, Walk, row
from screen.calculi.bounds.mixed_norms import NONE, Bound, Fact, query, relabel, tidy
from screen.calculi.bounds.pointwise import as_value
from screen.calculi.bounds.rules.view import resized, spread
from screen.calculi.bounds.value import Value, recut
from screen.graph import Node, Ref
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
    jump = next((walk.one(i.node).jump for i in items if isinstance(i, Ref) and walk.one(i.node).jump is not None), None)
    jump = jump if jump is not None else base.jump if base.jump is not None else value.jump
    return replace(_either(walk, base, value, whole), jump=jump)


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

    jump = next((v.jump for v in (where, base, new) if v.jump is not None), None)
    return replace(base.bare(), mag=joined(base.mag, moved.mag), der=joined(base.der, moved.der), low=min(base.low, new.low),
                   high=max(base.high, new.high), jump=jump)
