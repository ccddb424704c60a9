"""Fused maps of attention that read what a filter makes of the stream: each part counts. Truths by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen
from tests.structure.mixed_blocks import Mixed

pytestmark = pytest.mark.by_the_day

WIDTH = 16


class Reduced(nn.Module):
    """Attention whose keys and values, of one map, or with the queries as well, come of a filtered image; `low`: by a bottleneck."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.out, self.norm = how, nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH)
        groups = WIDTH if how == "all" else 1
        self.filter = nn.Conv2d(WIDTH, WIDTH, 3, padding=1, groups=groups) if how == "all" else nn.Conv2d(WIDTH, WIDTH, 2, stride=2)
        self.q, self.low = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 4)
        self.maps = nn.Linear(4 if how == "low" else WIDTH, 3 * WIDTH if how == "all" else 2 * WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        image = x.mT.unflatten(2, (6, 6))
        if self.how == "all":
            q, k, v = self.maps(self.filter(image).flatten(2).mT).chunk(3, -1)
        elif self.how == "low":
            q, (k, v) = self.q(x), self.maps(self.low(x)).chunk(2, -1)
        else:
            q, (k, v) = self.q(x), self.maps(self.norm(self.filter(image).flatten(2).mT)).chunk(2, -1)
        return self.out(torch.softmax(q @ k.mT * WIDTH**-0.5, -1) @ v)


class Stack(nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.patch, self.blocks = nn.Conv2d(3, WIDTH, 2, stride=2), nn.ModuleList([Mixed(Reduced(how), WIDTH) for _ in range(3)])

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x).flatten(2).mT
        for block in self.blocks:
            x = block(x)
        return x


@pytest.mark.parametrize(("how", "maps"), [("keys", 4), ("all", 4), ("low", 4)])
def test_each_part_of_a_fused_map_behind_a_filter_counts(how: str, maps: int) -> None:
    """Keys and values of one map behind a strided filter were one map. Behind a bottleneck, which is a map, they are one (low-rank keys, values)."""
    (stream,) = screen.check(Stack(how), example_inputs=torch.zeros(2, 3, 12, 12)).streams
    assert stream.kinds[0].sublayers[0].m.maps == maps
