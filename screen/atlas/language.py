"""Two languages whose best possible loss and whose loss by chance are known."""

from __future__ import annotations

import math
from dataclasses import dataclass

from screen.atlas.cell import VOCAB, Task

PERIOD = 4
"""Tokens after which a sequence of `repeat` repeats itself."""
LIKELY = 0.8
"""Probability of the likely successor in `chain`; else the next token is any, all alike."""


@dataclass(frozen=True)
class Language:
    """`first` is the first position whose next token is scored; in nats, `floor` is the least possible loss and `chance` the best constant's."""

    first: int
    floor: float
    chance: float


def language(task: Task) -> Language:
    """What is known of a task. Its tokens are uniform one by one, so that the best constant gives ln(vocabulary)."""
    if task == "repeat":
        return Language(PERIOD - 1, 0.0, math.log(VOCAB))
    other = (1 - LIKELY) / VOCAB
    likely = LIKELY + other
    return Language(0, -likely * math.log(likely) - (VOCAB - 1) * other * math.log(other), math.log(VOCAB))


__all__ = ["LIKELY", "Language", "PERIOD", "language"]
