"""A forecaster from as many values to as many embeds each of them: what it adds up has another width than what it reads, and is no block to stack."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen

WIDTH, TOKENS, SERIES = 32, 24, 7


class Forecaster(nn.Module):
    """Each value times a row of weights, a net with a skip, and one map of all that belongs to a series; or with the series as they are."""

    def __init__(self, skip: bool) -> None:
        super().__init__()
        self.row, self.up, self.down = nn.Parameter(torch.randn(WIDTH)), nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.last, self.skip = nn.Linear(TOKENS * WIDTH, TOKENS), skip

    def forward(self, series: Tensor) -> Tensor:
        x = series.transpose(1, 2)[..., None] * self.row
        x = x + self.down(torch.relu(self.up(x)))
        out = self.last(x.flatten(2)).transpose(1, 2)
        return series + out if self.skip else out


@pytest.mark.parametrize(("skip", "depths"), [(False, [1]), (True, [24])])
def test_what_adds_up_an_embedding_is_a_model(skip: bool, depths: list[int]) -> None:
    """The near miss: what it reads is added to what it gives, and such a net may be a block."""
    report = screen.check(Forecaster(skip), example_inputs=torch.randn(2, TOKENS, SERIES), spot_check=False)
    assert [s.depth for s in report.streams if s.role == "stream"] == depths
