"""AdamW on a stack of runs, each with its own rate, warm-up, decay, ε and β₂; what is not finite is frozen and leaves the others alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from screen.atlas.cell import BETA1, CLIP, LAST, STEPS, Cell
from screen.atlas.stack import Stack
from screen.atlas.tasks import batches

SCALE = 2.0**16
"""Where the dynamic scale of a float16 loss starts (torch.amp.GradScaler's default); it is halved at each overflow, and that step is skipped."""


@dataclass(frozen=True)
class Curve:
    """What one run showed: `loss` of each step up to the end, or up to the first that is not finite (kept out); peaks over the run."""

    loss: tuple[float, ...]
    finite: bool
    attention: float
    head: float
    gradient: float


def rate(cell: Cell, step: int) -> float:
    """The learning rate of a step: linear warm-up to the peak, then a cosine to a tenth of it."""
    warm = round(cell.warmup * STEPS)
    if step < warm:
        return cell.lr * (step + 1) / warm
    done = (step - warm) / max(1, STEPS - 1 - warm)
    return cell.lr * (LAST + (1 - LAST) * (1 + math.cos(math.pi * done)) / 2)


def _column(values: list[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float32)[:, None]


class Adam:
    """The state of stacked AdamW; rows of runs that have ended can be dropped."""

    def __init__(self, cells: Sequence[Cell], stack: Stack, rate: Callable[[Cell, int], float] = rate) -> None:
        self.rate = rate
        self.theta, self.decays = stack.start.clone(), stack.decays
        self.first, self.second = torch.zeros_like(self.theta), torch.zeros_like(self.theta)
        self.keep(list(cells), None)
        self.count = torch.zeros(len(cells), 1)

    def keep(self, cells: list[Cell], rows: Tensor | None) -> None:
        """Goes on with these cells, which stood in these rows."""
        self.cells = cells
        self.beta2, self.eps = _column([c.beta2 for c in cells]), _column([c.eps for c in cells])
        if rows is not None:
            self.theta, self.first, self.second = self.theta[rows], self.first[rows], self.second[rows]
            self.count = self.count[rows]

    def step(self, step: int, grad: Tensor, norm: Tensor, takes: Tensor) -> None:
        """One update with gradients [runs, parameters] of these norms; runs with `takes` false stay where they are, as if there was no step."""
        still = (~takes).nonzero()[:, 0]
        before = [(state, state[still]) for state in (self.theta, self.first, self.second, self.count)]
        grad = grad * (CLIP / norm.clamp(min=CLIP))[:, None]
        self.count += 1
        self.first.lerp_(grad, 1 - BETA1)
        self.second.mul_(self.beta2).add_(grad.square_().mul_(1 - self.beta2))
        rates = _column([self.rate(c, step) for c in self.cells])
        decay = rates * _column([c.decay for c in self.cells])
        below = self.second.sqrt().div_((1 - self.beta2**self.count).sqrt()).add_(self.eps)
        moved = (self.first * (rates / (1 - BETA1**self.count))).div_(below)
        self.theta.mul_(1 - decay * self.decays).sub_(moved)
        for state, old in before:
            state[still] = old


def train(cells: Sequence[Cell]) -> list[Curve]:
    """The curves of cells that agree on `Cell.stack`, trained at once; each is that of the cell alone, to rounding."""
    stack = Stack(cells)
    data = {seed: batches(cells[0].task, seed) for seed in {c.seed for c in cells}}
    adam, where = Adam(cells, stack), list(range(len(cells)))
    losses: list[list[float]] = [[] for _ in cells]
    peaks = torch.zeros(len(cells), 3)
    finite = [True] * len(cells)
    half = stack.precision == "fp16"
    scale = torch.full((len(cells),), SCALE) if half else None
    for step in range(STEPS):
        ids = torch.stack([data[c.seed][step] for c in adam.cells])
        grad, seen = stack.step(adam.theta, ids, torch.tensor([c.z_loss for c in adam.cells]), scale)
        norm = grad.norm(dim=1)
        forward, usable = seen.loss.isfinite(), norm.isfinite()
        ends = ~forward if half else ~(forward & usable)
        adam.step(step, grad, norm, forward & usable)
        ends |= ~adam.theta.sum(1).isfinite()
        here = torch.stack([seen.attention, seen.head, torch.where(usable, norm, 0.0)], 1)
        peaks[where] = torch.where(ends[:, None], peaks[where], torch.maximum(peaks[where], here.nan_to_num(0.0)))
        scale = scale if scale is None else torch.where(usable, scale, scale / 2)
        for row, loss, over in zip(where, seen.loss.tolist(), ends.tolist(), strict=True):
            if over:
                finite[row] = False
            else:
                losses[row].append(loss)
        if bool(ends.any()):
            rows = (~ends).nonzero()[:, 0]
            where = [where[i] for i in rows.tolist()]
            if not where:
                break
            scale = scale if scale is None else scale[rows]
            adam.keep([adam.cells[i] for i in rows.tolist()], rows)
    return [Curve(tuple(loss), fine, *peak) for loss, fine, peak in zip(losses, finite, peaks.tolist(), strict=True)]


__all__ = ["Adam", "Curve", "SCALE", "rate", "train"]
