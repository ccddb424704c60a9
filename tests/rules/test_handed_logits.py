"""Logits that each attention adds to those of the one before it: they add up over depth, and are not made of a stream that no norm bounds."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import screen

WIDTH, BLOCKS = 64, 4


class Block(nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.norm, self.behind = how, nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, before: Tensor | None) -> tuple[Tensor, Tensor]:
        y = self.norm(x)
        q, k = self.q(x if self.how == "raw" else y), self.k(x if self.how == "raw" else y)
        if self.how == "normed":
            q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        logits = q @ k.mT * (5 if self.how == "normed" else WIDTH**-0.5)
        logits = logits if before is None else logits + before
        x = x + self.o(logits.softmax(-1) @ self.v(y))
        return x + self.down(F.gelu(self.up(self.behind(x)))), logits


class Model(nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.first, self.blocks, self.last = nn.Linear(8, WIDTH), nn.ModuleList(Block(how) for _ in range(BLOCKS)), nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x, logits = self.first(x), None
        for block in self.blocks:
            x, logits = block(x, logits)
        return torch.as_tensor(self.last(x))


@pytest.mark.parametrize("how", ["plain", "normed", "raw"])
def test_what_is_said_of_them(how: str) -> None:
    """Divided by √64 they were told to be made of the stream itself (exit 1), normed they could not be told (exit 2)."""
    torch.manual_seed(0)
    report = screen.check(Model(how), example_inputs=(torch.randn(2, 10, 8),), spot_check=False)
    told = {f.outcome: f.message for f in report.findings if f.code == "L201" and f.outcome != "holds"}
    assert "cannot_tell" not in told
    assert ("violated" in told) is (how == "raw")
    messages = " ".join(f.message for f in report.findings if f.code == "L201")
    assert ("add up over depth" in messages) is (how != "raw")
