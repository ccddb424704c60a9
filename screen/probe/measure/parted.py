"""A trace as the facts have its program: output maps that an attention and a feed-forward share are a sum of two maps."""

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
from screen.graph.parted import parted
from screen.structure.dataflow import Flow
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
    return replace(trace, graph=parted(trace.graph, chosen)) if chosen else trace


__all__ = ["as_parted", "traced"]
