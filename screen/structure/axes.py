"""Which axes of a value hold features, and which hold tokens or samples.

Every axis is a product of atoms `(size, holds features?)`, outer first. Atoms are followed through views and sums; a lookup in a table
makes its last axis features, a map by a weight keeps what is features under it and makes the axis that it contracts features where
nothing was known. A float argument of three axes is taken as [samples, tokens, features] until a convolution says otherwise, or weights
that contract its tokens alone (a series of each variate, mapped as a whole); where statements differ, and where no axis holds features,
nothing is known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from screen.graph import Node
from screen.structure.axis_order import TURNS, axis_order, regrouped
from screen.structure.dataflow import Flow, axes_of
from screen.structure.initial.laws import ADDED

ALONG = ("avg_pool", "max_pool", "lp_pool", "adaptive_", "cum", "logcumsumexp", "interpolate", "upsample")
"""How the names of ops begin that mix entries along axes and keep what each axis is."""
Atoms = tuple[tuple[int, bool], ...]


@dataclass(frozen=True)
class Layout:
    """The atoms of each axis; `sure`: a weight or a table said so."""

    axes: tuple[Atoms, ...]
    sure: bool

    def holds(self, axis: int) -> bool:
        """Whether an axis (negative) is features and nothing else; an axis of size 1 is whatever is asked."""
        return all(flag for _, flag in self.axes[axis])

    def any(self, axis: int) -> bool:
        """Whether features are in an axis."""
        return any(flag for _, flag in self.axes[axis])

    @cached_property
    def known(self) -> bool:
        """Whether features are in some axis."""
        return any(flag for atoms in self.axes for _, flag in atoms)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return tuple([math.prod([n for n, _ in atoms]) for atoms in self.axes])


def plain(shape: tuple[int, ...], features: tuple[int, ...], sure: bool) -> Layout:
    """The given axes (negative) are features, the others not."""
    marked = {a % len(shape) for a in features if -len(shape) <= a < 0}
    return Layout(tuple(((n, i in marked),) if n != 1 else () for i, n in enumerate(shape)), sure)


@dataclass(frozen=True)
class Features:
    """The layouts of a graph."""

    flow: Flow

    @cached_property
    def layouts(self) -> tuple[Layout | None, ...]:
        """One for each node; None where it is not known."""
        found = self._table(True)
        contracted = {self._contracts(node, found) for node in self.flow.graph.nodes}
        return self._table(False) if False in contracted and True not in contracted else found

    def _table(self, assumed: bool) -> tuple[Layout | None, ...]:
        """`assumed`: float arguments of three axes are [samples, tokens, features]."""
        table: list[Layout | None] = []
        for node in self.flow.graph.nodes:
            found = self._layout(node, table) if assumed or node.op != "input" else None
            table.append(found if found is not None and found.known and (node.shape is None or found.shape == node.shape) else None)
        return tuple(table)

    def _contracts(self, node: Node, table: Sequence[Layout | None]) -> bool | None:
        """Whether the axis that a weight contracts is one of the features that nothing but the assumption says; None where no weight contracts such a
        value."""
        if not self.flow.data[node.index] or not (self.flow.classes[node.index] == "weighted" or self.flow.weighted[node.index]):
            return None
        source = next((table[i] for i in node.inputs if self.flow.data[i]), None)
        if source is None or source.sure or node.op == "embedding":
            return None
        axis = self._contracted(node, len(source.axes))
        return source.any(axis) if -len(source.axes) <= axis else None

    def maps_others(self, node: Node) -> bool:
        """Whether a weight contracts an axis of a value that is known to hold no features: a map over tokens."""
        source = next((i for i in node.inputs if self.flow.data[i]), None)
        rank = len(self.flow.graph.nodes[source].shape or ()) if source is not None else 0
        return source is not None and rank > 0 and self.spans_others(source, (self._contracted(node, rank),))

    def _contracted(self, node: Node, rank: int) -> int:
        """The axis (negative) that a weight contracts: of a convolution its channels."""
        if node.op.startswith("conv"):
            return -1 - _spatial(node, rank)
        factors = node.inputs[1:] if node.op in ADDED else node.inputs
        trained_first = self.flow.classes[node.index] == "product" and bool(factors) and self.flow.trained[factors[0]]
        return -2 if trained_first and rank > 1 else -1

    def spans_others(self, node: int, axes: tuple[int, ...]) -> bool:
        """Whether some of these axes of a value are known to hold no features: tokens, samples."""
        layout = self.layouts[node] or self._of_numbers(node)
        return layout is not None and any(-len(layout.axes) <= a < 0 and not layout.any(a) and layout.axes[a] != () for a in axes)

    def _of_numbers(self, node: int) -> Layout | None:
        """The layout of numbers that a map makes, one of each token, and of what is made of them entry by entry: no axis of it holds features."""
        nodes, shape = self.flow.graph.nodes, self.flow.graph.nodes[node].shape
        while not self.flow.weighted[node]:
            data = [i for i in dict.fromkeys(nodes[node].inputs) if self.flow.data[i]]
            if len(data) != 1 or nodes[data[0]].shape != shape or self.flow.classes[node] == "view":
                return None
            node = data[0]
        source = next((self.layouts[i] for i in nodes[node].inputs if self.flow.data[i]), None)
        if source is None or not shape or len(source.axes) != len(shape):
            return None
        axis = self._contracted(nodes[node], len(shape))
        kept = all(source.shape[a] == shape[a] and not source.any(a) for a in range(-len(shape), 0) if a != axis)
        return replace(source, axes=(*source.axes[:axis], (), *source.axes[axis:][1:])) if shape[axis] == 1 and source.any(axis) and kept else None

    def holds(self, node: int, axes: tuple[int, ...]) -> bool:
        """Whether all of these axes (negative) of a value are known to hold features and nothing else."""
        layout = self.layouts[node]
        return layout is not None and layout.sure and all(-len(layout.axes) <= a < 0 and layout.holds(a) for a in axes)

    def _layout(self, node: Node, table: list[Layout | None]) -> Layout | None:
        kind = self.flow.classes[node.index]
        if node.op == "input":
            return plain(node.shape, (-1,), False) if node.shape and len(node.shape) == 3 and self.flow.is_float(node) else None
        if not self.flow.data[node.index] or not node.inputs:
            return None
        if kind == "weighted" or self.flow.weighted[node.index]:
            return self._mapped(node, table)
        if kind == "product" or node.op == "scaled_dot_product_attention":
            return self._mixed(node, table)
        if kind in ("view", "part"):
            source = table[node.inputs[0]]
            return _viewed(self.flow, node, source) if source is not None else None
        if kind in ("join", "statistic") or node.op in ("sum", "mean") or (kind == "mixing" and node.op.startswith(ALONG)):
            return self._reshaped(node, table)
        return self._joined(node, table)

    def _joined(self, node: Node, table: list[Layout | None]) -> Layout | None:
        """Ops entry by entry: what the operands of the same shape agree on."""
        graph = self.flow.graph
        found = [lay for i in dict.fromkeys(node.inputs) if self.flow.data[i] and graph.nodes[i].shape == node.shape and (lay := table[i])]
        sure = [lay for lay in found if lay.sure] or found
        if not sure or any(not _agree(sure[0], other) for other in sure[1:]):
            return None
        return sure[0]

    def _reshaped(self, node: Node, table: list[Layout | None]) -> Layout | None:
        """Reductions that keep their axes, and `cat`: axes of another size hold features where they did before."""
        first = next((lay for i in node.inputs if self.flow.data[i] and (lay := table[i]) is not None), None)
        if first is None or node.shape is None:
            return None
        if node.op == "stack":
            return None
        return _resized(first, node.shape) if len(first.axes) == len(node.shape) else _dropped(self.flow, node, first)

    def _mapped(self, node: Node, table: list[Layout | None]) -> Layout | None:
        """A map by a weight."""
        shape, graph = node.shape, self.flow.graph
        data = [i for i in node.inputs if self.flow.data[i]]
        if not shape:
            return None
        source = table[data[0]] if data else None
        if node.op.startswith("conv"):
            return self._convolved(node, shape, source)
        rank = len(graph.nodes[data[0]].shape or ()) if data else 0
        if source is None or rank != len(shape) or node.op == "embedding":
            return plain(shape, (-1,), True)
        axis = self._contracted(node, rank)
        made = ((shape[axis], source.any(axis)),) if shape[axis] != 1 else ()
        axes = [((size, True),) if not atoms and size != 1 else atoms for atoms, size in zip(source.axes, shape, strict=True)]  # of the weight alone
        axes[axis] = made
        return Layout(tuple(axes), source.sure or source.any(axis))

    def _convolved(self, node: Node, shape: tuple[int, ...], source: Layout | None) -> Layout:
        channel = -1 - _spatial(node, len(shape))
        if source is None or not source.sure or len(source.axes) != len(shape):
            return plain(shape, (channel,), True)
        made = ((shape[channel], source.any(channel)),) if shape[channel] != 1 else ()
        axes = _resized(source, shape).axes  # what else an axis holds stays: a shuffle of pixels puts some features between its places
        found = Layout((*axes[:channel], made, *axes[channel:][1:]), True)
        groups = self.flow.operand(node, 7 if "transpose" in node.op else 6, "groups") or 1
        kept = _by_groups(source.axes[channel], groups, shape[channel]) if isinstance(groups, int) and groups > 1 else None
        return found if kept is None else replace(found, axes=(*found.axes[:channel], kept, *found.axes[channel:][1:]))

    def _mixed(self, node: Node, table: list[Layout | None]) -> Layout | None:
        """A product of two values: rows of the first, columns of the second, and what both hold before."""
        data = [i for i in node.inputs if self.flow.data[i]]
        shape = node.shape
        first, second = (table[data[0]], table[data[-1]]) if len(data) >= 2 else (None, None)
        if shape is None or first is None or second is None or len(shape) < 2 or len(first.axes) != len(shape) or len(second.axes) != len(shape):
            return None
        rows, columns = _resized(first, shape).axes, _resized(second, shape).axes  # a size of 1 is spread
        before = [one if any(flag for _, flag in one) else other for one, other in zip(rows[:-2], columns[:-2], strict=True)]
        return Layout((*before, rows[-2], columns[-1]), first.sure and second.sure)


def _spatial(node: Node, rank: int) -> int:
    """How many axes of places a convolution has."""
    return {"conv1d": 1, "conv2d": 2, "conv3d": 3}.get(node.op.replace("_transpose", ""), max(rank - 2, 1))


def _by_groups(atoms: Atoms, groups: int, size: int) -> Atoms | None:
    """The channels behind a map of each group apart, where the groups are the outer atoms in front of it: of each series its own, of each channel all
    series. None where they cut an atom."""
    kept, count = 0, 1
    while count < groups and kept < len(atoms):
        count, kept = count * atoms[kept][0], kept + 1
    if count != groups or size % groups:
        return None
    rest = atoms[kept:]
    return (*atoms[:kept], *(((size // groups, not rest or any(flag for _, flag in rest)),) if size != groups else ()))


def _agree(one: Layout, other: Layout) -> bool:
    if len(one.axes) != len(other.axes):
        return False
    return all(one.holds(a) == other.holds(a) or not one.axes[a] or not other.axes[a] for a in range(-len(one.axes), 0))


def _resized(layout: Layout, shape: tuple[int, ...]) -> Layout:
    """The same axes, some of another size."""
    axes = []
    for atoms, size in zip(layout.axes, shape, strict=True):
        same = math.prod(n for n, _ in atoms) == size
        axes.append(atoms if same else () if size == 1 else ((size, any(flag for _, flag in atoms)),))
    return replace(layout, axes=tuple(axes))


def _dropped(flow: Flow, node: Node, layout: Layout) -> Layout | None:
    """A reduction without `keepdim`."""
    gone = axes_of(flow.operand(node, 1, "dim", "axis"), len(layout.axes))
    kept = tuple(a for i, a in enumerate(layout.axes) if i - len(layout.axes) not in gone)
    return replace(layout, axes=kept) if node.shape is not None and len(kept) == len(node.shape) else None


def _windowed(node: Node, source: Layout) -> Layout | None:
    """Windows of places: `F.unfold` lays those of one window behind its channels, `F.fold` adds them back, `x.unfold` gives them an axis of their
    own."""
    shape, rank = node.shape or (), len(source.axes)
    if node.op == "fold":
        return plain(shape, (1 - len(shape),), source.sure) if shape and source.any(1 - rank) else None
    if len(shape) == rank + 1:
        flags = [source.any(a) for a in range(-rank, 0)]
        given = next((a for a in (*node.args[1:], dict(node.kwargs).get("dimension")) if isinstance(a, int)), 0)
        return plain(shape, tuple(a - len(shape) for a, flag in enumerate([*flags, flags[given % rank]]) if flag), source.sure)
    if rank != 4 or len(shape) != 3 or source.shape[1] == 0:
        return None
    places = ((shape[1] // source.shape[1], False),) if shape[1] != source.shape[1] else ()
    return replace(source, axes=(source.axes[0], (*source.axes[1], *places), ((shape[2], False),) if shape[2] != 1 else ()))


# -- views ----------------------------------------------------------------------------------------------------------------------------

_RESHAPES = frozenset({"view", "reshape", "flatten", "unflatten", "ravel", "view_as", "reshape_as", "unsqueeze", "squeeze"})


def _viewed(flow: Flow, node: Node, source: Layout) -> Layout | None:
    if node.shape is None:
        return source  # `split`, `chunk`: the parts are read by `getitem`
    rank = len(source.axes)
    if node.op in TURNS:
        order = axis_order(node, rank)
        return None if order is None else replace(source, axes=tuple(source.axes[i] for i in order))
    if node.op in _RESHAPES:
        cut = regrouped((atom for axis in source.axes for atom in axis), node.shape)
        return None if cut is None else replace(source, axes=cut)
    if node.op in ("unfold", "fold"):
        return _windowed(node, source) if source.sure else None
    kept = _indexed(flow, node, source)
    if kept is not None:
        return _resized(kept, node.shape) if len(kept.axes) == len(node.shape) else None
    return _resized(source, node.shape) if len(node.shape) == rank else None


def _indexed(flow: Flow, node: Node, source: Layout) -> Layout | None:
    """One place along an axis, which is gone then (`unbind`, `select`, `x[0]`, `x[:, 0, None]`); None where an axis may be gone in another way."""
    above = flow.graph.nodes[node.inputs[0]]
    rank = len(source.axes)
    if node.op == "select" or above.op == "unbind":
        given = flow.operand(above if above.op == "unbind" else node, 1, "dim")
        gone = (int(given) if isinstance(given, int) else 0) % rank
        return replace(source, axes=(*source.axes[:gone], *source.axes[gone + 1 :]))
    if node.op != "getitem" or len(node.args) < 2 or above.shape is None:
        return None
    index = node.args[1]
    items = list(index) if isinstance(index, tuple) and index[:1] != ("slice",) else [index]
    taken = sum(i is not None and i != "..." for i in items)
    axes: list[Atoms] = []
    left = list(source.axes)
    for item in [*items, *(() if "..." in items else ("...",))]:
        if item == "...":
            axes += [left.pop(0) for _ in range(rank - taken)]
        elif item is None:
            axes.append(())
        elif isinstance(item, tuple) and item[:1] == ("slice",):
            axes.append(left.pop(0))
        elif type(item) is int:
            left.pop(0)
        else:
            return None
    return replace(source, axes=tuple(axes))


__all__ = ["Features", "Layout", "plain"]
