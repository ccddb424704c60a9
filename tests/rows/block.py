"""A call in the smallest model that has a branch: x + W₂ · flat(call(W₁ x, weights)), traced on meta."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from screen.capture.trace.tracer import Trace, run
from screen.graph import Node
from tests.soundness.region import Region, region_of

SHAPE = (2, 3, 4)
"""[samples, tokens, features] of what a call reads, where it does not say otherwise."""


@dataclass(frozen=True)
class Call:
    """One call, as a user writes it."""

    op: str
    """The name that capture gives it."""
    of: Callable[..., Any]
    """Of x [`shape`] and of the weights."""
    weights: tuple[tuple[int, ...], ...] = ()
    shape: tuple[int, ...] = SHAPE
    number: int = 0
    """Which of the calls of this op it is."""

    def __str__(self) -> str:
        return f"{self.op}-{self.number}"

    @cached_property
    def trace(self) -> Trace:
        """Its model on meta."""
        return run(Tiny(self).to("meta").eval(), (torch.zeros(self.shape, device="meta"),), {})

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """What the call itself is recorded as."""
        return tuple(n for n in self._inside if n.op == self.op)

    @cached_property
    def results(self) -> tuple[Node, ...]:
        """Its nodes with one result, and what is taken of those with several."""
        nodes, own = self.trace.graph.nodes, {n.index for n in self.nodes}
        taken = [n for n in nodes if n.op == "getitem" and n.inputs[0] in own and nodes[n.inputs[0]].shape is None]
        return tuple(n for n in (*self.nodes, *taken) if n.shape is not None)

    @cached_property
    def end(self) -> Node:
        """What it gives in the end; of several results the last that is used."""
        users, own = self.trace.graph.users, {n.index for n in self._inside}
        return max((n for n in self._inside if set(users[n.index]) - own), key=lambda n: n.index)

    @cached_property
    def taken(self) -> tuple[int, ...]:
        """Where `end` stands in what the call returns: nowhere inside, or at a place of several results."""
        nodes, end = self.trace.graph.nodes, self.end
        if end.op != "getitem" or nodes[end.inputs[0]].shape is not None or not isinstance(end.args[1], int):
            return ()
        returned = self.of(torch.ones(self.shape), *(torch.ones(shape) for shape in self.weights))
        return (end.args[1],) if isinstance(returned, tuple | list) else ()

    @cached_property
    def _inside(self) -> tuple[Node, ...]:
        graph = self.trace.graph
        inside = {c.index for c in graph.calls if graph.modules[c.module].class_name == "Alone"}
        return tuple(n for n in graph.nodes if n.call in inside and n.op != "parameter")

    @cached_property
    def region(self) -> Region:
        """Its branch, as a function."""
        return region_of(self.trace, Tiny(self))


class Alone(nn.Module):
    """The call."""

    def __init__(self, call: Call) -> None:
        super().__init__()
        self.of = call.of
        self.weights = nn.ParameterList(nn.Parameter(torch.ones(shape)) for shape in call.weights)

    def forward(self, x: Tensor) -> Any:
        return self.of(x, *self.weights)


class Tiny(nn.Module):
    """The model around it."""

    def __init__(self, call: Call) -> None:
        super().__init__()
        width = call.shape[-1]
        self.first, self.call = nn.Linear(width, width, bias=False), Alone(call)
        with torch.no_grad():
            entries = flat(self.call(self.first(torch.ones(call.shape)))).numel()
        self.last = nn.Linear(entries, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.last(flat(self.call(self.first(x))))


def flat(made: Any) -> Tensor:
    """All entries of what a call gives, real numbers in a row."""
    if isinstance(made, tuple | list):
        return torch.cat([flat(t) for t in made])
    if made.is_complex():
        made = torch.view_as_real(made.resolve_conj())
    return (made if made.is_floating_point() else made.float()).reshape(-1)


__all__ = ["Call", "Tiny", "flat"]
