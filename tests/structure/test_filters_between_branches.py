"""Blocks with a filter on the stream between two branches, as few as two of them. Truths by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen

pytestmark = pytest.mark.by_the_day

WIDTH = 16


class Block(nn.Module):
    """x + attention, a filter of that, and a feed-forward added to it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.filter = nn.Conv1d(WIDTH, WIDTH, 3, padding=1, groups=WIDTH)
        self.feed = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.first(x)).chunk(3, -1)
        x = x + self.out(torch.softmax(q @ k.mT * WIDTH**-0.5, -1) @ v)
        x = self.filter(x.mT).mT
        return x + self.feed(self.second(x))


class Stack(nn.Module):
    def __init__(self, depth: int) -> None:
        super().__init__()
        self.patch, self.blocks = nn.Linear(8, WIDTH), nn.ModuleList([Block() for _ in range(depth)])

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x)
        for block in self.blocks:
            x = block(x)
        return x


@pytest.mark.parametrize("depth", [2, 3, 5])
def test_blocks_that_a_filter_cuts_are_one_stream(depth: int) -> None:
    """Two blocks were three streams: what stands before the first filter, between both, and behind the second."""
    (stream,) = screen.check(Stack(depth), example_inputs=torch.zeros(2, 9, 8)).streams
    assert [(k.count, [f"{s.role}:{s.placement}" for s in k.sublayers]) for k in stream.kinds] == [(depth, ["attention:pre", "ffn:pre"])]
