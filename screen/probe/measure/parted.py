"""A trace as the facts have its program: output maps that an attention and a feed-forward share are a sum of two maps, steps by a gate are means,
gains stand behind their norms."""

from __future__ import annotations

import operator
from dataclasses import replace
from typing import Any

import torch
import torch.fx
import torch.nn.functional as F
from torch import nn

from screen.capture.trace.tracer import Trace, run
from screen.graph import Initialiser
from screen.graph.meant import meant, unfolded
from screen.graph.parted import parted
from screen.structure.dataflow import Flow
from screen.structure.folded_gains import folded_gains
from screen.structure.gated_means import gated_means, spelled
from screen.structure.shared_output import shared_outputs


def traced(
    model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], *, initialisers: tuple[tuple[str, tuple[Initialiser, ...]], ...] = ()
) -> Trace:
    """What a run left, with the program as the facts have it."""
    return as_parted(run(model, args, kwargs, initialisers=initialisers))


def as_parted(trace: Trace) -> Trace:
    """The trace with every call as in the graph that `screen.graph.parted` makes of its own, in the same order."""
    chosen = shared_outputs(Flow(trace.graph))
    program, shapes = trace.recorder.graph, trace.graph.nodes
    nodes = list(program.nodes)

    def call(place: torch.fx.Node, function: Any, *args: Any) -> torch.fx.Node:
        with program.inserting_before(place):
            made = program.call_function(function, args)
        made.meta = dict(place.meta)
        return made

    for index, end in chosen.items():
        whole, last = nodes[index], nodes[end]
        _, weight, *bias = (nodes[i] for i in shapes[index].inputs)
        first, made = 0, []
        for number, part in enumerate(shapes[shapes[index].inputs[0]].inputs):
            size = (shapes[part].shape or (0,))[-1]
            columns = call(whole, operator.getitem, weight, (slice(None), slice(first, first + size)))
            made.append(call(whole, F.linear, nodes[part], columns, *(bias if number == 0 else [])))
            first += size
        if end != index:
            made = [call(last, torch.mul, *(part if i == index else nodes[i] for i in shapes[end].inputs)) for part in made]
        total = made[0]
        for term in made[1:]:
            total = call(last, torch.add, total, term)
        last.replace_all_uses_with(total)
        for node in (last, whole) if end != index else (whole,):
            program.erase_node(node)
    return _unfolded(_as_meant(replace(trace, graph=parted(trace.graph, chosen)) if chosen else trace))


def _as_meant(trace: Trace) -> Trace:
    """The same of steps that are means by a gate."""
    means = gated_means(Flow(trace.graph))
    program = trace.recorder.graph
    nodes = list(program.nodes)
    for index, mean in means.items():
        with program.inserting_before(nodes[index]):
            made = program.call_function(torch.lerp, (nodes[mean.start], nodes[mean.end], nodes[mean.share]))
        made.meta = dict(nodes[index].meta)
        nodes[index].replace_all_uses_with(made)
        for node in (index, *reversed(mean.steps)):
            program.erase_node(nodes[node])
        nodes[index] = made
    return replace(trace, graph=meant(trace.graph, *spelled(means))) if means else trace


def _unfolded(trace: Trace) -> Trace:
    """The same of gains that are folded into the inverse of a statistic."""
    found = folded_gains(trace.graph)
    nodes = list(trace.recorder.graph.nodes)
    for index, one in found.items():
        nodes[one.product].args = nodes[one.value], nodes[one.statistic]
        nodes[one.product].meta["val"] = nodes[index].meta["val"]
        nodes[index].args = nodes[one.product], nodes[one.gain]
    return replace(trace, graph=unfolded(trace.graph, found)) if found else trace


__all__ = ["as_parted", "traced"]
