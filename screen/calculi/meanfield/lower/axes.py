"""Which axes of a value are features and which are tokens, carried through views.

Each axis is a list of factors (size, label), row-major: "f" features, "t" tokens or batch, "k" tokens of the keys in logits, "c" copies. A
reshape flattens them and groups them anew, so that `(tokens·heads, width)` keeps what it was made of. A contraction is over features only where
every factor is "f".
"""

from __future__ import annotations

import math
from collections.abc import Collection

from screen.graph import Node
from screen.structure.axis_order import TURNS, axis_order, regrouped

Factor = tuple[int, str]
Axis = tuple[Factor, ...]
Layout = tuple[Axis, ...]

SAME = frozenset({
    "contiguous", "clone", "detach", "to", "type", "float", "half", "bfloat16", "double", "type_as", "data", "alias", "cpu", "cuda", "lift_fresh",
    "flip", "roll",
})  # fmt: skip
"""A dropout that stands in the graph is on, and is none of them."""
REGROUPS = frozenset({"view", "reshape", "view_as", "reshape_as", "flatten", "unflatten", "unsqueeze", "squeeze", "ravel", "atleast_2d"})
COPIES = frozenset({"expand", "expand_as", "broadcast_to", "repeat_interleave", "repeat"})


def stream_layout(shape: tuple[int, ...], axis: int) -> Layout:
    """All axes are tokens but the one of the features."""
    feature = axis % len(shape)
    return tuple(((n, "f" if i == feature else "t"),) for i, n in enumerate(shape))


def of_state(shape: tuple[int, ...], width: int | None, normed: Collection[int] = ()) -> Layout:
    """Of a state of a stream, whose features stand on the last axis where that has its width, and else behind the samples (images); `normed`: widths
    that its norms have, of tokens before others are laid beside them (the way down and up a U-Net)."""
    last = shape[-1] == width or (len(shape) == 3 and shape[-1] in normed and shape[1] not in (*normed, width))
    return stream_layout(shape, -1 if last else min(1, len(shape) - 1))


def is_features(axis: Axis) -> bool:
    """Whether an axis holds features alone."""
    return all(label == "f" for size, label in axis if size > 1)


def holds_features(axis: Axis) -> bool:
    """Whether an axis holds some features."""
    return any(label == "f" for size, label in axis if size > 1)


def keys_of(axis: Axis) -> Axis:
    """The axis of the keys' tokens in logits."""
    return tuple((size, "k") for size, _ in axis)


def is_keys(axis: Axis) -> bool:
    """Whether an axis of logits is that of all keys."""
    return any(label == "k" for _, label in axis) and all(label == "k" for size, label in axis if size > 1)


def dim_of(node: Node) -> object:
    """The axis that an op over one works on, as it is written; None where none is."""
    return node.kwarg("dim", node.args[1] if len(node.args) > 1 else None)


def features(layout: Layout) -> int:
    """Entries of one token."""
    return math.prod(size for axis in layout for size, label in axis if label == "f")


def regroup(layout: Layout, shape: tuple[int, ...]) -> Layout | None:
    """The factors in order under new sizes; an axis of one entry is tokens. None when a size cuts a factor unevenly."""
    cut = regrouped((factor for axis in layout for factor in axis), shape)
    return None if cut is None else tuple(axis or ((1, "t"),) for axis in cut)


def viewed(node: Node, layout: Layout) -> Layout | None:
    """The layout of a view; None when it is not known."""
    shape = node.shape or ()
    if node.op in SAME:
        return layout
    if node.op in REGROUPS:
        return regroup(layout, shape)
    if node.op in COPIES:
        return _copied(node, layout, shape)
    if node.op in TURNS:
        order = axis_order(node, len(layout))
        return None if order is None else tuple(layout[i] for i in order)
    return None


def _copied(node: Node, layout: Layout, shape: tuple[int, ...]) -> Layout | None:
    padded: list[Axis] = [((1, "t"),)] * (len(shape) - len(layout)) + list(layout)
    found: list[Axis] = []
    for axis, size in zip(padded, shape, strict=True):
        have = 1
        for n, _ in axis:
            have *= n
        if size % have:
            return None
        copies: Axis = ((size // have, "c"),) if size > have else ()
        found.append((*axis, *copies) if node.op == "repeat_interleave" else (*copies, *axis))
    return tuple(found)


def cut(node: Node, layout: Layout) -> Layout | None:
    """The layout of a part: the axis that got shorter keeps its label if it has one, an axis picked by number goes."""
    shape = node.shape or ()
    if len(shape) == len(layout):
        return _shortened(layout, shape)
    if node.op in ("select", "unbind") or (node.op == "getitem" and len(shape) != len(layout)):
        return _picked(node, layout, shape)
    return None


def _shortened(layout: Layout, shape: tuple[int, ...]) -> Layout | None:
    found: list[Axis] = []
    for axis, size in zip(layout, shape, strict=True):
        have = 1
        for n, _ in axis:
            have *= n
        labels = {label for n, label in axis if n > 1}
        if have != size and len(labels) > 1:
            return None
        found.append(axis if have == size else ((size, labels.pop() if labels else "t"),))
    return tuple(found)


def _picked(node: Node, layout: Layout, shape: tuple[int, ...]) -> Layout | None:
    index = node.args[1] if len(node.args) > 1 else None
    if node.op == "select" and isinstance(index, int):
        rest = layout[: index % len(layout)] + layout[index % len(layout) + 1 :]
        return rest if len(rest) == len(shape) else None
    items = index if isinstance(index, tuple) and not (index and index[0] == "slice") else (index,)
    return _indexed(items, layout, shape)


def _indexed(items: tuple[object, ...], layout: Layout, shape: tuple[int, ...]) -> Layout | None:
    """`x[..., None, 2, a:b]`: numbers take an axis away, None puts one in."""
    used = sum(i is not None and i != "..." for i in items)
    left, found = list(layout), list[Axis]()
    for item in items:
        if item == "...":
            for _ in range(len(layout) - used):
                found.append(left.pop(0))
        elif item is None:
            found.append(((1, "t"),))
        elif not left or not (isinstance(item, int) or (isinstance(item, tuple) and item[:1] == ("slice",))):
            return None
        elif isinstance(item, int):
            left.pop(0)
        else:
            found.append(left.pop(0))
    found += left
    return _shortened(tuple(found), shape) if len(found) == len(shape) else None


__all__ = ["Layout", "cut", "dim_of", "features", "holds_features", "is_features", "is_keys", "keys_of", "regroup", "stream_layout", "viewed"]
