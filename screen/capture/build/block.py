"""Is a target one residual block, to be stacked, or a whole model? A first answer, from one run; facts may know better.

A block takes a float sequence [b, n, d] and returns the same shape, embeds nothing, and is no chain of blocks. A chain is told by its structure:
calls inside of one call, each with weights and a residual add, that all which goes from the input to the output passes through, one after the other.
They make a whole model where they repeat (`screen.graph.repetition`). A call whose own lines run again inside of it is a recursion.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from screen.capture.build.meta_copy import on_meta
from screen.capture.inputs.context import forward_signature
from screen.capture.trace.loop import Key, first_tensor, is_alike, returned
from screen.capture.trace.tracer import Trace, run
from screen.graph import SOURCES, Graph, Node
from screen.ops import CLASSES
from screen.graph.repetition import stacked

_PLAIN = frozenset({"add", "lerp", "index_add"})
_SUMS = _PLAIN | {"sub", "rsub", "stack", "scatter_add", "index_put", "setitem", "alias"}
"""What can end a residual branch."""


MANY = 6
"""Equal blocks in one chain that are no parts of one block; or unlike ones with several branches each."""
WIDER = 8
"""Times as many entries as a block's state has are in none of its sums: those of a model that embeds what it reads are."""
STEPS = 3
"""Steps of one module with several residual branches in itself that are no part of one block, as many as make a stack (`repetition.MANY`)."""


@dataclass(frozen=True)
class Looks:
    """What a target looks like from the outside."""

    fed: tuple[Key, ...] = ()
    """Of a block: the arguments that its output can be given to."""
    depth: int = 0
    """Of a chain of blocks: how many."""

    @property
    def block(self) -> bool:
        """One block."""
        return bool(self.fed)


def looks(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], *, said: bool = False) -> Looks:
    """One run on a copy, since a forward may change its model. `said`: somebody says that it is a block; then it may take rows or images, which
    whole models take, too: those are chains of blocks."""
    orders = [o for o in _arguments(model, args, kwargs) if _is_state(o[0][1], said)]
    if not orders:
        return Looks()
    with torch.no_grad():
        found = run(on_meta(model), args, kwargs)
    if found.graph.failure is not None:  # it is told when it is traced
        return Looks() if any(_has_norm(members[0]) for members in repeated(model)) else Looks(fed=(orders[0][0][0],))
    if _is_positioned(found.graph) or (not said and Shape(found.graph).is_embedded):
        return Looks()
    for order in orders:
        state = order[0][1]
        output = returned(found.outputs, state)
        if not output or not is_alike(state, output[0]):
            continue
        shape = Shape(found.graph)
        depth = shape.depth
        return Looks(depth=depth) if depth > 1 else Looks(fed=_fed(model, order, output, found))
    return Looks()


def _is_state(value: Any, said: bool) -> bool:
    """Whether the first tensor in a value can be a stream: a float sequence; rows or images where somebody says so."""
    main = first_tensor(value, value)
    wide = said or main.shape[-1:] != (1,)  # one number for each step is a series, and no stream
    return bool(main.dtype.is_floating_point and wide and (main.dim() == 3 or (said and main.dim() > 1)))


def _is_positioned(graph: Graph) -> bool:
    """Whether a table that is read at constant places is added to the input itself, as a model adds positions before its first block."""
    carried = {n.index for n in graph.nodes if n.op == "input"}
    reached = set(carried)
    for node in graph.nodes:
        if reached.intersection(node.inputs):
            reached.add(node.index)
    tables = {n.index for n in graph.nodes if n.op == "embedding" and n.index not in reached}
    for node in graph.nodes:
        if node.op == "add" and carried & set(node.inputs) and tables & set(node.inputs):
            return True
        if CLASSES.get(node.op) in ("view", "part") and node.inputs:
            for kind in (carried, tables):
                if node.inputs[0] in kind:
                    kind.add(node.index)
    return False


