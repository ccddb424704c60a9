"""Cosines whose lengths are divided out of a product: q·k over ‖q‖‖k‖, at once or one after the other, for whatever queries and keys.

Which row of which value an entry is made of is told by numbers: each entry of the value has a random one, and a row is known by the sum of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from screen.calculi.bounds.interpreter import Walk
from screen.graph import Node, Ref
from screen.structure.axis_order import TURNS, axis_order
from screen.structure.dataflow import RESHAPES, SAME_SHAPE, axes_of, number
from screen.structure.norms.statistics import Stat

Numbers = npt.NDArray[np.int64]
MOST = 1 << 21
"""Entries of a value that is looked at."""
DEEP = 16
"""Ops from a quotient down to what it is made of."""


@dataclass(frozen=True)
class Lengths:
    """factor · |q·k| · Π ‖row‖^degree, entry by entry; rows are arrays of numbers, of the value's shape."""

    factor: float = 1.0
    pair: tuple[Numbers, Numbers] | None = None
    rows: tuple[tuple[Numbers, float], ...] = ()
    off: int = 0
    """1 where the value may be larger than that, −1 where it may be smaller."""

    def power(self, exponent: float) -> Lengths | None:
        """To a power; of a product of rows the first one alone."""
        if self.pair is not None and exponent != 1.0:
            return None
        sign = 1 if exponent > 0 else -1
        return replace(self, factor=self.factor**exponent, rows=tuple((r, d * exponent) for r, d in self.rows), off=self.off * sign)

    def times(self, other: Lengths, shape: tuple[int, ...]) -> Lengths | None:
        """Their product, spread over a shape."""
        if (self.pair is not None and other.pair is not None) or self.off * other.off < 0:
            return None
        one, two = self.spread(shape), other.spread(shape)
        return Lengths(one.factor * two.factor, one.pair or two.pair, one.rows + two.rows, one.off or two.off)

    def spread(self, shape: tuple[int, ...]) -> Lengths:
        """The same over a shape."""
        pair = None if self.pair is None else (np.broadcast_to(self.pair[0], shape), np.broadcast_to(self.pair[1], shape))
        return replace(self, pair=pair, rows=tuple((np.broadcast_to(r, shape), d) for r, d in self.rows))

    @property
    def most(self) -> float | None:
        """What |q·k| over both lengths is at most, times the factor; None where it is not that."""
        if self.pair is None or self.off > 0 or len(self.rows) != 2 or any(abs(d + 1.0) > 1e-9 for _, d in self.rows):
            return None
        (one, _), (two, _) = self.rows
        ways = ((one, two), (two, one))
        return self.factor if any(np.array_equal(self.pair[0], a) and np.array_equal(self.pair[1], b) for a, b in ways) else None


def cosine(walk: Walk, node: Node) -> float | None:
    """The largest |entry| of a quotient that is a cosine, times a number; None where it is none."""
    found = _read(walk, node.index, DEEP)
    return None if found is None else found.most


def _read(walk: Walk, index: int, steps: int) -> Lengths | None:
    node = walk.graph.nodes[index]
    if not steps or node.shape is None or math.prod(node.shape) > MOST or not walk.flow.data[index] or index not in walk.branch.members:
        return None
    reading = walk.branch.norms.readings[index]
    if isinstance(reading, Stat):
        return _length(walk, node, reading)
    if node.op in ("mul", "div", "true_divide"):
        return _quotient(walk, node, node.shape, steps)
    if node.op in ("sqrt", "rsqrt", "reciprocal"):
        found = _read(walk, node.inputs[0], steps - 1)
        return None if found is None else found.power({"sqrt": 0.5, "rsqrt": -0.5, "reciprocal": -1.0}[node.op])
    if node.op in ("clamp", "clamp_min", "add", "maximum", "max"):
        return _raised(walk, node, steps)
    if node.op in ("matmul", "bmm", "mm", "sum"):
        return _product(walk, node, node.shape, steps)
    return _viewed(walk, node, steps)


def _viewed(walk: Walk, node: Node, steps: int) -> Lengths | None:
    found = _read(walk, node.inputs[0], steps - 1) if len(set(node.inputs)) == 1 else None
    if found is None:
        return None
    arrays = [_replayed(node, a) for a in (*(found.pair or ()), *(r for r, _ in found.rows))]
    kept = [a for a in arrays if a is not None]
    if len(kept) != len(arrays):
        return None
    count = len(kept) - len(found.rows)
    pair = (kept[0], kept[1]) if count else None
    return replace(found, pair=pair, rows=tuple((a, d) for a, (_, d) in zip(kept[count:], found.rows, strict=True)))


def _length(walk: Walk, node: Node, stat: Stat) -> Lengths | None:
    """A power of the length of a value's rows."""
    entries = _entries(walk, stat.source)
    if entries is None or stat.family != "square" or stat.centred is not None or not stat.scale or stat.scale < 0:
        return None
    size = math.prod(entries.shape[a] for a in stat.axes) if stat.average else 1
    rows = entries.sum(stat.axes)
    if rows.size != math.prod(node.shape or ()):
        return None
    above = 0 if not stat.eps else 1 if stat.degree > 0 else -1
    return Lengths(stat.scale * size ** (-stat.degree / 2), None, ((rows.reshape(node.shape or ()), stat.degree),), above)


