"""Experiments of `screen.probe.precision.experiments` on every block, or why they were not made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from screen.probe.attempts import FAILURES, Session, said, tried
from screen.probe.precision.beside import Precision
from screen.probe.blocks import stack_of
from screen.probe.budget import norm_work
from screen.probe.precision.crossing import layers
from screen.probe.precision.program import Half, halved, name_of
from screen.probe.plan import Experiment, ProbePlan, SublayerPlan
from screen.probe.precision.experiments import precision
from screen.probe.stack import Stack

TYPES = (torch.float16, torch.bfloat16)
RUNS = 100.0
"""Forward passes of a block that one type takes, counted generously: a 16-bit type on a CPU is slower than float64."""


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
            stack, x, _ = found
            sublayers = {s.name: s for s in plan.sublayers if (s.stream, s.kind) == (block.stream, block.kind)}
            deep = layers(block, name_of(dtype), x.shape[block.axis])
            work = stack.parameters * ((RUNS + deep) * 2.0 * stack.tokens + 100.0 * (1 + deep))
            work += sum(norm_work(q) for s in sublayers.values() for q in s.quantities)
            yield from tried(partial(_measured, stack, why, dtype, x, sublayers), [empty], session.budget, work)


def _measured(stack: Stack, half: Half, dtype: torch.dtype, x: Tensor, sublayers: dict[str, SublayerPlan]) -> list[Experiment]:
    return precision(Precision(stack, half, dtype, x, sublayers))


def _half(session: Session, dtype: torch.dtype) -> Half | str:
    """The program in a type, or why there is none."""
    try:
        return halved(session.trace, session.built, dtype, session.budget.device)
    except FAILURES as error:
        return said(error)


__all__ = ["RUNS", "TYPES", "precise"]
