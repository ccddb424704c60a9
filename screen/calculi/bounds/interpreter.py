"""The walk over a branch: one abstract value per node, by one row per op.

Values of the stream are leaves with magnitude `B` (plain 2-norm per token over the feature axis) and derivative 1; other streams' are leaves
with a magnitude of their own and derivative 0. Recognised norms take their value from what they normalise, whatever is between.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property

from screen.calculi.bounds.axes import atoms, plain, sizes
from screen.calculi.bounds.expr import ONE, Expr, sym
from screen.calculi.bounds.mixed_norms import Fact, is_zero, zero
from screen.calculi.bounds.parts import Part
from screen.calculi.bounds.quantities import Names
from screen.calculi.bounds.value import Value, constant, of_part, unknown
from screen.errors import swallowed
from screen.graph import Node, Ref
from screen.structure.branches.branch import Branch
from screen.structure.dataflow import SAME_SHAPE, number, one_behind, strip
from screen.structure.given_tables import given_tables
from screen.structure.types import Norm

TABLE = "B_table"
"""The largest 2-norm of a row of a table that forward is given."""
Multi = tuple[Value, ...]
Row = Callable[["Walk", Node], "Value | Multi"]
ROWS: dict[str, Row] = {}
"""Op -> its rule."""
SEQUENCES = frozenset({"conv1d", "conv_transpose1d", "batch_norm", "group_norm", "instance_norm"})
"""Ops that take the second axis of what has three for its channels."""
FEATURES_LAST = frozenset({"linear", "matmul", "layer_norm", "rms_norm", "scaled_dot_product_attention"})
"""Ops that take the last axis for them."""


@dataclass
class Patterns:
    """What is seen of several ops at once; filled by the modules that know how (`rules.norm`, `rules.sharper`, `screen.calculi`)."""

    norm: Callable[[Walk, Node, Norm], Value | Multi] = field(init=False)
    """The value of a recognised norm."""
    sharper: Callable[[Walk, Node, Value, Norm | None], Value] = field(init=False)
    """The value of a node by its rule, with what else is known of it."""
    exact_degrees: Callable[[Branch, int, bool], Iterable[tuple[tuple[str, ...], float]]] = field(init=False)
    """(parameters of a group, exact degree) of a node's value, or of its logits, in each group of weights and in the stream (no parameters)."""


PATTERNS = Patterns()


def row(names: str) -> Callable[[Row], Row]:
    """Enters a rule for some ops; a second rule for one is an error."""

    def enter(rule: Row) -> Row:
        for name in names.split():
            if name in ROWS:
                raise ValueError(f"`{name}` has two rules")
            ROWS[name] = rule
        return rule

    return enter


@dataclass(frozen=True)
class Floor:
    """One norm's divisor: its symbol, the smallest value that it can have, and the norm's node."""

    symbol: str
    least: float | None
    node: int


@dataclass(frozen=True)
class Spread:
    """Half the diameter of the vectors that a softmax weighs: √Σ_heads (max over samples of ½ max_jk ‖v_j − v_k‖)², the largest over samples alone
    where there is no axis of heads. v: [samples, heads …, tokens, features]."""

    symbol: str
    node: int
    """Of v."""
    coarse: Expr
    """A bound of it over all inputs."""


