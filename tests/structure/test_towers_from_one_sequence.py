"""Two towers that are cut out of one sequence and read each other in every block; the words of the last block are not read."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen

WIDTH, HEADS, WORDS = 48, 4, 5


class Joint(nn.Module):
    """Both towers attend to both, and share the feed-forward; each has gates of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.gates = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, words: Tensor, picture: Tensor, told: Tensor) -> tuple[Tensor, Tensor]:
        a, b, c, d = self.gates(F.silu(told)).unsqueeze(1).chunk(4, dim=-1)
        q, k, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in self.qkv(torch.cat([self.one(words), self.one(picture)], 1)).chunk(3, -1))
        mixed = self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        words, picture = words + a * mixed[:, :WORDS], picture + b * mixed[:, WORDS:]
        made = self.narrow(F.gelu(self.wide(torch.cat([self.two(words), self.two(picture)], 1))))
        return words + c * made[:, :WORDS], picture + d * made[:, WORDS:]


class Towers(nn.Module):
    def __init__(self, depth: int) -> None:
        super().__init__()
        self.first, self.told = nn.Linear(12, WIDTH), nn.Linear(7, WIDTH)
        self.blocks = nn.ModuleList(Joint() for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 12)

    def forward(self, x: Tensor, told: Tensor) -> Tensor:
        x, told = self.first(x), self.told(told)
        words, picture = x[:, :WORDS], x[:, WORDS:]
        for block in self.blocks:
            words, picture = block(words, picture, told)
        out: Tensor = self.head(self.norm(picture))
        return out


def test_neither_of_two_towers_stands_inside_of_the_other() -> None:
    streams = screen.check(Towers(4), example_inputs=(torch.zeros(2, 17, 12), torch.zeros(2, 7))).streams
    assert [(s.role, s.depth, s.final_norm) for s in streams] == [("stream", 4, False), ("stream", 4, True)]
    assert [[k.count for k in s.kinds] for s in streams] == [[3, 1], [4]]
    for stream in streams:
        assert {(s.role, s.placement) for k in stream.kinds for s in k.sublayers} == {("attention", "pre"), ("ffn", "pre")}
