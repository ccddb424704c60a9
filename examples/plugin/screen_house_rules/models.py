"""The models of the house: `screen check house:small`. Imported only where a model is built, so torch may be."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

WIDTHS = {"small": 32, "large": 64}


@torch.library.custom_op("house::rms_norm", mutates_args=())
def rms_norm(x: Tensor, shape: list[int], weight: Tensor, eps: float) -> Tensor:
    """A kernel of the house."""
    return nn.functional.rms_norm(x, shape, weight, eps)


@rms_norm.register_fake
def _(x: Tensor, shape: list[int], weight: Tensor, eps: float) -> Tensor:
    return torch.empty_like(x)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.inputs = inputs


def _back(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    x, shape, weight, eps = ctx.inputs
    with torch.enable_grad():
        x, weight = x.detach().requires_grad_(), weight.detach().requires_grad_()
        to_x, to_weight = torch.autograd.grad(nn.functional.rms_norm(x, shape, weight, eps), (x, weight), gradient)
    return to_x, None, to_weight, None


rms_norm.register_autograd(_back, setup_context=_keep)


class Block(nn.Module):
    """A pre-norm branch."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gain, self.up, self.down = nn.Parameter(torch.ones(width)), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(nn.functional.silu(self.up(torch.ops.house.rms_norm(x, list(self.gain.shape), self.gain, 1e-6))))


def build(words: str, blocks: int = 3) -> nn.Module:
    """What `house:WORDS` names; further arguments are those of `--set`."""
    return nn.Sequential(*(Block(WIDTHS[words]) for _ in range(blocks)), nn.RMSNorm(WIDTHS[words]))
