"""One step of Adam from the start of a run, by which κ of a cell's model is measured on the run's own task (docs/theory/first_update.md)."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F

from screen.atlas.cell import Cell
from screen.atlas.language import language
from screen.atlas.stack import model_of
from screen.atlas.tasks import batches

BATCHES = 2
"""First batches of the run, taken as one."""
RATE = 1e-6
"""Learning rate of the step, small enough for a limit in float64."""


def kappa(cell: Cell) -> float:
    """rms of the change of what the head reads, over its rms and over the rate of the step: every entry moves by the rate against the sign of its
    gradient. The seed is 0, whatever the cell's is: what is measured is the design."""
    cell = replace(cell, seed=0)
    model, scored = model_of(cell).double(), language(cell.task).first
    ids = batches(cell.task, 0)[:BATCHES].flatten(0, 1)
    logits = model(ids)[:, scored:-1]
    F.cross_entropy(logits.flatten(0, 1), ids[:, scored + 1 :].flatten()).backward()
    with torch.no_grad():
        before = model.stack(ids)  # type: ignore[operator]
        for p in model.parameters():
            if p.grad is not None:
                p.sub_(RATE * p.grad.sign())
        moved = model.stack(ids) - before  # type: ignore[operator]
    return float(moved.square().mean().sqrt() / before.square().mean().sqrt() / RATE)


__all__ = ["kappa"]
