"""What I121 says of weights that no gradient reaches: each once, and not that a start from them does no harm."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen


class _Block(nn.Module):
    """`x + down(a * b)`, a and b maps of a norm, both under one gate that starts at 0, or under two."""

    def __init__(self, gates: int) -> None:
        super().__init__()
        self.norm, self.one, self.other, self.down = nn.LayerNorm(32), nn.Linear(32, 64), nn.Linear(32, 64), nn.Linear(64, 32)
        self.first = nn.Parameter(torch.zeros(64))
        self.second = nn.Parameter(torch.zeros(64)) if gates == 2 else self.first

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        out: Tensor = x + self.down((self.first * self.one(y)) * (self.second * self.other(y)))
        return out


@pytest.mark.parametrize(("gates", "said"), [(1, "0.first` starts at 0"), (2, "0.first` and `0.second` start at 0 and multiply each other")])
def test_weights_that_no_gradient_reaches_are_named_once_and_their_start_is_no_condition(gates: int, said: str) -> None:
    report = screen.check(nn.Sequential(*(_Block(gates) for _ in range(3))), example_inputs=torch.randn(2, 12, 32))
    found = [f for f in report.findings if f.code == "I121"]
    assert found and all(f.outcome == "violated" for f in found)
    assert said in found[0].message, found[0].message
    assert "initialisation" not in {c.id for c in report.conditions}, report.conditions
