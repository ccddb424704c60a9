"""Which rows of a fused weight a slice of its output holds: views are replayed on row numbers, as numpy views without a copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from screen.graph import Node
from screen.ops import CLASSES
from screen.structure.axis_order import TURNS, axis_order
from screen.structure.dataflow import Flow
from screen.structure.initial.laws import CONVOLUTIONS

Rows = npt.NDArray[np.int64]
SMALL = 1 << 18
"""Entries of an array that is copied where a view will not do."""


def rows_of(flow: Flow, weighted: int, slices: list[int]) -> str | None:
    """Rows of the output features of `weighted` that the slices hold together: `first:last`, `first:last of every period`, or None."""
    found = [r for s in slices if (r := _numbers(flow, weighted, s)) is not None]
    if len(found) != len(slices) or not found:
        return None
    return _text(np.unique(np.concatenate(found)))


def rows_of_weight(flow: Flow, parameter: int, node: int) -> str | None:
    """Rows of a parameter's first axis that a slice of it holds; None for all of them, or where it cannot be told."""
    shape = flow.graph.nodes[parameter].shape
    if not shape or parameter == node or all(flow.classes[n] == "view" for n in _way(flow, parameter, node)):
        return None
    start = np.broadcast_to(np.arange(shape[0]).reshape(-1, *(1,) * (len(shape) - 1)), shape)
    rows = _replayed(flow, start, _way(flow, parameter, node))
    return None if rows is None or len(rows) == shape[0] else _text(rows)


def rows_of_axis(flow: Flow, parameter: int, weighted: int, rows: str | None) -> tuple[int, str] | None:
    """The axis of a parameter that the rows `first:last` of the output features of `weighted` cut, and its rows: of [2, in, out], laid out
    as [in, 2·out], those of the first half are row 0 of the first axis. None where they are no rows of one axis."""
    nodes, shape = flow.graph.nodes, flow.graph.nodes[parameter].shape
    operand = next((i for i in nodes[weighted].inputs if parameter == i or _way(flow, parameter, i)), None)
    out = (nodes[weighted].shape or (0,))[features_axis(nodes[weighted])]
    if not shape or operand is None or rows is None or " of every " in rows:
        return None
    first, last = (int(n) for n in rows.split(":"))
    for axis, size in enumerate(shape):
        numbers = np.broadcast_to(np.arange(size).reshape(-1, *(1,) * (len(shape) - 1 - axis)), shape)
        laid = _laid(flow, numbers, _way(flow, parameter, operand))
        if laid is None or laid.shape.count(out) != 1:
            return None
        of = np.moveaxis(laid, laid.shape.index(out), 0).reshape(out, -1)
        chosen = np.unique(of[first:last])
        text = _text(chosen)
        if len(chosen) < size and text is not None and (np.isin(of, chosen).all(1) == np.isin(np.arange(out), np.arange(first, last))).all():
            return axis, text
    return None


def features_axis(node: Node) -> int:
    """The axis of a weighted op's output that holds its features: the last, of a convolution the one before its spatial axes."""
    return -1 - int(node.op[4]) if node.op in CONVOLUTIONS else -1


def _way(flow: Flow, start: int, node: int) -> list[int]:
    """The views from `start` (left out) to `node`, in order; empty where there is no such way."""
    way = []
    while node != start:
        way.append(node)
        inputs = flow.graph.nodes[node].inputs
        if not inputs:
            return []
        node = inputs[0]
    return way[::-1]


def _replayed(flow: Flow, rows: object, way: list[int]) -> Rows | None:
    """The different row numbers at the end of a way."""
    found = _laid(flow, rows, way)
    return np.unique(_thin(found)) if found is not None and found.size else None


def _laid(flow: Flow, rows: object, way: list[int]) -> Rows | None:
    """Row numbers as the views of a way lay them out."""
    for step in way:
        try:
            rows = _replay(flow.graph.nodes[step], rows)
        except (ValueError, TypeError, IndexError, KeyError, AttributeError):
            return None
    return rows if isinstance(rows, np.ndarray) else None


