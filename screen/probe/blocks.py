"""Experiments on one whole block: how it starts, and how it stacks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from screen.probe.attempts import FAILURES, Session, said, tried
from screen.probe.budget import RATES, Budget, parameters_below
from screen.probe.depth.starts import Depths, of_depths
from screen.probe.depth.laws import DEPTHS, depth, depths_of, layers_of
from screen.probe.material import Missing
from screen.probe.plan import BlockPlan, Experiment
from screen.probe.stack import Stack
from screen.probe.start import start

SHARE = 0.5
"""Of the budget, that stacks may take: the deepest are left out first."""
LARGE = 1_000_000
"""Weights of a block from which it is stacked in float32: laws of depth need no more digits, and half of the time went into the others."""


def started(plan: BlockPlan, session: Session) -> Iterator[Experiment]:
    """How the block starts."""
    begun = Experiment("start", "the block at its initialisation", "not_measured", plan.stream, plan.kind)
    found = stack_of(plan, session)
    if isinstance(found, str):
        yield replace(begun, reason=found)
    else:
        yield from tried(partial(start, *found), [begun], session.budget, _work(found[0], 1, []))


def stacked(plan: BlockPlan, session: Session) -> Iterator[Experiment]:
    """How the block stacks."""
    empty = Experiment("depth", "the block stacked with fresh weights", "not_measured", plan.stream, plan.kind)
    found, budget = stack_of(plan, session), session.budget
    if not isinstance(found, str) and found[0].parameters >= LARGE:
        session = replace(session, dtype=torch.float32)
        found = stack_of(plan, session)
    why = found if isinstance(found, str) else _not_stacked(found[0])
    if isinstance(found, str) or why:
        yield replace(empty, reason=why)
        return
    stack, x, words = found
    words += "; stacked in float32" if session.dtype else ""
    stacks = of_depths(stack, session, depths_of(plan, DEPTHS[-1]))
    faster = 0.5 if session.dtype else 1.0
    work = {d: faster * _work(stack, layers_of(depths_of(plan, d), stacks.follow), depths_of(plan, d)) for d in DEPTHS}
    room = min(budget.left, SHARE * session.options.seconds)
    largest = next((d for d in reversed(DEPTHS) if work[d] / RATES[budget.device] <= room), 0)
    if largest < DEPTHS[1]:
        yield replace(empty, reason="beyond `--probe-seconds`, by counted work")
        return
    kept = replace(stacks, stacks={n: s for n, s in stacks.stacks.items() if n <= largest})
    yield from tried(partial(_depth, kept, x, words, plan, session), [empty], budget, work[largest])


def _depth(stacks: Depths, x: Tensor, words: str, plan: BlockPlan, session: Session) -> list[Experiment]:
    starts = {n: _start(s, session)[0] if stacks.follow else x for n, s in stacks.stacks.items()}
    return depth(stacks, starts, words, plan)


def stack_of(plan: BlockPlan, session: Session) -> tuple[Stack, Tensor, str] | str:
    """The block with the stream that arrives at it and words for that, or why there is none."""
    budget, graph = session.budget, session.trace.graph
    try:
        budget.fits(parameters_below(graph, plan.exit, [plan.entry, *plan.cuts]))
        stack = Stack(plan, session.material())
        return (stack, *_start(stack, session))
    except FAILURES as error:
        return said(error)


def _start(stack: Stack, session: Session) -> tuple[Tensor, str]:
    """The stream that arrives at the block, and words for it."""
    return stack.start(_fits(session.budget, parameters_below(stack.material.tape.graph, stack.plan.entry, [])))


def _fits(budget: Budget, count: int) -> bool:
    try:
        budget.fits(count)
    except Missing:
        return False
    return True


def _work(stack: Stack, layers: int, depths: list[int]) -> float:
    """Operations of two networks: weights drawn twice per layer (about 100 operations an entry), each layer run twice forward, and once back for each
    depth that it is in."""
    return 2.0 * stack.parameters * (layers * (200.0 + 4.0 * stack.tokens) + sum(depths) * 4.0 * stack.tokens)


def _not_stacked(stack: Stack) -> str:
    """Why the block cannot be stacked."""
    nodes = stack.material.tape.graph.nodes
    if stack.material.is_live:
        return "the weights are a live model's own, and there are no fresh ones to stack"
    if stack.plan.tied:
        return "the same weights serve at every depth, and there are no fresh ones to stack"
    if not stack.plan.repeats:
        return "blocks of several kinds take turns in this stream"
    if nodes[stack.plan.entry].shape != nodes[stack.plan.exit].shape:
        return "the block changes the shape of the stream"
    return ""


__all__ = ["stack_of", "stacked", "started"]
