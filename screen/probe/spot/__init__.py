"""The spot check: the traced program on real tensors at its recorded start, before anything is said about it.

Small on purpose: one plain run of the module and one of the traced program, forward and backward in float32, then a few forward runs in float64
in which the stream's first state, or the free weights, are multiplied, and in which nothing is added to the stream. Of a program that is too large
one block of each kind is run, from random states. Nothing here knows what is claimed; `screen.pipeline.spot` compares.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import torch

from screen.capture.build.built import Built
from screen.capture.trace.loop import Loop
from screen.capture.trace.tracer import Trace, trace_beside
from screen.probe.budget.budget import load_of, seconds_of
from screen.probe.deeper import TIMES, at_depths
from screen.probe.measure.determinism import settled
from screen.probe.measure.leaves import Material, Watch
from screen.probe.measure.parted import as_parted, traced
from screen.probe.measure.replay import Missing, Tape
from screen.probe.measure.session import said
from screen.probe.plan.spot_types import OTHER, Found, FoundStream, Plain, SpotPlan, first_of_each, too_large
from screen.probe.second.plain import ran, told
from screen.probe.spot.run import SECONDS, Make, Run, made

Deeper = Callable[[int, int], Loop]
"""Builds a loop of so many blocks with weights."""
PASSES = 14
"""Passes of the whole program that a spot check takes."""
BRIEF = 2
"""Those of a brief one, for programs that all of it is too much for: module and program once in float32, forward and backward, and the program once
forward in float64."""
MULTIPLIED = 10
"""Passes of one block of each kind: as it is, with what is multiplied, and with free vectors filled."""
NO_PART = "no stream of it is a sum whose parts are known"
"""Why a loop is run at two depths, and nothing in it is looked at."""
AT_DEPTHS = 3
"""Passes of a deeper loop: one forward, one backward, and what it takes to make it."""


def spot_check(plan: SpotPlan, built: Built, watch: Watch, make: Make | None, deeper: Deeper | None = None) -> dict[str, Any]:
    """What was measured, as plain data. Whatever the user's program raises is a reason, never an exception."""
    with settled("cpu", plan.seed):
        try:
            found = _measured(plan, built, watch, make, deeper)
        except Exception as error:
            found = Found(reason=said(error), plain=Plain(said(error)) if plan.weights else None)
    return asdict(found)


def _measured(plan: SpotPlan, built: Built, watch: Watch, make: Make | None, deeper: Deeper | None) -> Found:
    once = ran(plan.weights, plan.seed, built, make) if plan.weights else None
    if built.drawn:
        trace = as_parted(trace_beside(built.model, built.args, built.kwargs, built.drawn, initialisers=built.initialisers))
        if any(guess.decides for guess in trace.graph.guesses):
            raise Missing("what the forward reads of the data decides the program")
    else:
        trace = traced(built.model, built.args, built.kwargs, initialisers=built.initialisers)
    if not plan.is_of(trace.graph):
        raise Missing(OTHER)
    plain = None if once is None else told(once, trace, Material(Tape(trace, torch.float32), built, watch, plan.seed))
    if plan.only:
        return Found(reason=plan.only, plain=plain)
    try:
        return replace(_looked_at(plan, built, watch, make, deeper, trace), plain=plain)
    except Exception as error:
        return Found(reason=said(error), plain=plain)


def _looked_at(plan: SpotPlan, built: Built, watch: Watch, make: Make | None, deeper: Deeper | None, trace: Trace) -> Found:
    ends = [n for s in plan.streams for n in s.states] or list(trace.graph.outputs)
    load = load_of(trace.graph, [*trace.graph.outputs[:1], *ends], [])
    seconds = seconds_of(load)
    deep = at_depths(plan, built, deeper, plan.deeper and AT_DEPTHS * TIMES * seconds <= SECONDS, plan.own / plan.traced * seconds <= SECONDS)
    if not plan.streams:
        return Found(reason=NO_PART, depths=deep)
    if plan.parts or BRIEF * seconds > SECONDS:
        return replace(_one_of_each(plan, built, watch, trace, plan.parts or too_large(load.weights)), depths=deep)
    model = made(make, plan.seed)
    run = Run(plan, trace, built, watch, model, brief=PASSES * seconds > SECONDS, other=make)
    found = Found(streams=tuple(FoundStream(s.stream) for s in plan.streams), weights=tuple(run.odd_weights()))
    found = run.replayed(found)
    return replace(run.streams(found), depths=deep)


def _one_of_each(plan: SpotPlan, built: Built, watch: Watch, trace: Trace, why: str) -> Found:
    """One block of each kind from random states, where these are small enough. `why`: the whole program is not run."""
    parts = replace(plan, streams=tuple(replace(s, branches=first_of_each(s)) for s in plan.streams), whole=None)
    outputs = [b.output for s in parts.streams for b in s.branches]
    cuts = frozenset(n for s in parts.streams for n in s.states)
    load = load_of(trace.graph, outputs, cuts) if outputs else None
    if load is None or MULTIPLIED * seconds_of(load) > SECONDS:
        return Found(reason=why)
    run = Run(parts, trace, built, watch, None, cuts=cuts)
    found = Found(reason=f"one block of each kind was run, the whole is {why}", weights=tuple(run.odd_weights()))
    return run.parts(replace(found, streams=tuple(FoundStream(s.stream) for s in parts.streams)))


__all__ = ["Run", "spot_check"]
