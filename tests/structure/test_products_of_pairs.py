"""A triangular update z_ij ← Σ_k a_ik·b_jk of pairs of tokens: it compares no features and weighs no tokens, so that it is no attention."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen

WIDTH = 24


class Block(nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.norm, self.behind = how, nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.a, self.b, self.c, self.gate, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(5))

    def forward(self, z: Tensor) -> Tensor:
        y = self.norm(z)
        a, b, c = self.a(y) * self.gate(y).sigmoid(), self.b(y), self.c(y)
        if self.how == "outgoing":
            y = torch.einsum("bikd,bjkd->bijd", a, b)
        elif self.how == "incoming":
            y = (a.permute(0, 3, 2, 1) @ b.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        else:  # each row of pairs attends to itself, without a softmax
            y = torch.einsum("bijk,bikd->bijd", torch.einsum("bijd,bikd->bijk", a, b) / WIDTH, c)
        return z + self.out(self.behind(y))


class Model(nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.first, self.blocks = nn.Linear(8, WIDTH), nn.ModuleList(Block(how) for _ in range(3))

    def forward(self, z: Tensor) -> Tensor:
        z = self.first(z)
        for block in self.blocks:
            z = block(z)
        return z


@pytest.mark.parametrize(("how", "role"), [("outgoing", "other"), ("incoming", "other"), ("rows", "linear_attention")])
def test_its_role(how: str, role: str) -> None:
    report = screen.check(Model(how), example_inputs=(torch.randn(2, 10, 10, 8),), spot_check=False)
    assert [s.role for s in report.streams[0].kinds[0].sublayers] == [role]
