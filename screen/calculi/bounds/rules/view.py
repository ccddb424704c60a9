"""Views: every entry once, in another place. Norms over atoms stay what they are (`axes`)."""

from __future__ import annotations

import math
from dataclasses import replace

from screen.calculi.bounds.axes import Layout, atoms, plain
from screen.calculi.bounds.interpreter import Multi, NotUnderstood, Walk, row
from screen.calculi.bounds.mixed_norms import relabel
from screen.calculi.bounds.parts import Part
from screen.calculi.bounds.value import Value, of_part, permuted, recut, renamed, reshaped, scaled
from screen.graph import Node
from screen.structure.axis_order import TURNS, axis_order
from screen.structure.dataflow import number


@row("to type float half bfloat16 double type_as contiguous clone detach data alias cpu cuda lift_fresh real nan_to_num")
def same(walk: Walk, node: Node) -> Value:
    """The same entries. A cast rounds (not counted here: `ops` bounds the rounding)."""
    if node.op == "alias" and len(node.inputs) > 1:
        last = walk.graph.nodes[node.inputs[-1]]
        if len(node.inputs) == 2 and last.inputs[:1] == node.inputs[:1] and last.shape == node.shape:  # it was written to as a whole
            return walk.one(last.index)
        raise NotUnderstood("a tensor read after writes to parts of it")
    value = walk.first(node)
    if node.op == "nan_to_num" and value.holes:
        raise NotUnderstood("what was infinite is a number")
    return replace(value.bare(), low=-math.inf, high=math.inf) if node.op == "real" else value


@row("dropout dropout1d dropout2d dropout3d feature_dropout")
def dropped(walk: Walk, node: Node) -> Value:
    """0 or x/(1 − p): one that does not drop gives its operand back, and is no node."""
    value, p = walk.first(node), number(walk.flow.operand(node, 1, "p"))
    p = 0.5 if p is None else p
    if not 0.0 <= p < 1.0 or value.holes:
        raise NotUnderstood("what it leaves is not known")
    made = scaled(value.bare(), 1.0 / (1.0 - p))
    return replace(made, low=min(made.low, 0.0), high=max(made.high, 0.0))


@row("view reshape flatten unflatten unsqueeze squeeze view_as reshape_as ravel")
def reshape(walk: Walk, node: Node) -> Value:
    """Row-major regrouping."""
    value = walk.first(node)
    if node.shape is None:
        raise NotUnderstood("its shape is not known")
    if node.shape == value.shape:
        return value
    if math.prod(node.shape) != math.prod(value.shape):
        raise NotUnderstood("it changes the number of entries")
    return reshaped(value, node.shape, walk.names)


@row(" ".join(sorted(TURNS)))
def permute(walk: Walk, node: Node) -> Value:
    """Axes in another order."""
    value = walk.first(node)
    order = axis_order(node, len(value.shape))
    if order is None:
        raise NotUnderstood("its axes are not known")
    return permuted(value, order)


@row("expand expand_as broadcast_to")
def expand(walk: Walk, node: Node) -> Value:
    """Copies along axes of size 1: the new atoms stand in no norm (a sup), which is exact."""
    return spread(walk.first(node), node.shape or ())


@row("meshgrid")
def meshgrid(walk: Walk, node: Node) -> Multi:
    """Each vector along an axis of its own, and copied along those of the others; `indexing="xy"` changes the places of the first two."""
    vectors = [walk.one(i) for i in node.inputs]
    if any(len(v.shape) != 1 for v in vectors):
        raise NotUnderstood("a grid of what are no vectors")
    order = [*range(len(vectors))]
    order[:2] = order[:2][::-1] if node.kwarg("indexing") == "xy" else order[:2]
    shape = tuple(vectors[i].shape[0] for i in order)
    own = [tuple(n if other == i else 1 for other, n in zip(order, shape, strict=True)) for i in range(len(vectors))]
    return tuple(spread(reshaped(v, one, walk.names), shape) for v, one in zip(vectors, own, strict=True))


