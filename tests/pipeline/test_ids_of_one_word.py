"""Ids that are all one number were given for a shape: what tokens have in common is measured of ids that are drawn."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import screen

WIDTH, WORDS, TOKENS = 32, 50, 24


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.behind = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        x = x + self.o(F.scaled_dot_product_attention(self.q(y), self.k(y), self.v(y)))
        return x + self.down(F.gelu(self.up(self.behind(x))))


class Model(nn.Module):
    def __init__(self, padded: bool) -> None:
        super().__init__()
        self.padded = padded
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Parameter(torch.randn(TOKENS, WIDTH))
        self.blocks, self.norm, self.head = nn.ModuleList(Block() for _ in range(6)), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids) + 0.5 * self.places
        x = x * (ids >= 0)[..., None] if self.padded else x
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


@pytest.mark.parametrize("ids", [torch.zeros(2, TOKENS, dtype=torch.long), torch.arange(2 * TOKENS).view(2, TOKENS)])
def test_tokens_are_apart_whatever_ids_are_given(ids: Tensor) -> None:
    torch.manual_seed(0)
    report = screen.check(Model(False), example_inputs=(ids,), spot_check=True)
    [claim] = [c for c in report.claims if c.claim == "one_minus_cos"]
    assert isinstance(claim.value, float) and claim.value > 0.7  # of one word 0.1


def test_ids_that_something_else_is_asked_of_are_those_that_were_given() -> None:
    """A mask is made of them: others might be padding."""
    torch.manual_seed(0)
    report = screen.check(Model(True), example_inputs=(torch.zeros(2, TOKENS, dtype=torch.long),), spot_check=True)
    assert report.error is None
    [claim] = [c for c in report.claims if c.claim == "one_minus_cos"]
    assert isinstance(claim.value, float) and claim.value < 0.3
