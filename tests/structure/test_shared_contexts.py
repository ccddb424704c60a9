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


class Expanded(nn.Module):
    """Layers behind whose sums norms stand, that look at a memory under a mask which is brought to the shape of the logits."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.words, self.head, self.start = nn.Embedding(30, WIDTH), nn.Linear(WIDTH, 30), nn.LayerNorm(WIDTH)
        self.qs, self.ks, self.vs, self.os = (nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(layers)) for _ in range(4))
        self.ups, self.downs = (nn.ModuleList(nn.Linear(*sizes) for _ in range(layers)) for sizes in ((WIDTH, 64), (64, WIDTH)))
        self.ones, self.twos = (nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(layers)) for _ in range(2))

    def forward(self, ids: Tensor, memory: Tensor) -> Tensor:
        x, read, padded = self.words(ids), self.start(memory), memory[:, None, :, 0] == 0.0
        for q, k, v, o, up, down, one, two in zip(self.qs, self.ks, self.vs, self.os, self.ups, self.downs, self.ones, self.twos, strict=True):
            logits = q(x) @ k(read).mT * WIDTH**-0.5
            x = one(x + o(torch.softmax(logits.masked_fill(padded.expand_as(logits), -1e9), -1) @ v(read)))
            x = two(x + down(torch.relu(up(x))))
        return self.head(x)


@pytest.mark.parametrize("layers", [1, 2])
def test_what_reads_a_shape_alone_shares_no_value(layers: int) -> None:
    """The queries were told as an earlier value, so that the branch read the normed memory alone, and was pre-norm."""
    given = torch.zeros(2, 7, dtype=torch.long), torch.zeros(2, TOKENS, WIDTH)
    (stream,) = screen.check(Expanded(layers), example_inputs=given).streams
    assert [[one.placement for one in kind.sublayers] for kind in stream.kinds] == [["post", "post"]]
