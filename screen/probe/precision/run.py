"""Experiments of `screen.probe.precision.experiments` on every block, or why they were not made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from screen.probe.budget.allocation import Key, Want
from screen.probe.budget.budget import CALL, load_of, norms_work
from screen.probe.experiments.blocks import stack_of
from screen.probe.measure.session import Session, said, tried
from screen.probe.measure.stack import Stack
from screen.probe.plan.types import BlockPlan, Experiment, ProbePlan, SublayerPlan
from screen.probe.precision.against_float64 import Precision
from screen.probe.precision.crossing import layers
from screen.probe.precision.experiments import precision
from screen.probe.precision.program import Half, halved, name_of

TYPES = (torch.float16, torch.bfloat16)
RUNS = 70.0
"""Forward passes of a block that one type takes (measured on GPT-2 in float16, which is slower than float64 on a CPU)."""


def wants(block: BlockPlan, plan: ProbePlan, session: Session) -> Iterator[Want]:
    """One block in all types."""
    budget, graph = session.budget, session.trace.graph
    load = load_of(graph, [block.exit, *block.outputs], [block.entry, *block.cuts])
    norms = sum(norms_work(s.quantities, s.plain) for s in _sublayers(plan, block).values())
    for dtype in TYPES:
        deep = layers(block, name_of(dtype), (graph.nodes[block.entry].shape or (1,))[block.axis])
        work = load.weights * ((RUNS + deep) * 2.0 * load.tokens + 100.0 * (1 + deep)) + (RUNS + deep) * load.values / 3 + norms
        yield Want(_key(block, dtype), (work / budget.rate + (RUNS + deep) * load.calls * CALL / 3,))


def precise(plan: ProbePlan, session: Session) -> Iterator[Experiment]:
    """All blocks in all types."""
    programs: dict[torch.dtype, Half | str] = {}
    for block in plan.blocks:
        found = stack_of(block, session)
        for dtype in TYPES:
            empty = Experiment("precision", f"the block in {name_of(dtype)}", "not_measured", block.stream, block.kind)
            if not isinstance(found, str) and dtype not in programs:
                programs[dtype] = _half(session, dtype)
            why = found if isinstance(found, str) else programs[dtype]
            if isinstance(found, str) or isinstance(why, str):
                yield replace(empty, reason=str(why))
                continue
            measure = partial(_measured, found[0], why, dtype, found[1], _sublayers(plan, block))
            yield from tried(measure, [empty], session.budget, _key(block, dtype))


def _key(block: BlockPlan, dtype: torch.dtype) -> Key:
    return "precision", block.exit, name_of(dtype)


def _sublayers(plan: ProbePlan, block: BlockPlan) -> dict[str, SublayerPlan]:
    return {s.name: s for s in plan.sublayers if (s.stream, s.kind) == (block.stream, block.kind)}


def _measured(stack: Stack, half: Half, dtype: torch.dtype, x: Tensor, sublayers: dict[str, SublayerPlan]) -> list[Experiment]:
    return precision(Precision(stack, half, dtype, x, sublayers))


def _half(session: Session, dtype: torch.dtype) -> Half | str:
    """The program in a type, or why there is none."""
    try:
        return halved(session.trace, session.built, dtype, session.budget.device)
    except Exception as error:
        return said(error)


__all__ = ["RUNS", "TYPES", "precise", "wants"]
