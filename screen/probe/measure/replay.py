"""The recorded graph, run again on real tensors: from any cut to any node, in another dtype and on another device.

Calls run as they were recorded, in-place ones included; the leaves that a run may write to are copies. Floating-point dtypes that the program
names become the dtype of the run, so that a branch that says `.to(torch.float32)` is computed in float64 throughout.
"""

from __future__ import annotations

import copy
import operator
import os
import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

import torch
import torch.fx
from torch import Tensor, nn

from screen.capture.trace.tracer import Trace
from screen.graph import Guess
from screen.ops import CLASSES
from screen.probe.measure.kernels import called

FLOATS = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})
_CASTS = frozenset({"float", "half", "bfloat16", "double"})
MOVES = frozenset({"cpu", "cuda"})
_DEVICE = re.compile(r"(meta|cpu|cuda)(:\d+)?")
_VIEWS = frozenset({"view", "_unsafe_view"})


class Missing(Exception):
    """What was asked for cannot be measured, for the reason given."""


Env = dict[int, Any]
"""Node -> value."""


def real_value(value: Any, device: str = "cpu") -> Any:
    """An argument with every device replaced by that of the run, so that all values stand on one."""
    if isinstance(value, torch.device):
        return torch.device(device)
    return device if isinstance(value, str) and _DEVICE.fullmatch(value) else value


def _is_write(target: Any) -> bool:
    """Whether a call writes to what it reads."""
    name = target if isinstance(target, str) else getattr(target, "__name__", "")
    schema = getattr(target, "_schema", None)
    own = name.strip(".").partition(".")[0]
    mutable = schema is not None and schema.is_mutable
    return bool(mutable) or own in ("setitem", "__setitem__") or (own.endswith("_") and not own.endswith("__"))


def _guessed(guess: Guess, error: RuntimeError) -> str:
    """Why numbers that a program reads of its data keep a replay from running."""
    said = str(error).strip().partition("\n")[0][:120]
    return f"`{os.path.basename(guess.file or '')}:{guess.line}` reads numbers of the data, where the trace took {guess.assumed}: {said}"


def attribute(model: nn.Module, path: str) -> Any:
    """`model.a.0.b`, through lists, dicts and plain attributes."""
    value: Any = model
    for part in path.split("."):
        if isinstance(value, list | tuple):
            value = value[int(part)]
        elif isinstance(value, dict):
            value = value.get(part, value.get(int(part)) if part.isdigit() else None)
        else:
            value = getattr(value, part)
    return value


