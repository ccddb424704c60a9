"""The gain of a norm over channels that is written out, `w[:, None, None] * x̂`, is the norm's; a second factor is a scale of the branch."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen
from tests.awkward.parts import D


class OverChannels(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(D)), nn.Parameter(torch.zeros(D))

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean(1, keepdim=True)
        apart = (x - mean) / torch.sqrt((x - mean).square().mean(1, keepdim=True) + 1e-6)
        return self.weight[:, None, None] * apart + self.bias[:, None, None]


class Filters(nn.Module):
    def __init__(self, scaled: bool) -> None:
        super().__init__()
        self.first, self.second, self.norm = nn.Conv2d(D, D, 3, padding=1), nn.Conv2d(D, D, 1), OverChannels()
        self.scale = nn.Parameter(torch.full((D,), 0.1)) if scaled else None

    def forward(self, x: Tensor) -> Tensor:
        added = self.norm(self.second(torch.relu(self.first(x))))
        return x + (added if self.scale is None else self.scale[:, None, None] * added)


@pytest.mark.parametrize("scaled", [True, False])
def test_the_gain_is_of_the_norm_and_a_scale_of_the_branch(scaled: bool) -> None:
    model = nn.Sequential(nn.Conv2d(3, D, 4, 4), *(Filters(scaled) for _ in range(3)))
    (stream,) = screen.check(model, example_inputs=torch.randn(2, 3, 32, 32), spot_check=False).streams
    (branch,) = stream.kinds[0].sublayers
    assert (branch.placement, branch.residual.branch_kind) == ("output_only", "learned" if scaled else "none")
