"""How the entries of a source stand in a value that carries them: a strided view of the source, followed through views, slices and joins."""

from __future__ import annotations

import math
from collections.abc import Sequence

from screen.calculi.bounds.parts import Part
from screen.graph import Node, Ref
from screen.structure.axis_order import TURNS, axis_order
from screen.structure.dataflow import RESHAPES, SAME_SHAPE, Flow

_CONJUGATE = frozenset({"H", "mH"})
"""Of complex entries more than a move."""
Layout = Part
"""Offset, sizes and strides into the source's own entries."""


def whole(shape: tuple[int, ...]) -> Layout:
    """All entries in their own order."""
    return Part("", shape, 0, shape, tuple(math.prod(shape[i + 1 :]) for i in range(len(shape))))


def is_whole(layout: Layout) -> bool:
    """Whether every entry stands where it stood."""
    mine = [(n, s) for n, s in zip(layout.sizes, layout.strides, strict=True) if n != 1]
    plain = whole(layout.whole)
    theirs = [(n, s) for n, s in zip(plain.sizes, plain.strides, strict=True) if n != 1]
    return layout.offset == 0 and mine == theirs


def is_permuted(layout: Layout) -> bool:
    """Whether every entry stands somewhere, once."""
    seen = sorted(((s, n) for n, s in zip(layout.sizes, layout.strides, strict=True) if n != 1))
    step = 1
    for stride, size in seen:
        if stride != step:
            return False
        step *= size
    return layout.offset == 0 and step == math.prod(layout.whole)


def viewed(flow: Flow, node: Node, layout: Layout) -> Layout | None:
    """The layout behind a view or a slice; None where it is no strided view."""
    shape = node.shape
    if shape is None:
        return None
    if node.op in SAME_SHAPE:
        return layout
    if node.op in RESHAPES or node.op in ("unflatten", "ravel", "view_as", "_unsafe_view", "atleast_2d"):
        return layout.viewed(shape)
    if node.op in TURNS - _CONJUGATE:
        order = axis_order(node, len(layout.sizes))
        return None if order is None else layout.permuted(order)
    return _sliced(node, layout, shape)


def _are_numbers(values: object) -> bool:
    return isinstance(values, tuple) and bool(values) and all(type(v) is int for v in values)


def _sliced(node: Node, layout: Layout, shape: tuple[int, ...]) -> Layout | None:
    """Basic slices: `x[..., :k]`, `x[:, 0]`, `narrow`, `select`, `slice`."""
    numbers = [a for a in node.args[1:] if type(a) is int]
    if node.op == "narrow" and len(numbers) == 3:
        return layout.sliced(numbers[0], numbers[1] % max(layout.sizes[numbers[0]], 1), numbers[1] + numbers[2])
    if node.op == "select" and len(numbers) == 2:
        return _picked(layout, numbers[0], numbers[1])
    if node.op == "slice" and len(node.args) >= 2:
        axis = numbers[0] if type(node.args[1]) is int else 0
        stop = node.args[3] if len(node.args) > 3 else None
        step = node.args[4] if len(node.args) > 4 else 1
        return _ranged(layout, axis, (node.args[2] if len(node.args) > 2 else None, stop, step))
    if node.op == "getitem" and len(node.args) == 2:
        return _indexed(layout, node.args[1] if isinstance(node.args[1], tuple) and node.args[1][:1] != ("slice",) else (node.args[1],))
    return None


def _indexed(layout: Layout, index: tuple[object, ...]) -> Layout | None:
    """`x[i, a:b, ..., None]`."""
    if any(isinstance(i, Ref) for i in index):
        return None
    used = sum(i is not None and i != "..." for i in index)
    expanded: list[object] = []
    for item in index:
        expanded += [("slice", None, None, None)] * (len(layout.sizes) - used) if item == "..." else [item]
    axis = 0
    found: Layout | None = layout
    for item in expanded:
        if found is None:
            return None
        if item is None:
            found, axis = found.inserted(axis), axis + 1
        elif type(item) is int:
            found = _picked(found, axis, item)
        elif isinstance(item, tuple) and item[:1] == ("slice",):
            found, axis = _ranged(found, axis, item[1:]), axis + 1
        else:
            return None
    return found


def _picked(layout: Layout, axis: int, place: int) -> Layout:
    size = layout.sizes[axis]
    return layout.sliced(axis, place % size, place % size + 1).dropped(axis)


def _ranged(layout: Layout, axis: int, ends: Sequence[object]) -> Layout | None:
    start, stop, step = (*ends, None, None)[:3]
    if any(e is not None and type(e) is not int for e in (start, stop, step)) or (isinstance(step, int) and step < 1):
        return None
    first, last, by = slice(start, stop, step).indices(layout.sizes[axis])
    return layout.sliced(axis, first, max(last, first), by)


def piece(flow: Flow, node: Node, layout: Layout) -> Layout | None:
    """The layout of one result of `chunk`, `split` or `unbind`, given that of the whole: `node` is the `getitem` that takes it."""
    call, place = flow.graph.nodes[node.inputs[0]], node.args[1]
    if type(place) is not int or node.shape is None:
        return None
    dim = flow.operand(call, 1 if call.op == "unbind" else 2, "dim", "axis")
    axis = dim if type(dim) is int else 0
    size = layout.sizes[axis]
    if call.op == "unbind":
        return _picked(layout, axis, place)
    given = flow.operand(call, 1, "chunks", "split_size", "split_size_or_sections", "indices_or_sections", "split_sizes")
    if type(given) is int:
        step = -(-size // given) if call.op in ("chunk", "tensor_split") else given
        if call.op == "tensor_split" and size % given:
            return None
        place = place % -(-size // step)
        return layout.sliced(axis, place * step, min(size, (place + 1) * step))
    if isinstance(given, tuple) and _are_numbers(given) and call.op in ("split", "split_with_sizes"):
        start = sum(given[: place % len(given)])
        return layout.sliced(axis, start, start + given[place % len(given)])
    return None


def joined(layouts: Sequence[Layout], axis: int) -> Layout | None:
    """Slices side by side as the one they were cut from, where they follow each other; None where they do not."""
    first = layouts[0]
    axis %= len(first.sizes)
    offset, total = first.offset, 0
    for one in layouts:
        others = [(n, s) for i, (n, s) in enumerate(zip(one.sizes, one.strides, strict=True)) if i != axis]
        mine = [(n, s) for i, (n, s) in enumerate(zip(first.sizes, first.strides, strict=True)) if i != axis]
        if one.whole != first.whole or others != mine or one.strides[axis] != first.strides[axis] or one.offset != offset:
            return None
        offset += one.sizes[axis] * one.strides[axis]
        total += one.sizes[axis]
    sizes = (*first.sizes[:axis], total, *first.sizes[axis + 1 :])
    return Part("", first.whole, first.offset, sizes, first.strides)


__all__ = ["Layout", "is_permuted", "is_whole", "joined", "piece", "viewed", "whole"]
