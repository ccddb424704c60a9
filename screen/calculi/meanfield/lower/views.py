"""Views, parts and joins: entries moved, taken and put side by side."""

from __future__ import annotations

import math
from dataclasses import replace

from screen.calculi.meanfield.lower.axes import Axis, Layout, cut, holds_features, viewed
from screen.calculi.meanfield.lower.context import Read, Reading
from screen.calculi.meanfield.transfer import Join, Part
from screen.calculi.meanfield.values import Logits, Places, Stop, Value
from screen.calculi.meanfield.walk import CUT, MOVED
from screen.graph import Node


class Views(Reading):
    """Reads ops that move entries."""

    def view(self, node: Node) -> Read | None:
        if node.inputs[0] not in self.table:  # something fixed in the shape or type of data
            return None
        rows = self.table[node.inputs[0]]
        if isinstance(rows, Logits):
            return replace(rows, layout=viewed(node, rows.layout) or ())
        if isinstance(rows, Places):
            return rows
        found = self.entries(node.inputs[0])
        if node.op in CUT:
            return self._cut(found)
        if node.op in MOVED:
            found = replace(found, moved=True)
        if node.op == "pad" and node.shape == self.graph.nodes[node.inputs[0]].shape:
            return found
        if node.op == "pad" and all(self.graph.nodes[u].op == "conv1d" for u in self.graph.users[node.index]):
            return self._lengthened(node, found)
        layout = viewed(node, found.layout)
        if layout is None:
            raise Stop(f"`{node.op}` moves entries in a way that has no row in the recursion", node.index)
        whole = _numel(self.graph.nodes[node.inputs[0]].shape)
        if whole == 0:
            raise Stop(f"`{node.op}` reads an empty value", node.index)
        times = _numel(node.shape) / whole
        if times <= 1 or found.common:
            return replace(found, layout=layout)
        settled, slot = self.writer.settled(found), self.writer.slot()
        self.writer.steps.append(Part(settled.slot, slot, times))
        return replace(settled, slot=slot, layout=layout, bent=settled.roots)

    def _cut(self, found: Value) -> Value:
        """The same value, through which no gradient comes back."""
        settled, slot = self.writer.settled(found), self.writer.slot()
        self.writer.steps.append(Part(settled.slot, slot, 0.0))
        return replace(settled, slot=slot, bent=settled.roots)

    def _lengthened(self, node: Node, found: Value) -> Value:
        """Zeros at the ends of a sequence, before a convolution runs over it."""
        layout: list[Axis] = []
        for axis, size in zip(found.layout, node.shape or (), strict=True):
            longer = math.prod(n for n, _ in axis) != size
            if longer and holds_features(axis):
                raise Stop("`pad` puts zeros beside features", node.index)
            layout.append(((size, "t"),) if longer else axis)
        return replace(found, layout=tuple(layout))

    def part(self, node: Node) -> Read | None:
        if node.inputs[0] not in self.table:
            raise Stop(f"`{node.op}` picks entries of something fixed by data", node.index)
        rows = self.table[node.inputs[0]]
        if isinstance(rows, Logits):
            return replace(rows, masked=True) if node.op in ("tril", "triu") else replace(rows, layout=cut(node, rows.layout) or ())
        if isinstance(rows, Places):
            return rows
        found = self.entries(node.inputs[0])
        if node.shape is None:
            return found
        if node.op in ("tril", "triu"):
            raise Stop(f"`{node.op}` of data sets some entries to zero", node.index)
        if len(set(node.inputs)) > 1:
            raise Stop(f"`{node.op}` picks entries by a tensor", node.index)
        above = self.graph.nodes[node.inputs[0]]
        if above.shape is None:
            above = self.graph.nodes[above.inputs[0]]
            layout = self._split(node, found)
        else:
            cropped = cut(node, found.layout)
            if cropped is None:
                raise Stop(f"`{node.op}` takes a part that has no row in the recursion", node.index)
            layout = cropped
        whole = _numel(above.shape)
        if whole == 0:
            raise Stop(f"`{node.op}` takes a part of an empty value", node.index)
        share = _numel(node.shape) / whole
        if share >= 1:
            return replace(found, layout=layout)
        settled, slot = self.writer.settled(found), self.writer.slot()
        self.writer.steps.append(Part(settled.slot, slot, share))
        own = frozenset({slot})
        roots = own | settled.roots if self.linked and (0 in settled.roots or len(settled.roots) > 1) else own
        return replace(settled, slot=slot, layout=layout, roots=roots, bent=roots - own, whole=settled.slot, share=share, turn=found.turn)

    def _split(self, node: Node, found: Value) -> Layout:
        """The layout of one result of split, chunk or unbind."""
        above = self.graph.nodes[node.inputs[0]]
        layout = found.layout
        if above.op == "unbind":
            axis = next((a for a in above.args[1:] if isinstance(a, int)), above.kwarg("dim", 0))
            position = axis % len(layout) if isinstance(axis, int) else 0
            layout = layout[:position] + layout[position + 1 :]
        cropped = cut(node, layout)
        if cropped is None:
            raise Stop(f"`{above.op}` cuts in a way that has no row in the recursion", node.index)
        return cropped

    def join(self, node: Node) -> Value:
        """Parts of one value put together again are that value; else the mean over the parts. What has no entries is left out: an empty cache."""
        inputs = [i for i in node.inputs if _numel(self.graph.nodes[i].shape) > 0]
        if len(inputs) == 1 and self.graph.nodes[inputs[0]].shape == node.shape:
            return self.value(inputs[0])
        for i in inputs:
            if i not in self.table and not (self.sources and self.weights.is_trained(i)):
                raise Stop(f"`{node.op}` puts data beside something else", node.index)
            if i not in self.table:
                self.table[i] = self.begin(self.graph.nodes[i], self.square(i))
        values = [self.value(i) for i in inputs]
        layout = self._joined_layout(node, values)
        whole = {v.whole for v in values}
        plain = all(v.function is None and abs(v.factor) == 1 and v.gaussian for v in values)
        if plain and len(whole) == 1 and None not in whole and abs(sum(v.share for v in values) - 1) < 1e-9:
            slot = whole.pop() or 0
            roots = frozenset({slot}).union(*(v.roots for v in values)) if self.linked else frozenset({slot})
            return replace(values[0], slot=slot, layout=layout, factor=1.0, whole=None, share=1.0, roots=roots, bent=roots)
        settled = [self.writer.settled(v) for v in values]
        sizes = [_numel(self.graph.nodes[i].shape) for i in inputs]
        slot = self.writer.slot()
        self.writer.steps.append(Join(tuple(v.slot for v in settled), tuple(s / sum(sizes) for s in sizes), slot))
        roots = frozenset().union(*(v.roots for v in settled))
        return Value(slot, layout, roots, all(v.gaussian for v in settled), bent=roots)

    def _joined_layout(self, node: Node, values: list[Value]) -> Layout:
        """An axis that grows holds what the parts with more than one entry on it hold: a single token before others is a token."""
        shape, first = node.shape or (), values[0]
        if node.shape is None:
            raise Stop(f"`{node.op}` of data makes several values", node.index)
        if node.op == "stack":
            axis = next((a for a in node.args[1:] if isinstance(a, int)), node.kwarg("dim", 0))
            place = axis % len(shape) if isinstance(axis, int) else 0
            return (*first.layout[:place], ((shape[place], "f"),), *first.layout[place:])
        found: list[tuple[tuple[int, str], ...]] = []
        for axis_, size, *others in zip(first.layout, shape, *(v.layout for v in values[1:]), strict=True):
            have = math.prod(n for n, _ in axis_)
            labels = {label for axis in (axis_, *others) for n, label in axis if n > 1} or {"f"}
            if have != size and len(labels) > 1:
                raise Stop(f"`{node.op}` grows an axis that holds more than one kind of entry", node.index)
            found.append(axis_ if have == size else ((size, labels.pop()),))
        return tuple(found)


def _numel(shape: tuple[int, ...] | None) -> int:
    return math.prod(shape or (1,))


__all__ = ["Views"]