def _arguments(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[list[tuple[Key, Any]]]:
    """The arguments in the order in which forward declares them: from the first on that holds a tensor, and from the first tensor on."""
    declared = [p.name for p in forward_signature(model)]
    named = sorted(kwargs.items(), key=lambda item: declared.index(item[0]) if item[0] in declared else len(declared))
    every: list[tuple[Key, Any]] = [*enumerate(args), *named]
    holding = list(itertools.dropwhile(lambda item: not _holds(item[1]), every))
    tensors = list(itertools.dropwhile(lambda item: not isinstance(item[1], Tensor), holding))
    return [order for order in (holding, tensors if len(tensors) < len(holding) else []) if order]


def _holds(value: Any) -> bool:
    return first_tensor(value, value) is not None


def _fed(model: nn.Module, order: list[tuple[Key, Any]], output: list[Any], trace: Trace) -> tuple[Key, ...]:
    """The leading arguments that have the shapes of the leading outputs. One that was left out (`residual=None`) is among them where the output in
    its place has the shape of the stream and is what came in, past every weight."""
    given = {key for key, _ in order}
    left = [(p.name, None) for i, p in enumerate(forward_signature(model)) if p.name not in given and i not in given and p.default is None]
    keys: list[Key] = []
    for (key, value), result in zip([*((k, v) for k, v in order if v is not None), *left], output, strict=False):
        if not ((_holds(value) and is_alike(value, result)) or (value is None and is_alike(order[0][1], result) and not _is_weighted(trace, result))):
            break
        keys.append(key)
    return tuple(keys)


def _is_weighted(trace: Trace, result: Any) -> bool:
    """Whether a weight had a part in a value."""
    node = trace.recorder.values.get(id(result))
    todo, seen = [node] if node is not None else [], set()
    while todo:
        here = todo.pop()
        if here not in seen:
            seen.add(here)
            todo += here.all_input_nodes
    return node is None or any(n.op == "get_attr" and n.meta.get("kind") == "parameter" for n in seen)


def repeated(model: nn.Module) -> Iterator[list[nn.Module]]:
    """The members of each container that holds two or more modules of one class with children."""
    for module in model.modules():
        if isinstance(module, nn.ModuleList | nn.Sequential | nn.ModuleDict):
            members = [m for m in module.children() if next(m.children(), None) is not None]
            if len(members) > 1 and len({type(m) for m in members}) == 1:
                yield members


def largest_stack(model: nn.Module) -> int:
    """Members of the largest repeated container; 0 when there is none."""
    return max((len(members) for members in repeated(model)), default=0)


def _has_norm(module: nn.Module) -> bool:
    return any("norm" in type(m).__name__.casefold() for m in module.modules())


Print = tuple[tuple[object, ...], ...]
"""What a call does, whatever its weights are called: ops, shapes, files, lines."""


@dataclass(frozen=True)
class Shape:
    """The calls of one run, and what passes through them."""

    graph: Graph

    @cached_property
    def inside(self) -> dict[int, list[int]]:
        """Call -> the nodes that ran in it or below it, in order: without gaps but for sources."""
        table: dict[int, list[int]] = {c.index: [] for c in self.graph.calls}
        for node in self.graph.nodes:
            for call in self.graph.call_path(node.call):
                table[call].append(node.index)
        return table

    @cached_property
    def data(self) -> frozenset[int]:
        """Nodes on a way from the first input to an output."""
        first = next((n.index for n in self.graph.nodes if n.op == "input"), -1)
        below, above = {first}, set(self.graph.outputs)
        for node in self.graph.nodes:
            if any(i in below for i in node.inputs):
                below.add(node.index)
        for node in reversed(self.graph.nodes):
            if node.index in above:
                above.update(node.inputs)
        return frozenset(below & above)

    @cached_property
    def ends(self) -> frozenset[int]:
        """The outputs of which no other output of their shape is made: a list of the states behind every layer ends with the last of them. What the
        first one is made of and is of another width (logits of routers, maps of attention) is beside the states."""
        nodes, above = self.graph.nodes, set[int]()
        for node in reversed(nodes):
            if node.index in above or node.index in self.graph.outputs:
                above.update(node.inputs)
        sizes = {i: sorted(nodes[i].shape or ()) for i in self.graph.outputs}  # states may be turned: tokens first
        shapes = [sizes[i] for i in self.graph.outputs if i not in above]
        width = {i: (nodes[i].shape or (0,))[-1] for i in self.graph.outputs}
        own = {i for i, size in width.items() if size == width[self.graph.outputs[0]] and sizes[i] not in shapes}
        return frozenset(i for i in self.graph.outputs if i not in above or i in own)

    @cached_property
    def _reach(self) -> list[int]:
        """For each place the last node that reads something of the data from before it."""
        far, reach = 0, [0]
        for node in self.graph.nodes:
            if node.index in self.data:
                users = [u for u in self.graph.users[node.index] if u in self.data]
                far = max([far, *users, *([len(self.graph.nodes)] if node.index in self.ends else [])])
            reach.append(far)
        return reach

    @property
    def depth(self) -> int:
        """Blocks of the longest chain; 0 where there is none."""
        calls: dict[int, list[int]] = {}
        for call in self.graph.calls:
            if call.parent is not None:
                calls.setdefault(call.parent, []).append(call.index)
        chains = [self._blocks(below) for above, below in calls.items() if above == 0 or self._is_gate(above)]
        return max([self._nested(), *chains, *map(self._dependent, calls.values()), *map(self._steps, calls.values())], default=0)

    def _is_gate(self, call: int) -> bool:
        """Whether every way from the input to an output leads through a call: nothing from before it is read behind it."""
        nodes = [i for i in self.inside[call] if i in self.data]
        return bool(nodes) and self._reach[nodes[0]] <= nodes[-1]

    def _is_block(self, call: int) -> bool:
        """A sum of two values of the data, and a matrix; without one, a plain add of what is all made of one value (x + pool(x), no add and norm)."""
        nodes = self.graph.nodes
        read = {j for i in self.inside[call] for j in nodes[i].inputs}
        if any(nodes[i].op == "parameter" and sum(n > 1 for n in nodes[i].shape or ()) > 1 for i in read):
            return self._adds(call) > 0
        return len((read & self.data) - set(self.inside[call])) == 1 and self._adds(call, _PLAIN) > 0

    def _adds(self, call: int, ops: frozenset[str] = _SUMS) -> int:
        nodes = self.graph.nodes
        return sum(nodes[i].op in ops and len({j for j in nodes[i].inputs if j in self.data}) > 1 for i in self.inside[call])

    def _print(self, call: int, *, beside: bool = False) -> Print:
        """Ops with their shapes and lines; sources are left out: a mask is read once, by the first that needs it. `beside`: with what else runs."""
        nodes = [self.graph.nodes[i] for i in self.inside[call]]
        return tuple((n.op, n.shape, n.file, n.line) for n in nodes if n.index in self.data or (beside and n.op not in SOURCES))

    def _blocks(self, calls: list[int]) -> int:
        """How many blocks a sequence of calls is; 0 where nothing in it repeats."""
        members = [c for c in calls if self._is_gate(c) and self._is_block(c)]
        members = [c for c in members for _ in range(self.graph.times.get(self.graph.calls[c].module, 1))]
        mapped = [self._mapped(before, c) for before, c in zip([None, *members], members, strict=False)]
        whole = [self._adds(c) > 1 for c in members]
        for beside in (False, True):  # a second state, of which the first layer has nothing of the data yet and the last one hands nothing on
            if found := stacked([(self._print(c, beside=beside), m) for c, m in zip(members, mapped, strict=True)], whole):
                return found
        return len(members) if all(whole) and len(members) >= MANY else 0  # layers of several kinds, in no order

    def _mapped(self, before: int | None, call: int) -> tuple[object, ...]:
        """The weighted ops, and products with weights, between two members: what one that only joins (a gate of its own) adds is part of the unit."""
        if before is None or before == call:
            return ()
        nodes = self.graph.nodes[self.inside[before][-1] + 1 : self.inside[call][0]]
        return tuple((n.op, n.shape) for n in nodes if n.index in self.data and self._is_mapped(n))

    def _is_mapped(self, node: Node) -> bool:
        return CLASSES.get(node.op) == "weighted" or (CLASSES.get(node.op) == "product" and bool(self._matrices.intersection(node.inputs)))

    @cached_property
    def _matrices(self) -> frozenset[int]:
        """Parameters of two axes or more, and what is made of them alone."""
        found = set[int]()
        for node in self.graph.nodes:
            is_matrix = node.op == "parameter" and len(node.shape or ()) > 1
            if is_matrix or (node.index not in self.data and found.intersection(node.inputs)):
                found.add(node.index)
        return frozenset(found)

    def _dependent(self, calls: list[int]) -> int:
        """How many calls with weights of their own, and with sums in them or between them, read each other; 0 for fewer than MANY, or STEPS where the
        input is added to nothing (a U-shaped denoiser between two maps). Skips may lead past."""
        found: dict[Print, list[int]] = {}
        fewest = MANY if self._is_added else STEPS
        for call in calls:
            if self.inside[call]:
                found.setdefault(tuple((op, *at) for op, _, *at in self._print(call)), []).append(call)  # sizes may go with a dilation
        longest = 0
        for members in found.values():
            own = {self.graph.calls[c].module for c in members}
            times = [self.graph.times.get(self.graph.calls[c].module, 1) for c in members]
            if len(own) == len(members) and sum(times) >= fewest and all(self._reads(a, b) for a, b in itertools.pairwise(members)):
                longest = max(longest, sum(times))
        return longest

    @cached_property
    def _is_added(self) -> bool:
        """Whether a sum with something else holds the input as it is, normed or moved at most: the skip of a block. Of many times its size it is
        embedded (a number times a row of weights)."""
        nodes, carried = self.graph.nodes, {n.index for n in self.graph.nodes if n.op == "input"}
        for node in nodes:
            read = self.data.intersection(node.inputs)
            if node.op in _SUMS and len(read) > 1 and carried & read:
                return True
            moved = CLASSES.get(node.op) in ("view", "part", "linear", "norm", "alias") and math.prod(node.shape or ()) < WIDER * self._size
            if moved and carried.intersection(node.inputs[:1]):
                carried.add(node.index)
        return False

    @property
    def is_embedded(self) -> bool:
        """Whether the input is added to nothing, and what is added up is much larger than it: a forecaster with features of its own, from as many
        values to as many."""
        sums = (n for n in self.graph.nodes if n.op in _PLAIN and n.index in self.data and len(self.data.intersection(n.inputs)) > 1)
        return not self._is_added and any(math.prod(n.shape or ()) >= WIDER * self._size for n in sums)

    @cached_property
    def _size(self) -> int:
        """Entries of the largest input."""
        return max((math.prod(n.shape or ()) for n in self.graph.nodes if n.op == "input"), default=1)

    def _steps(self, calls: list[int]) -> int:
        """How many calls of one module read each other, where each is a block and gives a whole state (a core in a loop, to which the input is joined
        in every step)."""
        found: dict[int, list[int]] = {}
        for call in calls:
            if self.inside[call] and self._is_block(call) and self._is_whole(call):
                found.setdefault(self.graph.calls[call].module, []).append(call)
        longest = 0
        for module, members in found.items():
            count = len(members) * self.graph.times.get(module, 1)
            if count >= (STEPS if self._adds(members[0]) > 1 else MANY) and all(self._reads(a, b) for a, b in itertools.pairwise(members)):
                longest = max(longest, count)
        return longest

    def _is_whole(self, call: int) -> bool:
        """Whether what a call gives has the size of an output: a state of all tokens, and not of one of them."""
        nodes = self.graph.nodes
        return nodes[self.inside[call][-1]].shape in {nodes[i].shape for i in self.graph.outputs}

    def _reads(self, one: int, other: int) -> bool:
        """Whether a call reads what another gives, and a sum stands in it or on the way."""
        nodes, inside = self.graph.nodes, set(self.inside[other])
        reached, summed = set(self.inside[one]) & self.data, self._adds(one) > 0
        for node in nodes[min(reached, default=0) :]:
            if node.index in self.data and reached.intersection(node.inputs):
                if node.index in inside:
                    return summed
                reached.add(node.index)
                summed = summed or (node.op in _SUMS and len(self.data.intersection(node.inputs)) > 1)
        return False

    def _nested(self) -> int:
        """How often the lines of one call run in calls inside of it: a recursion."""
        own = {c.index: self._own(c.index) for c in self.graph.calls}
        return max((sum(own[c] == own[path[-1]] for c in path) for path in map(self.graph.call_path, own) if own[path[-1]]), default=0)

    def _own(self, call: int) -> Print:
        """The sums that stand in a call itself."""
        mine = (self.graph.nodes[i] for i in self.inside[call] if i in self.data)
        return tuple((n.op, n.shape, n.file, n.line) for n in mine if n.call == call and n.op in _SUMS)


__all__ = ["Looks", "largest_stack", "looks", "repeated"]
