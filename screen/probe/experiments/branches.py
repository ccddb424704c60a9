"""Experiments on one branch: exponents of its weight groups, and its bounds under attack."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from screen.probe.bounds.attack import SAID, SCALED, scaled
from screen.probe.bounds.fallback import attempted, key, too_large
from screen.probe.budget.allocation import Want
from screen.probe.budget.budget import load_of, norms_work
from screen.probe.experiments.invariance import SLOPE, invariance
from screen.probe.experiments.jacobian import norms
from screen.probe.measure.branch import BranchRun, branch_run
from screen.probe.measure.leaves import Missing
from screen.probe.measure.session import Session, said, tried
from screen.probe.plan.types import Experiment, SublayerPlan

PASSES = {"jacobian": 16.0, "invariance": 14.0, "scaled": 30.0, "attack": 80.0, "bound": 16.0, "drawn": 16.0}
"""Forward and backward passes of the branch that each experiment takes (measured on GPT-2); `bound`: what each bound adds to an attack."""


def wants(plan: SublayerPlan, session: Session) -> Iterator[Want]:
    """What is to be measured of one branch."""
    budget, graph = session.budget, session.trace.graph
    load = load_of(graph, [plan.output], [i for i, _ in plan.cuts])
    measuring = norms_work(plan.quantities, plan.bounds) / budget.rate
    for degree in plan.degrees:
        passes = budget.passes(load, PASSES["scaled" if degree.status == "bound" else "invariance"])
        yield Want(key(plan, "invariance", degree.group), (passes + (measuring if degree.status == "bound" else 0.0),))
    count = len(plan.bounds) + len(plan.closed)
    attack = budget.passes(load, PASSES["attack"] + count * PASSES["bound"]) + (1 + 2 * len(plan.bounds)) * measuring
    if plan.bounds:
        yield Want(key(plan, "bounds"), (math.inf if too_large(plan, session) else attack, budget.passes(load, PASSES["drawn"]) + measuring))
    yield Want(key(plan, "jacobian"), (budget.passes(load, PASSES["jacobian"]),))


def is_bound(plan: SublayerPlan, want: Want) -> bool:
    """Whether it compares a value with its bound in place of a slope."""
    return want.key[0] == "invariance" and any(d.group == want.key[2] and d.status == "bound" for d in plan.degrees)


def exponents(plan: SublayerPlan, session: Session) -> Iterator[Experiment]:
    """Weight groups whose degree is a slope."""
    yield from _lost(plan)
    wanted = [d for d in plan.degrees if d.status != "bound"]
    empty = [Experiment("invariance", SLOPE, "not_measured", plan.stream, plan.kind, plan.name, d.group, d.status, d.predicted) for d in wanted]
    run = _run(plan, session)
    if isinstance(run, str):
        yield from (replace(e, reason=run) for e in empty)
        return
    unmeasured = Experiment("jacobian", "‖J‖ of the branch", "not_measured", plan.stream, plan.kind, plan.name)
    yield from tried(partial(norms, run), [unmeasured], session.budget, key(plan, "jacobian"))
    for degree, nothing in zip(wanted, empty, strict=True):
        yield from tried(partial(invariance, run, degree), [nothing], session.budget, key(plan, "invariance", degree.group))
    for name, note in run.material.notes.items():
        yield Experiment("weights", f"how `{name}` starts", "observed", plan.stream, plan.kind, plan.name, reason=note)


def attacked(plan: SublayerPlan, session: Session) -> Iterator[Experiment]:
    """Weight groups whose degree is a bound of the value, and the bounds themselves."""
    budget, here = session.budget, (plan.stream, plan.kind, plan.name)
    groups = [d for d in plan.degrees if d.status == "bound"]
    asked = [Experiment("invariance", SCALED, "not_measured", *here, d.group, d.status, "at most 1") for d in groups]
    nothing = [Experiment("bounds", SAID[b.name], "not_measured", *here, predicted="at most 1") for b in plan.bounds]
    run = _run(plan, session) if plan.axis == -1 else "its features do not stand on the last axis, along which sizes are measured"
    if isinstance(run, str):
        yield from (replace(e, reason=run) for e in (*asked, *nothing))
        return
    for degree, empty in zip(groups, asked, strict=True):
        yield from tried(partial(scaled, run, degree, empty), [empty], budget, key(plan, "invariance", degree.group))
    yield from attempted(run, session, nothing)
    for what, why in plan.unknown:
        if what in SAID:
            yield Experiment("bounds", SAID[what], "not_measured", *here, reason=f"no bound is known: {why}")


def _run(plan: SublayerPlan, session: Session) -> BranchRun | str:
    """The branch on real weights, or why there is none."""
    try:
        session.budget.room(plan, session.trace.graph)
        run = branch_run(plan, session.material())
        if not run.own:
            raise Missing("the branch reads no state of its own stream")
        run.output()
    except Exception as error:
        return said(error)
    return run


def _lost(plan: SublayerPlan) -> Iterator[Experiment]:
    """Predictions that are not known."""
    for what, why in plan.unknown:
        if what == "degrees":
            yield Experiment("invariance", "exponents of ‖J‖", "not_measured", plan.stream, plan.kind, plan.name, reason=f"no prediction: {why}")


__all__ = ["attacked", "exponents", "is_bound", "wants"]
