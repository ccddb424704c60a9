"""All experiments of a plan, one after the other, in the process that may run the user's code."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from screen.capture.built import Built
from screen.capture.tracer import Trace
from screen.capture.tracer import run as traced
from screen.graph import Graph
from screen.probe.branch import branch_run
from screen.probe.budget import Budget, device_of, threads
from screen.probe.invariance import SLOPE, invariance
from screen.probe.material import Material, Missing, Watch
from screen.probe.plan import Experiment, Options, ProbePlan, SublayerPlan
from screen.probe.replay import Tape

FAILURES = (Missing, RuntimeError, ValueError, IndexError, TypeError, NotImplementedError, ArithmeticError, KeyError, AttributeError)
"""What a replay of the user's program on other numbers may raise: the experiment is then not measured, with the reason."""


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
        yield from (replace(e, reason=_said(error)) for e in empty)
        return
    for degree, nothing in zip(plan.degrees, empty, strict=True):
        yield tried(lambda d=degree: invariance(run, d), nothing, budget, budget.passes(run, 24))  # type: ignore[misc]
    for name, note in material.notes.items():
        yield Experiment("weights", f"how `{name}` starts", "observed", plan.stream, plan.kind, plan.name, reason=note)


def _lost(plan: SublayerPlan) -> Iterator[Experiment]:
    """Predictions that are not known."""
    for what, why in plan.unknown:
        if what == "degrees":
            yield Experiment("invariance", "exponents of ‖J‖", "not_measured", plan.stream, plan.kind, plan.name, reason=f"no prediction: {why}")


def tried(measure: Callable[[], Experiment], nothing: Experiment, budget: Budget, work: float) -> Experiment:
    """An experiment, or why it was not made."""
    if not budget.affords(work):
        return replace(nothing, reason="beyond `--probe-seconds`, by counted work")
    try:
        return measure()
    except FAILURES as error:
        return replace(nothing, reason=_said(error))


def _said(error: BaseException) -> str:
    """The reason in one line."""
    text = str(error).strip().splitlines()
    line = text[0] if text else ""
    return line if isinstance(error, Missing) else f"the replay raised `{type(error).__name__}: {line[:160]}`"


__all__ = ["experiments", "same_program", "tried"]
