"""The data of a run."""

from __future__ import annotations

import torch
from torch import Tensor

from screen.atlas.cell import BATCH, STEPS, TOKENS, VOCAB, Task
from screen.atlas.language import LIKELY, PERIOD


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


__all__ = ["batches"]
