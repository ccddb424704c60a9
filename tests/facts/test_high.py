"""What a bound over all weights says is its number is reached, and not passed, by gains whose entries are one; of a stored tensor none is told."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen

WIDTH = 32


class Block(nn.Module):
    """tanh of a map of a norm, times one factor for each feature: trained, trained and squashed, stored, or a number; or a map's sigmoid."""

    def __init__(self, by: str) -> None:
        super().__init__()
        self.by, self.norm, self.map, self.gate = by, nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.gain = nn.Parameter(torch.ones(WIDTH))
        self.register_buffer("stored", torch.full((WIDTH,), 3.0))

    def branch(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        made = torch.tanh(self.map(h))
        match self.by:
            case "a gain":
                return self.gain * made
            case "a squashed gain":
                return torch.sigmoid(self.gain) * made
            case "a stored tensor":
                return self.stored * made
            case "a gate":
                return torch.sigmoid(self.gate(h)) * made
        return 0.5 * made

    def forward(self, x: Tensor) -> Tensor:
        return x + self.branch(x)


@pytest.mark.parametrize("by", ["a gain", "a squashed gain", "a stored tensor", "a gate", "a number"])
def test_the_number_over_all_weights_is_not_passed(by: str) -> None:
    torch.manual_seed(0)
    block = Block(by).double()
    for layer in (block.map, block.gate):
        layer.weight.data.mul_(1e4)
    block.gate.bias.data.fill_(1e9)
    with torch.no_grad():
        reached = float(block.branch(torch.randn(8, WIDTH, dtype=torch.float64)).pow(2).mean().sqrt())
    report = screen.check(nn.Sequential(Block(by), Block(by)), example_inputs=torch.randn(2, 4, WIDTH))
    [claim] = [c for c in report.claims if c.claim == "output_bounded"]
    assert claim.value is True
    if by == "a stored tensor":
        assert claim.high is None
    else:
        assert claim.high is not None and reached <= claim.high * (1 + 1e-5) <= 1.1 * reached
