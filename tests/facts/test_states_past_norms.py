"""States inside a block that are made of its first state past one that a norm has bounded: what ends the block says whether the stream is bounded."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen

pytestmark = pytest.mark.by_the_day

WIDTH, PLACES, DEPTH = 32, 8, 12


class Block(nn.Module):
    """Two nets read the state, each with a norm on its sum; then a third net, with a norm on its sum or none."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.norms = how, nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(3))
        self.nets = nn.ModuleList(nn.Sequential(nn.Linear(WIDTH, 64), nn.GELU(), nn.Linear(64, WIDTH)) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        one, two = (n(x + f(x)) for n, f in zip(self.norms[:2], self.nets[:2], strict=True))
        if self.how == "joined, and a norm":
            return self.norms[2](one + two + self.nets[2](one + two))
        if self.how == "joined":
            return one + two
        if self.how == "beside the state, and a norm":
            inner = x + 0.5 * self.norms[1](one + self.nets[1](one))
            return self.norms[2](inner + self.nets[2](x))
        return x + 0.1 * self.norms[2](one + two + self.nets[2](one + two))  # "added to the state"


@pytest.mark.parametrize("how", ["joined, and a norm", "joined", "beside the state, and a norm", "added to the state"])
def test_a_norm_at_the_end_of_a_block_bounds_the_stream(how: str) -> None:
    torch.manual_seed(0)
    x = 1e6 * torch.randn(2, PLACES, WIDTH, dtype=torch.float64)
    with torch.no_grad():
        bounded = float(Block(how).double()(x).pow(2).mean().sqrt()) < 10
    assert bounded is (how != "added to the state")
    report = screen.check(nn.Sequential(*(Block(how) for _ in range(DEPTH))), example_inputs=torch.randn(2, PLACES, WIDTH))
    told = {c.weights: (c.status, c.value) for c in report.claims if c.claim == "growth"}
    if bounded:
        assert set(told.values()) == {("proved", "bounded")}, told
    else:
        assert "bounded" not in {value for _, value in told.values()}, told
