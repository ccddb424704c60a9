"""Weights, and softmax attention."""

from __future__ import annotations

import math
from dataclasses import replace

from screen.calculi.meanfield.attention import Softmax
from screen.calculi.meanfield.lower.axes import Layout, dim_of, holds_features, is_features, is_keys, keys_of
from screen.calculi.meanfield.lower.context import BIASED, MASKED, Read
from screen.calculi.meanfield.lower.tables import PLACED, Tables
from screen.calculi.meanfield.transfer import Attend, Linear, Part
from screen.calculi.meanfield.values import Logits, Places, Stop, Value
from screen.graph import Node, Ref
from screen.structure.initial.laws import CONVOLUTIONS

FEWEST_TAPS = 9
"""Inputs of a convolution from which its output counts as Gaussian over channels: 7×7 and 3×3 for one channel each do."""
TAPS = "the ends of a sequence are left out where a convolution runs over it"


class Maps(Tables):
    """Reads contractions: by a weight, of queries with keys, of rows with values."""

    def weighted(self, node: Node) -> Value:
        if node.op in CONVOLUTIONS:
            return self._convolution(node)
        if node.op != "linear":
            raise Stop(f"`{node.op}` has no row in the recursion", node.index)
        bias = node.args[2] if len(node.args) > 2 else node.kwarg("bias")
        return self._map(node, node.inputs[0], node.inputs[1], bias)

    def _map(self, node: Node, source: int, weight: int, bias: object = None, experts: int = 1) -> Value:
        """x·W with entries of W independent: contraction over the last axis of x. `experts`: as in `Linear`."""
        value = self.writer.settled(self.value(source))
        if not is_features(value.layout[-1]):
            raise Stop("a weight acts over tokens", node.index)
        square = self.square(weight)
        inside, outside = (self.graph.nodes[source].shape or (1,))[-1], (node.shape or (1,))[-1]
        shift = self.bias(bias.node) if isinstance(bias, Ref) else 0.0
        self._note_use(weight)
        name = self.graph.nodes[self.weights.parameter(weight) or weight].name
        slot = self.writer.slot()
        outputs = _entries(self.graph.nodes[bias.node]) if isinstance(bias, Ref) else 0
        entries = _entries(self.graph.nodes[weight])
        made = Linear(value.slot, slot, square * inside, square * outside, shift, (name,), entries, outputs, inside, experts)
        self.writer.steps.append(made)
        return Value(slot, (*value.layout[:-1], ((outside, "f"),)), frozenset({slot}), common=value.common)

    def _convolution(self, node: Node) -> Value:
        """y_i = Σ_k W_k x_{i+k}: each tap has weights of its own, so that it is a linear map of as many inputs as it has taps times channels.

        Two outputs that read one input read it through different taps: pairs of tokens keep their cosine, whatever their distance."""
        source, weight = node.inputs[0], node.inputs[1]
        value, known = self.writer.settled(self.value(source)), self.graph.nodes[source].shape or ()
        shape, taps = node.shape or (), (self.graph.nodes[weight].shape or (1, 1, 1))[1:]
        beside = (*value.layout[:1], *value.layout[2:])
        if not is_features(value.layout[1]) or len(known) != len(shape):
            raise Stop("a convolution over features", node.index)
        if any(map(holds_features, beside)):
            raise Stop("a convolution of some of the features, as of each head", node.index)
        if any(_number(node, p, name, 0) != 0 for p, name in ((7, "output_padding"),)):
            raise Stop("a convolution with a padded output", node.index)
        bias = node.args[2] if len(node.args) > 2 else node.kwarg("bias")
        shift = self.bias(bias.node) if isinstance(bias, Ref) else 0.0
        self._note_use(weight)
        inside = self.square(weight) * math.prod(taps) * _kept(node, known, shape, taps[1:])
        outside = inside * shape[1] / known[1] * math.prod(shape[2:]) / math.prod(known[2:])
        name, slot = self.graph.nodes[self.weights.parameter(weight) or weight].name, self.writer.slot()
        outputs = _entries(self.graph.nodes[bias.node]) if isinstance(bias, Ref) else 0
        entries = _entries(self.graph.nodes[weight])
        self.writer.steps.append(Linear(value.slot, slot, inside, outside, shift, (name,), entries, outputs, known[1]))
        self.assumptions.add(TAPS)
        layout = (value.layout[0], ((shape[1], "f"),), *(((n, "t"),) for n in shape[2:]))
        return Value(slot, layout, frozenset({slot}), gaussian=math.prod(taps) >= FEWEST_TAPS)

    def _note_use(self, weight: int) -> None:
        """A weight that is used twice makes two values that depend on each other."""
        key = self.weights.slice_of(weight)
        if key in self.used:
            raise Stop("one weight is used twice in a block", weight)
        self.used.add(key)

    def product(self, node: Node) -> Read:
        inputs = list(node.inputs)
        bias = None
        alpha, beta = (node.kwarg(k, 1) for k in ("alpha", "beta"))
        if node.op in ("addmm", "baddbmm"):
            bias, inputs = (None if beta == 0 else Ref(inputs[0])), inputs[1:]
        if len(inputs) != 2 or node.op not in ("matmul", "bmm", "mm", "addmm", "baddbmm"):
            raise Stop(f"`{node.op}` has no row in the recursion", node.index)
        left, right = (self.table.get(i) for i in inputs)
        if isinstance(left, Value) and right is None and self.weights.is_trained(inputs[1]) and alpha == 1 and beta in (0, 1):
            return self._map(node, inputs[0], inputs[1], bias)
        if isinstance(left, Logits) and left.rows and isinstance(right, Value) and bias is None:
            return self._attend(node, left, self.value(inputs[1]), right.layout[-2], right.layout[-1])
        if isinstance(left, Value) and right is None and bias is None and alpha == 1:
            return self._by_place(node, self.value(inputs[0]), inputs[1])
        if isinstance(left, Value) and isinstance(right, Value):
            made = self._logits(node, self.value(inputs[0]), self.value(inputs[1]))
            return self._biased(made, bias, float(alpha) if isinstance(alpha, int | float) else 1.0)
        raise Stop(f"`{node.op}` has no row in the recursion for these operands", node.index)

    def _logits(self, node: Node, query: Value, key: Value) -> Logits:
        features = query.layout[-1], key.layout[-2]
        rows = query.layout[-2]  # heads that share keys may stand in one axis with the tokens
        if not all(map(is_features, features)) or holds_features(key.layout[-1]) or (holds_features(rows) and all(label == "f" for _, label in rows)):
            raise Stop("a product of two data values that is no q·k over features", node.index)
        query, key = self.writer.settled(query), self.writer.settled(key)
        key = self._shared(key, _heads(query.layout) / _heads((*key.layout[:-2], key.layout[-1]), "fc"))
        width = math.prod(n for n, _ in query.layout[-1])
        return Logits(query, key, width, 1.0, _heads(query.layout), layout=(*query.layout[:-1], keys_of(key.layout[-1])))

    def _shared(self, value: Value, times: float) -> Value:
        """Keys or values of a head that several heads of queries read: as many copies, whose gradients add up."""
        if times <= 1 or value.common:
            return value
        slot = self.writer.slot()
        self.writer.steps.append(Part(value.slot, slot, times))
        return replace(value, slot=slot, bent=value.roots)

    def _by_place(self, node: Node, query: Value, table: int) -> Places:
        """q·p with rows p of a table of positions."""
        rows, width = self.rows(table), math.prod(n for n, _ in query.layout[-1])
        if rows is None or not is_features(query.layout[-1]) or width != (self.graph.nodes[table].shape or (0, 0))[-2]:
            raise Stop(f"`{node.op}` has no row in the recursion for these operands", node.index)
        self.assumptions.add(PLACED)
        return Places(self.writer.settled(query), width * rows.gap)

    def _biased(self, made: Logits, bias: object, alpha: float) -> Logits:
        """`baddbmm(bias, q, k)`: a fixed bias is read as the mask that it holds, a learned one as zero."""
        if not isinstance(bias, Ref):
            return replace(made, scale=alpha)
        if self.weights.is_trained(bias.node):
            self.assumptions.add(BIASED)
            return replace(made, scale=alpha)
        return replace(made, scale=alpha, masked=self.is_causal(bias.node))

    def softmax(self, node: Node) -> Logits:
        found = self.table[node.inputs[0]]
        if not isinstance(found, Logits) or node.op != "softmax":
            raise Stop(f"`{node.op}` of something else than q·k has no row in the recursion", node.index)
        axis = dim_of(node)
        if not isinstance(axis, int) or not found.layout or not is_keys(found.layout[axis]):
            raise Stop("a softmax that is not over keys has no row in the recursion", node.index)
        return replace(found, rows=True)

    def _attend(self, node: Node, rows: Logits, value: Value, keys: object, features: object) -> Value:
        value = self.writer.settled(value)
        value = self._shared(value, rows.heads / _heads(value.layout, "fc"))
        both = rows.query.roots | rows.key.roots
        if rows.query.roots & rows.key.roots or value.roots & (both - {0}):
            raise Stop("queries, keys and values are not independent of each other", node.index)
        if rows.sink:
            raise Stop("a row of attention has a learned entry beside those of the keys", node.index)
        if rows.masked:
            self.assumptions.add(MASKED)
        core = Softmax(rows.width, rows.scale, rows.masked, self.tokens, rows.heads, cap=rows.cap, within=rows.within)
        slot, places = self.writer.slot(), tuple((p.query.slot, p.square) for p in rows.places)
        self.writer.steps.append(Attend(rows.query.slot, rows.key.slot, value.slot, slot, core, node.index, places, self._window(rows.query.layout)))
        if not rows.layout or not is_keys(rows.layout[-1]):
            raise Stop("logits are moved in a way that has no row in the recursion", node.index)
        return Value(slot, (*rows.layout[:-1], value.layout[-1]), value.roots | {slot}, bent=value.roots)

    def _window(self, layout: Layout) -> int:
        """Tokens of a window, where tokens of a sample stand on the axes before those of queries and features: more than there are samples."""
        samples = max((self.graph.nodes[leaf].shape or (1,))[0] for leaf in self.leaves) if self.leaves else 1
        apart, each = (math.prod(n for axis in axes for n, label in axis if label == "t") for axes in (layout[:-2], layout[-2:-1]))
        return each if samples < apart else 0

    def fused(self, node: Node) -> Value:
        names = ("query", "key", "value")
        refs = [node.args[p] if p < len(node.args) else node.kwarg(n) for p, n in enumerate(names)]
        query, key, value = (self.value(r.node) if isinstance(r, Ref) else self._missing(node) for r in refs)
        mask = node.args[3] if len(node.args) > 3 else node.kwarg("attn_mask")
        causal = (node.args[5] if len(node.args) > 5 else node.kwarg("is_causal", False)) is True
        width = math.prod(n for n, _ in query.layout[-1])
        scale = node.kwarg("scale")
        if not all(is_features(v.layout[-1]) for v in (query, key, value)):
            raise Stop("attention over an axis that is no feature axis", node.index)
        query, key = self.writer.settled(query), self.writer.settled(key)
        key = self._shared(key, _heads(query.layout) / _heads(key.layout, "fc"))
        times = float(scale) if isinstance(scale, int | float) else 1 / math.sqrt(width)
        beside = self.table.get(mask.node) if isinstance(mask, Ref) else None
        if beside is not None and not isinstance(beside, Places):
            raise Stop("a mask that is made of data", node.index)
        masked = causal or (isinstance(mask, Ref) and beside is None and self.is_causal(mask.node))
        layout = (*query.layout[:-1], keys_of(key.layout[-2]))
        rows = Logits(query, key, width, times, _heads(query.layout), masked, True, places=(beside,) if beside is not None else (), layout=layout)
        return self._attend(node, rows, value, None, None)

    def _missing(self, node: Node) -> Value:
        raise Stop("attention without one of q, k, v", node.index)


