"""Norms of queries and keys that are compared pair by pair without a softmax."""

from __future__ import annotations

import pytest

from screen.rule import Example
from screen.testing import facts_of

SOURCE = """
import torch
from torch import nn
from torch.nn.functional import normalize


class Mixing(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(64, 192), nn.Linear(64, 64)

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = (t.view(b, n, 4, 16).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        {normed}
        return self.out(({how}).transpose(1, 2).reshape(b, n, 64))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.mixing = nn.LayerNorm(64), Mixing()

    def forward(self, x):
        return x + self.mixing(self.norm(x))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x
"""
ANGLES = "(1 - torch.acos(q @ k.transpose(-1, -2)) / 3.14159) ** 4 @ v"
BOTH = "q, k = normalize(q, dim=-1), normalize(k, dim=-1)"


@pytest.mark.parametrize(
    ("normed", "how", "kinds"),
    [
        (BOTH, ANGLES, ("cosine", "cosine", "cosine")),
        (BOTH, "torch.tril(q @ k.transpose(-1, -2)) @ v", ("cosine", "cosine", "cosine")),
        ("k = normalize(k, dim=-1)", ANGLES, ("none", "none", "cosine")),
        ("v = normalize(v, dim=-1)", ANGLES, ("none", "none", "none")),
        (BOTH, "q @ (k.transpose(-1, -2) @ v)", ("none", "none", "none")),  # what is compared are features
    ],
)
def test_they_are_told(normed: str, how: str, kinds: tuple[str, str, str]) -> None:
    facts = facts_of(Example("model", SOURCE.format(normed=normed, how=how), inputs=("x=float32[2,12,64]",)))
    [sublayer] = facts.streams[0].kinds[0].sublayers
    assert sublayer.role == "linear_attention"
    assert (sublayer.qk_norm, sublayer.q_norm, sublayer.k_norm) == kinds
