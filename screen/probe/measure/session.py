"""An experiment that is made, or the reason why it was not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from screen.capture import phase
from screen.capture.build.built import Built
from screen.capture.trace.tracer import Trace
from screen.probe.budget.allocation import Key
from screen.probe.budget.budget import Budget
from screen.probe.budget.narrower import BEYOND, TOO_LARGE
from screen.probe.measure.leaves import Material, Missing, Watch
from screen.probe.measure.replay import Tape
from screen.probe.plan.types import Experiment, Options


@dataclass(frozen=True)
class Session:
    """One model that is measured."""

    trace: Trace
    built: Built
    watch: Watch
    options: Options
    budget: Budget
    dtype: torch.dtype | None = None
    """Of what is measured, where it is not the budget's."""
    kept: dict[Any, Any] = field(default_factory=dict)
    """What was made for the plan and is needed again."""

    def material(self) -> Material:
        """Its leaves, in the type of the measurement."""
        return Material(Tape(self.trace, self.dtype or self.budget.dtype, self.budget.device), self.built, self.watch, self.options.seed)


def tried(measure: Callable[[], Experiment | list[Experiment]], nothing: list[Experiment], budget: Budget, key: Key) -> list[Experiment]:
    """Experiments, or why they were not made: a replay of the user's program on other numbers may raise anything."""
    if budget.form(key) is None:
        return [replace(e, reason=f"{BEYOND}, by counted work") for e in nothing]
    first, share = nothing[0] if nothing else None, budget.begin(key)
    if first is not None:
        phase.measure(" ".join(w for w in (first.name, first.stream, first.kind, first.sublayer, first.group) if w), share)
    try:
        found = measure()
    except Exception as error:
        return [replace(e, reason=said(error)) for e in nothing]
    return found if isinstance(found, list) else [found]


def said(error: BaseException) -> str:
    """The reason in one line. Memory that was not there is told as what does not fit is."""
    text = str(error).strip().splitlines()
    line = text[0] if text else ""
    if isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in line:
        return f"{TOO_LARGE}: there was no memory for it ({line[:100]})"
    return line if isinstance(error, Missing) else f"the replay raised `{type(error).__name__}: {line[:160]}`"


__all__ = ["Session", "said", "tried"]