def _text(rows: Rows) -> str | None:
    first, last = int(rows[0]), int(rows[-1]) + 1
    if last - first == len(rows):
        return f"{first}:{last}"
    breaks = np.flatnonzero(np.diff(rows) > 1)
    width = int(breaks[0]) + 1
    period = int(rows[width]) - first
    regular = len(rows) % width == 0 and np.array_equal(rows, np.add.outer(np.arange(len(rows) // width) * period, rows[:width]).ravel())
    return f"{first}:{first + width} of every {period}" if regular else None


def _numbers(flow: Flow, weighted: int, node: int) -> Rows | None:
    """The row numbers behind one slice."""
    shape, way = flow.graph.nodes[weighted].shape, _way(flow, weighted, node)
    if not shape or not way:
        return None
    axis = features_axis(flow.graph.nodes[weighted])
    features = np.arange(shape[axis]).reshape(-1, *(1,) * (-1 - axis))
    return _replayed(flow, np.broadcast_to(features, shape), way)  # tokens on zero strides: nothing is copied


def _thin(rows: Rows) -> Rows:
    """One entry along axes of stride zero: the same numbers again."""
    return rows[tuple(slice(0, 1) if s == 0 else slice(None) for s in rows.strides)]


def _replay(node: Node, rows: object) -> object:
    """One view or slice. Raises what numpy raises where it does not fit, and `KeyError` for an op without a row here."""
    if node.op == "getitem" and isinstance(rows, tuple | list):
        return rows[node.args[1]]  # type: ignore[call-overload]
    if not isinstance(rows, np.ndarray):
        raise TypeError("not one tensor")
    return rows if CLASSES.get(node.op) == "activation" and node.op != "glu" else _VIEWS[node.op](node, rows)


def _reshaped(rows: Rows, shape: tuple[int, ...] | None) -> Rows:
    if rows.size <= SMALL:
        return rows.reshape(shape or ())
    view = rows.view()
    view.shape = shape or ()  # raises where a copy would be needed
    return view


def _axis(node: Node, default: int, position: int = 1) -> int:
    value = node.args[position] if len(node.args) > position else node.kwarg("dim", default)
    return int(value)  # type: ignore[call-overload,no-any-return]


def _index(item: object) -> Any:
    if isinstance(item, tuple) and item and item[0] == "slice":
        return slice(*item[1:])
    if isinstance(item, tuple):
        return tuple(_index(i) for i in item)
    if item is None or isinstance(item, int) or item is Ellipsis:
        return item
    if item in ("...", "Ellipsis", "ellipsis"):
        return Ellipsis
    raise TypeError("an index that is no slice")


def _split(node: Node, rows: Rows) -> tuple[Rows, ...]:
    axis = _axis(node, 0, 2)
    given = node.args[1] if len(node.args) > 1 else node.kwarg("split_size_or_sections", node.kwarg("chunks"))
    total = rows.shape[axis]
    if node.op in ("chunk", "tensor_split") and isinstance(given, int):
        given = -(-total // given)
    sizes = given if isinstance(given, tuple) else (given,) * (total // int(given))  # type: ignore[call-overload]
    ends = np.cumsum([int(s) for s in sizes])
    return tuple(np.split(rows, ends[:-1], axis=axis))


def _same(node: Node, rows: Rows) -> Rows:
    return rows


def _turned(node: Node, rows: Rows) -> Rows:
    order = axis_order(node, rows.ndim)
    if order is None:
        raise TypeError("its axes are not known")
    return rows.transpose(order)


def _shape(node: Node, rows: Rows) -> Rows:
    return _reshaped(rows, node.shape)


_VIEWS: dict[str, Callable[[Node, Rows], object]] = {
    **dict.fromkeys(("view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze"), _shape),
    **dict.fromkeys(("contiguous", "clone", "to", "type", "float", "half", "bfloat16", "dropout", "detach", "type_as", "alias", "add"), _same),
    **dict.fromkeys(TURNS, _turned),
    "getitem": lambda node, rows: rows[_index(node.args[1])],
    "select": lambda node, rows: rows.take(_axis(node, 0, 2), axis=_axis(node, 0)),
    "narrow": lambda node, rows: rows.take(np.arange(int(node.args[2]), int(node.args[2]) + int(node.args[3])), axis=_axis(node, 0)),  # type: ignore[call-overload]
    "unbind": lambda node, rows: tuple(np.moveaxis(rows, _axis(node, 0), 0)),
    **dict.fromkeys(("split", "chunk", "split_with_sizes", "tensor_split"), _split),
}
