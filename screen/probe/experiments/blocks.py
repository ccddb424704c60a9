"""Experiments on one whole block: how it starts, and how it stacks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from screen.probe.budget.allocation import Key, Want
from screen.probe.budget.budget import CALL, FASTER, RATES, Budget, Load, load_of
from screen.probe.budget.narrower import BEYOND
from screen.probe.depth.laws import DEPTHS, depth, depths_of, layers_of
from screen.probe.depth.starts import Depths, arrive_alike, of_depths
from screen.probe.experiments.start import start
from screen.probe.measure.leaves import Missing
from screen.probe.measure.session import Session, said, tried
from screen.probe.measure.stack import Stack
from screen.probe.plan.types import BlockPlan, Experiment

LARGEST = tuple(reversed(DEPTHS[1:]))
"""The deepest stack of each form of the experiment: the deepest are left out first."""
LARGE = 1_000_000
"""Weights of a block from which it is stacked in float32: laws of depth need no more digits, and half of the time went into the others."""


def wants(plan: BlockPlan, session: Session, in_depth: bool) -> Iterator[Want]:
    """What is to be measured of one block; `in_depth`: its stacks too, for which models of other depths are built."""
    load, budget = _load(plan, session), session.budget
    yield Want(_key("start", plan), (_seconds(load, budget.rate, 1, []) / 4,))
    if not in_depth or _not_stacked(plan, session):
        return
    within = _stacked_in(plan, session)
    rate = RATES[budget.device] * FASTER[within.dtype or budget.dtype]
    plain = [_seconds(load, rate, d, depths_of(plan, d)) for d in LARGEST]
    if min(plain) <= budget.seconds:
        follow = _follow(plan, within)
        costs = [_seconds(load, rate, layers_of(depths_of(plan, d), True), depths_of(plan, d)) for d in LARGEST] if follow else plain
        yield Want(_key("depth", plan), tuple(costs))


def started(plan: BlockPlan, session: Session) -> Iterator[Experiment]:
    """How the block starts."""
    begun = Experiment("start", "the block at its initialisation", "not_measured", plan.stream, plan.kind)
    found = stack_of(plan, session)
    if isinstance(found, str):
        yield replace(begun, reason=found)
    else:
        yield from tried(partial(start, *found), [begun], session.budget, _key("start", plan))


def stacked(plan: BlockPlan, session: Session) -> Iterator[Experiment]:
    """How the block stacks."""
    empty = Experiment("depth", "the block stacked with fresh weights", "not_measured", plan.stream, plan.kind)
    form = session.budget.form(_key("depth", plan))
    found: str | tuple[Stack, Tensor, str] = _not_stacked(plan, session)
    if not found:
        session = _stacked_in(plan, session)
        found = stack_of(plan, session) if form is not None else f"{BEYOND}, by counted work"
    if isinstance(found, str):
        yield replace(empty, reason=found)
        return
    stack, x, words = found
    words += "; stacked in float32" if session.dtype else ""
    measure = partial(_depth, LARGEST[form or 0], stack, x, words, session)
    yield from tried(measure, [empty], session.budget, _key("depth", plan))


def _key(purse: str, plan: BlockPlan) -> Key:
    return purse, plan.exit, ""


def _load(plan: BlockPlan, session: Session) -> Load:
    return load_of(session.trace.graph, [plan.exit, *plan.outputs], [plan.entry, *plan.cuts])


def _stacked_in(plan: BlockPlan, session: Session) -> Session:
    """The type in which a block is stacked."""
    return replace(session, dtype=torch.float32) if _load(plan, session).weights >= LARGE else session


def _depths(plan: BlockPlan, session: Session) -> Depths:
    """The block as it starts in models of all depths; these are built once."""
    key = "depths", plan.exit
    if key not in session.kept:
        session.kept[key] = of_depths(Stack(plan, session.material()), session, depths_of(plan, DEPTHS[-1]))
    found: Depths = session.kept[key]
    return found


def _follow(plan: BlockPlan, session: Session) -> bool:
    """Whether each depth has a start of its own. What fails here fails again where it is measured, and is said there."""
    try:
        return _depths(plan, session).follow
    except Exception:
        return False


def _depth(largest: int, stack: Stack, x: Tensor, words: str, session: Session) -> list[Experiment]:
    found = _depths(stack.plan, session)
    kept = replace(found, stacks={n: s for n, s in found.stacks.items() if n <= largest})
    starts = {n: x if arrive_alike(stack, s) else _start(s, session)[0] for n, s in kept.stacks.items()}
    return depth(kept, starts, words, stack.plan)


def stack_of(plan: BlockPlan, session: Session) -> tuple[Stack, Tensor, str] | str:
    """The block with the stream that arrives at it and words for that, or why there is none."""
    budget, graph = session.budget, session.trace.graph
    try:
        budget.fits(load_of(graph, [plan.exit], [plan.entry, *plan.cuts]))
        stack = Stack(plan, session.material())
        return (stack, *_start(stack, session))
    except Exception as error:
        return said(error)


def _start(stack: Stack, session: Session) -> tuple[Tensor, str]:
    """The stream that arrives at the block, and words for it. It is made once for each model."""
    key = "start", id(stack.material.built), stack.plan.entry
    if key not in session.kept:
        fits = _fits(session.budget, load_of(stack.material.tape.graph, [stack.plan.entry], []))
        session.kept[key] = *stack.start(fits), stack.material.built  # whose id stays its own while it is kept
    value, words, _ = session.kept[key]
    return stack.material.tape.cast(value), words


def _fits(budget: Budget, load: Load) -> bool:
    try:
        budget.fits(load)
    except Missing:
        return False
    return True


def _seconds(load: Load, rate: float, layers: int, depths: list[int]) -> float:
    """Counted work of two networks: weights drawn twice per layer (about 100 operations an entry, whatever the type), each layer run twice forward,
    and once back for each depth that it is in."""
    runs = layers + sum(depths)
    drawing, running = layers * 200.0 / RATES["cpu"], runs * 4.0 * load.tokens / rate
    return 2.0 * (load.weights * (drawing + running) + runs * (load.calls * CALL + load.values / rate))


def _not_stacked(plan: BlockPlan, session: Session) -> str:
    """Why the block cannot be stacked."""
    nodes = session.trace.graph.nodes
    if session.built.original is not None:
        return "the weights are a live model's own, and there are no fresh ones to stack"
    if plan.tied:
        return "the same weights serve at every depth, and there are no fresh ones to stack"
    if not plan.repeats:
        return "blocks of several kinds take turns in this stream"
    if nodes[plan.entry].shape != nodes[plan.exit].shape:
        return "the block changes the shape of the stream"
    return ""


__all__ = ["stack_of", "stacked", "started", "wants"]
