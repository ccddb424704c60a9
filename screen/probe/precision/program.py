"""The program of a model in a 16-bit type, as `model.half()` or `model.bfloat16()` would run it, beside the same program in float64.

Weights, buffers and floating-point inputs are in the type. The program is traced once more with the model in it, so that the casts that it makes
itself (`.float()` in a norm, a softmax in float32, `.to(input_dtype)` behind them) are recorded as it makes them then; they are kept. No autocast.
Both traces are walked side by side: they may differ in casts alone, or nothing is measured.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.fx
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from screen.capture.build.built import Built
from screen.capture.trace.tracer import Trace
from screen.graph import SOURCES, Graph
from screen.probe.measure.kernels import called
from screen.probe.measure.leaves import Missing
from screen.probe.measure.parted import traced
from screen.probe.measure.replay import MOVES, Env, Tape, real_value

CASTS = frozenset({"to", "type", "float", "half", "bfloat16", "double", "type_as"})
SATURATING = frozenset({"isinf", "any", "where", "neg", "clamp"})
"""Calls that a program adds in float16 to keep a value inside of the type: x clamped to ± a number that is chosen by whether x holds an infinity."""
Both = dict[int, int]
"""Node of the first trace -> node of the same value in the second."""


class Written(Tape):
    """A trace that runs in the types that it was recorded in."""

    def __init__(self, trace: Trace, device: str) -> None:
        super().__init__(trace, torch.float32, device)
        self.watched: frozenset[int] = frozenset()
        """Calls whose operands are kept as they were before the call."""
        self.seen: dict[int, list[Tensor]] = {}

    def dtype_of(self, index: int) -> torch.dtype | None:
        """Of a node's value."""
        found = getattr(torch, self.graph.nodes[index].dtype or "", None)
        return found if isinstance(found, torch.dtype) else None

    def call(self, index: int, env: Env) -> Any:
        node = self.nodes[index]
        args, kwargs = self.values(node.args, env), self.values(node.kwargs, env)
        if index in self.watched:
            self.seen[index] = [a.detach().clone() for a in args if isinstance(a, Tensor)]
        if node.target is operator.getitem and isinstance(args[0], tuple | list):
            return args[0][args[1]]
        if getattr(node.target, "__name__", "") in MOVES and isinstance(args[0], Tensor):
            return args[0].to(self.device)
        return called(node.target, args, kwargs)

    def _plain(self, value: Any) -> Any:
        return real_value(value, self.device)


@dataclass
class Half:
    """One model's program in one type."""

    tape: Written
    of: Both
    """Node of the first trace -> node here."""
    clamped: frozenset[int] = frozenset()
    """Nodes here that clamp a value that the first trace leaves as it is."""
    back: Both = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.back = {j: i for i, j in reversed(self.of.items())}

    def given(self, nodes: list[int], values: Env, calls: list[int]) -> Env:
        """Leaves and cuts in their types, from the values of the first program; of one that the calls ask only for its type, nothing."""
        found: Env = {}
        graph = self.tape.graph.nodes
        for j in nodes:
            if all(graph[i].op == "type_as" and graph[i].inputs[0] != j for i in calls if j in graph[i].inputs):
                found[j] = torch.empty(0, dtype=self.tape.dtype_of(j), device=self.tape.device)
                continue
            if j not in self.back or self.back[j] not in values:
                raise Missing(f"node {j} is read in this type alone")
            value = values[self.back[j]]
            found[j] = value.detach().to(self.tape.dtype_of(j)) if isinstance(value, Tensor) else value
        return found

    def end(self, index: int) -> int:
        """The node here whose value goes on as that of a node of the first program: behind its clamp, where there is one."""
        here = self.of[index]
        return min((j for j in self.clamped if self.tape.graph.nodes[j].inputs[0] == here), default=here)

    def source(self, index: int) -> int | None:
        """The node of the first program that has the value of a node here, through casts; None where there is none."""
        nodes = self.tape.graph.nodes
        while index not in self.back and (nodes[index].op in CASTS or index in self.clamped) and nodes[index].inputs:
            index = nodes[index].inputs[0]
        return self.back.get(index)


