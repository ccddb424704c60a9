"""Two languages whose best possible loss and whose loss by chance are known."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from screen.atlas.cell import BATCH, STEPS, TOKENS, VOCAB, Task

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


def batches(task: Task, seed: int) -> Tensor:
    """All batches of a run, ids [STEPS, BATCH, TOKENS]: `repeat` asks for the token PERIOD before, `chain` for the successor of the last one."""
    source = torch.Generator().manual_seed(1_000_003 * seed + len(task))
    shape = (STEPS, BATCH)
    if task == "repeat":
        return torch.randint(VOCAB, (*shape, PERIOD), generator=source).repeat(1, 1, TOKENS // PERIOD)
    successor = torch.randperm(VOCAB, generator=source)
    ids = torch.empty(*shape, TOKENS, dtype=torch.long)
    ids[..., 0] = torch.randint(VOCAB, shape, generator=source)
    for t in range(1, TOKENS):
        likely = torch.rand(shape, generator=source) < LIKELY
        ids[..., t] = torch.where(likely, successor[ids[..., t - 1]], torch.randint(VOCAB, shape, generator=source))
    return ids


__all__ = ["LIKELY", "Language", "PERIOD", "batches", "language"]
