"""The first steps of Adam at a run's own rate, and how alike the tokens of a sequence have become behind them: what κ, which is of infinitely small
steps, cannot see. A tenth of a run of the atlas; of a training of 100,000 steps a ten-thousandth."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby

import torch
from torch import Tensor, nn
from torch.nn.utils import vector_to_parameters

from screen.atlas.cell import STEPS, Cell
from screen.atlas.stack import Stack, model_of
from screen.atlas.tasks import batches
from screen.atlas.train import SCALE, Adam

FIRST, RAMP, SEEN = 10, 5, 2
"""Steps; of these at most so many of warm-up, where the recipe has any; batches, the next ones, on which tokens are compared."""
FRESH = 7
"""A seed that no run has: what is measured is the design."""
LEAST = 1e-8
"""Share that tokens keep apart below which nothing is told, and that of values which are not finite."""


def first_rate(cell: Cell, step: int) -> float:
    """The learning rate of one of the first steps: up to the peak, then that."""
    return cell.lr * min(1.0, (step + 1) / max(1, min(RAMP, round(cell.warmup * STEPS))))


def folds(cells: Iterable[Cell]) -> dict[Cell, float]:
    """Cell (its seed aside) -> e-folds of 1 − ‖h̄‖²/‖h‖² behind the first steps, h̄ the mean over the tokens of a sequence of what the head reads."""
    fresh = sorted(dict.fromkeys(replace(cell, seed=FRESH) for cell in cells), key=lambda cell: cell.stack)
    return {cell: found for _, same in groupby(fresh, key=lambda cell: cell.stack) for cell, found in _of_stack(list(same)).items()}


def _of_stack(cells: list[Cell]) -> dict[Cell, float]:
    stack, data = Stack(cells), batches(cells[0].task, FRESH)
    adam, z_loss = Adam(cells, stack, first_rate), torch.tensor([cell.z_loss for cell in cells])
    scale = torch.full((len(cells),), SCALE) if stack.precision == "fp16" else None
    fine = torch.ones(len(cells), dtype=torch.bool)
    for step in range(FIRST):
        grad, seen = stack.step(adam.theta, data[step].expand(len(cells), -1, -1), z_loss, scale)
        norm = grad.norm(dim=1)
        usable = norm.isfinite()
        fine &= seen.loss.isfinite() if scale is not None else seen.loss.isfinite() & usable
        adam.step(step, grad, norm, usable & fine)
        scale = scale if scale is None else torch.where(usable, scale, scale / 2)
    ids = data[FIRST : FIRST + SEEN].flatten(0, 1)
    model = model_of(cells[0]).double()
    return {cell: _apart(model, theta, ids) if ok else -math.log(LEAST) for cell, theta, ok in zip(cells, adam.theta, fine.tolist(), strict=True)}


@torch.no_grad()
def _apart(model: nn.Module, theta: Tensor, ids: Tensor) -> float:
    vector_to_parameters(theta.double(), model.parameters())
    h = model.stack(ids)  # type: ignore[operator]
    share = 1 - float(h.mean(1).square().mean() / h.square().mean())
    return -math.log(max(share, LEAST)) if math.isfinite(share) else -math.log(LEAST)


__all__ = ["FIRST", "FRESH", "first_rate", "folds"]
