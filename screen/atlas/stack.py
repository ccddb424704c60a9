"""Many models of one shape as one: their parameters in one matrix, their losses and gradients in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, vmap

from screen.atlas.cell import Cell, spec_of
from screen.atlas.precision import Watch
from screen.atlas.language import language
from screen.designs.build import build


def model_of(cell: Cell) -> nn.Module:
    """The cell's model at the start of its run."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(cell.seed)
        return build(spec_of(cell))


@dataclass(frozen=True)
class Measured:
    """Of one step, one number for each run: the loss on the task in nats; the largest |logit| of any attention and of the head."""

    loss: Tensor
    attention: Tensor
    head: Tensor


class Stack:
    """The models of cells that agree on design, sizes, task and precision; `start` [runs, parameters] holds their initial weights."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        models = [model_of(cell) for cell in cells]
        self.model, self.precision, self.language = models[0], cells[0].precision, language(cells[0].task)
        self.names = [name for name, _ in self.model.named_parameters()]
        self.shapes = [p.shape for p in self.model.parameters()]
        self.sizes = [p.numel() for p in self.model.parameters()]
        self.start = torch.stack([torch.cat([p.detach().reshape(-1) for p in model.parameters()]) for model in models])
        self.decays = torch.cat([torch.full((n,), float(len(shape) > 1)) for n, shape in zip(self.sizes, self.shapes, strict=True)])
        """1 for weights that decay, matrices and embeddings; 0 for gains and biases; [parameters]."""
        self._all = vmap(self._one)

    def _one(self, pieces: tuple[Tensor, ...], ids: Tensor, z_loss: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        with Watch(self.precision) as watch:
            logits: Tensor = functional_call(self.model, dict(zip(self.names, pieces, strict=True)), (ids,))
        scored = logits[:, self.language.first : -1]
        loss = F.cross_entropy(scored.flatten(0, 1), ids[:, self.language.first + 1 :].flatten())
        total = loss + z_loss * torch.logsumexp(scored, -1).square().mean()
        attention = torch.stack(watch.logits).amax()
        return total, loss.detach(), attention, logits.detach().abs().amax()

    def step(self, theta: Tensor, ids: Tensor, z_loss: Tensor, scale: Tensor | None) -> tuple[Tensor, Measured]:
        """Gradients [runs, parameters] of each run's loss at theta on ids [runs, batch, tokens]; the loss is multiplied by `scale` meanwhile."""
        leaf = theta.detach().requires_grad_()
        runs = len(leaf)
        pieces = tuple(p.view(runs, *shape) for p, shape in zip(leaf.split(self.sizes, 1), self.shapes, strict=True))
        total, *measured = self._all(pieces, ids, z_loss)
        (grad,) = torch.autograd.grad((total if scale is None else total * scale).sum(), leaf)
        return grad if scale is None else grad / scale[:, None], Measured(*measured)


__all__ = ["Measured", "Stack", "model_of"]
