"""A value that a stream begins with a norm of, and that is added again behind the stream: to its end, or to a norm of that end."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen

WIDTH = 16


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self, normed: bool) -> None:
        super().__init__()
        self.normed, self.first, self.last = normed, nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.blocks, self.head = nn.ModuleList(Block() for _ in range(4)), nn.Linear(WIDTH, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        for block in self.blocks:
            y = block(y)
        return self.head(x + 0.1 * (self.last(y) if self.normed else y))


@pytest.mark.parametrize("normed", [False, True])
def test_a_norm_in_front_of_the_first_block_breaks_no_identity_path(normed: bool) -> None:
    """It was told of the one behind a norm: "every path crosses 1 norm"."""
    report = screen.check(Model(normed), example_inputs=(torch.randn(2, 5, WIDTH),), spot_check=False)
    assert [f.outcome for f in report.findings if f.code == "D101"] == ["holds"]
    [gain] = [c for c in report.claims if c.claim == "identity_gain" and c.stream == report.streams[0].name]
    assert gain.value == pytest.approx(1.0)