class Walk:
    """Values of the nodes of one branch."""

    def __init__(self, branch: Branch) -> None:
        self.branch = branch
        self.flow = branch.flow
        self.graph = branch.flow.graph
        self.names = Names()
        self.table: dict[int, Value | Multi] = {}
        self.ends: dict[int, int] = {}
        """What stands behind casts, copies and dropout."""
        self.floors: list[Floor] = []
        self.thetas: list[str] = []
        self.spreads: list[Spread] = []
        self.logits: list[tuple[int, Value]] = []
        """(softmax node, its input before the mask)."""
        self.given: dict[str, str] = {}
        """Symbol held fixed -> why ("the norm's gain")."""
        self.assumed: dict[str, None] = {}
        """What else the bounds take for granted, in words."""
        for node in branch.region:
            self.value(node)

    # -- values -----------------------------------------------------------------------------------------------------------------------

    def value(self, node: int) -> Value | Multi:
        """The abstract value of a node."""
        if node not in self.table:
            self.table[node] = self._make(node)
        return self.table[node]

    def one(self, node: int) -> Value:
        """The value of a node with one result."""
        found = self.value(node)
        return found if isinstance(found, Value) else unknown((), "several results where one was expected", node)

    def _make(self, index: int) -> Value | Multi:
        node = self.graph.nodes[index]
        border = self.branch.border(index) if index != self.branch.output else None
        if border in ("raw", "earlier", "memory") and node.shape is not None:  # of several results each is a leaf
            return self._of_numbers(node, border) or self._leaf(index, border)
        made = self._source(node) if not node.inputs and node.op in ("parameter", "buffer", "constant", "input") else self._by_rule(node)
        return self._checked(node, made)

    def _of_numbers(self, node: Node, border: str) -> Value | None:
        """What no weight has a part in and is bounded whatever it is made of: cosines and sines of places that forward is given."""
        if border != "memory" or self.flow.keys[node.index] or not node.inputs:
            return None
        made = self._checked(node, self._by_rule(node))
        size = made.norm() if isinstance(made, Value) else None
        known = isinstance(size, Expr) and size.log(dict.fromkeys(size.symbols(), math.inf)) < math.inf
        return made if isinstance(made, Value) and known else None

    def _checked(self, node: Node, made: Value | Multi) -> Value | Multi:
        """A rule whose shape is not the recorded one was not understood."""
        if isinstance(made, Value):
            if node.shape is not None and made.shape != node.shape:
                return self.lost(node, f"`{node.op}` was not understood: shape {made.shape} for {node.shape}")
            if not self.flow.is_float(node) and not is_zero(made.der):  # an integer or a truth: piecewise constant
                made = replace(made.bare(), der=zero(len(made.flat)), jump=node.index)
        return made

    def _by_rule(self, node: Node) -> Value | Multi:
        """By the rule of its op, and by what is seen of several ops at once (`PATTERNS`)."""
        norm = self.branch.norms.by_node.get(node.index)
        made = self._by_one(node, norm)
        return self._attempt(node, lambda: PATTERNS.sharper(self, node, made, norm)) if isinstance(made, Value) else made

    def _by_one(self, node: Node, norm: Norm | None) -> Value | Multi:
        rule = ROWS.get(node.op)
        if node.shape is not None and 0 in node.shape:
            return self.lost(node, "a tensor without entries")
        if norm is not None:
            return self._attempt(node, lambda: PATTERNS.norm(self, node, norm))
        return self._attempt(node, lambda: rule(self, node) if rule is not None else self.lost(node, f"no bound for `{node.op}`"))

    def _attempt(self, node: Node, rule: Callable[[], Value | Multi]) -> Value | Multi:
        """What a rule gives, or what it did not understand."""
        try:
            return rule()
        except NotUnderstood as reason:
            return self.lost(node, f"`{node.op}`: {reason}")
        except (ValueError, IndexError, KeyError, ZeroDivisionError, OverflowError, AttributeError, TypeError, AssertionError) as error:
            return self.lost(node, f"the rule of `{node.op}` failed ({swallowed(f'bounds of {node.op}', error)})")

    def lost(self, node: Node, reason: str) -> Value:
        """An unknown value; its derivative is 0 where nothing it reads depends on the stream."""
        shape = node.shape or ()
        still = all(is_zero(v.der) for i in self.flow.counting[node.index] for v in self._each(i))
        jump = next((v.jump for i in node.inputs for v in self._each(i) if v.jump is not None), None)
        return replace(unknown(shape, reason, node.index, zero(len(sizes(plain(shape)))) if still else None), jump=jump)

    def _each(self, node: int) -> Multi:
        found = self.value(node)
        return (found,) if isinstance(found, Value) else found

    def behind(self, node: int) -> int:
        """The value behind casts, copies and dropout, as far as the branch and its weights go."""
        if node not in self.ends:
            below = one_behind(self.flow, node) if node in self.branch.members or self.flow.of_weights[node] else None
            self.ends[node] = node if below is None else self.behind(below)
        return self.ends[node]

    # -- leaves -----------------------------------------------------------------------------------------------------------------------

    @cached_property
    def _primary(self) -> int:
        return strip(self.flow, self.branch.state)

    @cached_property
    def _raw(self) -> frozenset[int]:
        """Stream nodes that the branch reads, behind casts."""
        read = {i for n in self.branch.region for i in self.flow.counting[n] if self.branch.border(i) == "raw"}
        return frozenset(strip(self.flow, i) for i in read)

    @cached_property
    def _tables(self) -> frozenset[int]:
        return given_tables(self.flow)

    def _leaf(self, index: int, border: str) -> Value:
        shape = self.graph.nodes[index].shape or ()
        layout = plain(shape)
        along = frozenset(atoms(layout, self.feature_axis(index))) if shape else frozenset()
        own = border == "raw" and (strip(self.flow, index) == self._primary or self._primary not in self._raw)
        symbol = "B" if own else "B_memory" if border == "memory" else "B_earlier"
        if border == "memory" and index in self._tables:
            symbol = TABLE
            self.hold((TABLE,), "what forward is given to turn queries and keys by")
        der = (Fact(ONE, along),) if own else zero(len(sizes(layout)))
        return Value(shape, layout, (Fact(sym(symbol), along),), der)

    @cached_property
    def working(self) -> frozenset[int]:
        """Calls of modules in which data are mapped by weights or mixed, and those around them."""
        nodes = self.graph.nodes
        calls = {nodes[i].call for i, key in enumerate(self.flow.key) if key}
        return frozenset(c for call in calls for c in self.graph.call_path(call))

    def feature_axis(self, index: int) -> int:
        """The axis that norms of this value run over; without one that of the channels, the second, where a convolution or a norm of channels reads
        it (sequences of rank three: and nothing that maps its last axis), else the last."""
        shape = self.graph.nodes[index].shape or ()
        norms = [n for n in self.branch.norms.by_node.values() if strip(self.flow, n.source) == strip(self.flow, index)]
        axes = {n.axes for n in norms if n.type != "batchnorm" and self.graph.nodes[n.node].op not in SEQUENCES}
        single = {a[0] for a in axes if len(a) == 1}
        if len(single) == 1:
            return single.pop()
        if len(shape) < 3:
            return -1
        reads = self._readers(index) if len(shape) == 3 else {self.graph.nodes[u].op for u in self.graph.users[index]}
        by_channel = reads & (SEQUENCES if len(shape) == 3 else {"conv2d", "conv3d", "convolution", "group_norm", "batch_norm"})
        return 1 - len(shape) if by_channel and not (len(shape) == 3 and reads & FEATURES_LAST) else -1

    def _readers(self, index: int) -> set[str]:
        """The ops that read a value, behind functions of its entries."""
        found: set[str] = set()
        todo, seen = [index], {index}
        while todo:
            for user in self.graph.users[todo.pop()]:
                entry_wise = self.flow.classes[user] == "activation" or self.graph.nodes[user].op in SAME_SHAPE
                if not entry_wise:
                    found.add(self.graph.nodes[user].op)
                elif user not in seen:
                    seen.add(user)
                    todo.append(user)
        return found

    def _source(self, node: Node) -> Value:
        shape = node.shape or ()
        if node.op == "parameter" or (node.op in ("buffer", "constant") and self.flow.is_float(node) and node.name):
            name = node.name or f"parameter {node.index}"
            if node.op != "parameter" or name in self.graph.frozen:
                self.names.buffers[name] = {"buffer": "a buffer", "constant": "a tensor that is no weight"}.get(node.op, "frozen")
            elif self._is_gain(node.index):
                self.names.gains.add(name)
            strides = tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))
            return of_part(Part(name, shape, 0, shape, strides), self.names)
        if not self.flow.is_float(node):
            found = constant(shape, 0.0, 1.0) if node.dtype == "bool" else unknown(shape, "integers", node.index)
            return replace(found, der=zero(len(sizes(plain(shape)))))
        words = {"input": "an argument of forward", "buffer": "a buffer", "constant": "a tensor from outside of the trace"}[node.op]
        return unknown(shape, f"{words}, of unknown size", node.index, zero(len(sizes(plain(shape)))))

    def _is_gain(self, index: int) -> bool:
        """Whether a weight (or a function of weights alone) multiplies data entry by entry."""
        todo, seen = [index], {index}
        while todo:
            here = todo.pop()
            for user in self.graph.users[here]:
                node = self.graph.nodes[user]
                if not self.flow.data[user]:
                    if user < self.branch.output and user not in seen:
                        seen.add(user)
                        todo.append(user)
                elif node.op == "mul" or (node.op in ("layer_norm", "rms_norm") and self.flow.ref(node, 2, "weight") == here):
                    return True
        return False

    # -- arguments --------------------------------------------------------------------------------------------------------------------

    def operand(self, node: Node, position: int, *names: str) -> Value | float | None:
        """An argument as a value, or as a number; None when it is missing."""
        found = self.flow.operand(node, position, *names)
        return self.one(found.node) if isinstance(found, Ref) else number(found)

    def first(self, node: Node) -> Value:
        """The first operand."""
        found = self.operand(node, 0, "input", "self")
        if not isinstance(found, Value):
            raise NotUnderstood("its first operand is no tensor")
        return found

    def integer(self, node: Node, position: int, *names: str) -> int | None:
        """An integer argument."""
        found = self.flow.operand(node, position, *names)
        return found if isinstance(found, int) and not isinstance(found, bool) else None

    def hold(self, symbols: tuple[str, ...], why: str) -> None:
        """Parameters that "over all weights" leaves fixed."""
        for symbol in symbols:
            self.given.setdefault(symbol, why)


class NotUnderstood(Exception):
    """A rule's way to say that a call has a form that it does not cover."""
