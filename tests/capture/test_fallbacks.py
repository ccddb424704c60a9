"""Arguments in whose place the stream itself is taken where they are left out."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

import screen
from tests.capture.test_mend import found


class Mix(nn.Module):
    """Attends to another stream, or to its own where there is none."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = nn.Linear(24, 24), nn.Linear(24, 24), nn.Linear(24, 24), nn.Linear(24, 24)

    def forward(self, x: Tensor, other: Tensor | None = None) -> Tensor:
        other = x if other is None else other
        q, k, v = (t.unflatten(-1, (3, 8)).transpose(1, 2) for t in (self.q(x), self.k(other), self.v(other)))
        out: Tensor = self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return out


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.own, self.theirs = nn.LayerNorm(24), Mix(), Mix()

    def forward(self, x: Tensor, other: Tensor | None) -> Tensor:
        x = x + self.own(self.norm(x))
        return x + self.theirs(x, other)


class Painter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.blocks, self.norm = nn.Embedding(60, 24), nn.ModuleList(Block() for _ in range(3)), nn.LayerNorm(24)

    def forward(self, ids: Tensor, other: Tensor | None = None) -> Tensor:
        x = self.words(ids)
        for block in self.blocks:
            x = block(x, other)
        out: Tensor = self.norm(x)
        return out


def test_a_second_stream_is_supplied_where_some_layers_of_a_class_take_it() -> None:
    kwargs, tried = found(Painter())
    assert set(kwargs) == {"ids", "other"} and not tried
    (stream,) = screen.check(Painter().eval()).streams
    assert [s.role for s in stream.kinds[0].sublayers] == ["attention", "cross_attention"]


class Alone(nn.Module):
    """Every layer would take it: without it the model attends to its own stream."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.layers = nn.Embedding(60, 24), nn.ModuleList(Mix() for _ in range(3))

    def forward(self, ids: Tensor, other: Tensor | None = None) -> Tensor:
        x = self.words(ids)
        for layer in self.layers:
            x = x + layer(x, other)
        return x


def test_what_every_layer_would_take_is_left_out() -> None:
    kwargs, tried = found(Alone())
    assert set(kwargs) == {"ids"} and not tried
