"""Experiments on one whole block: how it starts, and how it stacks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from torch import Tensor

from screen.probe.attempts import FAILURES, Session, said, tried
from screen.probe.budget import RATES, Budget, parameters_below
from screen.probe.depth import DEPTHS, depth
from screen.probe.material import Missing
from screen.probe.plan import BlockPlan, Experiment
from screen.probe.stack import Stack
from screen.probe.start import start


def started(plan: BlockPlan, session: Session) -> Iterator[Experiment]:
    """How the block starts."""
    begun = Experiment("start", "the block at its initialisation", "not_measured", plan.stream, plan.kind)
    found = _stack(plan, session)
    if isinstance(found, str):
        yield replace(begun, reason=found)
    else:
        yield from tried(partial(start, *found), [begun], session.budget, _work(found[0], 1))


def stacked(plan: BlockPlan, session: Session) -> Iterator[Experiment]:
    """How the block stacks."""
    empty = Experiment("depth", "the block stacked with fresh weights", "not_measured", plan.stream, plan.kind)
    found, budget = _stack(plan, session), session.budget
    why = found if isinstance(found, str) else _not_stacked(found[0])
    if isinstance(found, str) or why:
        yield replace(empty, reason=why)
        return
    largest = next((d for d in reversed(DEPTHS) if _work(found[0], d) / RATES[budget.device] <= budget.left), 0)
    if largest < DEPTHS[1]:
        yield replace(empty, reason="beyond `--probe-seconds`, by counted work")
        return
    yield from tried(partial(depth, *found, largest), [empty], budget, _work(found[0], largest))


def _stack(plan: BlockPlan, session: Session) -> tuple[Stack, Tensor, str] | str:
    """The block with the stream that arrives at it and words for that, or why there is none."""
    budget, graph = session.budget, session.trace.graph
    try:
        budget.fits(parameters_below(graph, plan.exit, [plan.entry, *plan.cuts]))
        stack = Stack(plan, session.material())
        return (stack, *stack.start(_fits(budget, parameters_below(graph, plan.entry, []))))
    except FAILURES as error:
        return said(error)


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


__all__ = ["stacked", "started"]
