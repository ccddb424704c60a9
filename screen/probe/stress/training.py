"""One short training: AdamW at one learning rate, with its losses and gradient norms, and how it ended.

    m ← β₁m + (1 − β₁)g,  v ← β₂v + (1 − β₂)g²,  w ← w − η_t(m̂/(√v̂ + 1e-8) + λw),  β = (0.9, 0.95), λ = 0.1 on every weight, no clipping

η_t rises linearly over the warm-up and is constant afterwards (with no warm-up it is η at once). Every step has a batch of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from screen.probe.stress.tasks import Task

BETAS, DECAY, EPS = (0.9, 0.95), 0.1, 1e-8
LOST = 0.5
"""A training has diverged when it ends above its best by more than this share of what there is to learn (best constant answer to floor)."""
WINDOW = 0.1
"""Losses are averaged over this share of the steps before they are compared."""


@dataclass(frozen=True)
class Run:
    """What one training gave."""

    rate: float
    losses: tuple[float, ...]
    gradients: tuple[float, ...]
    """‖∂L/∂w‖ over all weights, step by step; both end at the step that was not finite."""
    largest_output: float
    logits: tuple[float, float]
    """Largest attention logit before and after; nan where there is no softmax."""
    diverged: bool

    @property
    def final(self) -> float:
        """Mean loss of the last window; inf where it left the range of floats."""
        return means(self.losses)[-1] if math.isfinite(self.losses[-1]) else math.inf


def train(model: nn.Module, task: Task, rate: float, steps: int, warmup: int, seed: int) -> Run:
    """Train a model, which is changed by it."""
    device = next(model.parameters()).device
    generator = torch.Generator().manual_seed(seed * 1009 + 3)
    weights = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=rate, betas=BETAS, eps=EPS, weight_decay=DECAY)
    losses, gradients, largest = list[float](), list[float](), 0.0
    before = after = math.nan
    model.train()
    for step in range(steps):
        x, y = (t.to(device) for t in task.batch(generator))
        with _softmaxes(step in (0, steps - 1)) as seen:
            out = task.answer(model, x)
        loss = task.loss(out, y)
        optimizer.zero_grad()
        loss.backward()
        size = torch.nn.utils.get_total_norm([p.grad for p in weights if p.grad is not None])
        losses.append(float(loss.detach()))
        gradients.append(float(size))
        largest = max(largest, float(out.detach().abs().max()))
        before, after = (seen.largest if step == 0 else before), (seen.largest if step == steps - 1 else after)
        if not (math.isfinite(losses[-1]) and math.isfinite(gradients[-1])):
            losses[-1] = math.nan
            break
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1.0, (step + 1) / warmup) if warmup else rate
        optimizer.step()
    lost = diverged(losses, task)
    return Run(rate, tuple(losses), tuple(gradients), largest, (before, after), lost)


def diverged(losses: list[float], task: Task) -> bool:
    """Not finite, or above its best by more than `LOST` of what there is to learn, at the end: a spike that has recovered is none."""
    if not math.isfinite(losses[-1]):
        return True
    averages = means(tuple(losses))
    return averages[-1] > min(losses[0], *averages) + LOST * (task.trivial - task.floor)


def means(losses: tuple[float, ...]) -> list[float]:
    """Means over windows one after the other, the last one ending at the end."""
    width = max(1, round(WINDOW * len(losses)))
    return [math.fsum(losses[i : i + width]) / width for i in range(len(losses) % width, len(losses), width)]


class _Softmaxes(TorchDispatchMode):
    """Largest finite entry that goes into a softmax over more than one entry, while it is on."""

    def __init__(self) -> None:
        super().__init__()
        self.largest = math.nan

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing here is ever compiled."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.__name__.split(".")[0] in ("_softmax", "_safe_softmax") and isinstance(args[0], Tensor):
            u = args[0].detach().float()
            found = float(torch.where(torch.isfinite(u), u, torch.full_like(u, -math.inf)).max())
            self.largest = found if math.isnan(self.largest) else max(self.largest, found)
        return func(*args, **(kwargs or {}))


@contextmanager
def _softmaxes(on: bool) -> Iterator[_Softmaxes]:
    mode = _Softmaxes()
    if not on:
        yield mode
        return
    with mode:
        yield mode


__all__ = ["BETAS", "DECAY", "Run", "diverged", "means", "train"]