def _number(node: Node, position: int, name: str, default: int) -> int:
    """A setting of a convolution that is the same on every axis."""
    value = node.args[position] if len(node.args) > position else node.kwarg(name, default)
    value = value[0] if isinstance(value, tuple) and len(set(value)) == 1 else value
    if not isinstance(value, int):
        raise Stop(f"a convolution with `{name}` of {value}", node.index)
    return value


def _kept(node: Node, known: tuple[int, ...], shape: tuple[int, ...], taps: tuple[int, ...]) -> float:
    """The share of taps that meet an input and no padding: of images, whose sizes are those of the trace; 1 for sequences."""
    if len(taps) < 2:
        return 1.0
    stride, padding, dilation = (_number(node, p, n, d) for p, n, d in ((3, "stride", 1), (4, "padding", 0), (5, "dilation", 1)))
    share = 1.0
    for size, made, count in zip(known[2:], shape[2:], taps, strict=True):
        met = sum(0 <= i * stride - padding + k * dilation < size for i in range(made) for k in range(count))
        share *= met / (made * count)
    return share


def _entries(node: Node) -> int:
    return math.prod(node.shape or (1,))


def _heads(layout: Layout, labels: str = "f") -> int:
    """Feature factors outside the last axis: heads; with `c` those that are copies of others too."""
    return max(1, math.prod(n for axis in layout[:-1] for n, label in axis if label in labels))


__all__ = ["Maps"]
