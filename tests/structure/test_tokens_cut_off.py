"""Tokens that are laid beside a state for one branch and cut off again behind it: they carry no stream on. Truths by hand."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import screen

WIDTH, TOKENS, DEPTH = 32, 9, 3


class Block(nn.Module):
    """Attention over the state and a message that a map makes of its first token, with a branch of its own (X-CLIP), which is cut off."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.map = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.say = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH))
        self.net = nn.Sequential(nn.Linear(WIDTH, 64), nn.GELU(), nn.Linear(64, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        message = self.map(x[:, :1])
        x = torch.cat([x, message + self.say(message)], 1)
        q, k, v = self.qkv(self.one(x)).chunk(3, -1)
        x = x + self.out(torch.softmax(q @ k.mT / WIDTH**0.5, -1) @ v)
        x = x[:, :-1]
        out: Tensor = x + self.net(self.two(x))
        return out


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.first, self.norm = nn.Embedding(50, WIDTH), nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(DEPTH)))

    def forward(self, ids: Tensor) -> Tensor:
        return self.norm(self.blocks(self.first(self.embed(ids))))  # type: ignore[no-any-return]


def test_a_message_that_is_cut_off_carries_nothing() -> None:
    """The stream of the first block began with the message: whether an identity path runs through it was unknown."""
    (stream,) = [s for s in screen.check(Model(), example_inputs=torch.zeros(2, TOKENS, dtype=torch.long)).streams if s.role != "inner"]
    assert (stream.depth, stream.embed_norm) == (DEPTH, True)
    assert [[s.role for s in k.sublayers] for k in stream.kinds] == [["attention", "ffn"]]
    assert stream.identity_path.exists is True
