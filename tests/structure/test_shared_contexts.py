"""Stacks whose blocks all read what one map made of the stream in front of the first: is the first block like the others? Truths by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen

pytestmark = pytest.mark.by_the_day

WIDTH, TOKENS = 32, 12


class Looking(nn.Module):
    """x + attention of given queries on a norm of x (or on x, where `bare`), and a feed-forward."""

    def __init__(self, bare: bool) -> None:
        super().__init__()
        self.bare, self.norm, self.second = bare, nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.q, self.kv, self.o = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 64), nn.Linear(64, WIDTH)

    def forward(self, x: Tensor, q: Tensor | None) -> Tensor:
        h = x if self.bare else self.norm(x)
        k, v = self.kv(h).chunk(2, -1)
        q = self.q(h) if q is None else q
        x = x + self.o(torch.softmax(q @ k.mT * WIDTH**-0.5, -1) @ v)
        return x + self.down(torch.relu(self.up(self.second(x))))


class Context(nn.Module):
    """Queries of every second block are those of a map of what the stream begins with, added to it; `own`: of what each block reads, by that map."""

    def __init__(self, bare: bool = False, own: bool = False) -> None:
        super().__init__()
        self.embed, self.own = nn.Embedding(97, WIDTH), own
        self.low, self.high, self.blocks = nn.Linear(WIDTH, 8), nn.Linear(8, WIDTH), nn.ModuleList([Looking(bare) for _ in range(6)])

    def seen(self, x: Tensor) -> Tensor:
        return x + self.high(torch.tanh(self.low(x)))

    def forward(self, ids: Tensor) -> Tensor:
        x: Tensor = self.embed(ids)
        q = self.seen(x)
        for n, block in enumerate(self.blocks):
            x = block(x, (self.seen(x) if self.own else q) if n % 2 else None)
        return x


@pytest.mark.parametrize(("bare", "own", "placements"), [(False, False, "pre pre"), (True, False, "none none"), (False, True, "pre none")])
def test_readers_of_a_shared_context_are_like_those_that_read_none(bare: bool, own: bool, placements: str) -> None:
    """Blocks that read the context were told to read no norm, though keys and values do. Raw queries of its own are none."""
    (stream,) = screen.check(Context(bare, own), example_inputs=torch.zeros(2, TOKENS, dtype=torch.long)).streams
    first = {n: k.sublayers[0].placement for k in stream.kinds for a, b in k.layers for n in range(a, b + 1)}
    assert [first[n] for n in range(6)] == placements.split() * 3
    assert {(k.sublayers[1].role, k.sublayers[1].placement) for k in stream.kinds} == {("ffn", "pre")}
