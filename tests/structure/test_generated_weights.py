"""Tokens times a matrix that a map makes of another argument: a map, and no linear attention, which sums over tokens."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import screen

WIDTH = 24


class Block(nn.Module):
    """x + φ(N(x) W) with W of a condition, or kᵀv of the condition's tokens, or of the block's own."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.norm = how, nn.LayerNorm(WIDTH)
        self.q, self.k, self.v, self.made = (nn.Linear(WIDTH, o) for o in (WIDTH, WIDTH, WIDTH, WIDTH * WIDTH))

    def forward(self, x: Tensor, c: Tensor) -> Tensor:
        y = self.norm(x)
        if self.how == "made":
            return x + F.gelu(torch.bmm(y, self.made(c.mean(1)).view(-1, WIDTH, WIDTH) / WIDTH))
        read = y if self.how == "own" else c
        return x + torch.bmm(self.q(y), torch.bmm(self.k(read).mT, self.v(read)) / 10)


class Model(nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.first, self.blocks = nn.Linear(8, WIDTH), nn.ModuleList(Block(how) for _ in range(3))

    def forward(self, x: Tensor, c: Tensor) -> Tensor:
        x, c = self.first(x), self.first(c)
        for block in self.blocks:
            x = block(x, c)
        return x


@pytest.mark.parametrize(("how", "role"), [("made", "other"), ("own", "linear_attention"), ("condition", "linear_attention")])
def test_its_role(how: str, role: str) -> None:
    report = screen.check(Model(how), example_inputs=(torch.randn(2, 10, 8), torch.randn(2, 7, 8)), spot_check=False)
    assert [s.role for s in report.streams[0].kinds[0].sublayers] == [role]


class Graph(nn.Module):
    """x + φ(A W N(x)), with A an argument, or made of the tokens."""

    def __init__(self, given: bool) -> None:
        super().__init__()
        self.given, self.first = given, nn.Linear(8, WIDTH)
        self.norms, self.maps, self.keys = (nn.ModuleList(m() for _ in range(3)) for m in (lambda: nn.LayerNorm(WIDTH), self._map, self._map))

    @staticmethod
    def _map() -> nn.Module:
        return nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        x = self.first(x)
        for norm, linear, key in zip(self.norms, self.maps, self.keys, strict=True):
            y = norm(x)
            mixing = edges / edges.sum(-1, keepdim=True) if self.given else y @ key(y).mT / WIDTH
            x = x + F.relu(mixing @ linear(y))
        return x


@pytest.mark.parametrize(("given", "role"), [(True, "other"), (False, "linear_attention")])
def test_sums_over_the_edges_of_a_graph_are_no_attention(given: bool, role: str) -> None:
    report = screen.check(Graph(given), example_inputs=(torch.randn(2, 10, 8), torch.ones(2, 10, 10)), spot_check=False)
    assert [s.role for s in report.streams[0].kinds[0].sublayers] == [role]
