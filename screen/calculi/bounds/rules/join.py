"""Joins: concatenations and stacks, and parts of one value put together again."""

from __future__ import annotations

import itertools
from dataclasses import replace

from screen.calculi.bounds.axes import Layout, atoms, plain, sizes
from screen.calculi.bounds.broadcast import common
from screen.calculi.bounds.expr import Expr, add, largest, rss
from screen.calculi.bounds.interpreter import NotUnderstood, Walk, row
from screen.calculi.bounds.mixed_norms import NONE, Bound, Fact, Facts, query, relabel, tidy
from screen.calculi.bounds.rules.rotary import rotated_halves
from screen.calculi.bounds.value import Value, recut, reshaped
from screen.graph import Node, Ref
from screen.structure.types import Unknown


@row("cat stack")
def join(walk: Walk, node: Node) -> Value:
    """Side by side along an axis: root of the sum of squares along it, the largest across it."""
    given = walk.flow.operand(node, 0, "tensors")
    refs = [i.node for i in given if isinstance(i, Ref)] if isinstance(given, tuple) else []
    shape = node.shape or ()
    full = [i for i in refs if 0 not in (walk.graph.nodes[i].shape or ())]
    if node.op == "cat" and len(full) == 1 < len(refs) and walk.graph.nodes[full[0]].shape == shape:
        return walk.one(full[0])  # beside parts without entries: what a rotation over all features leaves
    axis = (walk.integer(node, 1, "dim", "axis") or 0) % max(len(shape), 1)
    turned = rotated_halves(walk, node, refs)
    if turned is not None:
        return turned
    values = [walk.one(i) for i in refs]
    if node.op == "stack":
        values = [replace(reshaped(v, (*shape[:axis], 1, *shape[axis + 1 :]), walk.names), jump=v.jump) for v in values]
    whole = _reunited(walk, values, axis, shape) if node.op != "stack" else None
    if whole is not None:
        return whole
    if not values or any(len(v.shape) != len(shape) for v in values):
        raise NotUnderstood("operands of other ranks")
    return joined(walk, values, axis, shape)


def _reunited(walk: Walk, values: list[Value], axis: int, shape: tuple[int, ...]) -> Value | None:
    """All parts of one value, in any order: its norms over the whole axis."""
    pieces = [v.piece for v in values if v.piece is not None]
    if len(pieces) != len(values) or len({(p.node, p.axis) for p in pieces}) != 1 or pieces[0].axis != axis - len(shape):
        return None
    spans = sorted((p.start, p.stop) for p in pieces)
    if any(p.step != 1 for p in pieces):
        return None
    base = walk.value(pieces[0].node)
    if not isinstance(base, Value) or base.shape != shape or any(v.jump is not None for v in values):
        return None
    if spans[0][0] != 0 or spans[-1][1] != shape[axis] or any(a[1] != b[0] for a, b in itertools.pairwise(spans)):
        return None
    groups = tuple(g if i != axis else plain((shape[axis],))[0] for i, g in enumerate(base.layout))
    made = recut(base.bare(), groups, shape, walk.names)
    along = frozenset(atoms(groups, axis))
    whole = joined(walk, values, axis, shape)
    return replace(whole, layout=groups, mag=_keep(made.mag, along, whole, True), der=_keep(made.der, along, whole, False))


def _keep(bound: Bound, along: frozenset[int], whole: Value, magnitude: bool) -> Bound:
    """Facts of the reunited value that speak of the whole axis, and the entry-wise ones of the join."""
    other = whole.mag if magnitude else whole.der
    if isinstance(bound, Unknown) or isinstance(other, Unknown):
        return other
    kept = [f for f in bound if along <= f.inner and f.p == 2]
    return tidy((*kept, Fact(query(other, whole.flat))), whole.flat)


def joined(walk: Walk, values: list[Value], axis: int, shape: tuple[int, ...]) -> Value:
    """Concatenation along an axis of any parts."""
    groups: list[tuple[int, ...]] = []
    for i, n in enumerate(shape):
        if i == axis:
            groups.append((n,) if n != 1 else ())
            continue
        found = values[0].layout[i]
        for v in values[1:]:
            found = common(found, v.layout[i])
        groups.append(found)
    layout: Layout = tuple(groups)
    cuts = []
    for v in values:
        own = tuple(g if i != axis else ((v.shape[axis],) if v.shape[axis] != 1 else ()) for i, g in enumerate(layout))
        cuts.append(recut(v, own, v.shape, walk.names))
    return replace(
        Value(shape, layout, _side_by_side([(c, c.mag) for c in cuts], axis, layout), _side_by_side([(c, c.der) for c in cuts], axis, layout)),
        low=min(v.low for v in values), high=max(v.high for v in values), holes=any(v.holes for v in values),
        jump=next((v.jump for v in values if v.jump is not None), None),
    )


Key = tuple[frozenset[int], frozenset[int], int]


def _side_by_side(parts: list[tuple[Value, Bound]], axis: int, layout: Layout) -> Bound:
    lost = next((b for _, b in parts if isinstance(b, Unknown)), None)
    if lost is not None:
        return lost
    along = frozenset(atoms(layout, axis))
    read: list[tuple[Value, Facts]] = []
    for value, bound in parts:
        own = [a for i in range(len(layout)) if i != axis for a in atoms(value.layout, i)]
        whole = [a for i in range(len(layout)) if i != axis for a in atoms(layout, i)]
        names = dict(zip(own, whole, strict=True)) | dict(zip(atoms(value.layout, axis), atoms(layout, axis), strict=False))
        moved = relabel(bound, names)
        assert not isinstance(moved, Unknown)
        read.append((value, moved))
    keys = dict.fromkeys(f.key for _, facts in read for f in facts)
    wanted: dict[tuple[frozenset[int], frozenset[int], int], None] = {(NONE, NONE, 2): None}
    for inner, outer, p in keys:
        wanted[inner - along, outer - along, p] = None
        wanted[(inner | along, outer - along, p if inner else 2)] = None
    return tidy((Fact(_joint(read, layout, axis, along, key), *key) for key in wanted), sizes(layout))


def _joint(read: list[tuple[Value, Facts]], layout: Layout, axis: int, along: frozenset[int], key: Key) -> Expr:
    inner, outer, p = key
    found = []
    for value, facts in read:
        flat = list(sizes(layout))
        for a in along:
            flat[a] = value.shape[axis]
        found.append(query(facts, tuple(flat), inner, outer, p))
    if not along & inner:
        if outer:  # the largest piece per head is at most the root of the sum of squares
            return rss(*found)
        return largest(*found)
    return add(*found) if p == 1 else rss(*found)


