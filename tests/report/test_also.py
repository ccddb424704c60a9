"""What is said beside a finding of others of its kind: where they stand, and no module as the place of itself."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import screen
from screen.report import render


class _Block(nn.Module):
    """`x + f(norm(x))`, with two maps that are built and never called."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down, self.gate, self.shift = nn.LayerNorm(32), *(nn.Linear(*s) for s in ((32, 64), (64, 32), (32, 32), (32, 32)))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.down(torch.relu(self.up(self.norm(x))))
        return out


def test_a_module_is_not_its_own_place() -> None:
    text = render(screen.check(nn.Sequential(_Block(), _Block(), _Block()), example_inputs=torch.randn(2, 12, 32)), "text")
    also = [line.strip() for line in text.splitlines() if line.strip().startswith("also `")]
    assert also
    assert not [line for line in also if line.split(" at ")[-1] == line.split("`")[1]], also