def _quotient(walk: Walk, node: Node, shape: tuple[int, ...], steps: int) -> Lengths | None:
    sides: list[Lengths | None] = []
    for argument in node.args[:2]:
        value = number(argument)
        sides.append(_read(walk, argument.node, steps - 1) if isinstance(argument, Ref) else Lengths(abs(value)) if value else None)
    if len(sides) != 2 or node.kwarg("rounding_mode") is not None:
        return None
    left, right = sides
    if node.op != "mul":
        right = None if right is None else right.power(-1.0)
    return None if left is None or right is None else left.times(right, shape)


def _raised(walk: Walk, node: Node, steps: int) -> Lengths | None:
    """Lengths, or a number where they are smaller; or with one added."""
    if len(node.inputs) != 1 or len(node.args) + len(node.kwargs) != 2 or node.args[0] != Ref(node.inputs[0]):
        return None
    low = number(walk.flow.operand(node, 1, "min", "other"))
    found = _read(walk, node.inputs[0], steps - 1)
    if found is None or found.pair is not None or low is None or low < 0 or found.off < 0:
        return None
    return replace(found, off=1)


def _product(walk: Walk, node: Node, shape: tuple[int, ...], steps: int) -> Lengths | None:
    """q·k: of two matrices, or of entries that are summed. Over one entry it is a product of what is read."""
    if node.op == "sum":
        above = walk.graph.nodes[node.inputs[0]]
        if above.op != "mul" or len(above.inputs) != 2 or above.shape is None or math.prod(above.shape) > MOST:
            return None
        axes = axes_of(walk.flow.operand(node, 1, "dim", "axis"), len(above.shape))
        both = [_entries(walk, i) for i in above.inputs]
        ids = [np.broadcast_to(e, above.shape).sum(axes).reshape(shape) for e in both if e is not None]
        return Lengths(1.0, (ids[0], ids[1])) if len(ids) == 2 else None
    if len(node.inputs) != 2:
        return None
    contracted = (walk.graph.nodes[node.inputs[0]].shape or (0,))[-1]
    if contracted == 1:
        sides = [_read(walk, i, steps - 1) for i in node.inputs]
        return None if sides[0] is None or sides[1] is None else sides[0].times(sides[1], shape)
    left, right = (_entries(walk, i) for i in node.inputs)
    if left is None or right is None or min(left.ndim, right.ndim) < 2:
        return None
    return Lengths(1.0, (left.sum(-1)[..., :, None], right.sum(-2)[..., None, :])).spread(shape)


def _entries(walk: Walk, index: int) -> Numbers | None:
    """A random number for each entry of the value that a node is views of."""
    way, node = list[Node](), walk.graph.nodes[index]
    while len(set(node.inputs)) == 1 and _is_moved(node) and walk.graph.nodes[node.inputs[0]].shape is not None:
        way.append(node)
        node = walk.graph.nodes[node.inputs[0]]
    if node.shape is None or math.prod(node.shape) > MOST:
        return None
    found: Numbers | None = np.random.default_rng(node.index).integers(-(1 << 62), 1 << 62, node.shape)
    for step in reversed(way):
        found = None if found is None else _replayed(step, found)
    return found


def _is_moved(node: Node) -> bool:
    """Whether it holds entries of what it reads, in an order that can be replayed."""
    known = node.op in SAME_SHAPE or node.op in RESHAPES or node.op in TURNS or node.op == "broadcast_to"
    return node.shape is not None and (known or _indices(node) is not None)


def _indices(node: Node) -> tuple[object, ...] | None:
    """Slices and new axes of `x[..., None]`."""
    if node.op != "getitem" or len(node.args) != 2:
        return None
    given = node.args[1] if isinstance(node.args[1], tuple) and node.args[1][:1] != ("slice",) else (node.args[1],)
    found: list[object] = []
    for item in given:
        if isinstance(item, tuple) and item[:1] == ("slice",) and all(e is None or type(e) is int for e in item[1:]):
            found.append(slice(*item[1:]))
        elif item is None or type(item) is int:
            found.append(item)
        elif item == "...":
            found.append(...)
        else:
            return None
    return tuple(found)


def _replayed(node: Node, numbers: Numbers) -> Numbers | None:
    """What a view, a slice or a spread makes of them; None where it is none."""
    shape = node.shape or ()
    if node.op in SAME_SHAPE:
        return numbers
    if node.op in TURNS:
        order = axis_order(node, numbers.ndim)
        return None if order is None else numbers.transpose(order)
    found: Numbers | None = None
    if node.op in RESHAPES or node.op == "broadcast_to":
        found = numbers.reshape(shape) if numbers.size == math.prod(shape) else np.broadcast_to(numbers, shape)
    elif (indices := _indices(node)) is not None:
        found = numbers[indices]  # type: ignore[index]
    return found if found is not None and found.shape == shape else None


__all__ = ["cosine"]
