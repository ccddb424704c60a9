"""Forwards that are told much beside a picture: what a size is cut into, a row of a table for each sample, calls over several lines."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from tests.capture.test_mend import found


class Told(nn.Module):
    """Time, sizes and a style make one row for each sample."""

    def __init__(self) -> None:
        super().__init__()
        self.steps, self.styles, self.told = nn.Linear(8, 24), nn.Embedding(1, 16), nn.Linear(24 + 16 + 6 * 8, 24)

    def spread(self, numbers: Tensor) -> Tensor:
        if len(numbers.shape) != 1:
            raise ValueError("numbers stand in a row")
        waves = numbers[:, None].float() * torch.exp(-math.log(10000.0) * torch.arange(4) / 4)[None]
        return torch.cat([waves.sin(), waves.cos()], dim=-1)

    def forward(self, step: Tensor, sizes: Tensor, style: Tensor, dtype: torch.dtype) -> Tensor:
        stepped = self.steps(self.spread(step).to(dtype))
        sized = self.spread(sizes.view(-1))
        sized = sized.view(-1, 6 * 8)
        style = self.styles(style)
        told = torch.cat([stepped, sized, style], dim=1)
        out: Tensor = self.told(told)
        return out


class Picture(nn.Module):
    """The dtype of the step is read on the second line of a call whose first line goes on inside."""

    def __init__(self) -> None:
        super().__init__()
        self.told, self.cut, self.norm, self.map = Told(), nn.Conv2d(3, 24, 4, stride=4), nn.LayerNorm(24), nn.Linear(24, 24)

    def forward(self, x: Tensor, step: Tensor, sizes: Tensor | None = None, style: Tensor | None = None) -> Tensor:
        x = self.cut(x).flatten(2).mT
        told = self.told(
            step, sizes, style, dtype=step.dtype
        )  # fmt: skip
        return x + self.map(self.norm(x) * told[:, None])


def test_sizes_and_styles_of_a_picture_are_told() -> None:
    kwargs, tried = found(Picture())
    assert not tried
    assert tuple(kwargs["sizes"].shape) == (2, 6) and tuple(kwargs["style"].shape) == (2,)
