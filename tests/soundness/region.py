"""A branch as a function of the values that it reads and of the parameters: the recorded graph, run again on real tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from screen.capture.trace.tracer import Trace, run
from screen.graph import Graph
from screen.probe.measure.replay import Tape, attribute
from screen.structure.branches.branch import Branch
from screen.structure.chains.find import Chains
from screen.structure.chains.identity_edges import Edges
from screen.structure.dataflow import Flow, strip
from screen.structure.norms.find import Norms
from screen.structure.streams.reader import Reader
from tests.soundness.grammar import Design
from tests.soundness.model import build, example


@dataclass(frozen=True)
class Region:
    """One branch of a traced model."""

    trace: Trace
    branch: Branch
    leaves: tuple[int, ...]
    """Nodes outside that carry data: states of the stream, of other streams, earlier branches."""
    steps: tuple[int, ...]
    """Nodes to run, ascending, those outside that carry no data included (parameters stay out)."""
    parameters: tuple[int, ...]
    buffers: Mapping[int, Tensor]

    def kind(self, leaf: int) -> str:
        """`own` (the state that the branch is a function of), `memory` or `earlier`."""
        border, primary = self.branch.border(leaf), self.strip(self.branch.state)
        if border != "raw":
            return str(border)
        raw = {self.strip(i) for i in self.leaves if self.branch.border(i) == "raw"}
        return "own" if self.strip(leaf) == primary or primary not in raw else "earlier"

    def strip(self, node: int) -> int:
        """The value behind casts and copies."""
        return strip(self.branch.flow, node)

    def name(self, node: int) -> str:
        """Name of a parameter."""
        return self.branch.flow.graph.nodes[node].name

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the parameters that the branch reads, by name."""
        nodes = self.branch.flow.graph.nodes
        return {nodes[p].name: nodes[p].shape or () for p in self.parameters}

    def named_buffers(self) -> dict[str, Tensor]:
        """Buffers by name, in float64."""
        return {self.name(i): t.double() for i, t in self.buffers.items() if self.name(i) and t.is_floating_point()}

    def run(self, leaves: Mapping[int, Tensor], weights: Mapping[str, Tensor], *, copies: bool = False) -> dict[int, Any]:
        """Values of all nodes of the branch; `copies` as they were made, before a write in place."""
        env: dict[int, Any] = {i: self.tape.cast(t) for i, t in self.buffers.items()}
        env.update({i: leaves[i] for i in self.leaves})
        env.update({i: weights[self.name(i)] for i in self.parameters})
        found = {}
        for index in self.steps:
            env[index] = self.tape.call(index, env)  # batch norms with the statistics of the batch
            found[index] = env[index].clone() if copies and isinstance(env[index], Tensor) else env[index]
        return found

    @cached_property
    def tape(self) -> Tape:
        """The trace in float64."""
        return Tape(self.trace)


def _region(trace: Trace, branch: Branch, constants: Mapping[int, Tensor]) -> Region:
    graph = branch.flow.graph
    leaves: set[int] = set()
    steps: set[int] = set()
    parameters: set[int] = set()
    buffers: dict[int, Tensor] = {}
    calls = list(trace.recorder.graph.nodes)  # of which the graph may leave some out (`screen.capture.trace.slice_writes`)
    order = {call: i for i, call in enumerate(calls)}
    stack = [branch.output]
    while stack:
        node = stack.pop()
        here = graph.nodes[node]
        border = branch.border(node)
        if border in ("raw", "memory", "earlier"):
            leaves.add(node)
        elif here.op == "parameter":
            parameters.add(node)
        elif here.op in ("buffer", "constant"):
            buffers[node] = constants[node]
        elif node not in steps:
            steps.add(node)
            stack.extend(order[call] for call in calls[node].all_input_nodes)
    return Region(trace, branch, tuple(sorted(leaves)), tuple(sorted(steps)), tuple(sorted(parameters)), buffers)


def readers(graph: Graph) -> list[list[Branch]]:
    """The branches of each stream of a graph."""
    flow = Flow(graph)
    chains = Chains(flow, Edges(flow, Norms(flow)))
    return [[b for _, b in Reader(chains, chain).branches] for chain in chains.streams]


def regions(design: Design) -> list[Region]:
    """The branches of a design, as functions; of equal blocks the first and the last."""
    trace = run(build(design, "meta"), (example(design, "meta"),), {})
    if trace.graph.failure is not None:
        raise ValueError(f"the trace of `{design.line}` failed: {trace.graph.failure.message}")
    found = _regions(trace, build(design))
    count = len(design.parts)
    return found if len(found) <= 2 * count else found[:count] + found[-count:]


def region_of(trace: Trace, model: torch.nn.Module) -> Region:
    """The one branch of a trace."""
    [found] = _regions(trace, model)
    return found


def _regions(trace: Trace, model: torch.nn.Module) -> list[Region]:
    constants = {n.index: _held(trace, model, n.name) for n in trace.graph.nodes if n.op in ("buffer", "constant")}
    return [_region(trace, b, constants) for stream in readers(trace.graph) for b in stream]


def _held(trace: Trace, model: torch.nn.Module, name: str) -> Tensor:
    found = trace.recorder.constants.get(name)
    held: Tensor = attribute(model, name) if found is None else found
    return held
