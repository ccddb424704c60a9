"""Queries by one slice of a weight, keys and values by the rest of it, which is cut: each map is one of its own (`F._in_projection_packed`)."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen

WIDTH = 32
WAYS = ["packed", "cut", "unbound", "keys first", "one map"]


class Attention(nn.Module):
    """Later tokens read the first five."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way, self.norm, self.last = way, nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)
        self.weight = nn.Parameter(torch.randn(3 * WIDTH, WIDTH) / WIDTH**0.5)

    def maps(self, x: Tensor, known: Tensor) -> tuple[Tensor, ...]:
        if self.way == "packed":
            return tuple(F._in_projection_packed(x, known, known, self.weight, None))  # type: ignore[attr-defined]
        if self.way == "one map":
            return F.linear(x, self.weight).chunk(3, -1)
        if self.way == "keys first":
            k, v = F.linear(known, self.weight[: 2 * WIDTH]).chunk(2, -1)
            return F.linear(x, self.weight[2 * WIDTH :]), k, v
        both = F.linear(known, self.weight[WIDTH:])
        k, v = both.chunk(2, -1) if self.way == "cut" else both.unflatten(-1, (2, WIDTH)).unbind(-2)
        return F.linear(x, self.weight[:WIDTH]), k, v

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        q, k, v = (t.unflatten(-1, (4, 8)).transpose(1, 2) for t in self.maps(y, y[:, :5]))
        return x + self.last(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))  # type: ignore[no-any-return]


@pytest.mark.parametrize("way", WAYS)
def test_each_slice_is_a_map_of_its_own(way: str) -> None:
    """The keys' rows were counted from the slice on, and were those of the queries: m was 3, and W_Q of degree 2 (TabICL)."""
    blocks = nn.Sequential(*(Attention(way) for _ in range(3)), nn.LayerNorm(WIDTH))
    report = screen.check(blocks, example_inputs=torch.randn(2, 12, WIDTH), spot_check=False)
    [branch] = [sub for kind in report.streams[0].kinds for sub in kind.sublayers]
    assert branch.m is not None and branch.m.distinct == 4
    weights = [f"0.weight[{at}:{at + WIDTH}]" for at in (0, WIDTH, 2 * WIDTH)]
    assert {name: found.predicted for name, found in branch.degrees.items()} == dict.fromkeys([*weights, "0.last.weight"], 1.0)
