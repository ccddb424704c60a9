"""One block as a map of the stream, stacked with fresh weights.

Block l is drawn from its seed whenever it runs, so that one block is held at a time.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from screen.graph import Initialiser
from screen.probe.measure.leaves import Material, Missing
from screen.probe.measure.replay import Env
from screen.probe.plan.types import BlockPlan

NETWORK = 100
"""Fresh draws of one network lie this far apart from those of the next."""


@dataclass
class Stack:
    """A block with its last norm behind it."""

    plan: BlockPlan
    material: Material
    calls: list[int] = field(default_factory=list)
    _leaves: list[int] = field(default_factory=list)
    _cuts: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        plan, tape = self.plan, self.material.tape
        self.calls, self._leaves, met = tape.steps([plan.exit, *plan.outputs], [plan.entry, *plan.cuts])
        if plan.entry not in met:
            raise Missing("the block does not read the stream where it begins")
        self._cuts = [i for i in met if i != plan.entry]
        self._tail, self._tail_leaves, _ = tape.steps([plan.end], [plan.last])
        self._others: Env = {i: self.material.normal(i) for i in self._cuts}

    @cached_property
    def histories(self) -> dict[str, tuple[Initialiser, ...]]:
        """Parameter -> its initialisers."""
        return dict(self.material.built.initialisers)

    @property
    def weight(self) -> int:
        """The node of the weight whose gradient is compared. Raises `Missing`."""
        labels = {self.material.tape.nodes[i].meta["label"]: i for i in self._leaves}
        if self.plan.weight not in labels:
            raise Missing("the block holds no matrix whose gradient could be compared")
        return labels[self.plan.weight]

    @property
    def parameters(self) -> int:
        """Entries of the block's weights."""
        nodes = self.material.tape.graph.nodes
        return sum(torch.Size(nodes[i].shape or ()).numel() for i in self._leaves if nodes[i].op == "parameter")

    @property
    def tokens(self) -> int:
        """Tokens of the stream."""
        shape = self.material.tape.graph.nodes[self.plan.entry].shape or (1,)
        return torch.Size(shape[:-1]).numel()

    def start(self, budget_fits: bool) -> tuple[Tensor, str]:
        """The stream where the block begins, as the model makes it of its inputs (in float32), and words for it; else N(0, 1)."""
        if budget_fits:
            plain = replace(self.material, tape=self.material.tape.at(torch.float32))
            calls, leaves, _ = plain.tape.steps([self.plan.entry], [])
            value = plain.tape.run(calls, plain.leaves(leaves))[self.plan.entry]
            if isinstance(value, Tensor) and bool(torch.isfinite(value).all()) and bool(value.any()):
                return self.material.tape.cast(value), "the stream as the model makes it of its inputs"
        return self.material.normal(self.plan.entry), "N(0, 1) on the stream"

    def run(self, x: Tensor, leaves: Env) -> Env:
        """The values of one block with the leaves of one layer."""
        return self.material.tape.run(self.calls, {**leaves, **self._others, self.plan.entry: x})

    def tokens_of(self, x: Tensor) -> Tensor:
        """A state of the stream as [sequences, tokens, features]."""
        rows = x.movedim(self.plan.axis, -1)
        return rows.reshape(x.shape[0] if x.dim() > 2 else 1, -1, rows.shape[-1])

    def drawn(self, layer: int, network: int = 0) -> Env:
        """The leaves of one layer."""
        return self.material.leaves(self._leaves, network * NETWORK + layer)

    def finish(self, x: Tensor) -> Tensor:
        """Behind the last norm."""
        if not self._tail:
            return x
        found = self.material.tape.run(self._tail, {**self.material.leaves(self._tail_leaves), self.plan.last: x})[self.plan.end]
        if not isinstance(found, Tensor):
            raise Missing("the stream does not end in one tensor")
        return found


__all__ = ["NETWORK", "Stack"]
