"""`high` of a claim over all weights is a bound that no weights break."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import screen

WIDTH, HEAD = 16, 8


class Clipped(nn.Module):
    """Queries and keys that are cut off at ±3: logits of at most 9·√HEAD."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.q, self.k, self.v = nn.LayerNorm(WIDTH), *(nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        q, k = (m(h).clamp(-3.0, 3.0).unflatten(-1, (-1, HEAD)).transpose(1, 2) for m in (self.q, self.k))
        self.largest = (q @ k.mT).abs().amax() / math.sqrt(HEAD)
        weights = torch.softmax(q @ k.mT / math.sqrt(HEAD), -1)
        return x + (weights @ self.v(h).unflatten(-1, (-1, HEAD)).transpose(1, 2)).transpose(1, 2).flatten(-2)


class Gated(nn.Module):
    """tanh(f)·σ(g): at most one in each entry."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.f, self.g = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        added = torch.tanh(self.f(h)) * torch.sigmoid(self.g(h))
        self.largest = added.square().mean(-1).sqrt().amax()
        return x + added


@pytest.mark.parametrize(("block", "claim", "reached"), [(Clipped, "logits_bounded", 9 * math.sqrt(HEAD)), (Gated, "output_bounded", 1.0)])
def test_no_weights_break_it(block: type[Any], claim: str, reached: float) -> None:
    report = screen.check(nn.Sequential(block(), block()), example_inputs=torch.randn(2, 12, WIDTH))
    [found] = [c for c in report.claims if c.claim == claim]
    assert (found.value, found.status, found.weights) == (True, "proved", "all")
    torch.manual_seed(0)
    one = block().double()
    with torch.no_grad():
        for p in one.parameters():
            p.mul_(1e5 if p.dim() > 1 else 1.0)
        one(torch.randn(4, 12, WIDTH, dtype=torch.float64))
    assert 0.6 * reached < float(one.largest) <= found.high * (1 + 1e-9)
