"""Data flow: what each node depends on, and which nodes are weighted or mix tokens.

`Flow` holds sets of nodes as integers used as bit masks (bit i is node i): unions of ancestors of a whole model stay cheap.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from screen import ops
from screen.graph import SOURCES, Graph, Node, Ref
from screen.structure.axis_order import TURNS, axis_order


def mask_of(nodes: Iterable[int]) -> int:
    """A set of nodes as a mask."""
    chosen = sorted(nodes)
    table = bytearray(chosen[-1] // 8 + 1) if chosen else bytearray()
    for node in chosen:
        table[node >> 3] |= 1 << (node & 7)
    return int.from_bytes(table, "little")


def nodes_of(mask: int) -> Iterator[int]:
    """The nodes of a mask, ascending."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def _class_of(op: str) -> str:
    if op in SOURCES:
        return "source"
    return "alias" if op == "alias" else ops.CLASSES.get(op, "unmodelled")


_INPUT, _WEIGHT, _OUTSIDE = 1, 2, 4
_ORIGINS = {op: _OUTSIDE | {"input": _INPUT, "parameter": _WEIGHT}.get(op, 0) for op in SOURCES}
FLOATS = frozenset({"float64", "float32", "float16", "bfloat16", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2", "complex32"})


@dataclass(frozen=True)
class Flow:
    """A graph with its ancestor sets."""

    graph: Graph

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """Class of the op of every node (see `screen.ops`), `source`, `alias`, or `unmodelled`."""
        known = {op: _class_of(op) for op in {n.op for n in self.graph.nodes}}
        return tuple([known[n.op] for n in self.graph.nodes])

    @cached_property
    def ancestors(self) -> tuple[int, ...]:
        """For each node the set of all nodes that its value depends on, itself included.

        By hand: the closure as masks takes 0.7 ms on `hf:llama` (1,925 nodes), `networkx.ancestors` of each node 510 ms (docs/architecture.md)."""
        table: list[int] = []
        for index, sources in enumerate(self.counting):
            mask = 1 << index
            for source in sources:
                mask |= table[source]
            table.append(mask)
        return tuple(table)

    @cached_property
    def counting(self) -> tuple[tuple[int, ...], ...]:
        """For each node the inputs whose values count: `expand_as(x)`, `type_as(x)` and `zeros_like(x)` read a shape or a type only."""
        return tuple([self._counting(n) if "_" in n.op else n.inputs for n in self.graph.nodes])

    def _counting(self, node: Node) -> tuple[int, ...]:
        if node.op.endswith("_as") and node.op != "as_":
            return node.inputs[:1]
        return () if (self.classes[node.index] == "factory" and node.op.endswith(("_like",))) or node.op.startswith("new_") else node.inputs

    @cached_property
    def _origins(self) -> tuple[int, ...]:
        """For each node the kinds of sources that it depends on: a sum of `_INPUT`, `_WEIGHT` and `_OUTSIDE`."""
        table: list[int] = []
        for node, sources in zip(self.graph.nodes, self.counting, strict=True):
            kinds = _ORIGINS.get(node.op, 0)
            for source in sources:
                kinds |= table[source]
            table.append(kinds)
        return tuple(table)

    @cached_property
    def from_input(self) -> tuple[bool, ...]:
        """Whether a node depends on an argument of forward."""
        return tuple([k & _INPUT != 0 for k in self._origins])

    @cached_property
    def factory_made(self) -> tuple[bool, ...]:
        """Whether a node depends on no argument, weight, buffer or tensor from outside."""
        return tuple([k == 0 for k in self._origins])

    @cached_property
    def data(self) -> tuple[bool, ...]:
        """Whether a node is a float value that carries the model's data: from a float argument, or looked up by an integer one.

        Masks and positions made of integers are floats as well, and are not data."""
        begin: list[int] = []
        of_weights = self.of_weights.__getitem__
        for node, kind, fed in zip(self.graph.nodes, self.classes, self.from_input, strict=True):
            if not fed:
                continue
            # rows of a table, a product with a one-hot code
            looked_up = kind == "weighted" or (kind in ("product", "part") and any(map(of_weights, node.inputs)))
            if looked_up or (node.op == "input" and self.is_float(node)):
                begin.append(node.index)
            elif node.op == "add" and len(node.inputs) == 2:
                begin += self._learned_states(node)
        seeds = mask_of(begin)
        floats = {d: d is None or d in FLOATS for d in {n.dtype for n in self.graph.nodes}}
        return tuple([m & seeds != 0 and floats[n.dtype] for m, n in zip(self.ancestors, self.graph.nodes, strict=True)])

    def is_given_mask(self, node: int) -> bool:
        """Whether a value, of one number for each token, is made by no weight of arguments alone that mask logits as well: it keeps or drops tokens,
        though it is a float."""
        given = self.ancestors[node] & self._arguments
        single = (self.graph.nodes[node].shape or (0,))[-1] == 1
        return bool(given) and single and not given & ~self._masking and not self.keys[node] and not self.learned[node]

    @cached_property
    def _arguments(self) -> int:
        return mask_of(n.index for n in self.graph.nodes if n.op == "input")

    @cached_property
    def _masking(self) -> int:
        """The arguments of which something is added to logits that no weight has made of them."""
        found, logits = 0, set[int]()
        for node in reversed(self.graph.nodes):
            through = node.index in logits and (self.classes[node.index] == "view" or node.op == "add")
            logits.update(node.inputs if through else node.inputs[:1] if self.classes[node.index] == "softmax" else ())
            bias = self.ref(node, 3, "attn_mask") if node.op == "scaled_dot_product_attention" else None
            if through and len(node.inputs) == 2 and any(self.keys[i] for i in node.inputs):
                bias = next((i for i in node.inputs if not self.keys[i]), None)
            found |= self.ancestors[bias] & self._arguments if bias is not None and not self.learned[bias] else 0
        return found

    def _learned_states(self, node: Node) -> list[int]:
        """Trained values that begin a stream (latents of a Perceiver, object queries): what an `add` adds to one depends on it and on an argument."""
        return [
            state
            for state, other in (node.inputs, node.inputs[::-1])
            if self.of_weights[state] and self.from_input[other] and self.depends(other, state) and self.graph.nodes[state].shape == node.shape
        ]

    def is_float(self, node: Node) -> bool:
        """Whether the value has entries that carry magnitudes (calls with several results count)."""
        return node.dtype is None or node.dtype in FLOATS

    @cached_property
    def trained(self) -> tuple[bool, ...]:
        """Whether a node is a weight, or a function of weights alone; a trained value that begins a stream is data."""
        return tuple(t and not d for t, d in zip(self.of_weights, self.data, strict=True))

    @cached_property
    def of_weights(self) -> tuple[bool, ...]:
        """Whether a node depends on a parameter and on no argument of forward."""
        return tuple([k & (_INPUT | _WEIGHT) == _WEIGHT for k in self._origins])

    @cached_property
    def learned(self) -> tuple[bool, ...]:
        """Whether a node depends on a parameter."""
        return tuple([bool(k & _WEIGHT) for k in self._origins])

    @cached_property
    def weighted(self) -> tuple[bool, ...]:
        """Whether a node is a linear map of data by a trained weight (or a lookup in one)."""
        return tuple([
            (k == "weighted" and not self.sums_stack(n)) or (k in ("product", "part") and self._is_weighted(n, k))
            for n, k in zip(self.graph.nodes, self.classes, strict=True)
        ])

    def _is_weighted(self, node: Node, kind: str) -> bool:
        if kind == "product":
            if self.mixes_copies(node):
                return False
            operands = [i for i in node.inputs if self.is_float(self.graph.nodes[i])]
            chosen = [i for i in operands if self.trained[i] or self.is_chosen_weight(i)]
            return bool(chosen) and any(self.data[i] and i not in chosen for i in operands)
        if node.op in ("getitem", "index_select", "gather", "index"):  # a lookup in a table of weights
            table = next(iter(node.inputs), None)
            return table is not None and self.trained[table] and self.data[node.index]
        return False

    def is_chosen_weight(self, node: int) -> bool:
        """Rows of a trained table, picked by a choice that the model computes (an expert's weights): a weight, not data."""
        here = self.graph.nodes[node]
        while self.classes[node] in ("view", "part", "weighted") and here.inputs:
            if here.op in ("getitem", "index", "index_select", "gather", "embedding"):
                table = next((i for i in here.inputs if self.trained[i]), None)
                picks = [i for i in here.inputs if not self.trained[i]]
                if table is not None:
                    return any(self._has_key_above(i) for i in picks)
            if self.classes[node] == "weighted":
                return False
            node = here.inputs[0]
            here = self.graph.nodes[node]
        return False

    def mixes_copies(self, node: Node) -> bool:
        """A product with a trained matrix of at most eight by eight, or of values side by side with a trained number for each: it mixes copies or
        states of a stream (hyper-connections, DenseFormer), not features."""
        shapes = [self.graph.nodes[i].shape or () for i in node.inputs if self.trained[i]]
        if bool(shapes) and all(math.prod(s) <= 64 and max(s, default=1) <= 8 for s in shapes):
            return True
        data = [i for i in node.inputs if self.data[i]]
        return len(data) == len(shapes) == 1 and self._weighs_stack(data[0], shapes[0], node)

    def _weighs_stack(self, stack: int, shares: tuple[int, ...], product: Node) -> bool:
        """Whether a product is the sum of the values of a stack, each times one number, or one for each of its tokens; or a few such sums."""
        side = self.graph.nodes[self.root(stack)]
        if side.op != "stack":
            return False
        one = self.graph.nodes[side.inputs[0]].shape or ()
        sums = math.prod(product.shape or ()) // max(math.prod(one), 1)
        each = math.prod(shares) in (sums * len(side.inputs), sums * len(side.inputs) * math.prod(one[:-1]))
        whole = 0 < sums <= 8 and math.prod(product.shape or ()) == sums * math.prod(one)
        return each and whole and len(side.inputs) != one[-1]  # else it may sum over features

    def sums_stack(self, node: Node) -> bool:
        """`Linear(torch.stack(values, -1))` without a bias: a sum of the values, with trained weights."""
        if node.op != "linear" or len(node.inputs) != 2 or not self.trained[node.inputs[1]]:
            return False
        return self._weighs_stack(node.inputs[0], self.graph.nodes[node.inputs[1]].shape or (), node)

    def copies_mixed(self, node: Node) -> int | None:
        """The value [tokens, copies, features], at most eight copies, that a product mixes by a matrix made from that value (hyper-connections);
        or the values side by side that it adds up, each times a number made from them, or from one of them (attention over depth)."""
        data = [i for i in node.inputs if self.data[i]]
        if self.classes[node.index] != "product" or len(node.inputs) != 2 or len(data) != 2:
            return None
        shapes = [self.graph.nodes[i].shape or () for i in data]
        for stack, other in ((0, 1), (1, 0)):
            root = self.root(data[stack])
            made = self.depends(data[other], root) or any(self.depends(data[other], i) for i in self.graph.nodes[root].inputs)
            if self._weighs_stack(data[stack], shapes[other], node) and made:
                return data[stack]
        few = [len(s) > 2 and max(s[-2:]) <= 8 for s in shapes]
        if few[0] == few[1] or shapes[0][:-2] != shapes[1][:-2]:
            return None
        copies, matrix = data[few[0]], data[few[1]]
        return copies if self.depends(matrix, self.root(copies)) else None

    def is_square(self, node: Node) -> bool:
        """A product of a value with itself over its features: a sum of squares."""
        shape = node.shape or ()
        single = shape[-2:] == (1, 1) or node.op in ("dot", "vecdot")
        if self.classes[node.index] != "product" or len(node.inputs) != 2 or not single:
            return False
        return self.root(node.inputs[0]) == self.root(node.inputs[1])

    def root(self, node: int) -> int:
        """The value behind all views, new axes included."""
        while self.graph.nodes[node].inputs and (self.classes[node] == "view" or self._adds_axes(self.graph.nodes[node])):
            node = self.graph.nodes[node].inputs[0]
        return node

    def is_part_of_mapped(self, part: int, other: int) -> bool:
        """Whether a value is cut from one that another value is made of by weights."""
        cut = False
        while self.graph.nodes[part].inputs and self.classes[part] in ("view", "part"):
            cut = cut or self.classes[part] == "part"
            part = self.graph.nodes[part].inputs[0]
        return cut and self.depends(other, part) and bool(self.keys[other] & ~self.keys[part])

    def _adds_axes(self, node: Node) -> bool:
        """`x[..., None]`: all entries, in their order."""
        shape, before = node.shape, self.graph.nodes[node.inputs[0]].shape
        plain = node.op == "getitem" and len(node.inputs) == 1 and shape is not None and before is not None
        return plain and math.prod(shape or ()) == math.prod(before or ()) and len(shape or ()) > len(before or ())

    def _has_key_above(self, node: int) -> bool:
        """Whether an index was computed with weights (asked while `weighted` is being made, so by class alone)."""
        return bool(self.ancestors[node] & self._weighted_by_class)

    @cached_property
    def _weighted_by_class(self) -> int:
        return mask_of(i for i, kind in enumerate(self.classes) if kind == "weighted")

    @cached_property
    def mixing(self) -> tuple[bool, ...]:
        """Whether a node mixes tokens by itself: attention, products of two data values, scans, pooling, transforms."""
        kinds = ("product", "mixing", "unmodelled")
        return tuple([k in kinds and self._is_mixing(n, k) for n, k in zip(self.graph.nodes, self.classes, strict=True)])

    def _is_mixing(self, node: Node, kind: str) -> bool:
        data = [i for i in node.inputs if self.data[i]]
        if kind == "product":
            return len(data) >= 2 and not self.weighted[node.index] and not self.is_square(node) and self.copies_mixed(node) is None
        return bool(data)

    @cached_property
    def products(self) -> frozenset[int]:
        """Products of values that mix their entries, no weight among them."""
        return frozenset(i for i in itertools.compress(range(len(self.mixing)), self.mixing) if self.classes[i] == "product")

    @cached_property
    def key(self) -> tuple[bool, ...]:
        """Weighted or mixing: what makes a branch a branch."""
        return tuple(a or b for a, b in zip(self.weighted, self.mixing, strict=True))

    @cached_property
    def keys(self) -> tuple[int, ...]:
        """For each node the set of key nodes among its ancestors, itself included."""
        mask = mask_of(i for i, key in enumerate(self.key) if key)
        return tuple([a & mask for a in self.ancestors])

    @cached_property
    def fixed(self) -> tuple[bool, ...]:
        """Products of one value with a matrix that is neither data nor trained (a frozen mixing of tokens, a transform): key ops of a branch that has
        no other."""
        return tuple([
            k == "product" and len(n.inputs) == 2 and sorted((self.data[i], self.trained[i]) for i in n.inputs) == [(False, False), (True, False)]
            for n, k in zip(self.graph.nodes, self.classes, strict=True)
        ])

    @cached_property
    def fixed_above(self) -> tuple[int, ...]:
        """As `keys`, of such products."""
        mask = mask_of(i for i, fixed in enumerate(self.fixed) if fixed)
        return tuple([a & mask for a in self.ancestors])

    def depends(self, node: int, on: int) -> bool:
        """Whether the value of `node` depends on that of `on`."""
        return bool(self.ancestors[node] >> on & 1)

    def operand(self, node: Node, position: int, *names: str) -> object:
        """An argument by position or by one of its names."""
        if position < len(node.args):
            return node.args[position]
        for name in names:
            value = node.kwarg(name)
            if value is not None:
                return value
        return None

    def ref(self, node: Node, position: int, *names: str) -> int | None:
        """As `operand`, when it is a node."""
        value = self.operand(node, position, *names)
        return value.node if isinstance(value, Ref) else None


SAME_SHAPE = frozenset({"to", "type", "float", "half", "bfloat16", "double", "type_as", "contiguous", "clone", "detach", "data", "alias",
                        "dropout", "dropout1d", "dropout2d", "alpha_dropout", "feature_dropout", "cpu", "cuda", "positive", "lift_fresh",
                        "requires_grad", "nan_to_num"})
"""Views that change neither entries nor their order."""

RESHAPES = frozenset({"view", "reshape", "expand", "unsqueeze", "squeeze", "flatten", "expand_as", "view_as"})
"""Views that change nothing when the shape stays."""


def strip(flow: Flow, node: int) -> int:
    """The value behind casts, copies and dropout."""
    while (below := one_behind(flow, node)) is not None:
        node = below
    return node


def one_behind(flow: Flow, node: int) -> int | None:
    """What a cast, a copy or a dropout is of; None for anything else."""
    here = flow.graph.nodes[node]
    if not here.inputs:
        return None
    copied = here.op in SAME_SHAPE and (here.op != "alias" or len(here.inputs) == 1)
    unchanged = here.op in RESHAPES and flow.graph.nodes[here.inputs[0]].shape == here.shape
    unchanged = unchanged or (here.op in TURNS - {"H", "mH", "adjoint"} and axis_order(here, rank := len(here.shape or ())) == tuple(range(rank)))
    return here.inputs[0] if copied or unchanged else None


def number(value: object) -> float | None:
    """A numeric constant as a float."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def axes_of(value: object, rank: int) -> tuple[int, ...]:
    """Axes of a reduction as negative numbers; all of them when none is given. A single number has none, and torch takes 0 and −1 of it."""
    if value is None or value == () or rank == 0:
        return tuple(range(-rank, 0))
    items = value if isinstance(value, tuple) else (value,)
    return tuple(sorted(a - rank if a >= 0 else a for a in items if isinstance(a, int)))
