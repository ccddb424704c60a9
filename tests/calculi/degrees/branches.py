"""Branches of a real model in float64, as functions of the stream: the recorded graph, run on real tensors."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from screen.capture.trace.tracer import Trace, run
from screen.probe.measure.replay import FLOATS, attribute, real_value
from screen.structure.branches.branch import Branch
from screen.structure.chains.find import Chains
from screen.structure.chains.identity_edges import Edges
from screen.structure.dataflow import Flow
from screen.structure.norms.find import Norms
from screen.structure.streams.reader import Reader


def _double(value: Any) -> Any:
    value = real_value(value)
    return torch.float64 if isinstance(value, torch.dtype) and value in FLOATS else value


@dataclass
class Replay:
    """A model's recorded graph with the value of every node, in float64."""

    trace: Trace
    env: list[Any] = field(default_factory=list)

    def readers(self) -> Iterator[Reader]:
        """One reader per stream."""
        flow = Flow(self.trace.graph)
        chains = Chains(flow, Edges(flow, Norms(flow)))
        return (Reader(chains, chain) for chain in chains.streams)

    def fill(self, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Run all nodes once."""
        inputs = iter([t for t in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(t, Tensor)])
        for node in self.trace.recorder.graph.nodes:
            if node.op == "placeholder":
                self.env.append(next(inputs))
            elif node.op == "get_attr":
                found = attribute(model, node.meta["label"])
                self.env.append(found.detach().clone() if isinstance(found, Tensor) else found)
            else:
                self.env.append(self.step(node, self.env))

    def step(self, node: torch.fx.Node, env: Any) -> Any:
        """One call; in-place calls work on a copy."""
        order = self.order

        def value(argument: Any) -> Any:
            return torch.fx.node.map_aggregate(argument, lambda a: env[order[a]] if isinstance(a, torch.fx.Node) else _double(a))

        if node.target is operator.getitem and isinstance(value(node.args[0]), tuple | list):
            return value(node.args[0])[node.args[1]]
        args = list(value(node.args))
        name = getattr(node.target, "__name__", "")
        if args and isinstance(args[0], Tensor) and (name.rstrip("_") != name or name.startswith(("__i", "__set"))):
            args[0] = args[0].clone()
            result = node.target(*args, **value(node.kwargs))  # type: ignore[operator]
            return args[0] if result is None else result
        return node.target(*args, **value(node.kwargs))  # type: ignore[operator]

    @property
    def order(self) -> dict[torch.fx.Node, int]:
        """Position of each recorded node."""
        if not hasattr(self, "_order"):
            self._order = {n: i for i, n in enumerate(self.trace.recorder.graph.nodes)}
        return self._order

    def function(self, branch: Branch) -> tuple[Callable[[dict[int, Tensor]], Tensor], dict[int, Tensor]]:
        """The branch as a function of some node values (states of the stream, parameters), and the values that its states have."""
        flow = branch.flow
        needed = [i for i in range(branch.output + 1) if flow.ancestors[branch.output] >> i & 1 or i == branch.output]
        border = [i for i in needed if branch.border(i) == "raw"]
        inside = set(branch.region)
        table = list(self.trace.recorder.graph.nodes)

        def call(given: dict[int, Tensor]) -> Tensor:
            env = dict(enumerate(self.env))
            env.update(given)
            changed = set(given)
            for i in needed:
                node = table[i]
                reads = [self.order[a] for a in node.all_input_nodes]
                if i not in given and any(r in changed for r in reads) and (i in inside or flow.of_weights[i]):
                    env[i] = self.step(node, env)
                    changed.add(i)
            return env[branch.output]

        reads = {i for n in branch.region for i in flow.counting[n]} | {branch.output}
        return call, {i: self.env[i] for i in border if i in reads and isinstance(self.env[i], Tensor)}


def replayed(meta: nn.Module, real: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Replay:
    """Trace `meta` and fill the graph from `real`, both in evaluation."""
    found = Replay(run(meta, args, kwargs))
    made = torch.utils._pytree.tree_map(lambda t: t.double() if isinstance(t, Tensor) and t.is_floating_point() else t, (args, kwargs))
    with torch.no_grad():
        found.fill(real.double(), *made)
    return found


def parameters(replay: Replay) -> dict[str, int]:
    """Node of each parameter by name."""
    return {n.name: n.index for n in replay.trace.graph.nodes if n.op == "parameter"}
