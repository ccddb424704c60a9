"""All experiments of a plan, one after the other, in the process that may run the user's code."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from screen.capture.built import Built
from screen.capture.tracer import Trace
from screen.capture.tracer import run as traced
from screen.graph import Graph
from screen.probe.blocks import of_block
from screen.probe.adversary import SAID, attack, scaled
from screen.probe.attempts import FAILURES, said, tried
from screen.probe.branch import BranchRun, branch_run
from screen.probe.budget import Budget, device_of, threads
from screen.probe.invariance import SLOPE, invariance
from screen.probe.material import Material, Watch
from screen.probe.plan import Experiment, Options, ProbePlan, SublayerPlan
from screen.probe.replay import Tape

def experiments(plan: ProbePlan, built: Built, watch: Watch, options: Options) -> Iterator[dict[str, Any]]:
    """What was measured, as plain data, each when it is done; first a line about the device."""
    device, words = device_of(options.device)
    yield {"device": words, "dtype": "float64"}
    with _settled():
        trace = traced(built.model, built.args, built.kwargs, initialisers=built.initialisers)
        if not same_program(plan, trace.graph):
            again = "the model is the same when it is built again"
            yield asdict(Experiment("plan", again, "not_measured", reason="a second trace gave another program"))
            return
        budget = Budget(options.seconds, options.memory, device)
        for sublayer in plan.sublayers:
            for found in _of_branch(sublayer, trace, built, watch, options, budget):
                yield asdict(found)
        for block in plan.blocks:
            for found in of_block(block, trace, built, watch, options, budget):
                yield asdict(found)


def same_program(plan: ProbePlan, graph: Graph) -> bool:
    """Whether the plan's nodes are those of this graph."""
    from hashlib import blake2b

    digest = blake2b(" ".join(n.op for n in graph.nodes).encode(), digest_size=8).hexdigest()
    return len(graph.nodes) == plan.nodes and digest == plan.ops


@contextlib.contextmanager
def _settled() -> Iterator[None]:
    """A fixed number of threads, exact attention, no gradient unless asked for; the global random state as it was found."""
    before, kept = torch.get_num_threads(), torch.random.get_rng_state()
    torch.set_num_threads(threads())
    try:
        with sdpa_kernel(SDPBackend.MATH), torch.no_grad():
            yield
    finally:
        torch.set_num_threads(before)
        torch.random.set_rng_state(kept)


def _of_branch(plan: SublayerPlan, trace: Trace, built: Built, watch: Watch, options: Options, budget: Budget) -> Iterator[Experiment]:
    """Every experiment on one branch."""
    empty = [
        Experiment("invariance", SLOPE, "not_measured", plan.stream, plan.kind, plan.name, d.group, d.status, d.predicted) for d in plan.degrees
    ]
    yield from _lost(plan)
    try:
        budget.room(plan, trace.graph)
        material = Material(Tape(trace, torch.float64, budget.device), built, watch, options.seed)
        run = branch_run(plan, material)
        run.output()
    except FAILURES as error:
        yield from (replace(e, reason=said(error)) for e in empty)
        return
    for degree, nothing in zip(plan.degrees, empty, strict=True):
        measure = partial(scaled, run, degree, nothing) if degree.status == "bound" else partial(invariance, run, degree)
        yield from tried(measure, [nothing], budget, budget.passes(run, 40))
    yield from _bounds(run, budget)
    for name, note in material.notes.items():
        yield Experiment("weights", f"how `{name}` starts", "observed", plan.stream, plan.kind, plan.name, reason=note)


def _bounds(run: BranchRun, budget: Budget) -> Iterator[Experiment]:
    """The branch's bounds, attacked."""
    plan = run.plan
    nothing = [Experiment("bounds", SAID[b.name], "not_measured", plan.stream, plan.kind, plan.name, predicted="at most 1") for b in plan.bounds]
    if plan.axis != -1:
        yield from (replace(e, reason="its features do not stand on the last axis, along which sizes are measured") for e in nothing)
        return
    yield from tried(partial(attack, run), nothing, budget, budget.passes(run, 300))
    for what, why in plan.unknown:
        if what in SAID:
            yield Experiment("bounds", SAID[what], "not_measured", plan.stream, plan.kind, plan.name, reason=f"no bound is known: {why}")


def _lost(plan: SublayerPlan) -> Iterator[Experiment]:
    """Predictions that are not known."""
    for what, why in plan.unknown:
        if what == "degrees":
            yield Experiment("invariance", "exponents of ‖J‖", "not_measured", plan.stream, plan.kind, plan.name, reason=f"no prediction: {why}")


__all__ = ["experiments", "same_program"]
