"""Experiments on one whole block: how it starts, and how it stacks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import torch

from screen.capture.built import Built
from screen.capture.tracer import Trace
from screen.probe.attempts import FAILURES, said, tried
from screen.probe.budget import RATES, Budget, parameters_below
from screen.probe.depth import DEPTHS, depth
from screen.probe.material import Material, Missing, Watch
from screen.probe.plan import BlockPlan, Experiment, Options
from screen.probe.replay import Tape
from screen.probe.stack import Stack
from screen.probe.start import start


def of_block(plan: BlockPlan, trace: Trace, built: Built, watch: Watch, options: Options, budget: Budget) -> Iterator[Experiment]:
    """Every experiment on one kind of block."""
    begun = Experiment("start", "the block at its initialisation", "not_measured", plan.stream, plan.kind)
    stacked = Experiment("depth", "the block stacked with fresh weights", "not_measured", plan.stream, plan.kind)
    try:
        budget.fits(parameters_below(trace.graph, plan.exit, [plan.entry, *plan.cuts]))
        material = Material(Tape(trace, torch.float64, budget.device), built, watch, options.seed)
        stack = Stack(plan, material)
        x, words = stack.start(_fits(budget, parameters_below(trace.graph, plan.entry, [])))
    except FAILURES as error:
        yield from (replace(e, reason=said(error)) for e in (begun, stacked))
        return
    yield from tried(partial(start, stack, x, words), [begun], budget, _work(stack, 1))
    why = _not_stacked(stack)
    if why:
        yield replace(stacked, reason=why)
        return
    largest = next((d for d in reversed(DEPTHS) if _work(stack, d) / RATES[budget.device] <= budget.left), 0)
    if largest < DEPTHS[1]:
        yield replace(stacked, reason="beyond `--probe-seconds`, by counted work")
        return
    yield from tried(partial(depth, stack, x, words, largest), [stacked], budget, _work(stack, largest))


def _fits(budget: Budget, count: int) -> bool:
    try:
        budget.fits(count)
    except Missing:
        return False
    return True


def _work(stack: Stack, layers: int) -> float:
    """Operations: weights drawn thrice per layer (about 100 operations an entry), each layer run twice forward and twice back, in two networks."""
    return 2.0 * layers * stack.parameters * (300.0 + 12.0 * stack.tokens)


def _not_stacked(stack: Stack) -> str:
    """Why the block cannot be stacked."""
    nodes = stack.material.tape.graph.nodes
    if stack.material.is_live:
        return "the weights are a live model's own, and there are no fresh ones to stack"
    if not stack.plan.repeats:
        return "blocks of several kinds take turns in this stream"
    if nodes[stack.plan.entry].shape != nodes[stack.plan.exit].shape:
        return "the block changes the shape of the stream"
    return ""


__all__ = ["of_block"]
