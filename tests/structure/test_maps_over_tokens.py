"""A net over tokens and one over features are two branches of one block, where one class of skip holds both."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen
from tests.awkward.parts import TOKENS, D


class Skip(nn.Module):
    """x + F(N(x)); `turned`: F maps tokens."""

    def __init__(self, turned: bool, hidden: int = 40) -> None:
        super().__init__()
        size = TOKENS if turned else D
        self.norm, self.turned = nn.LayerNorm(D), turned
        self.net = nn.Sequential(nn.Linear(size, hidden), nn.GELU(), nn.Linear(hidden, size))

    def forward(self, x: Tensor) -> Tensor:
        u = self.norm(x)
        out: Tensor = x + (self.net(u.mT).mT if self.turned else self.net(u))
        return out


class Mixers(nn.Module):
    """Words, pairs of skips, a norm."""

    def __init__(self, *turned: bool) -> None:
        super().__init__()
        self.embed, self.norm = nn.Embedding(9, D), nn.LayerNorm(D)
        self.layers = nn.Sequential(*(nn.Sequential(*map(Skip, turned)) for _ in range(3)))

    def forward(self, words: Tensor) -> Tensor:
        out: Tensor = self.norm(self.layers(self.embed(words)))
        return out


@pytest.mark.parametrize(("turned", "blocks", "branches"), [((True, False), 3, 2), ((False, True), 3, 2), ((False, False), 6, 1)])
def test_nets_over_other_axes_are_parts_of_one_block(turned: tuple[bool, ...], blocks: int, branches: int) -> None:
    (stream,) = screen.check(Mixers(*turned), example_inputs=torch.zeros(2, TOKENS, dtype=torch.long), spot_check=False).streams
    assert stream.depth == blocks and [len(k.sublayers) for k in stream.kinds] == [branches]