class Tape:
    """One trace as a function from the values of some nodes to those of others."""

    def __init__(self, trace: Trace, dtype: torch.dtype = torch.float64, device: str = "cpu") -> None:
        self.graph = trace.graph
        self.recorder = trace.recorder
        self.dtype = dtype
        self.device = device
        self.nodes: list[torch.fx.Node] = list(trace.recorder.graph.nodes)
        self.order = {node: i for i, node in enumerate(self.nodes)}
        self._reads = [tuple(self.order[a] for a in node.all_input_nodes) for node in self.nodes]

    def at(self, dtype: torch.dtype) -> Tape:
        """The same program in another type."""
        twin = copy.copy(self)
        twin.dtype = dtype
        return twin

    def steps(self, targets: Iterable[int], cuts: Iterable[int]) -> tuple[list[int], list[int], list[int]]:
        """(calls to run, leaves that they read, cuts that they read), each ascending: everything that the targets depend on, back to the cuts."""
        stop, seen = set(cuts), set[int]()
        calls, leaves, met = list[int](), list[int](), list[int]()
        stack = list(targets)
        while stack:
            index = stack.pop()
            if index in seen:
                continue
            seen.add(index)
            if index in stop:
                met.append(index)
            elif self.nodes[index].op in ("placeholder", "get_attr"):
                leaves.append(index)
            else:
                calls.append(index)
                stack.extend(self._reads[index])
        return sorted(calls), sorted(leaves), sorted(met)

    def run(self, calls: Iterable[int], given: Mapping[int, Any]) -> Env:
        """The values of some calls, in order, from those of what they read."""
        env = self.copies(given)
        first = None
        for index in calls:
            first = index if first is None else first
            try:
                env[index] = self.call(index, env)
            except RuntimeError as error:
                read = next((g for g in self.graph.guesses if g.node is not None and first <= g.node <= index), None)
                if read is None:
                    raise
                raise Missing(_guessed(read, error)) from error
        return env

    def parted(self, calls: Iterable[int], given: Iterable[int]) -> tuple[list[int], list[int]]:
        """Of some calls, ascending, those that nothing given acts on, and those that follow from it."""
        still, moving, moved = list[int](), list[int](), set(given)
        for index in calls:
            follows = not moved.isdisjoint(self.graph.nodes[index].inputs)
            (moving if follows else still).append(index)
            moved.update((index,) if follows else ())
        return still, moving

    def copies(self, given: Mapping[int, Any]) -> Env:
        """Values of nodes that calls in place may write to."""
        return {i: self._guarded(i, v) for i, v in given.items()}

    def _guarded(self, index: int, value: Any) -> Any:
        """A copy of what a call in place may write to; weights are not copied (no traced forward of a model in evaluation writes to them)."""
        return value.clone() if isinstance(value, Tensor) and self.graph.nodes[index].op != "parameter" else value

    def call(self, index: int, env: Env) -> Any:
        """The value of one call, from those of what it reads."""
        node = self.nodes[index]
        args, kwargs = self.values(node.args, env), self.values(node.kwargs, env)
        name = getattr(node.target, "__name__", "")
        if node.target is operator.getitem and isinstance(args[0], tuple | list):
            return args[0][args[1]]
        if name in _CASTS and len(args) == 1 and isinstance(args[0], Tensor):
            return args[0].to(self.dtype)
        if name in MOVES and isinstance(args[0], Tensor):
            return args[0].to(self.device)
        try:
            made = called(node.target, args, kwargs)
        except RuntimeError:
            if name.partition(".")[0] not in _VIEWS or self._root(index) in self._written:
                raise
            made = args[0].reshape(*args[1:], **kwargs)  # a value that was given has strides of its own
        return made if node.all_input_nodes else self.cast(made)  # a factory without a dtype has the default one

    @cached_property
    def _written(self) -> frozenset[int]:
        """What calls in place write to, by the value whose memory it is: a view of it and a copy are two things."""
        found = set[int]()
        for index, node in enumerate(self.nodes):
            if node.op not in ("placeholder", "get_attr") and self._reads[index] and _is_write(node.target):
                found.add(self._root(self._reads[index][0]))
        return frozenset(found)

    def _root(self, index: int) -> int:
        """The value in whose memory another one may be: past views and parts of it, and what was written to it."""
        while self._reads[index]:
            if CLASSES.get(self.graph.nodes[index].op) not in ("view", "part") and not _is_write(self.nodes[index].target):
                break
            index = self._reads[index][0]
        return index

    def values(self, argument: Any, env: Env) -> Any:
        """An argument, with the values of the nodes in it."""
        return torch.fx.node.map_aggregate(argument, lambda a: env[self.order[a]] if isinstance(a, torch.fx.Node) else self._plain(a))

    def _plain(self, value: Any) -> Any:
        value = real_value(value, self.device)
        return self.dtype if isinstance(value, torch.dtype) and value in FLOATS else value

    def cast(self, value: Any) -> Any:
        """A leaf on the run's device, floats in its dtype."""
        if not isinstance(value, Tensor):
            return value
        return value.detach().to(self.device, self.dtype if value.is_floating_point() else None)


__all__ = ["FLOATS", "MOVES", "Env", "Missing", "Tape", "attribute", "real_value"]
