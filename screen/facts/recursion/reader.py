"""From the nodes of a branch to its steps, by data flow: one method per class of op, and a reason wherever there is none.

Read upwards from the branch's output to the states of the stream; a norm is entered at its source (`Norm.source`), whatever it is made of.
Values with a common source of randomness may only meet where the result is known: entry-wise functions of one Gaussian value, and
rotations. Everything else between dependent values stops the reading.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from screen import ops
from screen.facts.nouns import Norm, Unknown
from screen.facts.recursion.attention import Softmax
from screen.facts.recursion.entrywise import joined, named_function
from screen.facts.recursion.layout import Layout, cut, holds_features, is_features, stream_layout, viewed
from screen.facts.recursion.steps import Attend, Join, Linear, Normalise, Part, Product, Program, Shift, Stretch, Sum
from screen.facts.recursion.turns import turned, turns
from screen.facts.recursion.values import Logits, Stop, Value, Writer
from screen.facts.recursion.weights import Weights
from screen.graph import Graph, Node, Ref

Read = Value | Logits
NORMS = {"layernorm": True, "rmsnorm": False, "l2": False}
"""Type -> whether it centres."""
MASKED = "a mask on the logits is taken as causal"
BIASED = "a learned or fixed bias on the logits is taken as zero"


@dataclass
class Reader:
    """Reads one branch of one graph."""

    graph: Graph
    weights: Weights
    norms: Mapping[int, Norm]
    leaves: Mapping[int, Layout]
    """Nodes that hold the stream's state (slot 0)."""
    tokens: int
    assumptions: set[str] = field(default_factory=set)
    writer: Writer = field(default_factory=Writer)
    table: dict[int, Read] = field(default_factory=dict)
    sources: bool = False
    """Whether values may begin inside (embeddings, float arguments): the way into a stream."""

    def program(self, output: int) -> Program | Unknown:
        """The steps that make `output`; `Unknown` with the first node that has none."""
        try:
            for index in self._region(output):
                found = self._read(self.graph.nodes[index])
                if found is not None:
                    self.table[index] = found
            last = self.writer.settled(self._value(output)).slot
        except Stop as stop:
            return stop.unknown
        return Program(tuple(self.writer.steps), self.writer.size, last)

    def _region(self, output: int) -> list[int]:
        seen: set[int] = set()
        stack = [output]
        while stack:
            node = stack.pop()
            if node in seen or self.weights.is_trained(node):
                continue
            seen.add(node)
            if node in self.leaves:
                continue
            norm = self.norms.get(node)
            stack.extend((norm.source,) if norm is not None else self.graph.nodes[node].inputs)
        return sorted(seen)

    # -- one node ----------------------------------------------------------------------------------------------------------------------

    def _read(self, node: Node) -> Read | None:
        """The value of a node; None for one that does not depend on the stream."""
        if node.index in self.leaves:
            return Value(0, self.leaves[node.index], frozenset({0}))
        if self.sources and (begun := self._begins(node)) is not None:
            return begun
        norm = self.norms.get(node.index)
        if norm is not None:
            return self._norm(node, norm)
        data = [i for i in dict.fromkeys(node.inputs) if i in self.table]
        if not data:
            return None
        kind = ops.CLASSES.get(node.op, node.op)
        if node.op == "scaled_dot_product_attention":
            return self._fused(node)
        if node.op == "alias" and len(set(node.inputs)) > 1:
            raise Stop("a value is overwritten in part", node.index)
        method = getattr(self, f"_{kind}", None)
        if method is None:
            raise Stop(f"`{node.op}` has no row in the recursion", node.index)
        found: Read | None = method(node)
        return found

    def _begins(self, node: Node) -> Value | None:
        """Where values come from: rows of a table, or a float argument."""
        shape = node.shape or ()
        if node.op == "embedding":
            table = [i for i in node.inputs if self.weights.is_trained(i)]
            if len(table) == 1:
                return self._source(node, self._square(table[0], row=isinstance(node.kwarg("padding_idx"), int)))
        if node.op in ("conv1d", "conv2d", "conv3d") and (patches := self._patches(node)) is not None:
            return patches
        if node.op == "input" and (node.dtype or "").startswith(("float", "bfloat")) and len(shape) > 1:
            self.assumptions.add("a float argument of forward has entries of mean square one, independent between tokens")
            return self._source(node, 1.0)
        return None

    def _patches(self, node: Node) -> Value | None:
        """A convolution of a float argument into patches: σ²·(entries of a patch)."""
        source, weight = node.inputs[0], node.inputs[1]
        if source not in self.table or self.graph.nodes[source].op != "input":
            return None
        patch = math.prod((self.graph.nodes[weight].shape or (1, 1))[1:])
        bias = self._square(node.inputs[2]) if len(node.inputs) > 2 else 0.0
        found = self._source(node, self._square(weight) * patch, axis=1)
        if bias:
            slot = self.writer.slot()
            self.writer.steps.append(Shift(found.slot, slot, bias, 0.0))
            found = replace(found, slot=slot)
        return found

    def _source(self, node: Node, square: float, axis: int = -1) -> Value:
        """Slot 0 is (1, 1, 0) on the way into a stream: independent rows of mean square one."""
        layout = stream_layout(node.shape or (1,), axis)
        slot = self.writer.slot()
        self.writer.steps.append(Stretch(0, slot, square))
        return Value(slot, layout, frozenset({slot}))

    def _norm(self, node: Node, norm: Norm) -> Value:
        source = self._value(norm.source)
        if norm.type not in NORMS or norm.axes != (-1,) or not is_features(source.layout[-1]):
            raise Stop(f"a norm of type `{norm.type}` over axes {norm.axes} has no row in the recursion", node.index)
        value, slot = self.writer.settled(source), self.writer.slot()
        gain = 1.0
        for key in ("weight", "bias"):
            operand = node.kwarg(key)
            if isinstance(operand, Ref):
                square = self._square(operand.node)
                if key == "bias" and square:
                    raise Stop("a norm's bias does not start at zero", node.index)
                gain = square if key == "weight" else gain
        gain /= norm.size if norm.type == "l2" else 1
        self.writer.steps.append(Normalise(value.slot, slot, NORMS[norm.type], norm.eps or 0.0, gain))
        return replace(value, slot=slot, turn=None, whole=None)

    def _value(self, node: int) -> Value:
        found = self.table.get(node)
        if not isinstance(found, Value):
            raise Stop("attention logits or rows go where no row of the recursion reads them", node)
        if found.turn is not None:
            raise Stop("a value is multiplied by a fixed table that is no rotation", node)
        return found

    def _square(self, node: int, *, row: bool = False) -> float:
        found = self.weights.mean_square(node, row=row)
        if isinstance(found, Unknown):
            raise Stop(found.reason, *found.nodes)
        return found

    # -- views, parts, joins -----------------------------------------------------------------------------------------------------------

    def _view(self, node: Node) -> Read:
        found = self.table[node.inputs[0]]
        if isinstance(found, Logits):
            return found
        layout = viewed(node, found.layout)
        if layout is None:
            raise Stop(f"`{node.op}` moves entries in a way that has no row in the recursion", node.index)
        times = _numel(node.shape) / _numel(self.graph.nodes[node.inputs[0]].shape)
        if times <= 1:
            return replace(found, layout=layout)
        settled, slot = self.writer.settled(found), self.writer.slot()
        self.writer.steps.append(Part(settled.slot, slot, times))
        return replace(settled, slot=slot, layout=layout)

    _alias = _view

    def _part(self, node: Node) -> Read | None:
        found = self.table[node.inputs[0]]
        if isinstance(found, Logits):
            return replace(found, masked=True) if node.op in ("tril", "triu") else found
        if node.shape is None:
            return found
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
        share = _numel(node.shape) / _numel(above.shape)
        if share >= 1:
            return replace(found, layout=layout)
        settled, slot = self.writer.settled(found), self.writer.slot()
        self.writer.steps.append(Part(settled.slot, slot, share))
        return replace(settled, slot=slot, layout=layout, roots=frozenset({slot}), whole=settled.slot, share=share, turn=found.turn)

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

    def _join(self, node: Node) -> Value:
        """Parts of one value put together again are that value; else the mean over the parts."""
        inputs = list(node.inputs)
        for i in inputs:
            if i not in self.table and not (self.sources and self.weights.is_trained(i)):
                raise Stop(f"`{node.op}` puts data beside something else", node.index)
            if i not in self.table:
                self.table[i] = self._source(self.graph.nodes[i], self._square(i))
        values = [self._value(i) for i in inputs]
        layout = self._joined_layout(node, values[0])
        whole = {v.whole for v in values}
        if len(whole) == 1 and None not in whole and abs(sum(v.share for v in values) - 1) < 1e-9 and all(v.function is None and abs(v.factor) == 1 for v in values):
            slot = whole.pop() or 0
            return replace(values[0], slot=slot, layout=layout, factor=1.0, whole=None, share=1.0, roots=frozenset({slot}))
        settled = [self.writer.settled(v) for v in values]
        sizes = [_numel(self.graph.nodes[i].shape) for i in inputs]
        slot = self.writer.slot()
        self.writer.steps.append(Join(tuple(v.slot for v in settled), tuple(s / sum(sizes) for s in sizes), slot))
        roots = frozenset().union(*(v.roots for v in settled))
        return Value(slot, layout, roots, all(v.gaussian for v in settled))

    def _joined_layout(self, node: Node, first: Value) -> Layout:
        shape = node.shape or ()
        if node.op == "stack":
            axis = next((a for a in node.args[1:] if isinstance(a, int)), node.kwarg("dim", 0))
            place = axis % len(shape) if isinstance(axis, int) else 0
            return (*first.layout[:place], ((shape[place], "f"),), *first.layout[place:])
        found: list[tuple[tuple[int, str], ...]] = []
        for axis_, size in zip(first.layout, shape, strict=True):
            have = math.prod(n for n, _ in axis_)
            labels = {label for n, label in axis_ if n > 1} or {"f"}
            if have != size and len(labels) > 1:
                raise Stop(f"`{node.op}` grows an axis that holds more than one kind of entry", node.index)
            found.append(axis_ if have == size else ((size, labels.pop()),))
        return tuple(found)

    # -- maps --------------------------------------------------------------------------------------------------------------------------

    def _weighted(self, node: Node) -> Value:
        if node.op != "linear":
            raise Stop(f"`{node.op}` has no row in the recursion", node.index)
        bias = node.args[2] if len(node.args) > 2 else node.kwarg("bias")
        return self._map(node, node.inputs[0], node.inputs[1], bias)

    def _map(self, node: Node, source: int, weight: int, bias: object = None) -> Value:
        """x·W with entries of W independent: contraction over the last axis of x."""
        value = self.writer.settled(self._value(source))
        if not is_features(value.layout[-1]):
            raise Stop("a weight acts over tokens", node.index)
        square = self._square(weight)
        inside, outside = (self.graph.nodes[source].shape or (1,))[-1], (node.shape or (1,))[-1]
        shift = self._square(bias.node) if isinstance(bias, Ref) else 0.0
        name = self.graph.nodes[self.weights.parameter(weight) or weight].name
        slot = self.writer.slot()
        self.writer.steps.append(Linear(value.slot, slot, square * inside, square * outside, shift, (name,)))
        return Value(slot, (*value.layout[:-1], ((outside, "f"),)), frozenset({slot}))

    def _product(self, node: Node) -> Read:
        inputs = list(node.inputs)
        bias = None
        alpha, beta = (node.kwarg(k, 1) for k in ("alpha", "beta"))
        if node.op in ("addmm", "baddbmm", "addbmm", "addmv"):
            bias, inputs = (None if beta == 0 else Ref(inputs[0])), inputs[1:]
        if len(inputs) != 2 or node.op not in ("matmul", "bmm", "mm", "addmm", "baddbmm"):
            raise Stop(f"`{node.op}` has no row in the recursion", node.index)
        left, right = (self.table.get(i) for i in inputs)
        if isinstance(left, Value) and right is None and self.weights.is_trained(inputs[1]) and alpha == 1 and beta in (0, 1):
            return self._map(node, inputs[0], inputs[1], bias)
        if isinstance(left, Logits) and left.rows and isinstance(right, Value) and bias is None:
            return self._attend(node, left, self._value(inputs[1]), right.layout[-2], right.layout[-1])
        if isinstance(left, Value) and isinstance(right, Value):
            made = self._logits(node, self._value(inputs[0]), self._value(inputs[1]))
            return self._biased(made, bias, float(alpha) if isinstance(alpha, int | float) else 1.0)
        raise Stop(f"`{node.op}` has no row in the recursion for these operands", node.index)

    # -- attention ---------------------------------------------------------------------------------------------------------------------

    def _logits(self, node: Node, query: Value, key: Value) -> Logits:
        features = query.layout[-1], key.layout[-2]
        if not all(map(is_features, features)) or holds_features(key.layout[-1]) or holds_features(query.layout[-2]):
            raise Stop("a product of two data values that is no q·k over features", node.index)
        query, key = self.writer.settled(query), self.writer.settled(key)
        width = math.prod(n for n, _ in query.layout[-1])
        return Logits(query, key, width, 1.0, _heads(query.layout))

    def _biased(self, made: Logits, bias: object, alpha: float) -> Logits:
        """`baddbmm(bias, q, k)`: a fixed bias is read as the mask that it holds, a learned one as zero."""
        if not isinstance(bias, Ref):
            return replace(made, scale=alpha)
        if self.weights.is_trained(bias.node):
            self.assumptions.add(BIASED)
            return replace(made, scale=alpha)
        return replace(made, scale=alpha, masked=True)

    def _softmax(self, node: Node) -> Logits:
        found = self.table[node.inputs[0]]
        if not isinstance(found, Logits) or node.op != "softmax":
            raise Stop(f"`{node.op}` of something else than q·k has no row in the recursion", node.index)
        return replace(found, rows=True)

    def _attend(self, node: Node, rows: Logits, value: Value, keys: object, features: object) -> Value:
        value = self.writer.settled(value)
        if rows.masked:
            self.assumptions.add(MASKED)
        core = Softmax(rows.width, rows.scale, rows.masked, self.tokens, rows.heads, rows.cap)
        slot = self.writer.slot()
        self.writer.steps.append(Attend(rows.query.slot, rows.key.slot, value.slot, slot, core))
        layout = (*rows.query.layout[:-1], value.layout[-1])
        return Value(slot, layout, value.roots | {slot})

    def _fused(self, node: Node) -> Value:
        names = ("query", "key", "value")
        refs = [node.args[p] if p < len(node.args) else node.kwarg(n) for p, n in enumerate(names)]
        query, key, value = (self._value(r.node) if isinstance(r, Ref) else self._missing(node) for r in refs)
        mask = node.args[3] if len(node.args) > 3 else node.kwarg("attn_mask")
        causal = (node.args[5] if len(node.args) > 5 else node.kwarg("is_causal", False)) is True
        width = math.prod(n for n, _ in query.layout[-1])
        scale = node.kwarg("scale")
        if not all(is_features(v.layout[-1]) for v in (query, key, value)):
            raise Stop("attention over an axis that is no feature axis", node.index)
        query, key = self.writer.settled(query), self.writer.settled(key)
        times = float(scale) if isinstance(scale, int | float) else 1 / math.sqrt(width)
        rows = Logits(query, key, width, times, _heads(query.layout), causal or isinstance(mask, Ref), True)
        return self._attend(node, rows, value, None, None)

    def _missing(self, node: Node) -> Value:
        raise Stop("attention without one of q, k, v", node.index)

    # -- sums and products entry by entry ----------------------------------------------------------------------------------------------

    def _activation(self, node: Node) -> Read:
        found = self.table[node.inputs[0]]
        if isinstance(found, Logits) and node.op == "tanh" and not found.rows and not found.cap:
            return replace(found, cap=1.0)
        if isinstance(found, Logits) or len(set(node.inputs)) > 1:
            raise Stop(f"`{node.op}` has no row in the recursion for these operands", node.index)
        value = self._value(node.inputs[0])
        name, function = named_function(node)
        if function is None or not value.gaussian:
            raise Stop(f"`{node.op}` here has no row in the recursion", node.index)
        return value.through(function, name)

    def _linear(self, node: Node) -> Read:
        data = [i for i in node.inputs if i in self.table]
        if len(data) == 1:
            return self._with_fixed(node, data[0])
        return self._with_data(node, data)

    def _with_fixed(self, node: Node, source: int) -> Read:
        """One data operand: a number, a weight or a table beside it."""
        found = self.table[source]
        if isinstance(found, Logits):
            return self._on_logits(node, found)
        number = _number(node, source)
        others = [i for i in node.inputs if i != source]
        if node.op == "mul" and others and not self.weights.is_trained(others[0]):
            turn = turns(self.graph, others[0])
            if turn is None:
                raise Stop("a product with a value that is not in the graph", node.index)
            if turn.kind == "table":
                self.assumptions.add("a table that pairs x with its rotated half is taken as cosines and sines")
            return replace(found, turn=turn)
        value = self._value(source)
        if others:
            return self._with_weight(node, value, others[0])
        joint = joined(node, number)
        if joint is None:
            raise Stop(f"`{node.op}` has no row in the recursion for these operands", node.index)
        if isinstance(joint, float):
            return value.times(joint)
        if not value.gaussian:
            raise Stop(f"`{node.op}` of a value that is not Gaussian has no row in the recursion", node.index)
        return value.through(joint)

    def _with_weight(self, node: Node, value: Value, weight: int) -> Value:
        """A gain or a bias: a vector of weights, entry by entry."""
        if not self.weights.is_trained(weight):
            raise Stop(f"`{node.op}` with a value that is not in the graph", node.index)
        square = self._square(weight)
        if node.op == "mul":
            return value.times(math.sqrt(square))
        if node.op not in ("add", "sub"):
            raise Stop(f"`{node.op}` with a weight has no row in the recursion", node.index)
        if square == 0.0:
            return value
        settled, slot = self.writer.settled(value), self.writer.slot()
        shape = self.graph.nodes[weight].shape or ()
        common = math.prod(shape[:-1]) == 1
        self.writer.steps.append(Shift(settled.slot, slot, square, 0.0 if common else square))
        return replace(settled, slot=slot, whole=None)

    def _on_logits(self, node: Node, found: Logits) -> Logits:
        number = _number(node, node.inputs[0]) if len(set(node.inputs)) == 1 else None
        if node.op in ("mul", "div") and number:
            times = number if node.op == "mul" else 1 / number
            return replace(found, cap=found.cap * times) if found.cap else replace(found, scale=found.scale * times)
        if node.op in ("masked_fill", "where") or (node.op in ("add", "sub") and not found.rows):
            trained = any(self.weights.is_trained(i) for i in node.inputs)
            if trained:
                self.assumptions.add(BIASED)
            return found if trained else replace(found, masked=True)
        raise Stop(f"`{node.op}` on attention logits has no row in the recursion", node.index)

    def _with_data(self, node: Node, data: list[int]) -> Value:
        if len(data) != 2 or len(node.args) < 2 or node.op not in ("add", "sub", "mul"):
            raise Stop(f"`{node.op}` of several data values has no row in the recursion", node.index)
        found = [self.table[i] for i in data]
        if len(set(data)) == 1 or any(isinstance(f, Logits) for f in found):
            raise Stop(f"`{node.op}` of these data values has no row in the recursion", node.index)
        left, right = (f for f in found if isinstance(f, Value))
        if left.turn is not None and right.turn is not None and node.op in ("add", "sub"):
            return turned(node, left, right)
        left, right = self._value(data[0]), self._value(data[1])
        if left.slot == right.slot and left.gaussian and right.gaussian:
            joint = joined(node, None, left.whole_function(), right.whole_function())
            if joint is not None and not isinstance(joint, float):
                return replace(left, factor=1.0, function=joint, name="")
        if left.roots & right.roots:
            raise Stop(f"`{node.op}` of two dependent values has no row in the recursion", node.index)
        times = node.kwarg("alpha", 1)
        if isinstance(times, int | float) and times != 1:
            right = right.times(float(times))
        left, right = self.writer.settled(left), self.writer.settled(right)
        slot, roots = self.writer.slot(), left.roots | right.roots
        layout = left.layout if len(left.layout) >= len(right.layout) else right.layout
        if node.op == "mul":
            self.writer.steps.append(Product(left.slot, right.slot, slot))
            return Value(slot, layout, roots, gaussian=False)
        self.writer.steps.append(Sum((left.slot, right.slot), slot))
        return Value(slot, layout, roots, gaussian=left.gaussian and right.gaussian)


def _numel(shape: tuple[int, ...] | None) -> int:
    return math.prod(shape or (1,))


def _heads(layout: Layout) -> int:
    """Feature factors outside the last axis: heads."""
    return max(1, math.prod(n for axis in layout[:-1] for n, label in axis if label == "f"))


def _number(node: Node, source: int) -> float | None:
    """The number beside a data operand."""
    numbers = [a for a in node.args if isinstance(a, int | float) and not isinstance(a, bool)]
    return float(numbers[0]) if len(numbers) == 1 else None


__all__ = ["Reader"]
