"""An experiment that is made, or the reason why it was not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from screen.capture import phase
from screen.capture.built import Built
from screen.capture.tracer import Trace
from screen.probe.budget import Budget
from screen.probe.material import Material, Missing, Watch
from screen.probe.plan import Experiment, Options
from screen.probe.replay import Tape


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

    def material(self) -> Material:
        """Its leaves, in the type of the measurement."""
        return Material(Tape(self.trace, self.dtype or self.budget.dtype, self.budget.device), self.built, self.watch, self.options.seed)


FAILURES = (Missing, RuntimeError, ValueError, IndexError, TypeError, NotImplementedError, ArithmeticError, KeyError, AttributeError)
"""What a replay of the user's program on other numbers may raise: the experiment is then not measured, with the reason."""


def tried(measure: Callable[[], Experiment | list[Experiment]], nothing: list[Experiment], budget: Budget, work: float) -> list[Experiment]:
    """Experiments, or why they were not made."""
    if not budget.affords(work):
        return [replace(e, reason="beyond `--probe-seconds`, by counted work") for e in nothing]
    first = nothing[0] if nothing else None
    if first is not None:
        phase.measure(" ".join(w for w in (first.name, first.stream, first.kind, first.sublayer, first.group) if w), 1 - budget.left / budget.seconds)
    try:
        found = measure()
    except FAILURES as error:
        return [replace(e, reason=said(error)) for e in nothing]
    return found if isinstance(found, list) else [found]


def said(error: BaseException) -> str:
    """The reason in one line."""
    text = str(error).strip().splitlines()
    line = text[0] if text else ""
    return line if isinstance(error, Missing) else f"the replay raised `{type(error).__name__}: {line[:160]}`"


__all__ = ["FAILURES", "Session", "said", "tried"]
