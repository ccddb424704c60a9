"""Attention that adds its queries to what it gives, in blocks whose skip changes the width: no stream of its own. Truths by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen

pytestmark = pytest.mark.by_the_day


class Pooled(nn.Module):
    """q + softmax(q kᵀ) v behind one map, queries, keys and values each filtered and normed."""

    def __init__(self, width: int, out: int, stride: int, but_first: bool) -> None:
        super().__init__()
        self.but_first = but_first
        self.maps, self.last = nn.Linear(width, 3 * out), nn.Linear(out, out)
        self.pools = nn.ModuleList([nn.Conv1d(out, out, 3, stride=s, padding=1, groups=out) for s in (stride, 2, 2)])
        self.norms = nn.ModuleList([nn.LayerNorm(out) for _ in range(3)])

    def forward(self, x: Tensor) -> Tensor:
        parts = self.maps(x).chunk(3, -1)
        q, k, v = (norm(pool(p.mT).mT) for p, pool, norm in zip(parts, self.pools, self.norms, strict=True))
        made = torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, -1) @ v
        if self.but_first:
            made[:, 1:] += q[:, 1:]
            return self.last(made)
        return self.last(made + q)


class Layer(nn.Module):
    def __init__(self, width: int, out: int, stride: int, but_first: bool) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(out)
        self.attention = Pooled(width, out, stride, but_first)
        self.feed = nn.Sequential(nn.Linear(out, 2 * out), nn.GELU(), nn.Linear(2 * out, out))
        self.skip = nn.Linear(width, out) if width != out else None
        self.pool = nn.MaxPool1d(3, stride, 1) if stride > 1 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        skip = x if self.skip is None else self.skip(y)
        x = self.pool(skip.mT).mT + self.attention(y)
        return x + self.feed(self.second(x))


class Pyramid(nn.Module):
    def __init__(self, depths: tuple[int, ...], but_first: bool) -> None:
        super().__init__()
        self.patch = nn.Conv1d(3, 16, 4, stride=4)
        layers, width = [], 16
        for stage, depth in enumerate(depths):
            for n in range(depth):
                fresh = stage > 0 and n == 0
                layers.append(Layer(width, width * 2 if fresh else width, 2 if fresh else 1, but_first))
                width *= 2 if fresh else 1
        self.layers, self.norm = nn.ModuleList(layers), nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x).mT
        for layer in self.layers:
            x = layer(x)
        return self.norm(x).mean(1)


@pytest.mark.parametrize("but_first", [False, True])
def test_queries_that_are_added_to_what_attention_gives_are_no_stream(but_first: bool) -> None:
    """The first block of each stage had a stream of its queries, a decoder of all before it."""
    report = screen.check(Pyramid((2, 3, 2), but_first), example_inputs=torch.zeros(2, 3, 512))
    assert [s.role for s in report.streams] == ["stream"] * 3
    assert [s.depth for s in report.streams] == [2, 3, 2]
    assert {sub.role for s in report.streams for k in s.kinds for sub in k.sublayers} == {"attention", "ffn"}
