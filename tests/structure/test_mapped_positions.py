"""Attention whose logits read a trained table of distances through maps: those of its queries and keys, or maps of their own."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen

D, HEADS, WORDS = 32, 4, 10


class Placed(nn.Module):
    """Post-norm: q·k and q·(W P) of each distance, with W the map of keys or another one."""

    def __init__(self, table: nn.Parameter, shared: bool) -> None:
        super().__init__()
        self.table = table
        self.q, self.k, self.v, self.out = (nn.Linear(D, D) for _ in range(4))
        self.place = None if shared else nn.Linear(D, D)
        self.one, self.two = nn.LayerNorm(D), nn.LayerNorm(D)
        self.ffn = nn.Sequential(nn.Linear(D, 2 * D), nn.ReLU(), nn.Linear(2 * D, D))

    def heads(self, y: Tensor) -> Tensor:
        return y.unflatten(-1, (HEADS, -1)).transpose(-3, -2)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.heads(self.q(x)), self.heads(self.k(x)), self.heads(self.v(x))
        places = self.heads((self.k if self.place is None else self.place)(self.table.unsqueeze(0)))
        far = (torch.arange(WORDS)[:, None] - torch.arange(WORDS)).clamp(-4, 4) + 4
        logits = q @ k.mT + torch.gather(q @ places.mT, -1, far.expand(x.shape[0], HEADS, WORDS, WORDS))
        y = (torch.softmax(logits / 8**0.5, -1) @ v).transpose(1, 2).flatten(2)
        x = self.one(x + self.out(y))
        return self.two(x + self.ffn(x))


class Words(nn.Module):
    def __init__(self, shared: bool) -> None:
        super().__init__()
        self.words, self.table = nn.Embedding(50, D), nn.Parameter(torch.zeros(9, D))
        self.blocks = nn.ModuleList(Placed(self.table, shared) for _ in range(3))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids)
        for block in self.blocks:
            x = block(x)
        return x


@pytest.mark.parametrize(("shared", "maps"), [(True, 4), (False, 5)])
def test_a_map_that_reads_positions_as_well_is_one_map(shared: bool, maps: int) -> None:
    stream, = screen.check(Words(shared), example_inputs=torch.zeros(2, WORDS, dtype=torch.long)).streams
    assert {(s.role, s.m.maps) for k in stream.kinds for s in k.sublayers} == {("attention", maps), ("ffn", 2)}
