"""A live model as the experiments on whole models take it, for tests."""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import nn

from screen.capture.build.build import build_object
from screen.capture.trace.loop import alone
from screen.capture.trace.tracer import run
from screen.child.protocol import Request
from screen.child.real import real
from screen.facts import derive
from screen.probe.budget.budget import Budget
from screen.probe.measure.leaves import Watch
from screen.probe.measure.session import Session
from screen.probe.plan.from_facts import plan_of
from screen.probe.plan.types import Options, ProbePlan
from screen.probe.stress.sweep import Make
from screen.recipe import Recipe


def given(model: nn.Module, inputs: Any, recipe: Recipe | None = None, seconds: float = 1e6) -> tuple[ProbePlan, Session, Make]:
    """A plan, a session and the maker of copies."""
    with Watch() as watch:
        built = build_object(model, example_inputs=inputs)[0]
    plan = plan_of(derive(run(built.model, built.args, built.kwargs, initialisers=built.initialisers).graph), recipe)
    built = built if plan.loop else alone(built)
    trace = run(built.model, built.args, built.kwargs, initialisers=built.initialisers)
    options = Options(device="cpu", seconds=seconds)
    session = Session(trace, built, watch, options, Budget(options.seconds, options.memory, "cpu"))
    return plan, session, partial(real, Request(""), built)
