"""What G105 takes for a hollow norm: a bare gain and bias where a norm would stand, and no map of numbers to features."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen


class _Block(nn.Module):
    """`x + f(norm(x))`."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.down(torch.relu(self.up(self.norm(x))))
        return out


class _Model(nn.Module):
    """Blocks on `gain * x + bias`: of numbers over time, each mapped to features by one vector for all, or of a mapped state as it is."""

    def __init__(self, numbers: bool) -> None:
        super().__init__()
        self.numbers, self.gain, self.bias = numbers, nn.Parameter(torch.randn(32)), nn.Parameter(torch.zeros(32))
        self.start, self.blocks = nn.Linear(16, 32), nn.Sequential(*(_Block() for _ in range(3)))

    def forward(self, x: Tensor) -> Tensor:
        x = x[:, :, :1] if self.numbers else self.start(x)
        out: Tensor = self.blocks(self.gain * x + self.bias)
        return out


@pytest.mark.parametrize(("numbers", "outcome"), [(True, "holds"), (False, "violated")])
def test_a_vector_for_each_number_is_no_hollow_norm(numbers: bool, outcome: str) -> None:
    found = [f for f in screen.check(_Model(numbers), example_inputs=torch.randn(2, 12, 16)).findings if f.code == "G105"]
    assert {f.outcome for f in found} == {outcome}, found