def spread(value: Value, shape: tuple[int, ...], layout: Layout | None = None) -> Value:
    """A value broadcast to a larger shape; new axes are cut as `layout` says, each one atom without it."""
    if value.shape == shape:
        return value
    lead = len(shape) - len(value.shape)
    groups: list[tuple[int, ...]] = []
    names: dict[int, int] = {}
    position = 0
    for axis, n in enumerate(shape):
        old = value.layout[axis - lead] if axis >= lead else ()
        if axis >= lead and value.shape[axis - lead] == n:
            for a in atoms(value.layout, axis - lead):
                names[a] = position
                position += 1
            groups.append(old)
        elif axis < lead or value.shape[axis - lead] == 1:
            groups.append(layout[axis] if layout is not None else (n,) if n != 1 else ())
            position += len(groups[-1])
        else:
            raise NotUnderstood("shapes do not broadcast")
    return replace(value.bare(), shape=shape, layout=tuple(groups), mag=relabel(value.mag, names), der=relabel(value.der, names),
                   after=value.after, gain=value.gain, projection=renamed(value.projection, names))


@row("repeat tile repeat_interleave")
def repeat(walk: Walk, node: Node) -> Value:
    """Copies along an axis: as a new atom beside it (`repeat`: outside, `repeat_interleave`: inside)."""
    value = walk.first(node)
    shape = node.shape or ()
    if len(shape) < len(value.shape):
        raise NotUnderstood("copies that are flattened")
    value = reshaped(value, (1,) * (len(shape) - len(value.shape)) + value.shape, walk.names)
    large: list[int] = []
    for n, m in zip(value.shape, shape, strict=True):
        if n == 0 or m % n:
            raise NotUnderstood("copies that do not fill")
        large += [n, m // n] if node.op == "repeat_interleave" else [m // n, n]
    narrow = [k if (i % 2 == 0) == (node.op == "repeat_interleave") else 1 for i, k in enumerate(large)]
    return reshaped(spread(reshaped(value, tuple(narrow), walk.names), tuple(large)), shape, walk.names)


@row("roll flip")
def shuffle(walk: Walk, node: Node) -> Value:
    """A permutation of entries along axes: their atoms are merged first (any norm over whole axes stays). A roll without axes moves entries from one
    row to the next: only the norm over all of them stays, and the largest."""
    value = walk.first(node)
    if node.op == "roll" and walk.flow.operand(node, 2, "dims") in (None, ()):
        line = (math.prod(value.shape),)
        value = reshaped(recut(reshaped(value.bare(), line, walk.names), plain(line), line, walk.names), value.shape, walk.names)
    return recut(replace(value.bare(), after=""), plain(value.shape), value.shape, walk.names)


@row("pad constant_pad_nd")
def pad(walk: Walk, node: Node) -> Value:
    """Zeros (or a constant) around: no norm grows by zeros."""
    value = walk.first(node)
    fill = walk.operand(node, 3, "value")
    fill = walk.operand(node, 2, "value") if node.op == "constant_pad_nd" else fill
    mode = walk.flow.operand(node, 2, "mode")
    if fill not in (None, 0.0) or (node.op == "pad" and mode not in (None, "constant")):
        raise NotUnderstood("a padding that is not by zeros")
    return resized(recut(value, plain(value.shape), value.shape, walk.names), node.shape or (), walk)


def resized(value: Value, shape: tuple[int, ...], walk: Walk) -> Value:
    """The same facts on axes of another length (entries left out, or zeros added): atoms of changed axes are merged first."""
    groups = tuple(g if n == m else ((n,) if n != 1 else ()) for g, n, m in zip(value.layout, value.shape, shape, strict=True))
    value = recut(value, groups, value.shape, walk.names)
    layout = tuple(g if n == m else ((m,) if m != 1 else ()) for g, n, m in zip(groups, value.shape, shape, strict=True))
    names: dict[int, int] = {}
    position = 0
    for axis, group in enumerate(layout):
        for offset, a in enumerate(atoms(groups, axis)):
            if offset < len(group):
                names[a] = position + offset
        position += len(group)
    return replace(value.bare(), shape=shape, layout=layout, mag=relabel(value.mag, names), der=relabel(value.der, names),
                   low=min(value.low, 0.0), high=max(value.high, 0.0))


def renewed(part_of: Value, walk: Walk, new: object) -> Value:
    """A part of a parameter, after its view changed."""
    assert isinstance(new, Part)
    return replace(of_part(new, walk.names), low=part_of.low, high=part_of.high)


