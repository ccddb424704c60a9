"""Bounds of branches that part two inputs are told where they are proved: of a branch of degree one in the stream the weights set none."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

import screen

WIDTH = 32


class Recurrent(nn.Module):
    """A recurrent layer of ReLUs, of degree one in the stream but for its biases: no bound of it is derived, and its growth is measured."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.RNN(WIDTH, WIDTH, nonlinearity="relu", batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.rnn(x)[0]
        return out


class Normed(Recurrent):
    """The same behind a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.out(torch.tanh(self.rnn(self.norm(x))[0]))
        return out


@pytest.mark.by_the_day
@pytest.mark.parametrize(("block", "bounded"), [(Recurrent, False), (Normed, True)])
def test_bounds_that_are_told_are_proved(block: type[nn.Module], bounded: bool) -> None:
    torch.manual_seed(0)
    report = screen.check(block(), example_inputs=torch.randn(2, 8, WIDTH), depth=24)
    [found] = [f for f in report.findings if f.code == "R401"]
    assert ("b_l the bound that the weights" in found.message) is bounded and (found.outcome == "holds") is bounded


@pytest.mark.parametrize(("block", "bounded"), [(Recurrent, False), (Normed, True)])
def test_two_inputs_of_ten_thousand_times_the_size_part_as_far_where_that_is_so(block: type[nn.Module], bounded: bool) -> None:
    torch.manual_seed(0)
    blocks, apart = [block().double() for _ in range(8)], []
    for size in (1.0, 1e4):
        x, other = (size * torch.randn(1, 8, WIDTH, dtype=torch.float64) for _ in range(2))
        start = (x - other).norm()
        with torch.no_grad():
            for one in blocks:
                x, other = one(x), one(other)
        apart.append(float((x - other).norm() - start))
    assert (math.log10(max(apart[1], 1e-9) / apart[0]) < 1) is bounded
