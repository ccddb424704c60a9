"""How many blocks the target is said to have."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import screen

WIDTH = 24


class Map(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 96), nn.Linear(96, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.gelu(self.up(x)))  # type: ignore[no-any-return]


class Turns(nn.Module):
    """Two states that take turns, a' = b and b' = a + f(N(b)): members of one list add to the one and to the other."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.first, self.out = nn.Embedding(20, WIDTH), nn.LayerNorm(WIDTH)
        self.maps = nn.ModuleList(Map() for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(depth))

    def forward(self, ids: Tensor) -> Tensor:
        a = b = self.first(ids)
        for f, norm in zip(self.maps, self.norms, strict=True):
            a, b = b, a + f(norm(b))
        return self.out(b)  # type: ignore[no-any-return]


def test_a_member_that_adds_to_another_stream_is_none_of_this_one() -> None:
    """It was told with one block more than either stream has."""
    report = screen.check(Turns(6), example_inputs=torch.full((2, 10), 3), spot_check=False)
    assert [s.depth for s in report.streams] == [3, 3] and report.target.depth == 3
