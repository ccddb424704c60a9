"""Plans and measurements in this process, for tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import nn

from screen.capture.build.build import build, build_object
from screen.capture.trace.loop import alone
from screen.capture.trace.tracer import run
from screen.facts import derive
from screen.graph.target import parse
from screen.probe.measure.leaves import Watch
from screen.probe.plan.from_facts import plan_of
from screen.probe.plan.types import Options, ProbePlan
from screen.probe.run import experiments

CPU = Options(device="cpu", seconds=1e6)


def planned(target: str, **settings: Any) -> tuple[Any, ProbePlan, Watch]:
    """A model, built under a watch, and what is to be measured of it."""
    with Watch() as watch:
        built = build(parse(target), set=settings, inputs=(), depth=None)[0]
    trace = run(built.model, built.args, built.kwargs, initialisers=built.initialisers)
    plan = plan_of(derive(trace.graph))
    return built if plan.loop else alone(built), plan, watch


def living(model: nn.Module, inputs: Any) -> tuple[Any, ProbePlan, Watch]:
    """A live model, that is measured with its own weights."""
    with Watch() as watch:
        built = build_object(model, example_inputs=inputs)[0]
    trace = run(built.model, built.args, built.kwargs, initialisers=built.initialisers)
    return built, plan_of(derive(trace.graph)), watch


def measured(target: str, options: Options = CPU, **settings: Any) -> list[dict[str, Any]]:
    """All experiments."""
    built, plan, watch = planned(target, **settings)
    return list(experiments(plan, built, watch, options))[1:]


def only(plan: ProbePlan, name: str) -> ProbePlan:
    """The plan for the experiments of one name."""
    blocks = tuple((name, b.stream, b.kind, "") for b in plan.blocks)
    return replace(plan, only=(*blocks, *((name, s.stream, s.kind, s.name) for s in plan.sublayers)))


def turned(plan: ProbePlan, by: float) -> ProbePlan:
    """The plan with every degree wrong by so much."""
    subs = tuple(replace(s, degrees=tuple(replace(d, predicted=d.predicted + by) for d in s.degrees)) for s in plan.sublayers)
    return replace(plan, sublayers=subs)
