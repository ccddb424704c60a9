"""What became of a run: its loss against chance and against the least possible one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Outcome = Literal["learned", "spikes", "no_learning", "diverged", "non_finite"]
OUTCOMES: tuple[Outcome, ...] = ("learned", "spikes", "no_learning", "diverged", "non_finite")
SMOOTH, LAST_STEPS = 5, 10
"""Steps of the running mean of a loss; steps at the end whose mean is the final loss."""
LEARNED = 0.5
"""Share of the way from chance to the floor that a run must have gone at its end. In `repeat` that is ln 4, below which no run comes that knows the
four tokens of a sequence and not their order."""
LOST = 0.25
"""Share of that way by which a smoothed loss rises above its least value so far, or ends above chance; more is a spike, or divergence if it stays."""


@dataclass(frozen=True)
class Result:
    """Losses in nats. `failed_at` is the step of the first value that is not finite, or of the best loss before a run diverged."""

    outcome: Outcome
    final: float | None
    best: float | None
    rise: float
    failed_at: int | None

    @property
    def trained(self) -> bool:
        """Whether it had learned at its end, spikes or not."""
        return self.outcome in ("learned", "spikes")


def classify(losses: Sequence[float], finite: bool, chance: float, floor: float) -> Result:
    """The outcome of a curve of losses; when it is not `finite` the curve ends before the first value that is not."""
    way = chance - floor
    smooth = [sum(losses[max(0, i - SMOOTH + 1) : i + 1]) / min(i + 1, SMOOTH) for i in range(len(losses))]
    lowest, rise = float("inf"), 0.0
    for value in smooth:
        lowest = min(lowest, value)
        rise = max(rise, value - lowest)
    best = min(smooth, default=None)
    if not finite:
        return Result("non_finite", None, best, rise, len(losses))
    assert best is not None
    tail = losses[-LAST_STEPS:]
    final = sum(tail) / len(tail)
    if chance - final >= LEARNED * way:
        return Result("spikes" if rise > LOST * way else "learned", final, best, rise, None)
    if final - min(best, chance) > LOST * way:
        return Result("diverged", final, best, rise, smooth.index(best))
    return Result("no_learning", final, best, rise, None)


__all__ = ["LAST_STEPS", "LEARNED", "LOST", "OUTCOMES", "Outcome", "Result", "SMOOTH", "classify"]