def halved(trace: Trace, built: Built, dtype: torch.dtype, device: str) -> Half:
    """The program in a type. Raises `Missing` where it is another one."""
    args, kwargs = tree_map(lambda a: _in(a, dtype), (built.args, built.kwargs))
    with _converted(built.model, dtype):
        again = traced(built.model, args, kwargs)
    if again.error is not None or again.graph.failure is not None:
        why = str(again.error or again.graph.failure).strip().partition("\n")[0][:160]
        raise Missing(f"its forward does not run in {name_of(dtype)}: {why}")
    found, clamped = aligned(trace.graph, again.graph)
    if found is None:
        raise Missing(f"it is another program in {name_of(dtype)}")
    return Half(Written(again, device), found, clamped)


def name_of(dtype: torch.dtype) -> str:
    """`float16`."""
    return str(dtype).removeprefix("torch.")


def _in(value: Any, dtype: torch.dtype) -> Any:
    return value.to(dtype) if isinstance(value, Tensor) and value.is_floating_point() else value


@contextlib.contextmanager
def _converted(model: nn.Module, dtype: torch.dtype) -> Iterator[None]:
    """Parameters and buffers on meta in another type; the objects stay the same, and so does what is known of them."""
    tensors = {id(t): t for t in (*model.parameters(), *model.buffers()) if t.is_floating_point()}
    before = [(t, t.data) for t in tensors.values()]
    try:
        for t in tensors.values():
            t.data = t.data.to(dtype)
        yield
    finally:
        for t, data in before:
            t.data = data


def aligned(one: Graph, two: Graph) -> tuple[Both | None, frozenset[int]]:
    """The nodes of two traces that differ in casts, and in values that the second clamps, side by side (None where they differ in more), and the
    nodes of the second that clamp.

    A cast of one that the other lacks (a cast to the type that a value has already makes no node) is the value that it casts, and so is a clamp.
    What a clamp's ends are made of is read by nothing else: a call that read it would not be that of the first trace.
    """
    found, clamped = _leaves(one, two), set[int]()
    if found is None:
        return None, frozenset()
    mine, theirs = ([n for n in g.nodes if n.op not in SOURCES] for g in (one, two))
    i = j = 0
    while i < len(mine) or j < len(theirs):
        a = mine[i] if i < len(mine) else None
        b = theirs[j] if j < len(theirs) else None
        if a is not None and b is not None and (a.op, a.shape) == (b.op, b.shape) and _same_inputs(one, two, (a.index, b.index), found, clamped):
            found[a.index] = b.index
            i, j = i + 1, j + 1
        elif b is not None and b.op in CASTS | SATURATING:
            clamped |= {b.index} if b.op == "clamp" else set()
            j += 1
        elif a is not None and a.op in CASTS and a.inputs:
            found[a.index] = found[a.inputs[0]]
            i += 1
        else:
            return None, frozenset()
    return found, frozenset(clamped)


def _leaves(one: Graph, two: Graph) -> Both | None:
    """Leaves by their names, those without one in their order; a leaf stands where it is first read, which a cast can move."""
    found: Both = {}
    for op in SOURCES:
        mine, theirs = (sorted((n for n in g.nodes if n.op == op), key=lambda n: n.name) for g in (one, two))
        if [(n.name, n.shape) for n in mine] != [(n.name, n.shape) for n in theirs]:
            return None
        found |= {a.index: b.index for a, b in zip(mine, theirs, strict=True)}
    return found


def _same_inputs(one: Graph, two: Graph, calls: tuple[int, int], found: Both, clamped: set[int]) -> bool:
    """Whether two calls read the same values, casts and clamps left aside."""
    mine = [_bare(two, found[k], clamped) for k in one.nodes[calls[0]].inputs]
    return mine == [_bare(two, k, clamped) for k in two.nodes[calls[1]].inputs]


def _bare(graph: Graph, index: int, clamped: set[int]) -> int:
    while (graph.nodes[index].op in CASTS or index in clamped) and graph.nodes[index].inputs:
        index = graph.nodes[index].inputs[0]
    return index


__all__ = ["CASTS", "SATURATING", "Half", "Written", "aligned", "halved", "name_of"]
