"""All experiments of a plan, one after the other, in the process that may run the user's code."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import torch

from screen.capture.build.built import Built
from screen.capture.trace.loop import alone
from screen.errors import UsageError
from screen.graph import Graph, ops_digest
from screen.probe.budget.allocation import Want
from screen.probe.budget.budget import RATES, Budget, device_of, dtype_of, room_of
from screen.probe.experiments import blocks, branches, initialisers, width_scaling
from screen.probe.experiments.curvature import curvatures
from screen.probe.experiments.update import updates
from screen.probe.measure.determinism import settled
from screen.probe.measure.leaves import Watch
from screen.probe.measure.parted import traced
from screen.probe.measure.session import Session
from screen.probe.plan.types import Experiment, Options, ProbePlan
from screen.probe.precision import run as precision
from screen.probe.stress.sweep import Make, stress


def experiments(plan: ProbePlan, built: Built, watch: Watch, options: Options, make: Make | None = None) -> Iterator[dict[str, Any]]:
    """What was measured, as plain data, each when it is done; first a line about the device. `make` builds the model with weights from a seed."""
    device, words = device_of(options.device)
    built = built if plan.loop else alone(built)
    with settled(device, options.seed):
        trace = traced(built.model, built.args, built.kwargs, initialisers=built.initialisers)
        room = room_of(options.memory, device)
        same = same_program(plan, trace.graph)
        dtype = dtype_of(options.dtype, plan, trace.graph, room, options.seconds * RATES[device]) if same else torch.float64
        yield {"device": words, "dtype": str(dtype).removeprefix("torch."), "width": sizes(built)}
        if not same:
            again = "the model is the same when it is built again"
            yield asdict(Experiment("plan", again, "not_measured", reason="a second trace gave another program"))
            return
        session = Session(trace, built, watch, options, Budget(options.seconds, options.memory, device, dtype))
        session.budget.decide(wants(plan, session, make is not None))
        if make is not None:
            yield from map(asdict, initialisers.recorded(session, make))
        for found in in_order(plan, session):
            yield asdict(found)
        if make is not None:
            for measured in (updates, curvatures):
                yield from map(asdict, measured(plan, session, make))
        if options.stress and make is not None:
            for found in stress(plan, session, make):
                yield asdict(found)


def sizes(built: Built) -> dict[str, int] | None:
    """Hidden size of a config, and the step in which it leaves whole heads."""
    with contextlib.suppress(UsageError):
        if built.sizes is not None:
            found = built.sizes()
            return {"own": found.main, "step": found.step}
    return None


def wants(plan: ProbePlan, session: Session, is_made: bool) -> Iterator[Want]:
    """Everything that is to be measured, with its counted work."""
    yield from initialisers.wants(session) if is_made and plan.asks("init", "", "", "") else ()
    for block in plan.blocks:
        in_depth = plan.asks("depth", block.stream, block.kind, "")
        found = [*blocks.wants(block, session, in_depth), *precision.wants(block, plan, session), *width_scaling.wants(block, session)]
        yield from (w for w in found if plan.asks(w.key[0], block.stream, block.kind, ""))
    each = [(s, w) for s in plan.sublayers for w in branches.wants(s, session) if plan.asks(w.key[0], s.stream, s.kind, s.name)]
    yield from (w for s, w in each if not branches.is_bound(s, w))
    yield from (w for s, w in each if branches.is_bound(s, w))  # slopes first


def in_order(plan: ProbePlan, session: Session) -> Iterator[Experiment]:
    """What is cheap and exact first."""
    for block in plan.blocks:
        yield from blocks.started(block, session)
    for measure in (branches.exponents, branches.attacked):
        for sublayer in plan.sublayers:
            yield from measure(sublayer, session)
    yield from precision.precise(plan, session)
    for block in plan.blocks:
        yield from blocks.stacked(block, session)
    yield from width_scaling.widened(plan.blocks, session)


def same_program(plan: ProbePlan, graph: Graph) -> bool:
    """Whether the plan's nodes are those of this graph."""
    return len(graph.nodes) == plan.nodes and ops_digest(graph) == plan.ops


__all__ = ["experiments", "in_order", "same_program"]
